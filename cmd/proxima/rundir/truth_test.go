package rundir

import (
	"errors"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestTransferByHand: 100 ms, 1,250 bytes a ms (10 Mbit/s), 14,480 bytes at first; a round takes a segment longer than the round trip.
func TestTransferByHand(t *testing.T) {
	const perByte = 1500 / 1448. / 1250
	for _, c := range []struct {
		bytes     int64
		rtt, rate float64
		want      float64
	}{
		{0, 100, 1250, 0},
		{1_448, 100, 1250, 1.2},
		{14_480, 100, 1250, 12},
		{20_000, 100, 1250, 101.2 + 5_520*perByte},
		{100_000, 100, 1250, 202.4 + (100_000-14_480-28_960)*perByte},
		// 14,480 + 28,960 + 57,920 + 115,840 in four rounds; 231,680 at once would fill the pipe.
		{1_000_000, 100, 1250, 404.8 + (1_000_000-217_200)*perByte},
		{1_000_000, 100, 0, 600}, // without a bound: 14,480 × 63 = 912,240 in six round trips
		{1_448_000, 1, 100, 15_000},
		{20_000, 0, 0, 0},
	} {
		if got := TransferMs(c.rtt, c.rate, c.bytes); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d bytes over %v ms at %v bytes/ms: %v ms, want %v", c.bytes, c.rtt, c.rate, got, c.want)
		}
	}
}

// TestDownloadAsMeasured: kernels took 202, 308, 451 and 1258 ms for these pages over such a path, with their headers.
func TestDownloadAsMeasured(t *testing.T) {
	for bytes, measured := range map[int64]float64{1_000: 202, 20_000: 308, 100_000: 451, 1_000_000: 1258} {
		if got := DownloadMs(100, 1250, 0, 0, bytes); math.Abs(got-measured) > .01*measured {
			t.Errorf("%d bytes: %v ms, measured %v", bytes, got, measured)
		}
	}
	if got := DownloadMs(100, 1250, 30, 7, 0); got != 237 {
		t.Errorf("with thought and load: %v", got)
	}
}

func world() World {
	a := netip.MustParseAddr("198.18.0.1")
	return World{Scenario: "s", Seed: 3, Started: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Assigners: []string{"nearest"},
		Nodes:   []Node{{Name: "near", Down: 1000}, {Name: "far", Down: 10_000, LoadMs: 5}},
		Servers: []Server{{Addr: a, ThinkMs: 20, Up: 500}},
		RTTMs:   [][]float64{{20}, {30}},
		Events: []Event{ // not in order
			{AtS: 40, Kind: EventSlow, Server: a, AddMs: 0},
			{AtS: 10, Kind: EventBandwidth, Node: "near", Factor: .1},
			{AtS: 20, Kind: EventBandwidth, Node: "near", Factor: 1},
			{AtS: 30, Kind: EventSlow, Server: a, AddMs: 5000},
			{AtS: 50, Kind: EventCPU, Node: "near", AddMs: 100},
			{AtS: 60, Kind: EventCPU, Node: "near"},
			{AtS: 70, Kind: EventKill, Node: "near"},
			{AtS: 80, Kind: EventRestart, Node: "near"},
		}}
}

func TestTruthBetweenEvents(t *testing.T) {
	w := world()
	truth := NewTruth(w)
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
		near, far := truth.DownloadMs(0, 0, bytes, at), truth.DownloadMs(1, 0, bytes, at)
		if math.Abs(near-c.near)+math.Abs(far-c.far) > 1e-9 {
			t.Errorf("at %v s: %v and %v ms, want %v and %v", c.at, near, far, c.near, c.far)
		}
		best, ms := truth.Best(0, bytes, at, func(i int) bool { return truth.Alive(i, at) })
		if best != c.best || math.Abs(ms-[]float64{c.near, c.far}[c.best]) > 1e-9 {
			t.Errorf("at %v s: best is %d with %v ms, want %d", c.at, best, ms, c.best)
		}
	}
	if best, _ := truth.Best(0, bytes, w.Started, func(int) bool { return false }); best != -1 {
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
}
