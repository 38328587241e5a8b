package node_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/base32"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"proxima/node/netsim"
)

// archived is one record of an archive as some reader saw it.
type archived struct {
	kind    string
	header  map[string]string // names in lower case
	payload []byte            // body of the HTTP message, without transfer coding, with content coding
	status  string            // status line, or request line
}

// archiveSite serves what an archive has to keep apart, and returns the payload of each path.
func archiveSite(w *trial) (payloads map[string]string) {
	long := strings.Repeat("a page that two URLs share ", 300)
	payloads = map[string]string{
		"/robots.txt": "",
		"/":           "<a href=/chunked>1</a><a href=/gzip>2</a><a href=/moved>3</a><a href=/same/1>4</a>",
		"/chunked":    "<p>in three pieces",
		"/gzip":       gzipped(w.t, func(z io.Writer) { io.WriteString(z, "<a href=/zipped>5</a>"+long) }),
		"/zipped":     "<p>found in a compressed page",
		"/moved":      "<p>go there",
		"/target":     "<p>there",
		"/same/1":     "<a href=/same/2>6</a>" + long,
		"/same/2":     "<a href=/same/2>6</a>" + long,
	}
	site := w.Site("a.test", server1)
	for path, body := range payloads {
		site.Handle(path, netsim.Text("text/html", body))
	}
	site.Handle("/robots.txt", netsim.Status(404)).Handle("/gzip", coded("gzip", payloads["/gzip"])).
		Handle("/chunked", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			for part := range slices.Chunk([]byte(payloads["/chunked"]), 6) {
				_, _ = w.Write(part)
				w.(http.Flusher).Flush()
			}
		}).
		Handle("/moved", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/target")
			w.WriteHeader(http.StatusMovedPermanently)
			io.WriteString(w, payloads["/moved"])
		})
	return payloads
}

// checkArchive compares what a reader saw with what the site served.
func checkArchive(t *testing.T, payloads map[string]string, files int, records []archived) {
	t.Helper()
	kinds, ids := map[string]int{}, map[string]archived{}
	for _, r := range records {
		kinds[r.kind]++
		if id := r.header["warc-record-id"]; id == "" || ids[id].kind != "" {
			t.Errorf("record id %q is missing or used twice", id)
		} else {
			ids[id] = r
		}
	}
	n := len(payloads)
	if kinds["warcinfo"] != files || kinds["request"] != n || kinds["response"] != n-1 || kinds["revisit"] != 1 || len(kinds) != 4 {
		t.Errorf("records %v; want %d warcinfo, %d requests, %d responses, a revisit", kinds, files, n, n-1)
	}
	seen := map[string]bool{}
	for _, r := range records {
		path, ours := strings.CutPrefix(r.header["warc-target-uri"], "http://a.test")
		switch r.kind {
		case "warcinfo":
			if !strings.Contains(string(r.payload), "software: ") || !strings.Contains(string(r.payload), "bot@example.org") {
				t.Errorf("warcinfo %q", r.payload)
			}
			continue
		case "request":
			if response := ids[r.header["warc-concurrent-to"]]; response.header["warc-target-uri"] != r.header["warc-target-uri"] {
				t.Errorf("%s: the request belongs to %v", path, response.header)
			}
			if want := "GET " + path + " HTTP/1.1"; r.status != want || len(r.payload) != 0 {
				t.Errorf("request %q, %q; want %q", r.status, r.payload, want)
			}
			continue
		}
		body, ok := payloads[path]
		if !ok || !ours || seen[path] {
			t.Errorf("%s %s: not served, or twice in the archive", r.kind, r.header["warc-target-uri"])
		}
		seen[path] = true
		if r.header["warc-ip-address"] != server1 {
			t.Errorf("%s: address %q", path, r.header["warc-ip-address"])
		}
		status := map[string]string{"/robots.txt": "HTTP/1.1 404 Not Found", "/moved": "HTTP/1.1 301 Moved Permanently"}[path]
		if status == "" {
			status = "HTTP/1.1 200 OK"
		}
		if r.status != status {
			t.Errorf("%s: status %q, want %q", path, r.status, status)
		}
		sum := sha1.Sum([]byte(body))
		if got, want := r.header["warc-payload-digest"], "sha1:"+base32.StdEncoding.EncodeToString(sum[:]); got != want {
			t.Errorf("%s: payload digest %q, want %q", path, got, want)
		}
		if (path == "/same/2") != (r.kind == "revisit") {
			t.Errorf("%s is a %s", path, r.kind)
		}
		if r.kind == "revisit" {
			body = "" // it is in the record referred to
			if first := ids[r.header["warc-refers-to"]]; first.header["warc-target-uri"] != "http://a.test/same/1" ||
				first.kind != "response" || r.header["warc-refers-to-target-uri"] != first.header["warc-target-uri"] {
				t.Errorf("the revisit refers to %v", first.header)
			}
		} else if r.header["warc-truncated"] != "" {
			t.Errorf("%s: truncated: %s", path, r.header["warc-truncated"])
		}
		if string(r.payload) != body {
			t.Errorf("%s: payload of %d bytes, want %d: %.80q", path, len(r.payload), len(body), r.payload)
		}
	}
}

