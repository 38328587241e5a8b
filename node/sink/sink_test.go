package sink

import (
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"proxima/fetch/warc"
	"proxima/node/runlog"
)

// Packages are closed by size, by age and at the end; what a package does not count is not in it.
func TestPackages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		l := b.begin()
		lost, err := l.Put(t.Context(), testRecord(1000))
		must(t, err)
		l.downloads(0, 40)
		synctest.Wait()
		if st := l.Status(); st.Packages != 0 || st.Waiting == 0 {
			t.Errorf("a package is made while a download in it goes on: %+v", st)
		}
		lost.End(false)
		synctest.Wait()
		if st := l.Status(); st.Packages < 4 || st.Waiting != 0 || st.Open == 0 {
			t.Errorf("closed by size: %+v", st)
		}
		l.downloads(40, 1)
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		if st := l.Status(); st.Waiting != 0 || st.Open != 0 || st.Pages != 2*41 {
			t.Errorf("closed by age: %+v", st)
		}
		b.once()
		l.downloads(41, 1)
		r := testRecord(42)
		r.Page, r.IsPage = nil, false // a robots.txt, say
		_, err = l.Put(t.Context(), r)
		must(t, err)
		if l.Status().Waiting != 0 {
			t.Error("closed too soon")
		}
		l.stop() // with a download under way
		l = b.begin()
		l.flush()
		l.stop()
		b.onceAndGone()
	})
}

// Whatever step of the disk is the last of a life, and of the life after it, each page is delivered once.
func TestCrashAtEveryStep(t *testing.T) {
	steps := 0
	for first := 1; first < 1000 && steps == 0 && !t.Failed(); first += 1 + first/40 {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(first), 1))
			b := newBed(t)
			b.cfg.SizeBytes = 2 << 10
			crashed := b.crashingLife(first)
			b.crashingLife(1 + random.IntN(30))
			if b.crashingLife(1 << 30) {
				t.Error("the last life crashed")
			}
			if b.onceAndGone(); len(b.done) != pagesOfCrash {
				t.Errorf("%d done", len(b.done))
			}
			if t.Failed() {
				t.Logf("crash at step %d", first)
			}
			if !crashed {
				steps = first
			}
		})
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
func (b *bed) crashingLife(steps int) (crashed bool) {
	ctx, kill := context.WithCancel(b.t.Context())
	defer kill()
	var mu sync.Mutex
	step := func(string, string) error {
		mu.Lock()
		defer mu.Unlock()
		if steps--; steps > 0 {
			return nil
		}
		kill()
		return errCrash
	}
	b.disk = disk{fault: step, lazy: true}
	l, err := b.try()
	if errors.Is(err, errCrash) {
		return true
	}
	must(b.t, err)
	defer l.stop()
	var fetchers sync.WaitGroup
	for first := range 3 {
		fetchers.Go(func() {
			for i := first; i < pagesOfCrash; i += 3 {
				r := testRecord(i)
				if b.isDone(r.Page.URL) {
					continue
				}
				ticket, err := l.Put(b.t.Context(), r)
				if err != nil || step("finish", "") != nil {
					return // killed before the end of the download was written
				}
				b.end(r.Page.URL, ticket.Key())
				if step("after", "") != nil {
					return
				}
				ticket.End(true)
			}
		})
	}
	fetchers.Wait()
	l.Flush(ctx)
	return ctx.Err() != nil
}

