package node_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"proxima/node"
	"proxima/node/runlog"
	"proxima/node/sink"
)

// gathering is a collector that can be out of order.
type gathering struct {
	mu    sync.Mutex
	files map[string][]byte
	down  bool
}

// RoundTrip implements http.RoundTripper.
func (g *gathering) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	res := &http.Response{StatusCode: http.StatusBadGateway, Status: "502 Bad Gateway", Header: http.Header{}, Body: http.NoBody,
		ContentLength: -1, Request: r}
	if g.down {
		return res, nil
	}
	name := path.Base(r.URL.Path)
	if r.Method == http.MethodPut {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		g.files[name] = b
	}
	sum := sha256.Sum256(g.files[name])
	res.StatusCode, res.Status = http.StatusOK, "200 OK"
	res.Header.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	return res, nil
}

// pages reads what the collector has of pages, and counts its packages.
func (g *gathering) pages(t *testing.T) (all []sink.Page, packages int) {
	for name, b := range g.files {
		if strings.HasSuffix(name, ".json") {
			packages++
		}
		if !strings.HasSuffix(name, ".pages.jsonl.zst") {
			continue
		}
		z, err := zstd.NewReader(bytes.NewReader(b))
		must(t, err)
		for dec := json.NewDecoder(z); dec.More(); {
			var p sink.Page
			must(t, dec.Decode(&p))
			all = append(all, p)
		}
		z.Close()
	}
	return all, packages
}

// TestSink crawls to a collector that takes nothing at first: the crawl pauses and says why, goes on by itself, and every page
// is delivered once, but that which asks not to be kept.
func TestSink(t *testing.T) {
	inBubble(t, func(w *trial) {
		const n = 120
		g := &gathering{files: map[string][]byte{}, down: true}
		site := w.Site("a.test", server1).Pages(n)
		var want []string
		for _, path := range numbered(n) {
			header, head := "", ""
			switch path {
			case "/7":
				head = "<meta name=robots content=noindex>"
			case "/8":
				header = "noindex"
			default:
				want = append(want, fmt.Sprintf("http://a.test%s, Page %[1]s, en, 200, true", path))
			}
			site.Handle(path, func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("X-Robots-Tag", header)
				text := fmt.Sprintf("%s<html lang=en><title>Page %s</title><p>some words", head, path)
				for range 60 {
					text += fmt.Sprintf(" and a number %d,", rand.Int64())
				}
				Text("text/html", text)(rw, r)
			})
		}
		w.cfg.Politeness.Own, w.cfg.Politeness.OwnParallel, w.cfg.Fetch.From = []string{webPrefix}, 4, "bot@example.org"
		w.cfg.Sink.URL, w.cfg.Sink.Formats = "https://collector.test/in", []string{sink.WARC, sink.Pages}
		w.cfg.Sink.SizeBytes, w.cfg.Sink.DiskBytes, w.cfg.Sink.Age = 16<<10, 256<<10, time.Second
		w.deps.Transport = g
		w.watch = func(n *node.Node) {
			time.Sleep(5 * time.Minute)
			s := n.Status()
			for _, part := range []string{"the sink is full: ", w.cfg.Sink.URL, "502 Bad Gateway"} {
				if why := s.Frontier.Paused; !strings.Contains(why, part) {
					t.Errorf("paused: %q, without %q", why, part)
				}
			}
			if s.Sink.Used > w.cfg.Sink.DiskBytes || s.Sink.Packages != 0 || s.Sink.Waiting == 0 {
				t.Errorf("%+v", s.Sink)
			}
			g.mu.Lock()
			g.down = false
			g.mu.Unlock()
		}
		end, logs := w.run("http://a.test/")
		if end.Rows["200"] != n+1 || end.Sink.Waiting != 0 || end.ArchiveFailures != 0 {
			t.Errorf("%+v, %+v", end, end.Sink)
		}
		var got []string
		all, packages := g.pages(t)
		for _, p := range all {
			if p.URL != "http://a.test/" {
				got = append(got, fmt.Sprintf("%s, %s, %s, %d, %t", p.URL, p.Title, p.Language, p.Status, strings.Contains(p.Text, "some words")))
			}
		}
		w.same("pages of the collector", got, want...)
		if len(all) != len(want)+1 || packages != end.Sink.Packages || len(logs.events.of(runlog.EventPackage)) != packages {
			t.Errorf("%d pages in %d packages; %+v", len(all), packages, end.Sink)
		}
		if len(logs.events.of(runlog.EventSinkTrouble)) == 0 || len(logs.events.of(runlog.EventSinkTroubleOver)) == 0 {
			t.Error("the log does not tell of trouble with the sink, and its end")
		}
	})
}

