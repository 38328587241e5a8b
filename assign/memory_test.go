package assign_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"proxima/assign"
	"proxima/ncoord"
)

// full is a memory that holds as much as one can.
func full(t testing.TB, seed uint64) assign.Memory {
	t.Helper()
	w := newWorld(madeUp(40, seed), worldConfig{Nodes: assign.MaxMemoryNodes, Servers: 1, Seed: seed})
	m := assign.Memory{Location: &ncoord.Location{Lat: 52.5, Lon: 13.25}}
	for i := range 600 {
		n := i % len(w.Nodes)
		m.Observe(w.Nodes[n].ID, w.Nodes[n].Coord, w.Download(n, 0), time.Unix(int64(1000+i), 0))
	}
	return m
}

func TestMemoryRoundTrip(t *testing.T) {
	now := time.Unix(2000, 0)
	for _, m := range []assign.Memory{{}, full(t, 1), {Spread: true, PageBytes: 1000}} {
		b := m.AppendBinary([]byte("x"), now)[1:]
		if len(b) > assign.MaxMemorySize || m.Downloads() == 600 && len(b) < 1500 {
			t.Errorf("%d bytes of at most %d, after %d downloads", len(b), assign.MaxMemorySize, m.Downloads())
		}
		got, err := assign.DecodeMemory(b, now)
		if err != nil {
			t.Fatal(err)
		}
		if again := got.AppendBinary(nil, now); !bytes.Equal(again, b) {
			t.Error("what was decoded is encoded differently")
		}
		recent, usual, _ := m.Think()
		if r, u, _ := got.Think(); math.Abs(r-recent) > recent/100 || math.Abs(u-usual) > usual/100 || math.Abs(got.PageBytes-m.PageBytes) > m.PageBytes/100 {
			t.Errorf("it thinks for %v and usually %v ms, before for %v and %v; pages of %v bytes, before of %v", r, u, recent, usual, got.PageBytes, m.PageBytes)
		}
		if got.Downloads() != m.Downloads() || got.Spread != m.Spread || got.Proxy.Updates != m.Proxy.Updates {
			t.Errorf("got %+v, want %+v", got, m)
		}
		v := assign.View{Nodes: []assign.Node{{ID: "node0003", Location: &ncoord.Location{Lat: 48, Lon: 2}}}}
		p1, p2 := assign.Predictions(&m, v)[0], assign.Predictions(&got, v)[0]
		if math.Abs(p1.Ms/p2.Ms-1) > 0.01 || math.Abs(p1.Ms*p1.Error/(p2.Ms*p2.Error)-1) > 0.01 {
			t.Errorf("it predicts %+v after decoding, %+v before", p2, p1)
		}
		if a1, _ := m.Age(now); m.Downloads() > 0 {
			if a2, ok := got.Age(now.Add(time.Hour)); !ok || a2-a1 != time.Hour {
				t.Errorf("age %v, want an hour more than %v", a2, a1)
			}
		}
	}
}

func TestMemoryDecodeRefuses(t *testing.T) {
	m := full(t, 3)
	now := time.Unix(2000, 0)
	b := m.AppendBinary(nil, now)
	for n := range b {
		if _, err := assign.DecodeMemory(b[:n], now); err == nil {
			t.Fatalf("the first %d of %d bytes were taken", n, len(b))
		}
	}
	last := len(b) - 8 // the last download
	for name, bad := range map[string][]byte{
		"a byte more":     append(bytes.Clone(b), 0),
		"no first byte":   slices.Replace(bytes.Clone(b), last+2, last+4, 0, 0),
		"a later version": append([]byte{b[0] + 1}, b[1:]...),
		"an earlier one":  append([]byte{b[0] - 1}, b[1:]...),
		"another flag":    append([]byte{b[0], b[1] | 0x80}, b[2:]...),
		"no place of the globe": bytes.Replace(b, binary.LittleEndian.AppendUint32(nil, math.Float32bits(52.5)),
			binary.LittleEndian.AppendUint32(nil, math.Float32bits(91)), 1),
	} {
		if _, err := assign.DecodeMemory(bad, now); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func FuzzDecodeMemory(f *testing.F) {
	now := time.Unix(1e9, 0)
	m, empty := full(f, 4), assign.Memory{}
	f.Add(m.AppendBinary(nil, now))
	f.Add(empty.AppendBinary(nil, now))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := assign.DecodeMemory(b, now)
		if err != nil {
			return
		}
		again := m.AppendBinary(nil, now)
		back, err := assign.DecodeMemory(again, now)
		if err != nil || !bytes.Equal(back.AppendBinary(nil, now), again) {
			t.Fatalf("decoded, encoded and decoded: %v", err)
		}
		m.Observe("n", ncoord.Coordinate{Error: 1}, assign.Timing{Connect: 1e6, FirstByte: 2e6, Total: 4e6, Bytes: 100}, now)
		for _, p := range assign.Predictions(&m, assign.View{Nodes: []assign.Node{{ID: "n"}, {ID: "k"}}}) {
			if !(p.Ms > 0 && p.Ms < 1e12) || !(p.Error >= 0) {
				t.Fatalf("predicts %+v", p)
			}
		}
		if s := m.Slowed(); !(s >= 1) {
			t.Fatalf("slowed %v", s)
		}
	})
}

// The node that was heard of longest ago makes room, wherever it stands.
func TestMemoryForgetsWhoWasHeardOfLongestAgo(t *testing.T) {
	d := assign.Timing{Connect: 20e6, FirstByte: 50e6, Total: 100e6, Bytes: 10_000}
	for oldest := range assign.MaxMemoryNodes {
		var m assign.Memory
		var v assign.View
		for i := range assign.MaxMemoryNodes + 1 {
			at := 100 + i
			if i == oldest {
				at = 50
			}
			v.Nodes = append(v.Nodes, assign.Node{ID: fmt.Sprint(i)})
			m.Observe(fmt.Sprint(i), ncoord.Coordinate{}, d, time.Unix(int64(at), 0))
		}
		for _, p := range assign.Predictions(&m, v) {
			if forgotten := p.Node == fmt.Sprint(oldest); (p.Seen == 0) != forgotten {
				t.Errorf("node %d is the oldest, and of node %s %d downloads are remembered", oldest, p.Node, p.Seen)
			}
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	m := full(t, 5)
	now := time.Unix(2000, 0)
	before := m.AppendBinary(nil, now)
	c := m.Clone()
	c.Location.Lat = 1
	for i := range 20 {
		c.Observe(fmt.Sprintf("node%04d", i), ncoord.Coordinate{Error: 1}, assign.Timing{FirstByte: 1e6, Total: 2e6}, now)
	}
	if !bytes.Equal(m.AppendBinary(nil, now), before) {
		t.Error("a change of the copy changed the original")
	}
}