// A disk that is full holds downloads, says so, and loses nothing; with room all goes on.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var full atomic.Bool
		b.disk.fault = func(step, path string) error {
			if full.Load() && (step == "create" || step == "write" || step == "sync" || step == "fill") {
				return &os.PathError{Op: step, Path: path, Err: syscall.ENOSPC}
			}
			return nil
		}
		l := b.begin()
		l.downloads(0, 3)
		full.Store(true)
		for i := range 5 {
			if err := l.put(testRecord(3)); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("try %d: %v", i, err)
			}
			l.holds("full", "no space left on device")
			if st := l.Status(); st.Open != 3 || !st.TroubleAt.Equal(time.Now()) {
				t.Errorf("try %d: %+v", i, st)
			}
			time.Sleep(2 * time.Minute)
			l.holds("so that somebody may try")
		}
		full.Store(false)
		l.downloads(3, 2)
		l.holds("with room")
		if st := l.Status(); st.Open != 5 {
			t.Errorf("%d downloads are in the open spool, want 5", st.Open)
		}
		full.Store(true)
		time.AfterFunc(time.Minute, func() { full.Store(false) })
		l.flush() // packing waits for room
		b.once()
		if len(l.events) == 0 || l.events[0].name != runlog.EventSinkTrouble {
			t.Errorf("events %+v", l.events)
		}
	})
}

// Half a file does not stay on a disk that is full, where it would take what little room there was.
func TestHalfAFileIsRemoved(t *testing.T) {
	dir := t.TempDir()
	d := disk{fault: func(step, _ string) error {
		if step == "sync" {
			return syscall.ENOSPC
		}
		return nil
	}}
	err := d.store(filepath.Join(dir, "a"), func(f *os.File) error { _, err := f.WriteString("half"); return err })
	if left, _ := os.ReadDir(dir); !errors.Is(err, syscall.ENOSPC) || len(left) != 0 {
		t.Errorf("%v; left: %v", err, left)
	}
}

// What kept packages from being made is over as soon as they are made, though none is delivered after it.
func TestPackingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		failed := false
		b.deps.Sync = func(context.Context) error {
			if !failed {
				failed = true
				return syscall.EIO
			}
			return nil
		}
		l := b.begin()
		ticket, err := l.Put(t.Context(), testRecord(0))
		must(t, err)
		ticket.End(false) // it counts as not made, and is in no package
		l.flush()
		if s := l.Status(); !failed || s.Trouble != "" || s.Packages != 0 {
			t.Errorf("%+v", s)
		}
		l.heard.Lock()
		defer l.heard.Unlock()
		if e := l.events; len(e) != 2 || e[0].name != runlog.EventSinkTrouble || e[1].name != runlog.EventSinkTroubleOver || !strings.Contains(e[1].reason, "packages cannot be made") {
			t.Errorf("events %+v", e)
		}
	})
}

// A spool that is removed although its removal fails, because the folder cannot be synced, does not stop the packages after it.
func TestSpoolRemovedByAStepThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		failed := false // only the packer removes spools
		b.disk.fault = func(step, path string) error {
			if step != "remove" || filepath.Ext(path) != suffixSpool || failed {
				return nil
			}
			failed = true
			return errors.Join(os.Remove(path), syscall.EMFILE)
		}
		l := b.begin()
		l.downloads(0, 40)
		l.flush()
		b.onceAndGone()
	})
}

// A sink that was full when it ended holds downloads from its start on, as long as nobody takes the packages.
func TestFullAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var gone atomic.Bool
		gone.Store(true)
		b.disk.fault = func(step, _ string) error {
			if step == "link" && gone.Load() {
				return syscall.EIO
			}
			return nil
		}
		l := b.begin()
		for i := 0; l.Status().Used < b.cfg.DiskBytes/8*7; i++ {
			r := testRecord(i)
			r.Page.Text = noise(12 << 10)
			must(t, l.put(r))
			synctest.Wait()
		}
		l.stop()
		l = b.prepare()
		l.holds("at the start", "the sink is full: ")
		gone.Store(false)
		l.run()
		l.flush()
		l.holds("in the end")
		b.once()
	})
}

