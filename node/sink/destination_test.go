package sink

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/netsim"
	"proxima/node/runlog"
	"proxima/scripts/archive"
)

// reached is a transport to handlers in a bubble, which take so many bytes a ms; 0 is no bound.
func reached(t *testing.T, rate float64, h http.Handler) http.RoundTripper {
	n := netsim.New(func(_, _ netip.Addr) time.Duration { return time.Millisecond })
	n.SetBandwidth(netsim.Place(1), 0, rate)
	there, err := n.Open(netsim.Place(1))
	must(t, err)
	here, err := n.Open(netsim.Place(2))
	must(t, err)
	l, err := there.Listen("tcp", ":80")
	must(t, err)
	go http.Serve(l, h) //nolint:errcheck // it ends with the network
	t.Cleanup(func() {
		n.Close()
		time.Sleep(10 * time.Minute) // what is silent ends
	})
	return &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return here.DialContext(ctx, network, netip.AddrPortFrom(netsim.Place(1), 80).String())
	}, ExpectContinueTimeout: time.Second}
}

// A collector that fails in whatever way, and then does not, has every page once in the end. While it takes nothing downloads
// are held before the bound is reached, and go on by themselves afterwards.
func TestCollectorsThatFail(t *testing.T) {
	for fault, words := range map[archive.Fault]string{
		archive.Refused:    "500 Internal Server Error",
		archive.Redirected: "307 Temporary Redirect",
		archive.Silent:     "nothing went on for 1m0s",
		archive.Mute:       "not with the digest of the file",
		archive.Dropped:    "404 Not Found",
		archive.Half:       "not with the digest of the file",
		archive.AnswerLost: "EOF",
	} {
		t.Run(string(fault), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				var mended atomic.Bool
				b.to = t.TempDir()
				b.cfg.URL = "http://collector.test/prefix/"
				b.deps.Transport = reached(t, 0, &archive.Collector{Dir: b.to, Fault: func(*http.Request) archive.Fault {
					if mended.Load() {
						return ""
					}
					return fault
				}})
				l := b.begin()
				n := 0
				for ; l.reason() == "" && n < 10_000; n++ {
					l.downloads(n, 1)
					time.Sleep(10 * time.Millisecond)
				}
				l.holds("near the bound", "the sink is full: ")
				if st := l.Status(); st.Used > b.cfg.DiskBytes || st.Used < b.cfg.DiskBytes/8*7 {
					t.Errorf("held with %d of %d", st.Used, b.cfg.DiskBytes)
				}
				for range 2000 { // those under way
					if l.put(testRecord(n)) != nil {
						break
					}
					n++
				}
				time.Sleep(time.Hour)
				l.holds("after an hour", words, "the sink is full: ", b.cfg.URL)
				st, used := l.Status(), usedBy(t, b.dir)
				if st.Used > b.cfg.DiskBytes || used > b.cfg.DiskBytes || st.Packages != 0 || st.Failures < 20 || st.Failures > 200 {
					t.Errorf("after an hour: %+v; %d bytes on disk", st, used)
				}
				mended.Store(true)
				time.Sleep(10 * time.Minute)
				l.holds("after the collector came back")
				l.downloads(n, 1)
				l.flush()
				b.once()
				over := 0
				for _, e := range l.events {
					if e.name == runlog.EventSinkTroubleOver {
						over++
					}
				}
				if l.events[0].name != runlog.EventSinkTrouble || over != 1 {
					t.Errorf("trouble was over %d times: %+v", over, l.events)
				}
			})
		})
	}
}

