package sink

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"proxima/fetch/warc"
)

// folders are that of a sink and that of its destination.
func folders(t testing.TB) (dir, to, url string) {
	dir, to = t.TempDir(), filepath.Join(t.TempDir(), "to")
	return dir, to, "file://" + to
}

// Packages are closed by size, by age and at the end; what a package does not count is not in it.
func TestPackages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, to, url := folders(t)
		m := newFrontier()
		l := mustBegin(t, disk{}, dir, testConfig(url), testDeps(m, 1))
		lost, err := l.Put(t.Context(), testRecord(1000))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			l.downloaded(m, i)
		}
		synctest.Wait()
		if st := l.Status(); st.Packages != 0 || st.Waiting == 0 {
			t.Errorf("a package is made while a download in it goes on: %+v", st)
		}
		lost.End(false)
		synctest.Wait()
		if st := l.Status(); st.Packages < 4 || st.Waiting != 0 || st.Open == 0 {
			t.Errorf("closed by size: %+v", st)
		}
		l.downloaded(m, 40)
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		if st := l.Status(); st.Waiting != 0 || st.Open != 0 || st.Pages != 2*41 {
			t.Errorf("closed by age: %+v", st)
		}
		once(t, to, m)
		l.downloaded(m, 41)
		r := testRecord(42)
		r.Page, r.IsPage = nil, false // a robots.txt, say
		if _, err := l.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if ctx := t.Context(); l.Status().Waiting != 0 || ctx.Err() != nil {
			t.Error("closed too soon")
		}
		l.stop() // with a download under way
		l = mustBegin(t, disk{}, dir, testConfig(url), testDeps(m, 2))
		l.flush()
		l.stop()
		once(t, to, m)
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 || len(m.receipts) != 0 {
			t.Errorf("left: %v, %v, %d receipts", left, err, len(m.receipts))
		}
	})
}

// Whatever step of the disk is the last of a life, and of the life after it, each page is delivered once.
func TestCrashAtEveryStep(t *testing.T) {
	steps := 0
	for first := 1; first < 1000; first += 1 + first/40 {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(first), 1))
			dir, to, url := folders(t)
			m := newFrontier()
			cfg := testConfig(url)
			cfg.SizeBytes = 2 << 10
			crashed := crashingLife(t, dir, cfg, m, 1, first)
			crashingLife(t, dir, cfg, m, 2, 1+random.IntN(30))
			if !crashingLife(t, dir, cfg, m, 3, 1<<30) {
				once(t, to, m)
			} else {
				t.Error("the last life crashed")
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 || len(m.receipts) != 0 || len(m.done) != pagesOfCrash {
				t.Errorf("left: %v, %v, %d receipts; %d done", left, err, len(m.receipts), len(m.done))
			}
			if t.Failed() {
				t.Logf("crash at step %d", first)
			}
			if !crashed {
				steps = first
			}
		})
		if steps > 0 || t.Failed() {
			break
		}
	}
	if steps < 50 {
		t.Errorf("%d steps only", steps)
	}
	t.Logf("%d steps", steps)
}

const pagesOfCrash = 12

var errCrash = errors.New("killed")

