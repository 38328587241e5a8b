package node_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"proxima/frontier"
	"proxima/node"
	"proxima/node/runlog"
)

// eventEcho calls a function with the name of every event of a node.
type eventEcho func(event string)

func (e eventEcho) Enabled(context.Context, slog.Level) bool { return true }
func (e eventEcho) Handle(_ context.Context, r slog.Record) error {
	e(r.Message)
	return nil
}
func (e eventEcho) WithAttrs([]slog.Attr) slog.Handler { return e }
func (e eventEcho) WithGroup(string) slog.Handler      { return e }

// chainSite is a chain of pages. Each is found only on the page before.
type chainSite struct {
	*world
	length int
	// on, if set, is called with each page before it is answered.
	on func(page int)
}

func newChainSite(t *testing.T, length int) *chainSite {
	s := &chainSite{length: length}
	s.world = newWorldOf(t, func(path string) string {
		page, err := strconv.Atoi(path[1:])
		if err != nil {
			t.Error(err)
		}
		if s.on != nil {
			s.on(page)
		}
		if page+1 == length {
			return ""
		}
		return fmt.Sprintf("<a href=/%d>next</a>", page+1)
	})
	return s
}

// requests returns how many requests for pages there were.
func (s *chainSite) requests() int {
	pages, again := s.pages()
	return pages + again
}

// whole fails unless each page was requested once.
func (s *chainSite) whole(t *testing.T) {
	t.Helper()
	if pages, again := s.pages(); pages != s.length || again != 0 {
		t.Errorf("%d pages were requested, %d requests were repeated; want each of %d pages once", pages, again, s.length)
	}
}

// diskConfig has the watermark at a MiB.
func diskConfig(t *testing.T) node.Config {
	c := config(t)
	c.Frontier.MinFreeMiB = 1
	return c
}

// TestDiskFull fills the disk in the middle of a crawl: what is under way ends, nothing new is asked for, the node says
// why, and with room again the crawl goes on to its end.
func TestDiskFull(t *testing.T) {
	before := goleak.IgnoreCurrent()
	site := newChainSite(t, 30)
	full := make(chan struct{})
	var free atomic.Uint64
	free.Store(1 << 40)
	site.on = func(page int) {
		if page == 9 {
			free.Store(1<<20 - 1)
			<-full // the disk is found full while this page is under way
		}
	}
	var n *node.Node
	paused := -1 // requests when the last download had ended, -1 before
	deps := site.deps()
	deps.FreeBytes = func() (uint64, error) {
		// One look after the last download ended, the number of requests is noted; at the next it is the same, and only then
		// there is room.
		if s := n.Status(); s.Frontier.Paused != "" && s.Frontier.InFlight == 0 && s.Frontier.Done == 10 {
			if asked := site.requests(); paused < 0 {
				paused = asked
			} else {
				if asked != paused {
					t.Errorf("%d requests with a full disk", asked-paused)
				}
				free.Store(1 << 40)
			}
		}
		return free.Load(), nil
	}
	var fullOnce sync.Once
	deps.Echo = eventEcho(func(event string) {
		if event == runlog.EventDiskFull {
			fullOnce.Do(func() { close(full) })
		}
	})
	c := diskConfig(t)
	n, err := node.New(c, seeds(t, "http://a.test/0"), deps)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan node.Status, 1)
	go func() {
		<-full
		s, err := node.AskStatus(t.Context(), c.Node.Data)
		if err != nil {
			t.Error(err)
		}
		for name, want := range map[string]string{"a.test": "http://a.test true", "http://a.test:80/x": "http://a.test true", "b.test": ""} {
			var hosts []frontier.HostStatus
			err := node.Call(t.Context(), http.MethodGet, c.Node.Data, "/host?name="+url.QueryEscape(name), nil, &hosts)
			var got []string
			for _, h := range hosts {
				got = append(got, fmt.Sprint(h.Host, " ", h.Known))
			}
			if (err != nil) != (want == "") || strings.Join(got, ", ") != want {
				t.Errorf("asked for %s: %q, %v, want %s", name, got, err, want)
			}
		}
		asked <- s
	}()
	end, err := n.Run(t.Context())
	if err != nil || end.Reason != "idle" || end.Unfinished != 0 || end.Frontier.Paused != "" {
		t.Errorf("%+v, %v", end, err)
	}
	if s := <-asked; s.Frontier.Paused != "disk full" {
		t.Errorf("status says paused: %q", s.Frontier.Paused)
	}
	site.whole(t)
	if paused != 10 {
		t.Errorf("paused after %d pages, want 10", paused)
	}
	var events []string
	for _, e := range readLogs(t, n.LogDir()).events {
		if e.Event == runlog.EventDiskFull || e.Event == runlog.EventDiskOK {
			events = append(events, fmt.Sprintf("%s %v", e.Event, e.Attrs[runlog.KeyDiskFreeBytes]))
		}
	}
	if want := []string{fmt.Sprintf("disk_full %v", float64(1<<20-1)), fmt.Sprintf("disk_ok %v", float64(1<<40))}; !slices.Equal(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
	site.server.Close()
	goleak.VerifyNone(t, before)
}

