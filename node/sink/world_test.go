package sink

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"proxima/fetch/warc"
	"proxima/scripts/archive"
)

// memory is what a frontier has on disk: receipts, and which pages are done. It outlives the lives of a node.
type memory struct {
	mu       sync.Mutex
	receipts map[string]bool
	done     map[string]bool
}

func newFrontier() *memory { return &memory{receipts: map[string]bool{}, done: map[string]bool{}} }

func (m *memory) Scan(prefix []byte, visit func(key, value []byte) error) error {
	m.mu.Lock()
	var keys []string
	for k := range m.receipts {
		if strings.HasPrefix(k, string(prefix)) {
			keys = append(keys, k)
		}
	}
	m.mu.Unlock()
	slices.Sort(keys)
	for _, k := range keys {
		if err := visit([]byte(k), nil); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) Batch(fill func(set func(k, v []byte), del func(k []byte))) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	fill(func(k, _ []byte) { m.receipts[string(k)] = true }, func(k []byte) { delete(m.receipts, string(k)) })
	return nil
}

// end writes the end of a download and its receipt, both or none.
func (m *memory) end(url string, receipt []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done[url], m.receipts[string(receipt)] = true, true
}

func (m *memory) isDone(url string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done[url]
}

// life is a sink that runs.
type life struct {
	*Sink
	t    testing.TB
	end  context.CancelFunc
	over chan struct{}

	mu     sync.Mutex
	held   string
	events []Event
}

func (l *life) reason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

func testConfig(url string) Config {
	c := Default()
	c.URL, c.Formats = url, []string{WARC, Pages}
	c.SizeBytes, c.DiskBytes = 10<<10, 400<<10
	return c
}

func testDeps(m *memory, boot uint64) Deps {
	return Deps{Receipts: m, Sync: func(context.Context) error { return nil }, Hold: func(string) {}, Event: func(Event) {},
		Warn: func(error) {}, Node: "0123456789abcdef", Boot: boot, Run: "crawl", Version: "v1"}
}

// begin opens a sink and runs it until the test ends, or stop is called.
func begin(t testing.TB, d disk, dir string, cfg Config, deps Deps) (*life, error) {
	t.Helper()
	l := &life{t: t, over: make(chan struct{})}
	deps.Hold = func(why string) { l.mu.Lock(); defer l.mu.Unlock(); l.held = why }
	deps.Event = func(e Event) { l.mu.Lock(); defer l.mu.Unlock(); l.events = append(l.events, e) }
	var err error
	if l.Sink, err = openOn(d, dir, cfg, deps); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.end = cancel
	go func() {
		defer close(l.over)
		if err := l.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(l.stop)
	return l, nil
}

func mustBegin(t testing.TB, d disk, dir string, cfg Config, deps Deps) *life {
	t.Helper()
	l, err := begin(t, d, dir, cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *life) stop() {
	l.end()
	<-l.over
}

// flush waits until all is delivered.
func (l *life) flush() {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Hour)
	defer cancel()
	if left := l.Flush(ctx); left != 0 {
		l.t.Fatalf("%d packages are left: %+v", left, l.Status())
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

// download makes a download and writes its end.
func (l *life) download(m *memory, i int) error {
	r := testRecord(i)
	ticket, err := l.Put(l.t.Context(), r)
	if err != nil {
		return err
	}
	m.end(r.Page.URL, ticket.Key())
	ticket.End(true)
	return nil
}

func (l *life) downloaded(m *memory, i ...int) {
	l.t.Helper()
	for _, i := range i {
		if err := l.download(m, i); err != nil {
			l.t.Fatal(err)
		}
	}
}

// once checks that the packages hold each page once: those that are done, and no other.
func once(t testing.TB, dir string, m *memory) {
	t.Helper()
	all, err := archive.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for format, of := range all {
		for _, p := range of.Manifests {
			if p.Node == "" || p.Version != "v1" || p.Run != "crawl" || p.First.After(p.Last) || p.First.Year() != 2026 {
				t.Errorf("manifest %+v", p)
			}
		}
		for url, n := range of.URLs {
			if n != 1 || !m.isDone(url) {
				t.Errorf("%s: %s is there %d times, done: %v", format, url, n, m.isDone(url))
			}
		}
		if len(of.URLs) != len(m.done) {
			t.Errorf("%s: %d pages, %d are done", format, len(of.URLs), len(m.done))
		}
	}
}
