// Package console serves browsers the page on which a node is watched and steered, and the node's API below /api/. It owns the
// page, admission by token and host name, the bounds on what strangers cost, and the history of the last hour (Book). It does
// not know what the API's calls mean.
package console

import (
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"proxima/node/console/drawing"
	"proxima/node/lobby"
)

// page holds the files of the page.
//
//go:embed page
var page embed.FS

const (
	// mostConns bounds the connections served at once; others wait to be accepted.
	mostConns = 256
	// apiRoot is the path below which the API lies.
	apiRoot = "/api/"
)

// Console is an http.Handler for the page and the API.
type Console struct {
	// TLS is for its listener; nil without TLS.
	TLS   *tls.Config
	cfg   Config
	guard *guard
	http.Handler
}

// New makes a console in front of an API, whose handler calls Who to learn who asks.
func New(cfg Config, api http.Handler) (*Console, error) {
	p, err := cfg.papers(papers{})
	if err != nil {
		return nil, err
	}
	c := &Console{cfg: cfg, guard: newGuard(p)}
	mux := http.NewServeMux()
	c.Handler = c.guard.checked(mux)
	if p.cert != nil {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.guard.certificate(), nil }}
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

// ReadEvery is how often Follow is to be called.
const ReadEvery = 10 * time.Second

// Follow reads the tokens and the certificate again. What cannot be read stays as it was, and so does a certificate while its key is another's.
func (c *Console) Follow() error {
	p, err := c.cfg.papers(*c.guard.papers.Load())
	c.guard.papers.Store(&p)
	if err != nil {
		return fmt.Errorf("the console goes on with what it read before: %w", err)
	}
	return nil
}

// Serve answers on a listener until ctx ends, with bounds on what strangers cost, and returns once the last handler has. Without a
// configuration of TLS it speaks plain HTTP.
func Serve(ctx context.Context, l net.Listener, secure *tls.Config, h http.Handler) error {
	shared := &shared{Listener: netutil.LimitListener(l, mostConns), silent: lobby.New(mostSilent, 0, nil), taken: map[netip.Prefix]int{}}
	l = shared
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	var conns sync.WaitGroup
	// Event streams extend the write timeout themselves.
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0), // strangers must not be able to fill a log
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState: func(c net.Conn, state http.ConnState) {
			shared.changed(c, state)
			switch state {
			case http.StateNew:
				conns.Add(1)
			case http.StateClosed:
				conns.Done()
			}
		}}
	defer conns.Wait()
	defer server.Close() //nolint:errcheck // closes what a broken listener left
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("answer on %s: %w", l.Addr(), err)
	}
	return nil
}
