package node_test

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"crypto/sha1"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

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
		site.Handle(path, Text("text/html", body))
	}
	site.Handle("/robots.txt", Status(404)).Handle("/gzip", coded("gzip", payloads["/gzip"])).
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

// recordsOf reads the records of a WARC file with nothing but the standard library. Package warc has each of their forms tested.
func recordsOf(t *testing.T, file string) (records []record) {
	t.Helper()
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	in := bufio.NewReader(z)
	for text := textproto.NewReader(in); ; {
		version, err := text.ReadLine()
		if err == io.EOF {
			return records
		}
		header, headErr := text.ReadMIMEHeader()
		length, lengthErr := strconv.Atoi(header.Get("Content-Length"))
		block := make([]byte, max(0, length)+len("\r\n\r\n"))
		_, blockErr := io.ReadFull(in, block)
		if err := errors.Join(err, headErr, lengthErr, blockErr); err != nil || version != "WARC/1.1" {
			t.Fatalf("record %d: %q, %v", len(records), version, err)
		}
		head, body, _ := strings.Cut(string(block[:length]), "\r\n\r\n")
		first, _, _ := strings.Cut(head, "\r\n")
		records = append(records, record{header, first, head, body})
	}
}

// record is one of an archive.
type record struct {
	header textproto.MIMEHeader
	first  string // status line, or request line
	head   string // of the HTTP message, or all that there is
	body   string // without transfer coding, with content coding
}

// TestArchive crawls into an archive: all that was asked for and answered is there, once, and belongs together.
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
		want := []string{"warcinfo"}
		for path, body := range payloads {
			status := map[string]string{"/robots.txt": "404 Not Found", "/moved": "301 Moved Permanently"}[path]
			sum := sha1.Sum([]byte(body))
			kind, refers := "response", ""
			if path == "/same/2" {
				kind, refers, body = "revisit", "http://a.test/same/1", "" // it is in the record referred to
			}
			want = append(want, fmt.Sprintf("request http://a.test%s, with http://a.test%[1]s: GET %[1]s HTTP/1.1", path),
				fmt.Sprintf("%s http://a.test%s as %q from %s: HTTP/1.1 %s, sha1:%s, %q", kind, path, refers, server1, cmp.Or(status, "200 OK"),
					base32.StdEncoding.EncodeToString(sum[:]), body))
		}
		records, uris := recordsOf(t, files[0]), map[string]string{} // by record id
		for _, r := range records {
			id := r.header.Get("WARC-Record-ID")
			if _, again := uris[id]; again || id == "" {
				t.Errorf("record id %q is missing or used twice", id)
			}
			uris[id] = r.header.Get("WARC-Target-URI")
		}
		var got []string
		for _, r := range records {
			kind, uri := r.header.Get("WARC-Type"), r.header.Get("WARC-Target-URI")
			refers := uris[r.header.Get("WARC-Refers-To")]
			if refers != r.header.Get("WARC-Refers-To-Target-URI") || r.header.Get("WARC-Truncated") != "" && kind != "revisit" {
				t.Errorf("%s %s: %v", kind, uri, r.header)
			}
			switch kind {
			case "warcinfo":
				if got = append(got, kind); !strings.Contains(r.head, "software: ") || !strings.Contains(r.head, "bot@example.org") {
					t.Errorf("warcinfo %q", r.head)
				}
			case "request":
				got = append(got, fmt.Sprintf("request %s, with %s: %s%s", uri, uris[r.header.Get("WARC-Concurrent-To")], r.first, r.body))
			default:
				got = append(got, fmt.Sprintf("%s %s as %q from %s: %s, %s, %q", kind, uri, refers, r.header.Get("WARC-IP-Address"), r.first,
					r.header.Get("WARC-Payload-Digest"), r.body))
			}
		}
		w.same("records", got, want...)
	})
}
