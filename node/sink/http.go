package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
)

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

func (c *collector) put(ctx context.Context, f File, _ string, body io.Reader) error {
	return c.ask(ctx, http.MethodPut, f, body)
}

func (c *collector) check(ctx context.Context, f File) error {
	return c.ask(ctx, http.MethodHead, f, nil)
}

// ask makes one request, whose response must have the file's digest.
func (c *collector) ask(ctx context.Context, method string, f File, body io.Reader) error {
	digest := "sha-256=:" + f.digest() + ":" // RFC 9530
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
		return unequal(f, res.ContentLength)
	}
	return nil
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
