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
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"proxima/frontier"
	"proxima/node"
	"proxima/node/netsim"
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

// chain makes a web of a chain of pages. Each is found only on the page before.
func chain(t *testing.T, length int) (*netsim.Web, *netsim.Site) {
	web := newWeb(t)
	site := web.Site("a.test", public)
	paths := numbered(length)
	for i, path := range paths {
		site.Page(path, paths[i+1:min(i+2, length)]...)
	}
	return web, site
}

// eachOnce fails unless each page of a web was requested once.
func eachOnce(t *testing.T, web *netsim.Web, length int) {
	t.Helper()
	if once, again := requested(web); once != length || again != 0 {
		t.Errorf("%d pages were requested, %d requests were repeated; want each of %d pages once", once, again, length)
	}
}

// filling is a disk that becomes full while a page of a chain is under way.
type filling struct {
	free atomic.Uint64
	full chan struct{} // closed when the node has found out
}

// fill makes the disk full while a page is under way, until the node has found out.
func fill(site *netsim.Site, page int, deps *node.Deps) *filling {
	f := &filling{full: make(chan struct{})}
	f.free.Store(1 << 40)
	site.Handle(fmt.Sprintf("/%d", page), func(w http.ResponseWriter, r *http.Request) {
		f.free.Store(1<<20 - 1)
		<-f.full
		html(fmt.Sprintf("/%d", page+1))(w, r)
	})
	var once sync.Once
	deps.Echo = eventEcho(func(event string) {
		if event == runlog.EventDiskFull {
			once.Do(func() { close(f.full) })
		}
	})
	return f
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
	web, site := chain(t, 30)
	var n *node.Node
	paused := -1 // requests when the last download had ended, -1 before
	deps := depsOf(web)
	disk := fill(site, 9, &deps)
	deps.FreeBytes = func() (uint64, error) {
		// One look after the last download ended, the number of requests is noted; at the next it is the same, and only then
		// there is room.
		if s := n.Status(); s.Frontier.Paused != "" && s.Frontier.InFlight == 0 && s.Frontier.Done == 10 {
			if asked := len(pages(web.Visits(nil))); paused < 0 {
				paused = asked
			} else {
				if asked != paused {
					t.Errorf("%d requests with a full disk", asked-paused)
				}
				disk.free.Store(1 << 40)
			}
		}
		return disk.free.Load(), nil
	}
	c := diskConfig(t)
	n, err := node.New(c, seeds(t, "http://a.test/0"), deps)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan node.Status, 1)
	go func() {
		<-disk.full
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
	eachOnce(t, web, 30)
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
	web.Close()
	goleak.VerifyNone(t, before)
}

// TestDiskFullStop stops a node while its disk is full. The next run has all that the first accepted.
func TestDiskFullStop(t *testing.T) {
	web, site := chain(t, 20)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var n *node.Node
	deps := depsOf(web)
	disk := fill(site, 4, &deps)
	deps.FreeBytes = func() (uint64, error) {
		if s := n.Status(); s.Frontier.Paused != "" && s.Frontier.Done == 5 {
			stop()
		}
		return disk.free.Load(), nil
	}
	c := diskConfig(t)
	n, err := node.New(c, seeds(t, "http://a.test/0"), deps)
	if err != nil {
		t.Fatal(err)
	}
	if end, err := n.Run(ctx); err != nil || end.Reason != "stopped" || end.Unfinished != 1 {
		t.Fatalf("%+v, %v", end, err)
	}
	if n, err = node.New(c, nil, depsOf(web)); err != nil {
		t.Fatal(err)
	}
	if end, err := n.Run(t.Context()); err != nil || end.Reason != "idle" || end.Unfinished != 0 {
		t.Errorf("%+v, %v", end, err)
	}
	eachOnce(t, web, 20)
}

// TestDiskFullAtStart: seeds wait for room, they are not left out.
func TestDiskFullAtStart(t *testing.T) {
	web, _ := chain(t, 3)
	var looks atomic.Int64
	deps := depsOf(web)
	deps.FreeBytes = func() (uint64, error) {
		if looks.Add(1) == 1 {
			return 0, nil
		}
		if n := len(pages(web.Visits(nil))); looks.Load() == 2 && n != 0 {
			t.Errorf("%d requests with a full disk", n)
		}
		return 1 << 40, nil
	}
	n, err := node.New(diskConfig(t), seeds(t, "http://a.test/0"), deps)
	if err != nil {
		t.Fatal(err)
	}
	if end, err := n.Run(t.Context()); err != nil || end.Reason != "idle" || len(end.SeedsRefused) != 0 {
		t.Errorf("%+v, %v", end, err)
	}
	eachOnce(t, web, 3)
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
	const length = 20_000
	web, _ := chain(t, length)
	n, err := node.New(config(t), seeds(t, "http://a.test/0"), depsOf(web))
	if err != nil {
		t.Fatal(err)
	}
	if end, err := n.Run(t.Context()); err != nil || end.Reason != "idle" || end.Unfinished != 0 || end.Pages != length {
		t.Errorf("%d of %d pages, %d unfinished, %s: %v", end.Pages, length, end.Unfinished, end.Reason, err)
	}
}
