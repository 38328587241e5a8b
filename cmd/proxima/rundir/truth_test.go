package rundir

import (
	"errors"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func world() World {
	a := netip.MustParseAddr("198.18.0.1")
	return World{Scenario: "s", Seed: 3, Started: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Assigners: []string{"nearest"},
		Nodes:   []Node{{Name: "near", Down: 1000}, {Name: "far", Down: 10_000, LoadMs: 5}},
		Servers: []Server{{Addr: a, ThinkMs: 20, Up: 500}},
		RTTMs:   [][]float64{{20}, {30}},
		Events: []Event{
			{AtS: 10, Kind: EventBandwidth, Node: "near", Factor: .1},
			{AtS: 20, Kind: EventBandwidth, Node: "near", Factor: 1},
			{AtS: 30, Kind: EventSlow, Server: a, AddMs: 5000},
			{AtS: 40, Kind: EventSlow, Server: a, AddMs: 0},
			{AtS: 50, Kind: EventCPU, Node: "near", AddMs: 100},
			{AtS: 60, Kind: EventCPU, Node: "near"},
			{AtS: 70, Kind: EventKill, Node: "near"},
			{AtS: 80, Kind: EventRestart, Node: "near"},
		}}
}

func TestTruthBetweenEvents(t *testing.T) {
	w := world()
	const bytes = 7_240 // fits the first window, and takes 7,500 with headers
	for _, c := range []struct {
		at        float64
		near, far float64 // ms
		best      int
	}{
		{-5, 40 + 20 + 15, 60 + 20 + 5 + 15, 0}, // the server's 500 bytes a ms bound both
		{9.99, 75, 100, 0},
		{10, 40 + 20 + 75, 100, 1}, // 100 bytes a ms
		{20, 75, 100, 0},
		{35, 5075, 5100, 0}, // thought cancels
		{40, 75, 100, 0},
		{55, 175, 100, 1},
		{65, 75, 100, 0},
		{75, 75, 100, 1}, // near is dead
		{85, 75, 100, 0},
	} {
		at := w.Started.Add(time.Duration(c.at * float64(time.Second)))
		near, far := w.DownloadMs(0, 0, bytes, at), w.DownloadMs(1, 0, bytes, at)
		if math.Abs(near-c.near)+math.Abs(far-c.far) > 1e-9 {
			t.Errorf("at %v s: %v and %v ms, want %v and %v", c.at, near, far, c.near, c.far)
		}
		best, ms := w.Best(0, bytes, at, func(i int) bool { return w.Alive(i, at) })
		if best != c.best || math.Abs(ms-[]float64{c.near, c.far}[c.best]) > 1e-9 {
			t.Errorf("at %v s: best is %d with %v ms, want %d", c.at, best, ms, c.best)
		}
	}
	if best, _ := w.Best(0, bytes, w.Started, func(int) bool { return false }); best != -1 {
		t.Errorf("best of nobody: %d", best)
	}
	if d := cmp.Diff(world(), w, cmpopts.EquateComparable(netip.Addr{})); d != "" {
		t.Errorf("the world was changed:\n%s", d)
	}
}

func TestFilesComeBack(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadWorld(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	w := world()
	if err := WriteWorld(dir, w); err != nil {
		t.Fatal(err)
	}
	w.V = Version
	if got, err := ReadWorld(dir); err != nil || cmp.Diff(w, got, cmpopts.EquateComparable(netip.Addr{})) != "" {
		t.Errorf("%v\n%s", err, cmp.Diff(w, got, cmpopts.EquateComparable(netip.Addr{})))
	}
	b := Testbed{V: Version, Emulation: "veth", Why: []string{"late"}, DelayErrorP99Ms: 3, Congestion: "reno"}
	if err := WriteTestbed(dir, b); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadTestbed(dir); err != nil || cmp.Diff(b, got) != "" {
		t.Errorf("%v\n%s", err, cmp.Diff(b, got))
	}
	if err := os.WriteFile(filepath.Join(dir, WorldFile), []byte(`{"v": 99}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadWorld(dir); err == nil || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("a later version: %v", err)
	}
	path := filepath.Join(dir, WorldFile)
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadWorld(dir); err == nil || !strings.Contains(err.Error(), path+": it is no regular file") { // nobody writes to it
		t.Errorf("a pipe: %v", err)
	}
}
