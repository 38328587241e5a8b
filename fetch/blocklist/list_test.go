package blocklist

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// web is a server of lists that is called without a network.
type web func(*http.Request) *http.Response

func (w web) RoundTrip(r *http.Request) (*http.Response, error) {
	if resp := w(r); resp != nil {
		return resp, nil
	}
	<-r.Context().Done() // a server that never answers
	return nil, r.Context().Err()
}

func newList(t testing.TB, cfg Config, deps Deps) *List {
	t.Helper()
	l, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func response(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A list is asked for again on the conditions that its server gave, and on no others.
func TestConditionsAreThoseOfTheServer(t *testing.T) {
	for _, given := range []struct{ tag, date string }{{}, {tag: `"1"`}, {date: "then"}, {`"1"`, "then"}} {
		var asked []http.Header
		client := &http.Client{Transport: web(func(r *http.Request) *http.Response {
			asked = append(asked, r.Header)
			return response(200, "a.test\n", "ETag", given.tag, "Last-Modified", given.date)
		})}
		cfg := Default()
		cfg.Sources = []string{"https://lists.test/list"}
		l := newList(t, cfg, Deps{HTTP: client})
		for i, want := range []struct{ tag, date string }{{}, given} {
			if err := load(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			_, tagged := asked[i]["If-None-Match"]
			_, dated := asked[i]["If-Modified-Since"]
			if tagged != (want.tag != "") || dated != (want.date != "") {
				t.Errorf("request %d to a server that gives %+v has %v", i, given, asked[i])
			}
		}
	}
}

// What is no list is an error: "unchanged" before anything was read, any other status, or a URL that cannot be asked for.
func TestAnswersThatAreNoLists(t *testing.T) {
	for where, status := range map[string]int{"https://lists.test/304": 304, "https://lists.test/204": 204, "https://lists.test/\x7f": 200} {
		client := &http.Client{Transport: web(func(*http.Request) *http.Response { return response(status, "a.test\n") })}
		s := newSource(where)
		if err := newList(t, Default(), Deps{HTTP: client}).read(t.Context(), s, limits{1000, 10, 10}); err == nil || s.table != nil {
			t.Errorf("%q with status %d: %v", where, status, err)
		}
	}
}

// A line of 4,095 bytes is read. A longer one is wrong.
func TestLongLines(t *testing.T) {
	for size, wrong := range map[int]int{4095: 0, 4096: 1, 5000: 1} {
		table, err := readTable(strings.NewReader("a.test\n"+strings.Repeat("b.test #", size)[:size]+"\nc.test\n"), "list", maphash.MakeSeed(), limits{10_000, 10, 10})
		if err != nil || table.wrong != wrong || len(table.hosts) != 3-wrong {
			t.Errorf("a line of %d bytes: %d lines are wrong, %d hosts; %v", size, table.wrong, len(table.hosts), err)
		}
	}
}

// The defaults bound what lists may cost.
func TestDefaults(t *testing.T) {
	want := Config{Poll: 10 * time.Minute, Timeout: time.Minute, MaxBytes: 33_554_432, MaxEntries: 2_000_000, MaxPatterns: 1000}
	if got := Default(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestRun changes, breaks and mends a file and a URL, and looks after each poll.
func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	write(t, path, "file1.test\nwrong line\n")
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // clocks alone order nothing in the eyes of the race detector
		body, etag, status, conditional := "url1.test\n", `"1"`, 200, 0
		set := func(newStatus int, newBody, newTag string) {
			mu.Lock()
			defer mu.Unlock()
			status, body, etag = newStatus, newBody, newTag
		}
		client := &http.Client{Transport: web(func(r *http.Request) *http.Response {
			mu.Lock()
			defer mu.Unlock()
			if status == 0 {
				return nil
			}
			if r.Header.Get("If-None-Match") == etag && r.Header.Get("If-Modified-Since") == "then" {
				conditional++
				return response(304, "")
			}
			return response(status, body, "ETag", etag, "Last-Modified", "then")
		})}
		cfg := Default()
		cfg.Sources = []string{path, "https://user:secret@lists.test/list"}
		var reports []Report
		l := newList(t, cfg, Deps{HTTP: client, Changed: func(r Report) { reports = append(reports, r) }})
		check := func(step string, wantReports int, hosts ...string) {
			t.Helper()
			for _, h := range []string{"file1.test", "file2.test", "url1.test", "url2.test"} {
				_, blocked := l.Host(h)
				if want := strings.Contains(strings.Join(hosts, " "), h); blocked != want {
					t.Errorf("%s: %s blocked: %v, want %v", step, h, blocked, want)
				}
			}
			if len(reports) != wantReports {
				t.Fatalf("%s: %d reports, want %d", step, len(reports), wantReports)
			}
		}
		says := func(entries int, summary ...string) {
			t.Helper()
			r := reports[len(reports)-1]
			if r.Entries != entries || strings.Contains(r.Summary, "secret") {
				t.Errorf("report %+v, want %d entries and no password", r, entries)
			}
			for _, text := range summary {
				if !strings.Contains(r.Summary, text) {
					t.Errorf("report %+v, want %q", r, text)
				}
			}
		}
		check("before", 0)
		if err := load(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		check("loaded", 0, "file1.test", "url1.test")
		if err := l.Follow(t.Context(), cfg.Sources); err != nil {
			t.Fatal(err)
		}
		check("followed", 1, "file1.test", "url1.test")
		says(2, path+": 1 wrong lines, the first: "+path+":2: ")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		poll := func() { time.Sleep(cfg.Poll); synctest.Wait() }
		synctest.Wait()

		table := (*l.tables.Load())[0]
		poll()
		check("unchanged", 1, "file1.test", "url1.test")
		if (*l.tables.Load())[0] != table || conditional != 2 {
			t.Errorf("unchanged sources read again; %d answers 304", conditional)
		}
		write(t, path, "file2.test\n")
		poll()
		check("file changed", 2, "file2.test", "url1.test")
		if says(2, "loaded"); conditional != 3 {
			t.Errorf("%d answers 304", conditional)
		}
		set(200, "url2.test\n", `"2"`)
		poll()
		check("URL changed", 3, "file2.test", "url2.test")
		set(500, "", `"3"`)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		poll()
		check("both fail", 4, "file2.test", "url2.test")
		says(2, "no such file", "status 500")
		if err := load(t.Context(), l); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "status 500") {
			t.Errorf("load with two failures: %v", err)
		}
		set(200, "<html>\n<p>log in first</p>\n", `"4"`)
		write(t, path, "file1.test\nfile2.test\n")
		poll()
		check("a page in place of a list", 5, "file1.test", "file2.test", "url2.test")
		says(3, "a page of HTML")
		set(0, "", `"5"`)
		begin := time.Now()
		poll()
		time.Sleep(cfg.Timeout)
		synctest.Wait()
		check("silent server", 6, "file1.test", "file2.test", "url2.test")
		if says(3, context.DeadlineExceeded.Error()); time.Since(begin) != cfg.Poll+cfg.Timeout {
			t.Errorf("silent server: given up after %v", time.Since(begin))
		}
		set(200, "", `"6"`)
		poll()
		check("mended and empty", 7, "file1.test", "file2.test")

		set(0, "", `"7"`)
		time.Sleep(cfg.Poll - cfg.Timeout/2) // the next poll has begun and waits for the server
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		check("ended", 7, "file1.test", "file2.test")
	})
}

// Who asked for other sources goes away while they are being read: they are read all the same.
func TestFollowOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := web(func(r *http.Request) *http.Response {
			select {
			case <-time.After(10 * time.Second):
				return response(200, "bad.test\n")
			case <-r.Context().Done():
				return nil
			}
		})
		reports := 0
		l := newList(t, Default(), Deps{HTTP: &http.Client{Transport: slow}, Changed: func(Report) { reports++ }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		caller, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		for i, sources := range [][]string{{"https://lists.test/"}, nil} { // then nothing is left to read
			if err := l.Follow(caller, sources); i == 0 && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Follow: %v", err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if _, blocked := l.Host("bad.test"); blocked != (i == 0) || reports != i+1 {
				t.Errorf("of the sources %v one is in force: %v, after %d reports", sources, blocked, reports)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestBounds(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	cfg := Default()
	cfg.Sources = []string{one, two}
	cfg.MaxBytes, cfg.MaxEntries, cfg.MaxPatterns = 100, 5, 2
	for _, tt := range []struct{ name, one, two, err string }{
		{"at the bounds", "a.test\nb.test\n192.0.2.1\n", "/a/\n*://b/*\n", ""},
		{"bytes at the bound", "a.test\n" + strings.Repeat("#", 93), "b.test", ""},
		{"bytes", "a.test\n" + strings.Repeat("#", 94), "b.test", "more than 100 bytes"},
		{"entries of both", "a.test\nb.test\nc.test", "d.test\ne.test\nf.test", "more than 2 entries"},
		{"names on one line", "0.0.0.0 a.b b.b c.b d.b e.b f.b", "b.test", "more than 5 entries"},
		{"patterns of both", "/a/", "/b/\n/c/", "more than 1 patterns"},
		{"no entry", "wrong line", "b.test", "no entry"},
		{"a page with lines of one word", "\xef\xbb\xbf\n <html>\n<p>Please\nlogin\nfirst</p>", "b.test", "a page of HTML"},
		{"a wrong line of HTML", "a.test\n<b.test>", "b.test", ""},
		{"directory", "", "b.test", "not a regular file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write(t, one, tt.one)
			write(t, two, tt.two)
			cfg := cfg
			if tt.name == "directory" {
				cfg.Sources = []string{dir, two}
			}
			l := newList(t, cfg, Deps{})
			err := load(t.Context(), l)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("%v, want %q", err, tt.err)
			}
			if n := len(*l.tables.Load()); (n == 2) != (tt.err == "") || n == 0 {
				t.Errorf("%d sources in force", n)
			}
		})
	}

	write(t, one, strings.Repeat("x", 3*maxLine)+"\nexample.org\n"+strings.Repeat("wrong line\n", 50))
	cfg = Default()
	cfg.Sources = []string{one}
	if r, _, err := newList(t, cfg, Deps{}).poll(t.Context()); err != nil || r.Entries != 1 || !strings.Contains(r.Summary, ": 51 wrong lines, the first: "+one+":1: ") {
		t.Errorf("report %+v, %v", r, err)
	}
}

func TestValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Config){
		"sources[0]": func(c *Config) { c.Sources = []string{""} },
		"sources[1]": func(c *Config) { c.Sources = []string{"a", "ftp://lists.test/a"} },
		"sources[2]": func(c *Config) { c.Sources = []string{"a", "HTTP://lists.test/a", "https:///a"} },
	} {
		c := Default()
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
		if _, err := New(c, Deps{}); err == nil {
			t.Errorf("%s: New takes it", field)
		}
	}
}

func manyHosts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "host-%d.example-%d.org\n", i, i%1000)
	}
	return b.String()
}