// A node whose store has failed ends, though packages wait: none can be made any more. The next start delivers them.
func TestSinkOfAFailedStore(t *testing.T) {
	inBubble(t, func(w *trial) {
		gone := errors.New("the disk is gone")
		var lost, asked atomic.Bool
		w.deps.FreeBytes = func() (uint64, error) {
			if lost.Load() {
				return 0, gone
			}
			return 1 << 40, nil
		}
		g := &gathering{files: map[string][]byte{}}
		w.deps.Transport = g
		w.cfg.Sink.URL, w.cfg.Sink.Formats, w.cfg.Sink.Patience = "https://collector.test/in", []string{sink.Pages}, time.Hour
		w.Site("a.test", server1).Page("/", "/1").Handle("/1", func(rw http.ResponseWriter, r *http.Request) {
			lost.Store(asked.CompareAndSwap(false, true))
			time.Sleep(10 * time.Second)
			html()(rw, r)
		})
		w.cfg.Fetch.DNS.Hosts = w.Names()
		n, err := node.New(w.cfg, seeds(w.t, "http://a.test/"), w.deps)
		must(w.t, err)
		began := time.Now()
		if end, err := n.Run(w.t.Context()); !errors.Is(err, gone) || end.Reason != "failed" || end.Sink.Waiting+end.Sink.Open == 0 {
			w.t.Errorf("%v: %+v, %+v", err, end, end.Sink)
		}
		if took := time.Since(began); took > time.Minute {
			w.t.Errorf("it ended after %v", took)
		}
		lost.Store(false)
		time.Sleep(time.Minute) // until the server has ended its answer
		w.run()
		var got []string
		all, _ := g.pages(w.t)
		for _, p := range all {
			got = append(got, p.URL)
		}
		w.same("pages of the collector", got, "http://a.test/", "http://a.test/1")
	})
}

// A directory for packages or logs that is gone for a while, because it is mounted anew, does not end the node.
func TestDirectoryGone(t *testing.T) {
	t.Run("packages", func(t *testing.T) { directoryGone(t, "to") })
	t.Run("logs", func(t *testing.T) { directoryGone(t, "logs") })
}

func directoryGone(t *testing.T, which string) {
	inBubble(t, func(w *trial) {
		top := t.TempDir()
		dir := filepath.Join(top, which)
		w.cfg.Sink.URL, w.cfg.Output.Logs = "file://"+filepath.Join(top, "to"), filepath.Join(top, "logs")
		w.cfg.Frontier.MinFreeMiB, w.deps.FreeBytes = 1, nil
		rename := func(from, to, body string) http.HandlerFunc {
			return func(rw http.ResponseWriter, r *http.Request) {
				if err := os.Rename(from, to); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				Text("text/html", body)(rw, r)
			}
		}
		w.Site("a.test", server1).Handle("/", rename(dir, dir+".away", "<a href=/1>1</a>")).Handle("/1", rename(dir+".away", dir, "end"))
		if end, _ := w.run("http://a.test/"); end.Sink.Pages != 2 || end.Sink.Waiting != 0 {
			t.Errorf("%+v", end.Sink)
		}
	})
}
