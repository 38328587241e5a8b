package sink

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"proxima/fetch/warc"
	"proxima/node/netsim"
	"proxima/node/runlog"
	"proxima/scripts/archive"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// memory is what a frontier has on disk: receipts, and which pages are done. It outlives the lives of a node.
type memory struct {
	receipts netsim.Shelf
	mu       sync.Mutex
	done     map[string]bool
}

// end writes the end of a download and its receipt, both or none.
func (m *memory) end(url string, receipt []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done[url] = true
	_ = m.receipts.Put(receipt, nil) // it fails only where a test says so
}

func (m *memory) isDone(url string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done[url]
}

// bed is a sink's directory, and what else outlives a node. A test may change all of it between two lives.
type bed struct {
	t       testing.TB
	dir, to string // of the sink and of its destination
	disk    disk
	cfg     Config
	deps    Deps
	memory
}

func newBed(t testing.TB) *bed {
	b := &bed{t: t, dir: t.TempDir(), to: filepath.Join(t.TempDir(), "to"), cfg: Default(), memory: memory{done: map[string]bool{}}}
	b.cfg.URL, b.cfg.Formats = "file://"+b.to, []string{WARC, Pages}
	b.cfg.SizeBytes, b.cfg.DiskBytes = 10<<10, 400<<10
	b.deps = Deps{Receipts: &b.receipts, Sync: func(context.Context) error { return nil }, Warn: func(error) {},
		Node: "0123456789abcdef", Run: "crawl", Version: "v1", Transport: new(http.Transport)}
	return b
}

// once checks that the packages hold each page once: those that are done, and no other.
func (b *bed) once() {
	b.t.Helper()
	all, err := archive.Read(b.to)
	must(b.t, err)
	for format, of := range all {
		for _, p := range of.Manifests {
			if p.Node == "" || p.Version != "v1" || p.Run != "crawl" || p.First.After(p.Last) || p.First.Year() != 2026 {
				b.t.Errorf("manifest %+v", p)
			}
		}
		for url, n := range of.URLs {
			if n != 1 || !b.isDone(url) {
				b.t.Errorf("%s: %s is there %d times, done: %v", format, url, n, b.isDone(url))
			}
		}
		if len(of.URLs) != len(b.done) {
			b.t.Errorf("%s: %d pages, %d are done", format, len(of.URLs), len(b.done))
		}
	}
}

// onceAndGone checks that the packages hold each page once, and that the sink has kept nothing.
func (b *bed) onceAndGone() {
	b.t.Helper()
	b.once()
	if left, err := os.ReadDir(b.dir); err != nil || len(left) != 0 || b.receipts.Len() != 0 {
		b.t.Errorf("left: %v, %v, %d receipts", left, err, b.receipts.Len())
	}
}

// spool is the path of the only spool.
func (b *bed) spool() string {
	b.t.Helper()
	found, err := filepath.Glob(filepath.Join(b.dir, "*"+suffixSpool))
	if err != nil || len(found) != 1 {
		b.t.Fatalf("spools %q, %v", found, err)
	}
	return found[0]
}

// life is a sink that runs.
type life struct {
	*Sink
	bed  *bed
	end  context.CancelFunc
	over chan struct{}

	heard  sync.Mutex // guards what follows
	held   string
	events []event
}

// event is an event of the log, and its reason.
type event struct{ name, reason string }

// events keeps those that a life logs.
type events struct {
	slog.Handler
	of *life
}

func (events) Enabled(context.Context, slog.Level) bool { return true }

func (h events) Handle(_ context.Context, r slog.Record) error {
	e := event{name: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == runlog.KeyReason {
			e.reason = a.Value.String()
		}
		return true
	})
	h.of.heard.Lock()
	defer h.of.heard.Unlock()
	h.of.events = append(h.of.events, e)
	return nil
}

// try opens the sink and runs it until the test ends, or stop is called.
func (b *bed) try() (*life, error) {
	l, err := b.open()
	if err == nil {
		l.run()
	}
	return l, err
}

// open opens the sink. Nothing runs before run.
func (b *bed) open() (*life, error) {
	l := &life{bed: b, over: make(chan struct{})}
	b.deps.Boot++
	deps := b.deps
	deps.Hold = func(why string) { l.heard.Lock(); defer l.heard.Unlock(); l.held = why }
	deps.Log = slog.New(events{slog.DiscardHandler, l})
	var err error
	if l.Sink, err = openOn(b.disk, b.dir, b.cfg, deps); err != nil {
		return nil, err
	}
	return l, nil
}

// prepare is open where nothing goes wrong.
func (b *bed) prepare() *life {
	b.t.Helper()
	l, err := b.open()
	must(b.t, err)
	return l
}

func (l *life) run() {
	ctx, cancel := context.WithCancel(l.bed.t.Context())
	l.end = cancel
	go func() {
		defer close(l.over)
		if err := l.Run(ctx); err != nil {
			l.bed.t.Error(err)
		}
	}()
	l.bed.t.Cleanup(l.stop)
}

func (b *bed) begin() *life {
	b.t.Helper()
	l, err := b.try()
	must(b.t, err)
	return l
}

func (l *life) stop() {
	l.end()
	<-l.over
}

func (l *life) reason() string {
	l.heard.Lock()
	defer l.heard.Unlock()
	return l.held
}

// holds checks why downloads are held: for a reason with all of these words, or, without words, not at all. No reason names a spool.
func (l *life) holds(when string, words ...string) {
	l.bed.t.Helper()
	why := l.reason()
	for _, w := range words {
		if !strings.Contains(why, w) {
			l.bed.t.Errorf("%s, held: %q, want %q", when, why, w)
		}
	}
	if len(words) == 0 && why != "" || strings.Contains(why, l.bed.dir) {
		l.bed.t.Errorf("%s, held: %q", when, why)
	}
}

// flush waits until all is delivered.
func (l *life) flush() {
	l.bed.t.Helper()
	ctx, cancel := context.WithTimeout(l.bed.t.Context(), time.Hour)
	defer cancel()
	if left := l.Flush(ctx); left != 0 {
		l.bed.t.Fatalf("%d packages are left: %+v", left, l.Status())
	}
}

func testRecord(i int) Record {
	url := fmt.Sprintf("http://example.org/%d", i)
	body := strings.Repeat(fmt.Sprintf("page %d ", i), 50)
	at := time.Date(2026, 5, 4, 3, 2, 1, i, time.UTC)
	return Record{Time: at, IsPage: true, Page: &Page{URL: url, Time: at, Status: 200, Text: body, Links: []string{url + "/a"}}, Exchange: &warc.Exchange{
		URL: url, Addr: netip.MustParseAddr("192.0.2.7"), Time: at, Request: []byte("GET / HTTP/1.1\r\n\r\n"),
		ResponseHead: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), Body: []byte(body)}}
}

// put keeps a record and writes the end of its download.
func (l *life) put(r Record) error {
	ticket, err := l.Put(l.bed.t.Context(), r)
	if err != nil {
		return err
	}
	l.bed.end(r.Page.URL, ticket.Key())
	ticket.End(true)
	return nil
}

// downloads makes so many downloads, from a number on.
func (l *life) downloads(from, n int) {
	l.bed.t.Helper()
	for i := range n {
		must(l.bed.t, l.put(testRecord(from+i)))
	}
}
