package crawl

import (
	"compress/gzip"
	"crypto/rand"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"proxima/fetch"
	"proxima/fetch/warc"
	"proxima/frontier"
)

// A capture has a bound, and chunks bring bytes of their own: a whole page may not be whole in the archive. And HTTP/2 has
// another name there than in Go.
func TestArchiveSaysWhatIsMissing(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, tc := range map[string]struct{ raw, protocol, want, not string }{
		"cut chunk":   {head + "5\r\nhel", "HTTP/1.1", "WARC-Truncated: length\r\n", "WARC-Protocol: h2"},
		"cut behind":  {head + "5\r\nhello\r\n", "HTTP/1.1", "WARC-Truncated: length\r\n", "WARC-Protocol: h2"},
		"whole":       {head + "5\r\nhello\r\n0\r\n\r\n", "HTTP/1.1", "WARC-Protocol: http/1.1\r\n", "WARC-Truncated"},
		"over HTTP/2": {"HTTP/1.1 200 OK\r\n\r\nhello", "HTTP/2.0", "WARC-Protocol: h2\r\n", "WARC-Truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newGathering(t)
			cfg := warc.Default()
			cfg.Dir = t.TempDir()
			var err error
			if l.deps.WARC, err = warc.Open(cfg, warc.Deps{Now: time.Now, Rand: rand.Reader}); err != nil {
				t.Fatal(err)
			}
			task := &frontier.Task{URL: mustParse(t, "http://a.test/"), Server: netip.MustParseAddr("192.0.2.1")}
			l.archive(task, &fetch.Result{Status: 200, Protocol: tc.protocol, Timing: fetch.Timing{Start: time.Now()}, RawResponse: []byte(tc.raw)})
			if err := l.deps.WARC.Close(); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(cfg.Dir, "*.warc.gz"))
			if err != nil || len(files) != 1 {
				t.Fatalf("files %q, %v", files, err)
			}
			f, err := os.Open(files[0])
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			z, err := gzip.NewReader(f)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), tc.want) || strings.Contains(string(text), tc.not) {
				t.Errorf("%s\nwant %q and no %q", text, tc.want, tc.not)
			}
		})
	}
}
