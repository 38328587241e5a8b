package sink

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// stall is how long a destination may go without taking a byte or answering.
const stall = time.Minute

var errStalled = fmt.Errorf("nothing went on for %v", stall)

// collector is a destination that takes files by HTTP PUT. It must answer PUT, and a HEAD request after it, with the digest of
// what it has stored. So the sink detects a collector that answers 200 but loses all or part of a file.
type collector struct {
	client *http.Client
	base   *url.URL
	token  string
}

func newCollector(u *url.URL, transport http.RoundTripper, token string) *collector {
	return &collector{base: u, token: token, client: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// put sends a file, and checks with HEAD that it is there.
func (c *collector) put(ctx context.Context, dir string, f File) error {
	in, err := os.Open(filepath.Join(dir, f.Name))
	if err != nil {
		return err
	}
	defer in.Close()
	if err := c.ask(ctx, http.MethodPut, f, in); err != nil {
		return err
	}
	if err := c.ask(ctx, http.MethodHead, f, nil); err != nil {
		return fmt.Errorf("the file it has just acknowledged: %w", err)
	}
	return nil
}

// ask makes one request, whose response must have the file's digest.
func (c *collector) ask(ctx context.Context, method string, f File, body io.Reader) error {
	digest, err := fieldDigest(f.SHA256)
	if err != nil {
		return err
	}
	ctx, moved, end := guarded(ctx)
	defer end()
	if body != nil {
		body = &watched{body, moved}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(f.Name).String(), body)
	if err != nil {
		return err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != nil {
		req.ContentLength = f.Bytes
		req.Header.Set("Content-Type", contentTypeOf(f.Name))
		req.Header.Set("Content-Digest", digest)
		req.Header.Set("Expect", "100-continue") // a refusal then costs no upload
	}
	res, err := c.client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			return cause
		}
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return err
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode < 200 || res.StatusCode > 299:
		return fmt.Errorf("%s %s: it answers %s", method, f.Name, res.Status)
	case !strings.Contains(strings.Join(res.Header.Values("Repr-Digest"), ","), digest):
		return fmt.Errorf("%s %s: it answers %s, but not with the digest of the file (Repr-Digest: %q)", method, f.Name, res.Status, res.Header.Get("Repr-Digest"))
	case method == http.MethodHead && res.ContentLength >= 0 && res.ContentLength != f.Bytes:
		return fmt.Errorf("%s %s: it has %d of %d bytes", method, f.Name, res.ContentLength, f.Bytes)
	}
	return nil
}

// fieldDigest converts a hex SHA-256 to the form of RFC 9530.
func fieldDigest(sha256 string) (string, error) {
	sum, err := hex.DecodeString(sha256)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":", err
}

func contentTypeOf(name string) string {
	switch filepath.Ext(name) {
	case ".gz":
		return "application/warc"
	case ".zst":
		return "application/zstd"
	case ".json":
		return "application/json"
	}
	return "text/plain; charset=utf-8"
}

// guarded returns a context that ends when moved is not called for the duration stall.
func guarded(ctx context.Context) (_ context.Context, moved, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(stall, func() { cancel(errStalled) })
	return ctx, func() { timer.Reset(stall) }, func() { timer.Stop(); cancel(nil) }
}

// watched calls moved on each read.
type watched struct {
	io.Reader
	moved func()
}

func (w *watched) Read(p []byte) (int, error) {
	w.moved()
	return w.Reader.Read(p)
}
