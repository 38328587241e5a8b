// Package console serves the page on which a node is watched and steered, and the API beside it, to browsers. It owns who is let in, how much strangers
// may cost, what the page looks like, and what is remembered of the last hour. It does not know what the calls of the API mean.
package console

import (
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"proxima/node/console/drawing"
)

// page are the files of the page.
//
//go:embed page
var page embed.FS

const (
	// mostConns is how many connections are served at once; those beyond wait to be accepted.
	mostConns = 256
	// apiRoot is where the API begins.
	apiRoot = "/api/"
)

// Console is the page and its guard.
type Console struct {
	cfg   Config
	guard *guard
	tls   *tls.Config // nil without TLS
	http.Handler
}

// New makes a console in front of an API. The handler finds who asks by Who.
func New(cfg Config, api http.Handler) (*Console, error) {
	names, err := cfg.tokens()
	if err != nil {
		return nil, err
	}
	cert, err := cfg.certificate()
	if err != nil {
		return nil, err
	}
	c := &Console{cfg: cfg, guard: newGuard(names)}
	mux := http.NewServeMux()
	c.Handler = c.guard.checked(mux)
	if cert != nil {
		c.tls = &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
		c.guard.cert = cert.Leaf
	}
	files, err := fs.Sub(page, "page")
	if err != nil {
		return nil, err
	}
	mux.Handle("/", http.FileServerFS(files))
	for path, f := range map[string]struct{ kind, text string }{
		"/uplot.js":  {"text/javascript; charset=utf-8", drawing.Script},
		"/uplot.css": {"text/css; charset=utf-8", drawing.Style},
		"/land.path": {"text/plain; charset=utf-8", drawing.Land},
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", f.kind)
			fmt.Fprint(w, f.text)
		})
	}
	mux.Handle(apiRoot, c.guard.admitted(api))
	return c, nil
}

// Listen opens the address of the configuration.
func (c *Console) Listen() (net.Listener, error) {
	l, err := net.Listen("tcp", c.cfg.address())
	if err != nil {
		return nil, fmt.Errorf("listen for the console: %w", err)
	}
	return l, nil
}

// Serve answers on a listener until the context ends.
func (c *Console) Serve(ctx context.Context, l net.Listener) error {
	l = netutil.LimitListener(l, mostConns)
	if c.tls != nil {
		l = tls.NewListener(l, c.tls)
	}
	// Streams give themselves more time with each line that they write.
	server := &http.Server{Handler: c, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(nothing{}, "", 0)}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the console on %s: %w", l.Addr(), err)
	}
	return nil
}

// nothing drops what net/http says of strangers: a flood of them must not fill a log.
type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }
