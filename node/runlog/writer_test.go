package runlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	day  = time.Date(2026, 5, 4, 3, 2, 1, 120_999_999, time.FixedZone("", 7200))
	meta = Meta{Run: "a \"run\"", Node: "00ff", Boot: 3}
)

func testDeps() Deps { return Deps{Now: func() time.Time { return day }} }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, cfg Config, m Meta) *Writer { return openWith(t, cfg, m, testDeps()) }

func openWith(t testing.TB, cfg Config, m Meta, deps Deps) *Writer {
	t.Helper()
	j, err := Open(cfg, m, deps)
	must(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

// refuse makes the disk refuse the lines of the fetch log until mend is called.
func refuse(t testing.TB, j *Writer) (mend func()) {
	t.Helper()
	l := j.logs[LogFetch]
	good := l.file
	bad, err := os.Open(good.Name()) // cannot be written
	must(t, err)
	l.file = bad
	return func() { bad.Close(); l.file = good }
}

// lost checks how many lines of a log are counted as lost.
func lost(t testing.TB, j *Writer, log string, n int) {
	t.Helper()
	if err := j.Err(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("log %s lost %d lines: ", log, n)) {
		t.Errorf("Err: %v, want %d lines of %s", err, n, log)
	}
}

func testConfig(dir string) Config {
	c := Default()
	c.Logs = dir
	return c
}

func page(url string) *Fetch {
	return &Fetch{
		URL: url, Host: "www.example.org", Server: "192.0.2.7", Kind: KindPage, Status: 200, Bytes: 12_345,
		BodyBytes: 45_678, Type: "text/html; charset=utf-8", DNSMs: 12.5, ConnectMs: 30.125, TLSMs: 61, RequestMs: 0.031,
		FirstByteMs: 93.25, LastByteMs: 120.001, TotalMs: 317.907, Fresh: true, Protocol: "http/1.1", WaitedMs: 4000,
		Origin: OriginAssigned, Label: "nearest", Batch: "00ee-1-7", Home: "00ee", Epoch: 2, Attempt: 1, Depth: 3, Hops: 1,
		Links: 120, Accepted: 17,
	}
}

// read reads all files of a log and returns its entries and how many lines were skipped.
func read[T any, E interface {
	*T
	Entry
}](t testing.TB, dir, name string) (entries []T, skipped int) {
	t.Helper()
	files, err := Files(dir, name)
	must(t, err)
	for _, path := range files {
		b, err := os.ReadFile(path)
		must(t, err)
		r := NewReader(bytes.NewReader(b))
		for {
			var e T
			err := r.Next(E(&e))
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			entries = append(entries, e)
		}
		skipped += r.Skipped()
	}
	return entries, skipped
}

// fetched checks what the fetch log has: "boot.seq path" for each line, and how many lines are skipped.
func fetched(t testing.TB, dir string, wantSkipped int, want ...string) {
	t.Helper()
	var got []string
	fetches, skipped := read[Fetch](t, dir, LogFetch)
	for _, f := range fetches {
		got = append(got, fmt.Sprintf("%d.%d %s", f.Boot, f.Seq, strings.TrimPrefix(f.URL, "http://a")))
	}
	if d := cmp.Diff(want, got); d != "" || skipped != wantSkipped {
		t.Errorf("%d skipped, want %d; %s", skipped, wantSkipped, d)
	}
}

func head(seq uint64) Line {
	return Line{V: Version, Run: meta.Run, Node: meta.Node, Boot: meta.Boot, Seq: seq, Time: day.UTC().Truncate(time.Millisecond)}
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	j := open(t, testConfig(dir), meta)
	f := page("http://www.example.org/<&>\u2028\x00?q=\xff")
	before := *f
	j.Fetch(f)
	j.Fetch(&Fetch{Line: Line{V: 9, Seq: 99, Run: "other"}})
	if d := cmp.Diff(before, *f); d != "" {
		t.Errorf("Fetch changed its argument: %s", d)
	}
	q := Queue{Pending: 1, HostsActive: 3, HostsWaiting: 4, ServersReady: 5, ServersBusy: 6, ServersWaiting: 7,
		InFlight: 8, Accepted: 9, Duplicate: 10, Done: 11, Failed: 12, Dropped: 13, AtStart: 14, Arrived: 15, Left: 16, Held: 17, Drops: map[string]int64{"out of scope": 1 << 60},
		Waits: map[string]int64{"crawl_delay": 3}}
	j.Queue(q)
	j.Queue(Queue{Line: Line{Run: "other"}})
	l := Load{Load1: 0.5, CPUSeconds: 1.25, RSSBytes: 1, HeapBytes: 2, Goroutines: 3, MessagesSent: 4, BytesSent: 5,
		BytesReceived: 6, DiskFreeBytes: 7}
	j.Load(l)
	// All is there before Close: a kill loses nothing.
	want := *f
	want.Line, want.URL = head(1), "http://www.example.org/<&>\u2028\x00?q=\ufffd"
	fetches, skipped := read[Fetch](t, dir, LogFetch)
	if d := cmp.Diff([]Fetch{want, {Line: head(2)}}, fetches); d != "" || skipped != 0 {
		t.Errorf("%d skipped, %s", skipped, d)
	}
	q.Line = head(1)
	queues, _ := read[Queue](t, dir, LogQueue)
	if d := cmp.Diff([]Queue{q, {Line: head(2)}}, queues); d != "" {
		t.Error(d)
	}
	l.Line = head(1)
	loads, _ := read[Load](t, dir, LogLoad)
	if d := cmp.Diff([]Load{l}, loads); d != "" {
		t.Error(d)
	}
	must(t, j.Err())
	b, err := os.ReadFile(filepath.Join(dir, "load.jsonl"))
	must(t, err)
	const first = `{"v":1,"run":"a \"run\"","node":"00ff","boot":3,"seq":1,"time":"2026-05-04T01:02:01.120Z","load1":0.5,`
	if !strings.HasPrefix(string(b), first) {
		t.Errorf("line %s", b)
	}
}

// A crash at any byte loses the torn line alone, and the next life's lines can be read.
func TestTornAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	j := open(t, testConfig(dir), meta)
	j.Fetch(page("http://a/1"))
	j.Fetch(page("http://a/2"))
	path := filepath.Join(dir, "fetch.jsonl")
	b, err := os.ReadFile(path)
	must(t, err)
	line := bytes.IndexByte(b, '\n') + 1
	for n := line; n <= len(b) && !t.Failed(); n++ {
		must(t, os.WriteFile(path, b[:n], 0o644))
		next := open(t, testConfig(dir), Meta{Run: meta.Run, Node: meta.Node, Boot: 4})
		next.Fetch(page("http://a/3"))
		must(t, next.Close())
		if n >= len(b)-1 { // all but the newline
			fetched(t, dir, 0, "3.1 /1", "3.2 /2", "4.1 /3")
		} else {
			fetched(t, dir, min(1, n-line), "3.1 /1", "4.1 /3")
		}
		if t.Failed() {
			t.Logf("%d bytes", n)
		}
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.LogFileBytes, cfg.LogKeep = 1500, 3 // two lines a file
	strays := []string{"fetch-abc.jsonl", "fetch-000009.jsonl.bak", "fetcher-000077.jsonl"}
	for _, stray := range strays {
		must(t, os.WriteFile(filepath.Join(dir, stray), nil, 0o644))
	}
	n := 0
	for boot := range uint64(2) {
		j := open(t, cfg, Meta{Boot: boot})
		for range 5 {
			n++
			j.Fetch(page(fmt.Sprintf("http://a/%d", n)))
		}
		must(t, errors.Join(j.Err(), j.Close()))
	}
	files, err := Files(dir, LogFetch)
	must(t, err)
	var names []string
	for _, path := range files {
		names = append(names, filepath.Base(path))
		if st, err := os.Stat(path); err != nil || st.Size() > cfg.LogFileBytes {
			t.Errorf("%s: %v bytes, %v", path, st.Size(), err)
		}
	}
	if d := cmp.Diff([]string{"fetch-000002.jsonl", "fetch-000003.jsonl", "fetch-000004.jsonl", "fetch.jsonl"}, names); d != "" {
		t.Error(d)
	}
	fetched(t, dir, 0, "0.3 /3", "0.4 /4", "0.5 /5", "1.1 /6", "1.2 /7", "1.3 /8", "1.4 /9", "1.5 /10")

	cfg.LogKeep = 1 // holds from Open on
	open(t, cfg, Meta{Boot: 2})
	if files, _ := Files(dir, LogFetch); len(files) != 2 || !strings.HasSuffix(files[0], "fetch-000004.jsonl") {
		t.Errorf("files %v", files)
	}
	for _, stray := range strays {
		if _, err := os.Stat(filepath.Join(dir, stray)); err != nil {
			t.Error(err)
		}
	}
	cfg.LogKeep = 0
	j := open(t, cfg, Meta{Boot: 3})
	for range 60 {
		j.Fetch(page("http://a/"))
	}
	if files, _ := Files(dir, LogFetch); len(files) < 30 {
		t.Errorf("%d files though all are kept", len(files))
	}
}

// Lines that come at the same time are all there, and those that are lost at the same time are all counted, and leave a gap in seq.
func TestConcurrent(t *testing.T) {
	const goroutines, each = 8, 200
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.LogFileBytes, cfg.LogKeep = 50_000, 0
	j := open(t, cfg, meta)
	log := func() {
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				for i := range each {
					j.Fetch(page(fmt.Sprintf("http://a/%d/%d", g, i)))
				}
			})
		}
		wg.Wait()
	}
	mend := refuse(t, j)
	log()
	mend()
	log()
	lost(t, j, LogFetch, goroutines*each)
	fetches, skipped := read[Fetch](t, dir, LogFetch)
	urls := map[string]bool{}
	for i, f := range fetches {
		if f.Seq != uint64(goroutines*each+i+1) {
			t.Fatalf("line %d has seq %d", i, f.Seq)
		}
		urls[f.URL] = true
	}
	if len(urls) != goroutines*each || len(fetches) != len(urls) || skipped != 0 {
		t.Errorf("%d lines, %d URLs, %d skipped", len(fetches), len(urls), skipped)
	}
}

// A rotated file that somebody has packed keeps its number: readers take a plain file and a packed one of one number for the same.
func TestRotationBehindPackedFiles(t *testing.T) {
	dir := t.TempDir()
	packed := filepath.Join(dir, "fetch-000007.jsonl.gz")
	must(t, os.WriteFile(packed, nil, 0o600))
	cfg := testConfig(dir)
	cfg.LogFileBytes, cfg.LogKeep = 1<<16, 1
	j := open(t, cfg, meta)
	for range 200 {
		j.Fetch(page("http://a/"))
	}
	must(t, os.WriteFile(filepath.Join(dir, "fetch-000008.jsonl.gz"), nil, 0o600)) // beside the plain one
	got, err := Files(dir, LogFetch)
	if want := []string{packed, filepath.Join(dir, "fetch-000008.jsonl"), filepath.Join(dir, "fetch.jsonl")}; err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v, %v", got, err)
	}
}

// A rotation overwrites nothing that has come into the directory since the start, as from another node with the same output.logs.
func TestRotationOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.LogFileBytes, cfg.LogKeep = 1<<16, 0
	a, b := open(t, cfg, Meta{Node: "a"}), open(t, cfg, Meta{Node: "b"})
	const lines = 500
	for range lines {
		a.Fetch(page("http://a/"))
		b.Fetch(page("http://b/"))
	}
	must(t, errors.Join(a.Err(), b.Err()))
	if fetches, skipped := read[Fetch](t, dir, LogFetch); len(fetches) != 2*lines || skipped != 0 {
		t.Errorf("%d lines, %d skipped, want %d", len(fetches), skipped, 2*lines)
	}
}