// What a destination answers can neither steer the terminal that shows it nor fill it.
func TestWordsOfADestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there, here := net.Pipe()
		go func() {
			_, err := http.ReadRequest(bufio.NewReader(there))
			if err == nil {
				_, err = fmt.Fprintf(there, "HTTP/1.1 500 \x1b[2J\u202egone %s\r\n\r\n", strings.Repeat("x", 100<<10))
			}
			if err != nil {
				t.Error(err)
			}
		}()
		t.Cleanup(func() { there.Close() })
		b := newBed(t)
		b.cfg.URL = "http://collector.test"
		dialled := false
		b.deps.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			if dialled {
				return nil, syscall.ECONNREFUSED
			}
			dialled = true
			return here, nil
		}}
		l := b.begin()
		l.downloads(0, 40)
		synctest.Wait()
		l.heard.Lock()
		defer l.heard.Unlock()
		if len(l.events) == 0 {
			t.Fatal("no event")
		}
		if why := l.events[0].reason; !strings.Contains(why, "500") || len(why) > 1<<10 || strings.ContainsAny(why, "\x1b\u202e") {
			t.Errorf("%d bytes: %.200q", len(why), why)
		}
	})
}

// A package that is delivered, and cannot be removed here, is not said to be refused.
func TestDeliveredAndNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var mended atomic.Bool
		b.disk.fault = func(step, path string) error {
			if step == "remove" && filepath.Ext(path) == ".gz" && !mended.Load() {
				return syscall.EROFS
			}
			return nil
		}
		l := b.begin()
		l.downloads(0, 40)
		time.Sleep(time.Minute)
		if why := l.Status().Trouble; !strings.Contains(why, "read-only") || strings.Contains(why, "does not take") {
			t.Errorf("trouble: %s", why)
		}
		mended.Store(true)
		l.flush()
		l.stop()
		b.onceAndGone()
	})
}

// A directory on a disk that takes minutes to sync a file gets each file once, though nobody has waited for it.
func TestDirectoryThatSyncsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		copies := 0 // one at a time
		b.disk.fault = func(step, path string) error {
			switch {
			case filepath.Dir(path) != b.to:
			case step == "link": // it cannot be linked there
				if _, err := os.Stat(path); err != nil {
					return os.WriteFile(path, nil, 0o600)
				}
			case step == "sync":
				copies++
				time.Sleep(2 * stall)
			}
			return nil
		}
		l := b.begin()
		l.downloads(0, 3)
		l.flush()
		l.stop()
		b.onceAndGone()
		if copies != 5 { // two packages
			t.Errorf("%d copies of 5 files", copies)
		}
	})
}

// The waits grow from failure to failure, but begin anew after a success.
func TestWaitsBeginAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Sink{deps: Deps{Log: slog.New(slog.DiscardHandler), Hold: func(string) {}}}
		var before time.Duration
		begun, steps := time.Now(), 0
		ctx, stop := context.WithCancel(t.Context())
		s.repeat(ctx, nil, func(context.Context) (bool, error) {
			switch steps++; steps {
			case 9:
				return true, nil
			case 10:
				before = time.Since(begun)
			case 11:
				stop()
			}
			return false, io.ErrUnexpectedEOF
		}, new(string))
		if last := time.Since(begun) - before; before < 20*time.Second || last > 200*time.Millisecond {
			t.Errorf("after eight failures in %v and a success, the next one costs %v", before, last)
		}
	})
}

// A collector that is slow, but goes on, is waited for.
func TestSlowCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.to = t.TempDir()
		b.cfg.URL, b.cfg.SizeBytes, b.cfg.DiskBytes = "http://collector.test", 1<<20, 8<<20
		t.Setenv("PROXIMA_SINK_TOKEN", "open sesame")
		b.deps.Transport = reached(t, 5, &archive.Collector{Dir: b.to, Token: "open sesame"})
		l := b.begin()
		for i := range 100 {
			r := testRecord(i)
			r.Exchange.Body = []byte(noise(40_000))
			must(t, l.put(r))
		}
		began := time.Now()
		l.flush()
		if took := time.Since(began); took < 5*time.Minute || l.Status().Failures != 0 {
			t.Errorf("took %v, %+v", took, l.Status())
		}
		b.once()
	})
}