// crashingLife downloads what is not done by three fetchers and flushes, until a number of steps is made: from then on nothing
// works, as after a kill. It says whether it came to that.
func crashingLife(t *testing.T, dir string, cfg Config, m *memory, boot uint64, steps int) (crashed bool) {
	var mu sync.Mutex
	var l *life
	dead := make(chan struct{})
	step := func(string, string) error {
		mu.Lock()
		defer mu.Unlock()
		if steps--; steps == 0 {
			close(dead)
		}
		if steps <= 0 {
			return errCrash
		}
		return nil
	}
	l, err := begin(t, disk{fault: step, lazy: true}, dir, cfg, testDeps(m, boot))
	if err != nil {
		if errors.Is(err, errCrash) {
			return true
		}
		t.Fatal(err)
	}
	defer l.stop()
	work := make(chan int, pagesOfCrash)
	for i := range pagesOfCrash {
		work <- i
	}
	close(work)
	var fetchers sync.WaitGroup
	for range 3 {
		fetchers.Go(func() {
			for i := range work {
				r := testRecord(i)
				if m.isDone(r.Page.URL) {
					continue
				}
				ticket, err := l.Put(t.Context(), r)
				if err != nil {
					return
				}
				if step("finish", "") != nil {
					return // killed before the end of the download was written
				}
				m.end(r.Page.URL, ticket.Key())
				if step("after", "") != nil {
					return
				}
				ticket.End(true)
			}
		})
	}
	fetchers.Wait()
	flushed := make(chan struct{})
	go func() { defer close(flushed); l.Flush(t.Context()) }()
	select {
	case <-flushed:
		return false
	case <-dead:
		l.stop()
		<-flushed
		return true
	}
}

// A disk that is full holds downloads, says so, and loses nothing; with room all goes on.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, to, url := folders(t)
		m := newFrontier()
		var mu sync.Mutex
		full := false
		set := func(v bool) { mu.Lock(); defer mu.Unlock(); full = v }
		l := mustBegin(t, disk{fault: func(step, path string) error {
			mu.Lock()
			defer mu.Unlock()
			if full && (step == "create" || step == "write" || step == "sync" || step == "fill") {
				return &os.PathError{Op: step, Path: path, Err: syscall.ENOSPC}
			}
			return nil
		}}, dir, testConfig(url), testDeps(m, 1))
		l.downloaded(m, 0, 1, 2)
		set(true)
		for i := range 5 {
			if err := l.download(m, 3); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("try %d: %v", i, err)
			}
			if why := l.reason(); !strings.Contains(why, "no space left on device") || strings.Contains(why, dir) {
				t.Errorf("held: %q", why)
			}
			time.Sleep(2 * time.Minute)
			if why := l.reason(); why != "" {
				t.Errorf("nobody may try: %q", why)
			}
		}
		set(false)
		l.downloaded(m, 3, 4)
		if why := l.reason(); why != "" {
			t.Errorf("held with room: %q", why)
		}
		set(true)
		go func() { time.Sleep(time.Minute); set(false) }()
		l.flush() // packing waits for room
		once(t, to, m)
		if len(l.events) == 0 || l.events[0].Kind != Trouble {
			t.Errorf("events %+v", l.events)
		}
	})
}

// A spool that is removed although its removal fails, because the folder cannot be synced, does not stop the packages after it.
func TestSpoolRemovedByAStepThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, to, url := folders(t)
		m := newFrontier()
		failed := false // only the packer removes spools
		l := mustBegin(t, disk{fault: func(step, path string) error {
			if step != "remove" || filepath.Ext(path) != suffixSpool || failed {
				return nil
			}
			failed = true
			return errors.Join(os.Remove(path), syscall.EMFILE)
		}}, dir, testConfig(url), testDeps(m, 1))
		for i := range 40 {
			l.downloaded(m, i)
		}
		l.flush()
		once(t, to, m)
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 || len(m.receipts) != 0 {
			t.Errorf("left: %v, %v, %d receipts", left, err, len(m.receipts))
		}
	})
}