// TestMissAllocatesNothing counts several times: with the race detector the pool of package regexp loses things at random.
func TestMissAllocatesNothing(t *testing.T) {
	l := listOf(t, manyHosts(1000)+"192.0.2.0/24\n2001:db8::/32\n*://*/private/*\n/x$/\n")
	v4, v6 := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db9::1")
	least := math.Inf(1)
	for range 5 {
		least = min(least, testing.AllocsPerRun(100, func() {
			l.Host("www.example.net:8080")
			l.Host("198.51.100.1")
			l.Addr(v4)
			l.Addr(v6)
			l.URL("https://www.example.net/a/b/c")
		}))
	}
	if least != 0 {
		t.Errorf("%v allocations", least)
	}
}

// What is told holds beside the sources, from one call to the next.
func TestTell(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	write(t, file, "listed.test\n")
	l := newList(t, Config{Sources: []string{file}, Poll: time.Minute, Timeout: time.Minute, MaxBytes: 1000, MaxEntries: 10}, Deps{})
	blocked := func(want ...string) {
		t.Helper()
		for _, host := range []string{"http://listed.test:80", "http://www.told.test:80", "http://192.0.2.7:80"} {
			if _, got := l.Host(host); got != slices.Contains(want, host) {
				t.Errorf("%s is blocked: %v", host, got)
			}
		}
	}
	l.Tell([]string{"told.test", "192.0.2.0/24"})
	blocked("http://www.told.test:80", "http://192.0.2.7:80")
	if err := load(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	blocked("http://listed.test:80", "http://www.told.test:80", "http://192.0.2.7:80")
	l.Tell([]string{"192.0.2.7/32"})
	blocked("http://listed.test:80", "http://192.0.2.7:80")
	l.Tell(nil)
	blocked("http://listed.test:80")
}

func TestTarget(t *testing.T) {
	for text, want := range map[string]string{
		"EXAMPLE.org.": "example.org", "bücher.example": "xn--bcher-kva.example", "192.0.2.9": "192.0.2.9/32", "192.0.2.9/24": "192.0.2.0/24",
		"2001:DB8::1/32": "2001:db8::/32", "::ffff:192.0.2.9": "192.0.2.9/32",
		"": "", "a b": "", "0.0.0.0 a.test": "", "a.test#": "", "*.test": "", "http://a.test": "", "a.test/x": "", "a.test:80": "", "/a/": "", "::/0": "", "0.0.0.0/0": "", "-\x00": "",
	} {
		if got, err := Target(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is taken as %q: %v", text, got, err)
		}
	}
	for _, text := range []string{"a.test:80", "http://a.test/", "a.test/x", "192.0.2.0/33"} {
		if _, err := Target(text); err == nil || !strings.Contains(err.Error(), "without scheme, port and path") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A list that changes may take the room of what it was, however much that is.
func TestLargeListChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	cfg := Default()
	cfg.Sources, cfg.MaxEntries, cfg.MaxPatterns = []string{file}, 3, 3
	write(t, file, "")
	l := newList(t, cfg, Deps{})
	for _, text := range []string{"a.test\nb.test\n/c/\n", "a.test\nanother.test\n/other/\n"} {
		write(t, file, text)
		if err := load(t.Context(), l); err != nil {
			t.Error(err)
		}
	}
	if _, blocked := l.Host("another.test"); !blocked {
		t.Error("the list as it is now is not in force")
	}
}

// Who names a file means it to be in force: a node does not start without it.
func TestAFileMustBeThere(t *testing.T) {
	cfg := Default()
	cfg.Sources = []string{filepath.Join(t.TempDir(), "list")}
	if _, err := New(cfg, Deps{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	write(t, cfg.Sources[0], "a.test\n")
	if _, err := New(cfg, Deps{}); err != nil {
		t.Error(err)
	}
}
