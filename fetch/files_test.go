package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tree writes files of a site, and what must not be read from one.
func tree(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "www")
	outside := filepath.Join(filepath.Dir(dir), "secret.html")
	for name, text := range map[string]string{
		outside: "secret", dir + "/index.html": "home", dir + "/a.HTML": "a", dir + "/dir/index.html": "dir", dir + "/dir/b.pdf": "b",
		dir + "/empty/x": "x", dir + "/odd dir%/html": "no type", dir + "/odd name%é.txt": "odd", dir + "/odd/dot.html/y": "y", dir + "/zero.css": "",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	big, err := os.Create(dir + "/big.html")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", dir+"/socket")
	if err != nil {
		t.Skip(err) // a path too long for a socket
	}
	t.Cleanup(func() { socket.Close() })
	if err := errors.Join(big.Truncate(10<<30), big.Close(), syscall.Mkfifo(dir+"/pipe", 0o644), os.Symlink("/dev/zero", dir+"/device"),
		os.Symlink(outside, dir+"/out.html"), os.Symlink("../..", dir+"/up"), os.Symlink("a.HTML", dir+"/in.shtml"), os.Symlink("loop", dir+"/loop"),
		os.Symlink("nowhere", dir+"/gone"), os.Symlink(outside, dir+"/odd/index.html")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFiles(t *testing.T) {
	dir := tree(t)
	files, err := OpenFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	cfg := Default()
	cfg.MaxBodyBytes = 1 << 20
	c, err := New(cfg, Deps{Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("somebody is dialled")
		return nil, errors.New("no network")
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	get := func(path string, change func(r *Request)) Result {
		req := Request{URL: "http://a.test" + path, Files: files, Capture: true}
		if change != nil {
			change(&req)
		}
		return c.Get(t.Context(), req)
	}
	for _, tc := range []struct {
		path     string
		status   int
		is, body string // Content-Type, or Location
	}{
		{"/", 200, "text/html", "home"},
		{"/?q=1", 200, "text/html", "home"},
		{"/a.HTML", 200, "text/html", "a"},
		{"//a.HTML", 200, "text/html", "a"},
		{"/a.HTML/", 404, "text/html", ""},
		{"/dir", 301, "http://a.test/dir/", ""},
		{"/dir?x=1", 301, "http://a.test/dir/?x=1", ""},
		{"/dir/", 200, "text/html", "dir"},
		{"/dir/b.pdf", 200, "application/pdf", "b"},
		{"/dir%2Fb.pdf", 200, "application/pdf", "b"},
		{"/dir/../a.HTML", 200, "text/html", "a"},
		{"/dir/.", 200, "text/html", "dir"},
		{"/dir/..", 200, "text/html", "home"},
		{"", 200, "text/html", "home"},
		{"/odd%20dir%25?", 301, "http://a.test/odd%20dir%25/", ""},
		{"/odd%20dir%25/html", 200, "application/octet-stream", "no type"},
		{"/odd/dot.html/y", 200, "application/octet-stream", "y"},
		{"/empty/", 403, "text/html", ""},
		{"/empty/x", 200, "application/octet-stream", "x"},
		{"/odd%20name%25%C3%A9.txt", 200, "text/plain", "odd"},
		{"/odd/dot.html", 301, "http://a.test/odd/dot.html/", ""},
		{"/zero.css", 200, "text/css", ""},
		{"/in.shtml", 200, "text/html", "a"},
		{"/none", 404, "text/html", ""},
		{"/none/", 404, "text/html", ""},
		{"/" + strings.Repeat("x", 5000), 404, "text/html", ""},
		{"/../secret.html", 400, "text/html", ""},
		{"/%2e%2e/secret.html", 400, "text/html", ""},
		{"/dir/%2e%2e%2f%2e%2e%2fsecret.html", 400, "text/html", ""},
		{"/a%00.HTML", 400, "text/html", ""},
		{"/a%zz", 400, "text/html", ""},
		// Links out of the directory, sockets, pipes and devices are no files.
		{"/out.html", 404, "text/html", ""},
		{"/up/secret.html", 404, "text/html", ""},
		{"/up/", 404, "text/html", ""},
		{"/odd/", 404, "text/html", ""},
		{"/socket", 404, "text/html", ""},
		{"/pipe", 404, "text/html", ""},
		{"/device", 404, "text/html", ""},
		{"/gone", 404, "text/html", ""},
		{"/loop", 403, "text/html", ""},
	} {
		told := int64(0)
		res := get(tc.path, func(r *Request) {
			r.Wanted = func(_ int, _ http.Header, length int64) error { told = length; return nil }
		})
		is := res.Header.Get("Content-Type")
		if tc.status == 301 {
			is = res.Location
		}
		if res.Err != nil || res.Status != tc.status || is != tc.is || tc.status == 200 && string(res.Body) != tc.body {
			t.Errorf("%.100s: %d %q %q, %v", tc.path, res.Status, is, res.Body, res.Err)
		}
		if told != int64(len(res.Body)) || tc.status == 200 && (!strings.Contains(string(res.RawHead), fmt.Sprintf("Content-Length: %d\r\n", told)) || !strings.HasSuffix(string(res.RawHead), "\r\n\r\n") || string(res.RawBody) != tc.body) {
			t.Errorf("%s: %d bytes, captured as %q and %q", tc.path, told, res.RawHead, res.RawBody)
		}
		if res.Timing.Start.IsZero() {
			t.Errorf("%.100s: nothing says when it was read", tc.path)
		}
		res.Release()
	}
	res := get("/big.html", nil)
	if res.Status != 200 || res.Truncated != "length" || len(res.Body) != 1<<20 || res.Err != nil {
		t.Errorf("of 10 GB came %d bytes, cut by %q, %v", len(res.Body), res.Truncated, res.Err)
	}
	res.Release()
	first := get("/a.HTML", nil)
	when, _ := time.Parse(time.RFC1123, first.Header.Get("Last-Modified"))
	etag := fmt.Sprintf(`"%x-1"`, when.Unix())
	for i, tc := range []struct {
		etag string
		when time.Time
		want int
	}{{etag, time.Time{}, 304}, {"W/" + etag, time.Time{}, 304}, {"", when, 304}, {etag, when, 304}, {`"x"`, when, 200}, {etag, when.Add(time.Hour), 200}, {"", when.Add(time.Hour), 200}} {
		if res := get("/a.HTML", func(r *Request) { r.IfNoneMatch, r.IfModifiedSince = tc.etag, tc.when }); res.Status != tc.want || res.Header.Get("Etag") != etag {
			t.Errorf("condition %d: status %d, %s", i, res.Status, res.Header.Get("Etag"))
		}
	}
	if res := get("/a.HTML", func(r *Request) { r.Gate = func() error { return fmt.Errorf("closed") } }); res.Class != NoRight || res.Status != 0 {
		t.Errorf("without the right: %q, %d", res.Class, res.Status)
	}
	for err, want := range map[error]int{syscall.EACCES: 403, syscall.ELOOP: 403, syscall.ENOENT: 404, syscall.ENAMETOOLONG: 404} {
		if got := statusFor(err); got != want {
			t.Errorf("%v: status %d", err, got)
		}
	}
	if err := os.Remove(dir + "/index.html"); err != nil {
		t.Fatal(err)
	}
	if res := get("/", nil); res.Status != 403 {
		t.Errorf("a root without index.html: %d", res.Status)
	}
}