func usedBy(t *testing.T, dir string) (n int64) {
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it was removed meanwhile
			n += info.Size()
		}
	}
	return n
}

// Every destination keeps the same word: what is put is there whole, what is put again replaces it, and what cannot be put is
// an error that says why.
func TestDestinations(t *testing.T) {
	keys := map[string]string{"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secretsecret", "PROXIMA_SINK_TOKEN": "token"}
	const directory = "directory"
	for name, begin := range map[string]func(t *testing.T) (url string, fetch func() string){ // fetch gets all that it has into a directory
		directory: func(t *testing.T) (string, func() string) {
			to := filepath.Join(t.TempDir(), "a", "b")
			return "file://" + to, func() string { return to }
		},
		"collector": func(t *testing.T) (string, func() string) {
			c := &archive.Collector{Dir: t.TempDir(), Token: "token"}
			return serve(t, c) + "/some/where", func() string { return c.Dir }
		},
		"store of the tests": func(t *testing.T) (string, func() string) {
			c := &s3Server{files: map[string][]byte{}, fail: 1}
			return "s3://bucket/some/where?endpoint=" + serve(t, c), func() string { return c.fetchAll(t) }
		},
		"MinIO": func(t *testing.T) (string, func() string) {
			addr := minioServer(t)
			return "s3://bucket/some/where?endpoint=http://" + addr, func() string { return fetchAll(t, addr) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			url, fetch := begin(t)
			for name, key := range keys {
				t.Setenv(name, key)
			}
			b.cfg.URL = url
			l := b.begin()
			l.downloads(0, 40)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if l.Flush(ctx); l.Status().Waiting > 0 {
				t.Fatalf("%+v", l.Status())
			}
			b.to = fetch()
			b.once()
			l.stop()

			sent := func(text string, sum [sha256.Size]byte) error {
				d, err := newDestination(b.cfg, disk{}, b.deps)
				must(t, err)
				path := filepath.Join(b.dir, "again.json")
				must(t, os.WriteFile(path, []byte(text), 0o600))
				defer os.Remove(path) //nolint:errcheck // a link of it would stay
				return send(t.Context(), d, b.dir, File{Name: filepath.Base(path), Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:])})
			}
			for _, text := range []string{"first", "the second", "the second"} { // the last as after a lost answer
				must(t, sent(text, sha256.Sum256([]byte(text))))
				if got, err := os.ReadFile(filepath.Join(fetch(), "again.json")); err != nil || string(got) != text {
					t.Errorf("%q, %v; want %q", got, err, text)
				}
			}
			if name == directory {
				return
			}
			if err := sent("a lie", sha256.Sum256(nil)); err == nil {
				t.Error("a file with another digest was taken")
			}
			for name, key := range keys {
				t.Setenv(name, "x"+key)
			}
			err := sent("", sha256.Sum256(nil))
			if err == nil || strings.Contains(err.Error(), "xsecretsecret") || strings.Contains(err.Error(), "xtoken") {
				t.Errorf("with a wrong secret: %v", err)
			}
		})
	}
}

// A sink whose destination is its own directory would remove what it has just delivered, so it does not open.
func TestSinkIntoItself(t *testing.T) {
	b := newBed(t)
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(b.dir, link))
	for _, to := range []string{b.dir, b.dir + "/../" + filepath.Base(b.dir) + "/", link} {
		b.cfg.URL = "file://" + to
		if _, err := b.try(); err == nil || !strings.Contains(err.Error(), "another directory") {
			t.Errorf("to %s: %v", to, err)
		}
	}
	b.cfg.URL = "file://" + filepath.Join(b.dir, "below")
	l := b.begin()
	l.downloads(0, 3)
	l.flush()
	b.to = filepath.Join(b.dir, "below")
	b.once()
}

