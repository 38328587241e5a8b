package crawl

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"proxima/fetch"
	"proxima/frontier"
	"proxima/node/sink"
)

// What is missing of a body is missing in the archive, too, and the server of what was read from the disk. And HTTP/2 has another name there
// than in Go.
func TestArchiveSaysWhatIsMissing(t *testing.T) {
	task := &frontier.Task{URL: mustParse(t, "http://a.test/"), Server: netip.MustParseAddr("192.0.2.1")}
	for protocol, want := range map[string]string{"HTTP/1.1": "http/1.1", "HTTP/2.0": "h2", fetch.ProtocolFile: ""} {
		ex := exchange(task, &fetch.Result{Status: 200, Protocol: protocol, RawHead: []byte("head"), RawBody: []byte("body"), Truncated: "time"})
		if ex.Addr.IsValid() != (want != "") || ex.Truncated != "time" || ex.Protocol != want || string(ex.ResponseHead) != "head" || string(ex.Body) != "body" {
			t.Errorf("%s: %+v", protocol, ex)
		}
	}
}

const pageForTheSink = "<html lang=en><head><title>A page</title><base href=/b/></head><body><p>Some words that stand in the page, " +
	"enough of them to be its text.</p><a href=1>1</a><a href=1#f>again</a><a href='mailto:x@a.test'>m</a>" +
	"<a href=https://out.test/ rel=nofollow>2</a></body></html>"

// What a line says of a page: its text, and its links, absolute and each once.
func TestPageForTheSink(t *testing.T) {
	l := newReading(t)
	r := l.readPage(t, "http://a.test/dir/x", "", pageForTheSink)
	got := l.pageOf(r.task, r.res, r.gather)
	if got.Text == "" || len(got.Digest) != len("sha256:")+64 {
		t.Errorf("text %q, digest %q", got.Text, got.Digest)
	}
	want := &sink.Page{URL: "http://a.test/dir/x", Time: time.Unix(1, 0).UTC(), Status: 200, Type: "text/html", Title: "A page", Text: got.Text,
		Language: "en", Links: []string{"http://a.test/b/1", "https://out.test/"}, Digest: got.Digest}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A page that asks for it is not kept.
func TestPagesThatAreNotKept(t *testing.T) {
	l := newReading(t)
	l.deps.Sink = &sink.Sink{}
	for _, c := range []struct {
		header, body string
		unkept       bool
	}{
		{"", "", false},
		{"noindex", "", true},
		{"other: noindex", "", false},
		{"", "<meta name=robots content=noindex>", true},
		{"nofollow", "<meta name=robots content=none>", true},
	} {
		r := l.readPage(t, "http://a.test/dir/x", "X-Robots-Tag: "+c.header, c.body+pageForTheSink)
		if got := l.mustNotKeep(r.task, r.res, r.gather); got != c.unkept {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A page whose exchange cannot be archived, here for a line of blanks in its head, is kept in the other format.
func TestPageWhoseExchangeCannotBeArchived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, &web{html: pageForTheSink, line: " \r\n"})
		b.keepIn(sink.WARC, sink.Pages)
		b.crawl(func() { time.Sleep(time.Minute) })
		if st, n := b.deps.Sink.Status(), b.Stats().ArchiveFailures; st.Pages != 2 || n != 3 { // one is the robots.txt
			t.Errorf("%d exchanges could not be archived; %+v", n, st)
		}
	})
}

// A page that is tried again is a line once it ends, also where its last answer is like those before.
func TestPageWhoseTriesAreUsedUp(t *testing.T) {
	for name, w := range map[string]*web{"429": {html: pageForTheSink, busy: func() {}}, "500": {html: pageForTheSink, fails: true}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, w)
			b.keepIn(sink.Pages)
			b.crawl(func() { time.Sleep(3 * time.Hour) })
			if st := b.deps.Sink.Status(); st.Pages != 1 {
				t.Errorf("%s: %d lines after requests for %s", name, st.Pages, w.requests())
			}
		})
	}
}

// A page that the sink cannot keep is downloaded again, and its links are found then: none of them is on disk before.
func TestLinksOfAPageThatWasNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &web{html: `<a href="/x">x</a>`}
		b := newBed(t, w)
		dir := b.keepIn(sink.Pages)
		must(t, os.RemoveAll(dir)) // nothing can be written
		b.crawl(func() {
			time.Sleep(20 * time.Second)
			if got := strings.Fields(w.requests()); !slices.Contains(got, "/page") || slices.Contains(got, "/x") {
				t.Errorf("before it is kept: %q asked", got)
			}
			must(t, os.MkdirAll(dir, 0o700))
			time.Sleep(5 * time.Minute)
		})
		if got := strings.Fields(w.requests()); !slices.Contains(got, "/x") {
			t.Errorf("its link is lost: %q asked", got)
		}
	})
}

// A server that asks for peace has it, even if the sink cannot keep its answer.
func TestPeaceOfAServerWhoseAnswerWasNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(web)
		b := newBed(t, w)
		dir := b.keepIn(sink.WARC)
		w.busy = func() {
			time.Sleep(5 * time.Second) // meanwhile the sink delivers the robots.txt
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		}
		b.crawl(func() { time.Sleep(9 * time.Minute) })
		if got := w.requests(); got != "/robots.txt /page" {
			t.Errorf("%q asked", got)
		}
	})
}

// keepIn gives the loop a sink, and returns the sink's directory.
func (b *bed) keepIn(formats ...string) (dir string) {
	b.t.Helper()
	dir = filepath.Join(b.t.TempDir(), "sink")
	cfg := sink.Default()
	cfg.URL, cfg.Formats, cfg.Age = "file://"+b.t.TempDir(), formats, time.Second
	b.deps.Receipts = b.deps.Frontier.Shelf('s')
	s, err := sink.Open(dir, cfg, sink.Deps{Receipts: b.deps.Receipts, Sync: b.deps.Frontier.Sync, Log: slog.New(slog.DiscardHandler),
		Hold: func(why string) { b.deps.Frontier.Hold("sink", why) }, Warn: func(error) {}, Node: "n"})
	must(b.t, err)
	b.deps.Sink = s
	ctx, stop := context.WithCancel(b.t.Context())
	var g sync.WaitGroup
	g.Go(func() { _ = s.Run(ctx) })
	b.t.Cleanup(func() { stop(); g.Wait() })
	return dir
}
