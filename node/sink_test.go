package node_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"proxima/node"
	"proxima/node/netsim"
	"proxima/node/runlog"
	"proxima/node/sink"
)

// gathering is a collector that can be out of order.
type gathering struct {
	mu    sync.Mutex
	files map[string][]byte
	down  bool
}

func (g *gathering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	g.mu.Lock()
	defer g.mu.Unlock()
	name := path.Base(r.URL.Path)
	if g.down || err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if r.Method == http.MethodPut {
		g.files[name] = b
	}
	sum := sha256.Sum256(g.files[name])
	w.Header().Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
}

// TestSink crawls to a collector that takes nothing at first: the crawl pauses and says why, goes on by itself, and every page
// is delivered once, but that which asks not to be kept.
func TestSink(t *testing.T) {
	const pages = 120
	g := &gathering{files: map[string][]byte{}, down: true}
	collector := httptest.NewServer(g)
	defer collector.Close()
	web := newWeb(t)
	site := web.Site("a.test", public)
	for _, path := range append(numbered(pages-1), "/") {
		site.Handle(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			switch path {
			case "/":
				for _, ref := range numbered(pages - 1) {
					fmt.Fprintf(w, "<a href=%s>%[1]s</a>", ref)
				}
			case "/7":
				io.WriteString(w, "<meta name=robots content=noindex>")
			case "/8":
				w.Header().Set("X-Robots-Tag", "noindex")
			}
			fmt.Fprintf(w, "<html lang=en><title>Page %s</title><p>", path)
			for range 60 {
				fmt.Fprintf(w, "some words and a number %d, ", rand.Int64())
			}
		})
	}
	c := config(t)
	c.Sink.URL, c.Sink.Formats = collector.URL+"/in", []string{sink.WARC, sink.Pages}
	c.Sink.SizeBytes, c.Sink.DiskBytes, c.Sink.Age = 16<<10, 256<<10, time.Second
	n, err := node.New(c, seeds(t, "http://a.test/"), depsOf(web))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	type result struct {
		end node.End
		err error
	}
	over := make(chan result, 1)
	go func() {
		end, err := n.Run(ctx)
		over <- result{end, err}
	}()
	paused := ""
	for ctx.Err() == nil && !strings.Contains(paused, "502 Bad Gateway") {
		select {
		case r := <-over:
			t.Fatalf("it ended: %+v, %v", r.end, r.err)
		case <-time.After(10 * time.Millisecond):
			paused = n.Status().Frontier.Paused
		}
	}
	if !strings.Contains(paused, "the sink is full: ") || !strings.Contains(paused, c.Sink.URL) {
		t.Errorf("paused: %q", paused)
	}
	if s := n.Status().Sink; s.Used > c.Sink.DiskBytes || s.Packages != 0 || s.Waiting == 0 {
		t.Errorf("%+v", s)
	}
	g.mu.Lock()
	g.down = false
	g.mu.Unlock()
	r := <-over
	if r.err != nil || r.end.Reason != "idle" || r.end.Rows["200"] != pages || r.end.Sink.Waiting != 0 || r.end.ArchiveFailures != 0 {
		t.Errorf("%+v, %+v, %v", r.end, r.end.Sink, r.err)
	}
	got := map[string]int{}
	packages := 0
	for name, b := range g.files {
		if strings.HasSuffix(name, ".json") {
			packages++
		}
		if !strings.HasSuffix(name, ".pages.jsonl.zst") {
			continue
		}
		z, err := zstd.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		for dec := json.NewDecoder(z); dec.More(); {
			var p sink.Page
			if err := dec.Decode(&p); err != nil {
				t.Fatal(err)
			}
			if p.Title != "Page "+strings.TrimPrefix(p.URL, "http://a.test") || p.Language != "en" || !strings.Contains(p.Text, "some words") || p.Status != 200 {
				t.Errorf("%+v", p)
			}
			got[p.URL]++
		}
		z.Close()
	}
	for url, n := range got {
		if n != 1 || strings.HasSuffix(url, "/7") || strings.HasSuffix(url, "/8") {
			t.Errorf("%s is there %d times", url, n)
		}
	}
	if len(got) != pages-2 || packages != r.end.Sink.Packages {
		t.Errorf("%d pages in %d packages; %+v", len(got), packages, r.end.Sink)
	}
	log, err := os.ReadFile(filepath.Join(n.LogDir(), "node.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	events := map[string]int{}
	for line := range bytes.Lines(log) {
		var e struct{ Event string }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		events[e.Event]++
	}
	if events[runlog.EventSinkTrouble] == 0 || events[runlog.EventSinkTroubleOver] == 0 || events[runlog.EventPackage] != packages {
		t.Errorf("events %v, %d packages", events, packages)
	}
}

// A directory for packages that is gone for a while, because it is mounted anew, does not end the node.
func TestDirectoryOfPackagesGone(t *testing.T) {
	inBubble(t, func(w *trial) {
		dir := filepath.Join(t.TempDir(), "to")
		w.cfg.Sink.URL, w.cfg.Frontier.MinFreeMiB, w.deps.FreeBytes = "file://"+dir, 1, nil
		rename := func(from, to, body string) http.HandlerFunc {
			return func(rw http.ResponseWriter, r *http.Request) {
				if err := os.Rename(from, to); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				netsim.Text("text/html", body)(rw, r)
			}
		}
		w.Site("a.test", server1).Handle("/", rename(dir, dir+".away", "<a href=/1>1</a>")).Handle("/1", rename(dir+".away", dir, "end"))
		if end, _ := w.run("http://a.test/"); end.Sink.Pages != 2 || end.Sink.Waiting != 0 {
			t.Errorf("%+v", end.Sink)
		}
	})
}