// Who moves rotated files away gets no number twice while the node lives.
func TestNumbersOfFilesThatAreMovedAway(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.LogFileBytes, cfg.LogKeep = 1<<16, 0
	j := open(t, cfg, meta)
	seen := map[string]bool{}
	for range 1000 {
		j.Fetch(page("http://a/"))
		rotated, err := filepath.Glob(filepath.Join(dir, "fetch-*"))
		must(t, err)
		for _, file := range rotated {
			if seen[file] {
				t.Fatalf("%s came twice", file)
			}
			seen[file] = true
			must(t, os.Remove(file))
		}
	}
	if len(seen) < 3 {
		t.Errorf("%d files were rotated", len(seen))
	}
}

// A folder with the name of a rotated file is nobody's log: it stays, and keeps no node from starting.
func TestFolderAmongTheLogs(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "fetch-000001.jsonl")
	must(t, os.MkdirAll(filepath.Join(folder, "x"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "fetch-000002.jsonl"), nil, 0o600))
	cfg := testConfig(dir)
	cfg.LogKeep = 1
	j, err := Open(cfg, meta, testDeps())
	must(t, err)
	must(t, j.Close())
	if _, err := os.Stat(folder); err != nil {
		t.Error(err)
	}
}

// A line that cannot be encoded is lost as one that the disk refuses.
func TestLostAtEncoding(t *testing.T) {
	dir := t.TempDir()
	j := open(t, testConfig(dir), meta)
	j.Coord(Coord{HeightMs: math.NaN()})
	j.Coord(Coord{})
	lost(t, j, LogCoord, 1)
	if coords, skipped := read[Coord](t, dir, LogCoord); len(coords) != 1 || coords[0].Seq != 2 || skipped != 0 {
		t.Errorf("%+v, %d skipped", coords, skipped)
	}
}