// A download that finds no room holds the others until there is more: else it would be made again and again.
func TestNoRoomHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, to, url := folders(t)
		m := newFrontier()
		var gone, broken atomic.Bool
		gone.Store(true)
		l := mustBegin(t, disk{fault: func(step, path string) error {
			if step == "link" && gone.Load() || step == "write" && broken.Load() {
				return syscall.EIO
			}
			return nil
		}}, dir, testConfig(url), testDeps(m, 1))
		put := func(i, size int) error {
			r := testRecord(i)
			text := make([]byte, size/2)
			for k := range text {
				text[k] = byte(rand.N(256))
			}
			r.Page.Text = hex.EncodeToString(text)
			ticket, err := l.Put(t.Context(), r)
			if err == nil {
				m.end(r.Page.URL, ticket.Key())
				ticket.End(true)
			}
			synctest.Wait()
			return err
		}
		i := 0
		for ; l.Status().Used < 320<<10; i++ {
			if err := put(i, 12<<10); err != nil {
				t.Fatal(err)
			}
		}
		if st := l.Status(); st.Used >= 350<<10 || l.reason() != "" {
			t.Fatalf("%+v, held: %q", st, l.reason())
		}
		if err := put(i, 45<<10); !errors.Is(err, ErrFull) {
			t.Fatalf("without room: %v", err)
		}
		if why := l.reason(); !strings.Contains(why, "full") {
			t.Errorf("held: %q", why)
		}
		broken.Store(true)
		for _, size := range []int{1 << 10, 45 << 10, 45 << 10} { // nothing is written for those that find no room
			if err := put(i, size); err == nil {
				t.Fatalf("%d bytes are kept", size)
			}
			if why := l.reason(); !strings.Contains(why, "cannot be written") {
				t.Errorf("held: %q", why)
			}
		}
		broken.Store(false)
		gone.Store(false)
		time.Sleep(time.Hour)
		synctest.Wait()
		if why := l.reason(); why != "" {
			t.Errorf("held with room: %q", why)
		}
		if err := put(i, 45<<10); err != nil {
			t.Error(err)
		}
		l.flush()
		once(t, to, m)
	})
}

// What cannot be archived, and what is larger than all that may wait, is refused for good; not what lacks room for now.
func TestUnfit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, _, url := folders(t)
		l := mustBegin(t, disk{}, dir, testConfig(url), testDeps(newFrontier(), 1))
		r := testRecord(1)
		r.Exchange.ResponseHead = []byte("ICY 200 OK\r\n\r\n")
		if _, err := l.Put(t.Context(), r); !errors.Is(err, ErrUnfit) || !errors.Is(err, warc.ErrInvalid) {
			t.Error(err)
		}
		r = testRecord(1)
		r.Page.Text = strings.Repeat("x", 60<<10)
		if _, err := l.Put(t.Context(), r); !errors.Is(err, ErrUnfit) {
			t.Error(err)
		}
		l.stop()
		if _, err := l.Put(t.Context(), testRecord(1)); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// An identical payload is archived once, and what refers to it refers to what is kept.
func TestRevisitsReferToWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, to, url := folders(t)
		m := newFrontier()
		l := mustBegin(t, disk{}, dir, testConfig(url), testDeps(m, 1))
		body := []byte(strings.Repeat("same ", 100))
		for i := range 4 {
			r := testRecord(i)
			r.Exchange.Body = body
			ticket, err := l.Put(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				m.end(r.Page.URL, ticket.Key())
			}
			ticket.End(i > 0)
		}
		l.flush()
		once(t, to, m)
		files, err := filepath.Glob(filepath.Join(to, "*.cdxj"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		index, err := os.ReadFile(files[0])
		if err != nil || strings.Count(string(index), "warc/revisit") != 2 || !strings.Contains(string(index), `/1","mime":"text/html"`) {
			t.Errorf("%v: %s", err, index)
		}
	})
}