// A spool that cannot be read, as on a bad sector, does not keep the others waiting.
func TestSpoolThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		bad := ""
		var mended atomic.Bool
		b.disk.fault = func(step, path string) error {
			name, _, _ := strings.Cut(filepath.Base(path), ".")
			if step == "fill" && bad == "" {
				bad = name
			}
			if step == "fill" && name == bad && !mended.Load() {
				return syscall.EIO
			}
			return nil
		}
		l := b.begin()
		l.downloads(0, 40)
		time.Sleep(2 * time.Hour) // the last spool is closed by its age
		if st := l.Status(); st.Waiting != 1 || st.Packages < 5 || !strings.Contains(st.Trouble, "packages cannot be made") {
			t.Errorf("%+v", st)
		}
		mended.Store(true)
		l.flush()
		l.stop()
		b.onceAndGone()
	})
}

// A download that finds no room holds the others until there is more: else it would be made again and again.
func TestNoRoomHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var gone, broken atomic.Bool
		gone.Store(true)
		b.disk.fault = func(step, path string) error {
			if step == "link" && gone.Load() || step == "write" && broken.Load() {
				return syscall.EIO
			}
			return nil
		}
		l := b.begin()
		put := func(i, size int) error {
			r := testRecord(i)
			r.Page.Text = noise(size)
			defer synctest.Wait()
			return l.put(r)
		}
		i := 0
		for ; l.Status().Used < 320<<10; i++ {
			must(t, put(i, 12<<10))
		}
		if st := l.Status(); st.Used >= 350<<10 {
			t.Fatalf("%+v", st)
		}
		l.holds("before the bound")
		if err := put(i, 45<<10); !errors.Is(err, ErrFull) {
			t.Fatalf("without room: %v", err)
		}
		l.holds("without room", "full")
		broken.Store(true)
		for _, size := range []int{1 << 10, 45 << 10, 45 << 10} { // nothing is written for those that find no room
			if err := put(i, size); err == nil {
				t.Fatalf("%d bytes are kept", size)
			}
			l.holds("on a broken disk", "cannot be written")
		}
		broken.Store(false)
		gone.Store(false)
		time.Sleep(time.Hour)
		synctest.Wait()
		l.holds("with room")
		must(t, put(i, 45<<10))
		l.flush()
		b.once()
	})
}

// noise is a text of so many bytes that does not get shorter by compression.
func noise(size int) string {
	text := make([]byte, size/2)
	for k := range text {
		text[k] = byte(rand.N(256))
	}
	return hex.EncodeToString(text)
}

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{1<<20 - 1: "1023 KiB", 1 << 20: "1 MiB", 10<<30 - 1: "10239 MiB", 10 << 30: "10 GiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d bytes are %s, want %s", n, got, want)
		}
	}
}

// What cannot be archived, and what is larger than all that may wait, is refused for good; not what lacks room for now.
func TestUnfit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBed(t).begin()
		strange, long := testRecord(1), testRecord(1)
		strange.Exchange.ResponseHead = []byte("ICY 200 OK\r\n\r\n")
		long.Page.Text = strings.Repeat("x", 60<<10)
		if err := l.put(strange); !errors.Is(err, ErrUnfit) || !errors.Is(err, warc.ErrInvalid) {
			t.Error(err)
		}
		if err := l.put(long); !errors.Is(err, ErrUnfit) {
			t.Error(err)
		}
		l.stop()
		if err := l.put(testRecord(1)); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// An identical payload is archived once, and what refers to it refers to what is kept.
func TestRevisitsReferToWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		l := b.begin()
		for i := range 4 {
			r := testRecord(i)
			r.Exchange.Body = []byte(strings.Repeat("same ", 100))
			if i > 0 {
				must(t, l.put(r))
				continue
			}
			ticket, err := l.Put(t.Context(), r)
			must(t, err)
			ticket.End(false)
		}
		l.flush()
		b.once()
		files, err := filepath.Glob(filepath.Join(b.to, "*.cdxj"))
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
		"https://u:secret@a%/":                "no URL",
		"file:///a/b?c":                       "no directory",
		"file:///a/b#c":                       "no directory",
		"s3://b/?endpoint=http://u:secret@a/": "belong into",
		"s3://b/p?endpoint=http://a/b":        "no store",
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