// A line that the disk refuses is counted and reported once, leaves a gap in seq, and does not tear other lines.
func TestDiskErrors(t *testing.T) {
	dir := t.TempDir()
	var reports []error
	deps := testDeps()
	var j *Writer
	deps.OnError = func(err error) {
		reports = append(reports, err)
		j.Events().Error(EventError, KeyReason, err)
	}
	j = openWith(t, testConfig(dir), meta, deps)
	j.Fetch(page("http://a/1"))
	// A write is cut short: what is there of the line must not spoil the one behind it, and the newline that ends it is no lost line.
	_, err := j.logs[LogFetch].file.WriteString(`{"v":1,"ur`)
	must(t, err)
	j.logs[LogFetch].torn = true
	mend := refuse(t, j)
	for range 3 {
		j.Fetch(page("http://a/lost"))
	}
	if len(reports) != 1 || !errors.Is(reports[0], fs.ErrPermission) && !strings.Contains(reports[0].Error(), "bad file") {
		t.Fatalf("reports %v", reports)
	}
	mend()
	j.Fetch(page("http://a/2"))
	j.Fetch(page("http://a/3"))
	lost(t, j, LogFetch, 3)
	fetched(t, dir, 1, "3.1 /1", "3.5 /2", "3.6 /3")
	if events, _ := read[Event](t, dir, LogNode); len(events) != 1 || events[0].Event != EventError {
		t.Errorf("events %+v", events)
	}

	must(t, j.Close())
	j.Fetch(page("http://a/late"))
	j.Queue(Queue{})
	if err := j.Err(); !errors.Is(err, ErrClosed) || len(reports) != 3+1 { // fetch, queue, and the event about them
		t.Errorf("after Close: %v, %d reports %v", err, len(reports), reports)
	}
}

// A rotation that fails costs no line. When one has succeeded, files are as long as before.
func TestRotationFails(t *testing.T) {
	dir := t.TempDir()
	var reports []error
	deps := testDeps()
	deps.OnError = func(err error) { reports = append(reports, err) }
	cfg := testConfig(dir)
	cfg.LogFileBytes = 2000
	j := openWith(t, cfg, meta, deps)
	var want []string
	fetch := func() {
		for range 4 {
			n := len(want)
			j.Fetch(page(fmt.Sprintf("http://a/%d", n)))
			want = append(want, fmt.Sprintf("3.%d /%d", n+1, n))
		}
	}
	must(t, os.Rename(dir, dir+".away"))
	fetch()
	if len(reports) != 1 {
		t.Errorf("reports %v", reports)
	}
	must(t, os.Rename(dir+".away", dir))
	fetch()
	fetched(t, dir, 0, want...)
	for range 3 {
		fetch()
	}
	files, _ := Files(dir, LogFetch)
	if len(files) < 3 || j.Err() != nil {
		t.Errorf("files %v, %v", files, j.Err())
	}
	for _, file := range files[1:] {
		if info, err := os.Stat(file); err != nil || info.Size() > cfg.LogFileBytes {
			t.Errorf("%v, %d bytes in %s", err, info.Size(), file)
		}
	}
}

func TestOpenWants(t *testing.T) {
	if _, err := Open(testConfig(""), meta, testDeps()); err == nil {
		t.Error("Open accepted no directory")
	}
	if _, err := Open(testConfig(t.TempDir()), meta, Deps{}); err == nil {
		t.Error("Open accepted no clock")
	}
}

func TestSampleLoad(t *testing.T) {
	l := SampleLoad(t.TempDir())
	if l.Goroutines < 1 || l.HeapBytes < 1 {
		t.Errorf("load %+v", l)
	}
	if _, err := os.Stat("/proc/self/statm"); err != nil {
		t.Skipf("the rest is measured on Linux only: %v", err)
	}
	if l.RSSBytes < 1<<20 || l.CPUSeconds <= 0 || l.DiskFreeBytes <= 0 || l.Load1 < 0 {
		t.Errorf("load %+v", l)
	}
	_, err := json.Marshal(l)
	must(t, err)
	if l := SampleLoad(filepath.Join(t.TempDir(), "missing")); l.DiskFreeBytes != 0 {
		t.Errorf("free space of a directory that is not there: %d", l.DiskFreeBytes)
	}
}