func TestConfig(t *testing.T) {
	for url, want := range map[string]string{
		"":                                    "",
		"file:///a/b":                         "",
		"https://collector.example/a":         "",
		"s3://b/p?endpoint=http://a:90":       "",
		"/a":                                  "a sink is",
		"file://a":                            "no directory",
		"https://u:secret@a/":                 "belong into",
		"https://a/?x":                        "no collector",
		"s3://b/p?endpoint=http://a&secret=x": "no store",
		"s3://b/p":                            "no store",
		"ftp://a/":                            "a sink is",
		"s3://b/?endpoint=ftp://a/":           "no store",
	} {
		c := Default()
		c.URL = url
		err := c.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret@")) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	for key, change := range map[string]func(*Config){
		"formats:":    func(c *Config) { c.Formats = []string{WARC, WARC} },
		"formats: no": func(c *Config) { c.Formats = nil },
		"size_bytes":  func(c *Config) { c.SizeBytes = 1 },
		"age":         func(c *Config) { c.Age = -1 },
		"disk_bytes":  func(c *Config) { c.DiskBytes = c.SizeBytes },
		"patience":    func(c *Config) { c.Patience = -1 },
	} {
		c := Default()
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// Damage in the middle of a spool costs the downloads that it hits, and is told. What stands behind it is delivered.
func TestDamagedSpool(t *testing.T) {
	const pages = 8
	for what, c := range map[string]struct {
		damage func(text []byte, third, fourth, last int) []byte // the places of records
		lost   []int
	}{
		"a byte of a record":       {func(b []byte, third, _, _ int) []byte { b[third+100] ^= 1; return b }, []int{2}},
		"a length":                 {func(b []byte, third, _, _ int) []byte { b[third] ^= 1; return b }, []int{2}},
		"a length beyond the end":  {func(b []byte, third, _, _ int) []byte { b[third+3] ^= 0x70; return b }, []int{2}},
		"zeros over two records":   {func(b []byte, _, fourth, _ int) []byte { clear(b[fourth-20 : fourth+20]); return b }, []int{2, 3}},
		"the header":               {func(b []byte, _, _, _ int) []byte { b[20] ^= 1; return b }, nil},
		"zeros over the header":    {func(b []byte, _, _, _ int) []byte { clear(b[:20]); return b }, nil},
		"zeros behind":             {func(b []byte, _, _, _ int) []byte { return append(b, make([]byte, 4096)...) }, nil},
		"the last record":          {func(b []byte, _, _, last int) []byte { b[last+50] ^= 1; return b }, []int{pages - 1}},
		"half a record at the end": {func(b []byte, third, fourth, _ int) []byte { return append(b, b[third:fourth-10]...) }, nil},
		"a record that comes twice": {func(b []byte, third, fourth, _ int) []byte {
			return slices.Insert(b, fourth, append([]byte{1}, b[third:fourth]...)...)
		}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			dir, to, url := folders(t)
			m := newFrontier()
			cfg := testConfig(url)
			cfg.SizeBytes = 40 << 10
			l := mustBegin(t, disk{}, dir, cfg, testDeps(m, 1))
			var at []int // where each record ends
			for i := range pages {
				l.downloaded(m, i)
				info, err := os.Stat(spoolOf(t, dir))
				if err != nil {
					t.Fatal(err)
				}
				at = append(at, int(info.Size()))
			}
			l.stop()
			path := spoolOf(t, dir)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, c.damage(text, at[1], at[2], at[pages-2]), 0o644); err != nil {
				t.Fatal(err)
			}
			end := at[pages-1]
			if slices.Contains(c.lost, pages-1) {
				end = at[pages-2]
			}
			if s, err := openSpool(path, cfg.Formats); err != nil || s.size < int64(end) {
				t.Errorf("%s: %+v, %v; the last record ends at %d", what, s, err, end)
			}
			var warned []string
			deps := testDeps(m, 2)
			deps.Warn = func(err error) { warned = append(warned, err.Error()) }
			l = mustBegin(t, disk{}, dir, cfg, deps)
			l.flush()
			for _, i := range c.lost {
				delete(m.done, testRecord(i).Page.URL)
			}
			once(t, to, m)
			if n := l.Status().Damaged; n != len(c.lost) || len(warned) != min(1, n) || n > 0 && !strings.Contains(warned[0], "are damaged") {
				t.Errorf("%s: %d downloads count as damaged, want %d: %q", what, n, len(c.lost), warned)
			}
			l.stop()
			if t.Failed() {
				t.Log(what)
			}
		})
	}
}

func spoolOf(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"+suffixSpool))
	if err != nil || len(found) != 1 {
		t.Fatalf("spools %q, %v", found, err)
	}
	return found[0]
}