// mover is a directory out of which somebody moves each file as soon as it is there.
type mover struct {
	directory
	out   string
	moved map[string]int
}

func (m mover) put(ctx context.Context, f File, from string, body io.Reader) error {
	if err := m.directory.put(ctx, f, from, body); err != nil {
		return err
	}
	m.moved[f.Name]++
	return os.Rename(filepath.Join(m.path, f.Name), filepath.Join(m.out, f.Name))
}

// Who moves packages out of a directory at once gets each of them once.
func TestPackagesMovedOutAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		l := b.prepare()
		m := mover{l.to.(directory), t.TempDir(), map[string]int{}}
		l.to = m
		l.run()
		l.downloads(0, 20)
		l.flush()
		l.stop()
		b.to = m.out
		b.onceAndGone()
		for name, n := range m.moved {
			if n != 1 {
				t.Errorf("%s came %d times", name, n)
			}
		}
		if l.Status().Failures != 0 {
			t.Errorf("%+v", l.Status())
		}
	})
}

// A package that is refused, whatever comes, does not keep the others waiting.
func TestRefusedPackage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		refused := ""
		var mended atomic.Bool
		b.disk.fault = func(step, path string) error {
			if step == "link" && refused == "" {
				refused = path
			}
			if step == "link" && path == refused && !mended.Load() {
				return syscall.EIO
			}
			return nil
		}
		l := b.begin()
		l.downloads(0, 40)
		time.Sleep(2 * time.Hour) // the last spool is closed by its age
		if st := l.Status(); st.Waiting != 1 || st.Packages < 5 {
			t.Errorf("%+v", st)
		}
		mended.Store(true)
		l.flush()
		b.once()
	})
}

// A directory that hangs, as on a network's share that is gone, is reported after a minute, and does not keep the sink from ending. When it
// answers again, each page is there once.
func TestDirectoryThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var hangs atomic.Bool
		answers := make(chan struct{})
		b.disk.fault = func(step, _ string) error {
			if step == "link" && hangs.Load() {
				<-answers
			}
			return nil
		}
		hangs.Store(true)
		l := b.begin()
		l.downloads(0, 40)
		time.Sleep(10 * time.Minute)
		if st := l.Status(); !strings.Contains(st.Trouble, "nothing went on for 1m0s") || st.Failures < 2 || st.Packages > 0 {
			t.Errorf("%+v", st)
		}
		begun := time.Now()
		if l.stop(); time.Since(begun) > time.Second {
			t.Errorf("it ends after %v", time.Since(begun))
		}
		hangs.Store(false)
		close(answers)
		synctest.Wait() // what hung has ended, though nobody waits for it any more
		l = b.begin()
		l.flush()
		l.stop()
		b.onceAndGone()
	})
}

// A directory that hangs at the start, too, does not hold up the start for long. What was downloaded is there once it answers, be it with an
// error at first.
func TestDirectoryThatHangsAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		answers := make(chan struct{})
		b.disk.fault = func(step, _ string) error {
			if step == "open" {
				if _, hung := <-answers; hung {
					return syscall.EIO
				}
			}
			return nil
		}
		begun := time.Now()
		l := b.begin()
		if took := time.Since(begun); took != openPatience {
			t.Errorf("it starts after %v", took)
		}
		l.downloads(0, 40)
		time.Sleep(10 * time.Minute)
		if st := l.Status(); !strings.Contains(st.Trouble, "nothing went on for 1m0s") || st.Packages > 0 {
			t.Errorf("%+v", st)
		}
		answers <- struct{}{}
		close(answers)
		l.flush()
		l.stop()
		b.onceAndGone()
		if first, last := l.events[0], l.events[len(l.events)-1]; first.name != runlog.EventSinkTrouble || last.name == runlog.EventSinkTrouble {
			t.Errorf("%+v", l.events)
		}
	})
}

// serve serves a handler, and returns its URL.
func serve(t *testing.T, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