// readArchive reads WARC files with nothing but the standard library.
func readArchive(t *testing.T, files []string) (records []archived) {
	t.Helper()
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		in := bufio.NewReader(f)
		z, err := gzip.NewReader(in)
		for ; err == nil; err = z.Reset(in) {
			z.Multistream(false) // a member a record
			record, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			records = append(records, parseRecord(t, record))
		}
		if err != io.EOF {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return records
}

func parseRecord(t *testing.T, record []byte) archived {
	t.Helper()
	p := textproto.NewReader(bufio.NewReader(bytes.NewReader(record)))
	version, err := p.ReadLine()
	if err != nil || version != "WARC/1.1" {
		t.Fatalf("version %q, %v", version, err)
	}
	header, err := p.ReadMIMEHeader()
	if err != nil {
		t.Fatal(err)
	}
	r := archived{kind: header.Get("WARC-Type"), header: map[string]string{}}
	for name, values := range header {
		if len(values) != 1 {
			t.Errorf("%s: %q", name, values)
		}
		r.header[strings.ToLower(name)] = values[0]
	}
	rest, err := io.ReadAll(p.R)
	if err != nil {
		t.Fatal(err)
	}
	length, err := strconv.Atoi(header.Get("Content-Length"))
	if err != nil || len(rest) != length+4 || string(rest[length:]) != "\r\n\r\n" {
		t.Fatalf("%s: length %q of %d bytes, end %q", r.kind, header.Get("Content-Length"), len(rest), rest[max(0, len(rest)-4):])
	}
	block := rest[:length]
	sum := sha1.Sum(block)
	if want := header.Get("WARC-Block-Digest"); want != "" && want != "sha1:"+base32.StdEncoding.EncodeToString(sum[:]) {
		t.Errorf("%s: block digest %q is wrong", r.kind, want)
	}
	if r.kind == "warcinfo" {
		r.payload = block
		return r
	}
	head, body, ok := bytes.Cut(block, []byte("\r\n\r\n"))
	if !ok {
		t.Fatalf("%s: no head: %q", r.kind, block)
	}
	line, _, _ := strings.Cut(string(head), "\r\n")
	r.status, r.payload = line, body
	if r.kind == "response" {
		// As a reader of HTTP sees it: the head fits the body.
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(block)), nil)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: net/http reads %d bytes, %v; want %d", line, len(got), err, len(body))
		}
	}
	return r
}

// TestArchive crawls into an archive, and reads it with a reader of its own. Package warc has warcio read its archives.
func TestArchive(t *testing.T) {
	inBubble(t, func(w *trial) {
		payloads, dir := archiveSite(w), t.TempDir()
		w.cfg.Sink.URL, w.cfg.Fetch.From = "file://"+dir, "bot@example.org"
		if end, _ := w.run("http://a.test/"); end.Requests != int64(len(payloads)) || end.ArchiveFailures != 0 {
			t.Fatalf("%+v", end)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
		if err != nil || len(files) != 1 {
			t.Fatalf("files %q, %v; want one", files, err)
		}
		checkArchive(t, payloads, len(files), readArchive(t, files))
	})
}
