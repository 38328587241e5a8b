package crawl

import (
	"context"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"proxima/fetch"
	"proxima/fetch/page"
	"proxima/frontier"
	"proxima/node/sink"
)

// What is missing of a body is missing in the archive, too. And HTTP/2 has another name there than in Go.
func TestArchiveSaysWhatIsMissing(t *testing.T) {
	task := &frontier.Task{URL: mustParse(t, "http://a.test/"), Server: netip.MustParseAddr("192.0.2.1")}
	for protocol, want := range map[string]string{"HTTP/1.1": "http/1.1", "HTTP/2.0": "h2"} {
		ex := exchange(task, &fetch.Result{Status: 200, Protocol: protocol, RawHead: []byte("head"), RawBody: []byte("body"), Truncated: "time"})
		if ex.Truncated != "time" || ex.Protocol != want || string(ex.ResponseHead) != "head" || string(ex.Body) != "body" {
			t.Errorf("%s: %+v", protocol, ex)
		}
	}
}

// What a line says of a page: its text, and its links, absolute and each once. A page that asks for it is not kept.
func TestPageForTheSink(t *testing.T) {
	l := newGathering(t)
	l.deps.Page, l.deps.Policy.Agent = page.New(page.Default()), "proxima"
	task := &frontier.Task{URL: mustParse(t, "http://a.test/dir/x")}
	body := "<html lang=en><head><title>A page</title><base href=/b/></head><body><p>Some words that stand in the page, " +
		"enough of them to be its text.</p><a href=1>1</a><a href=1#f>again</a><a href='mailto:x@a.test'>m</a>" +
		"<a href=https://out.test/ rel=nofollow>2</a></body></html>"
	res := &fetch.Result{Status: 200, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, Body: []byte(body),
		Timing: fetch.Timing{Start: time.Unix(1, 0)}}
	g := l.reader.gather()
	l.reader.page(task, res, &frontier.Outcome{}, g)
	got := l.archiver.pageOf(task, res, g)
	if d := cmp.Diff([]string{"http://a.test/b/1", "https://out.test/"}, got.Links); d != "" {
		t.Error(d)
	}
	if got.URL != "http://a.test/dir/x" || got.Title != "A page" || got.Language != "en" || got.Text == "" || got.Type != "text/html" ||
		got.Status != 200 || !got.Time.Equal(time.Unix(1, 0)) || len(got.Digest) != len("sha256:")+64 {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct {
		header, body string
		want         bool
	}{
		{"", "", false},
		{"noindex", "", true},
		{"other: noindex", "", false},
		{"", "<meta name=robots content=noindex>", true},
		{"nofollow", "<meta name=robots content=none>", true},
	} {
		res.Header.Set("X-Robots-Tag", c.header)
		res.Body = []byte(c.body + body)
		l.deps.Sink = &sink.Sink{}
		g := l.reader.gather()
		l.reader.page(task, res, &frontier.Outcome{}, g)
		if got := l.archiver.unindexed(&frontier.Task{Host: "http://a.test"}, res, g); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A page that the sink cannot keep is downloaded again, and its links are found then: none of them is on disk before.
func TestLinksOfAPageThatWasNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &web{html: `<a href="/x">x</a>`}
		l, dir := sinkLoop(t, w, sink.Pages)
		if err := os.RemoveAll(dir); err != nil { // nothing can be written
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var g sync.WaitGroup
		g.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(20 * time.Second)
		if got := w.requests(); !slices.Contains(got, "/page") || slices.Contains(got, "/x") {
			t.Errorf("before it is kept: %q asked", got)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		stop()
		g.Wait()
		if got := w.requests(); !slices.Contains(got, "/x") {
			t.Errorf("its link is lost: %q asked", got)
		}
	})
}

// A server that asks for peace has it, even if the sink cannot keep its answer.
func TestPeaceOfAServerWhoseAnswerWasNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(web)
		l, dir := sinkLoop(t, w, sink.WARC)
		w.busy = func() {
			time.Sleep(5 * time.Second) // meanwhile the sink delivers the robots.txt
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		var g sync.WaitGroup
		g.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(9 * time.Minute)
		stop()
		g.Wait()
		if got := w.requests(); !slices.Equal(got, []string{"/robots.txt", "/page"}) {
			t.Errorf("%q asked", got)
		}
	})
}

// sinkLoop is a testLoop with a sink. It returns the sink's directory, too.
func sinkLoop(t *testing.T, w *web, format string) (l *Loop, dir string) {
	t.Helper()
	l, _ = testLoop(t, w, nil)
	l.cfg.End = EndNever
	dir = filepath.Join(t.TempDir(), "sink")
	cfg := sink.Default()
	cfg.URL, cfg.Formats = "file://"+t.TempDir(), []string{format}
	cfg.Age = time.Second
	l.deps.Receipts = l.deps.Frontier.Shelf('s')
	s, err := sink.Open(dir, cfg, sink.Deps{Receipts: l.deps.Receipts, Sync: l.deps.Frontier.Sync, Event: func(sink.Event) {},
		Hold: func(why string) { l.deps.Frontier.Hold("sink", why) }, Warn: func(error) {}, Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	l.deps.Sink = s
	ctx, stop := context.WithCancel(t.Context())
	var g sync.WaitGroup
	g.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { stop(); g.Wait() })
	return l, dir
}