// TestDiskFullStop stops a node while its disk is full. The next run has all that the first accepted.
func TestDiskFullStop(t *testing.T) {
	site := newChainSite(t, 20)
	full := make(chan struct{})
	var free atomic.Uint64
	free.Store(1 << 40)
	site.on = func(page int) {
		if page == 4 {
			free.Store(1<<20 - 1)
			<-full
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var n *node.Node
	deps := site.deps()
	deps.FreeBytes = func() (uint64, error) {
		if s := n.Status(); s.Frontier.Paused != "" && s.Frontier.Done == 5 {
			stop()
		}
		return free.Load(), nil
	}
	var fullOnce sync.Once
	deps.Echo = eventEcho(func(event string) {
		if event == runlog.EventDiskFull {
			fullOnce.Do(func() { close(full) })
		}
	})
	c := diskConfig(t)
	n, err := node.New(c, seeds(t, "http://a.test/0"), deps)
	if err != nil {
		t.Fatal(err)
	}
	if end, err := n.Run(ctx); err != nil || end.Reason != "stopped" || end.Unfinished != 1 {
		t.Fatalf("%+v, %v", end, err)
	}
	site.on, deps.FreeBytes, deps.Echo = nil, nil, nil
	if n, err = node.New(c, nil, deps); err != nil {
		t.Fatal(err)
	}
	if end, err := n.Run(t.Context()); err != nil || end.Reason != "idle" || end.Unfinished != 0 {
		t.Errorf("%+v, %v", end, err)
	}
	site.whole(t)
}

// TestDiskFullAtStart: seeds wait for room, they are not left out.
func TestDiskFullAtStart(t *testing.T) {
	site := newChainSite(t, 3)
	var looks atomic.Int64
	deps := site.deps()
	deps.FreeBytes = func() (uint64, error) {
		if looks.Add(1) == 1 {
			return 0, nil
		}
		if n := site.requests(); looks.Load() == 2 && n != 0 {
			t.Errorf("%d requests with a full disk", n)
		}
		return 1 << 40, nil
	}
	// All fetchers begin before the first look at the disk; a seed that slips in before it is accepted, and waits.
	n, err := node.New(diskConfig(t), seeds(t, "http://a.test/0"), deps)
	if err != nil {
		t.Fatal(err)
	}
	if end, err := n.Run(t.Context()); err != nil || end.Reason != "idle" || len(end.SeedsRefused) != 0 {
		t.Errorf("%+v, %v", end, err)
	}
	site.whole(t)
}

// TestDiskFullAndUnopened: a node that cannot be opened while the disk is full is an error as any other.
func TestDiskFullAndUnopened(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := goleak.IgnoreCurrent()
	c := diskConfig(t)
	c.Output.Logs = file
	n, err := node.New(c, nil, node.Deps{FreeBytes: func() (uint64, error) { return 0, nil }})
	if n != nil || err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v, want an error that names %s", err, file)
	}
	goleak.VerifyNone(t, before)
}

// TestUnwritableData: the error names the directory, and does not call it damaged or in use.
func TestUnwritableData(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		data string
		name string // what the error names
		want error  // nil: any
		root bool   // holds for root too
	}{
		"below a file":        {filepath.Join(file, "data"), file, nil, true},
		"no file system":      {"/proc/proxima-data", "/proc/proxima-data", fs.ErrNotExist, true},
		"read-only directory": {filepath.Join(t.TempDir(), "parent", "data"), "parent", fs.ErrPermission, false},
		"read-only data":      {filepath.Join(t.TempDir(), "data"), "data", fs.ErrPermission, false},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getuid() == 0 && !tc.root {
				t.Skip("root may write to directories that are read-only")
			}
			switch name {
			case "read-only directory":
				if err := os.Mkdir(filepath.Dir(tc.data), 0o500); err != nil {
					t.Fatal(err)
				}
			case "read-only data":
				for _, dir := range []string{filepath.Join(tc.data, "frontier"), tc.data} {
					if err := os.MkdirAll(dir, 0o700); err != nil {
						t.Fatal(err)
					}
					if err := os.Chmod(dir, 0o500); err != nil {
						t.Fatal(err)
					}
					defer os.Chmod(dir, 0o700)
				}
			}
			c := config(t)
			c.Node.Data = tc.data
			n, err := node.New(c, nil, node.Deps{})
			switch {
			case n != nil || err == nil:
				t.Fatal("no error")
			case !strings.Contains(err.Error(), tc.name):
				t.Errorf("%q does not name %s", err, tc.name)
			case errors.Is(err, frontier.ErrDamaged) || errors.Is(err, frontier.ErrLocked):
				t.Errorf("%q blames the data", err)
			case tc.want != nil && !errors.Is(err, tc.want):
				t.Errorf("%q, want %v", err, tc.want)
			}
		})
	}
}

// TestChainIsCrawledToItsEnd: between two pages of a chain nothing is pending and nothing under way, only being written.
// That is not the end of the crawl, whenever it is looked at.
func TestChainIsCrawledToItsEnd(t *testing.T) {
	site := newChainSite(t, 20_000)
	n, err := node.New(config(t), seeds(t, "http://a.test/0"), site.deps())
	if err != nil {
		t.Fatal(err)
	}
	if end, err := n.Run(t.Context()); err != nil || end.Reason != "idle" || end.Unfinished != 0 || end.Pages != int64(site.length) {
		t.Errorf("%d of %d pages, %d unfinished, %s: %v", end.Pages, site.length, end.Unfinished, end.Reason, err)
	}
}
