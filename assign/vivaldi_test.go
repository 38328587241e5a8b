package assign_test

import (
	"strings"
	"testing"
	"time"

	"proxima/assign"
	"proxima/ncoord"
)

func TestVivaldiTicks(t *testing.T) {
	w := newWorld(madeUp(40, 1), worldConfig{Nodes: 5, Servers: 6, Seed: 1})
	cfg := assign.Default()
	cfg.Vivaldi.MaxTicks = 3
	for unconverged, want := range map[string]string{assign.UnconvergedDistance: "least distance, not converged",
		assign.UnconvergedGeographic: "over the ground", assign.UnconvergedRandom: "random draw, not converged"} {
		cfg.Vivaldi.Unconverged = unconverged
		now := time.Unix(100, 0)
		a, err := assign.New(assign.Vivaldi, cfg, w.Batch(), w.View(), now)
		if err != nil {
			t.Fatal(err)
		}
		for tick := range 3 {
			asks := a.Asks(now)
			if len(asks) != 6 {
				t.Fatalf("tick %d: %d asks for 6 servers", tick, len(asks))
			}
			for _, ask := range asks {
				if ask.Node != asks[0].Node {
					t.Errorf("tick %d asks %s and %s", tick, asks[0].Node, ask.Node)
				}
				a.Observe(w.Answer(ask), now)
			}
			next, ok := a.Next(now)
			if !ok || next.Sub(now) != 10*time.Second {
				t.Errorf("the next tick is at %v (%v)", next, ok)
			}
			if asks := a.Asks(now.Add(9 * time.Second)); len(asks) > 0 {
				t.Errorf("asks %v between ticks", asks)
			}
			now = next
		}
		p, done := a.Decide(now)
		if !done || !strings.Contains(p[0].Reason, want) {
			t.Errorf("%s: %v, %+v; want %q", unconverged, done, p, want)
		}
	}
}

// A tick that comes late by less than its length does not move the next ones; after a longer pause they begin anew.
func TestVivaldiKeepsItsRhythm(t *testing.T) {
	w := newWorld(madeUp(40, 1), worldConfig{Nodes: 5, Servers: 6, Seed: 1})
	cfg := assign.Default()
	cfg.Vivaldi.Tick = 10 * time.Second
	a, err := assign.New(assign.Vivaldi, cfg, w.Batch(), w.View(), time.Unix(100, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ at, next int64 }{{100, 110}, {113, 120}, {120, 130}, {139, 140}, {150, 160}, {185, 195}} {
		a.Asks(time.Unix(c.at, 0))
		if next, ok := a.Next(time.Unix(c.at, 0)); !ok || next.Unix() != c.next {
			t.Errorf("after the tick at %d the next is at %d, %v, want %d", c.at, next.Unix(), ok, c.next)
		}
	}
}

// In mode persistent the next round goes on from the places of the last, and one tick is enough while nothing has changed.
func TestVivaldiGoesOn(t *testing.T) {
	w := newWorld(madeUp(60, 2), worldConfig{Nodes: 8, Servers: 20, Seed: 2})
	cfg := assign.Default()
	cfg.Vivaldi.Theta = 0.6 // within its ticks in this small world
	a, err := assign.New(assign.Vivaldi, cfg, w.Batch(), w.View(), time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	first, now := w.Decide(a, time.Unix(0, 0), cfg.Vivaldi.Tick)
	b := w.Batch()
	b.Before = a
	next, err := assign.New(assign.Vivaldi, cfg, b, w.View(), now)
	if err != nil {
		t.Fatal(err)
	}
	if _, done := next.Decide(now); done {
		t.Error("decided without a tick")
	}
	asks := next.Asks(now)
	if _, done := next.Decide(now); done {
		t.Error("decided before the tick was answered")
	}
	for _, ask := range asks {
		next.Observe(w.Answer(ask), now)
	}
	second, _ := w.Decide(next, now, cfg.Vivaldi.Tick)
	if second[0].Estimates != 1 {
		t.Errorf("%d estimates in the second round, %d in the first; want 1", second[0].Estimates, first[0].Estimates)
	}
	if one, two := w.Judge(first).Ratio, w.Judge(second).Ratio; two > 1.2*one {
		t.Errorf("choice ratio %.2f, and %.2f in the second round", one, two)
	}
}

// A tick that finds a server still being asked does not count for it: slow answers cost time, not estimates.
func TestVivaldiCountsWhatItAsked(t *testing.T) {
	w := newWorld(madeUp(40, 3), worldConfig{Nodes: 5, Servers: 2, Seed: 3})
	cfg := assign.Default()
	cfg.Vivaldi.MaxTicks, cfg.Vivaldi.Theta = 4, 0.001
	now := time.Unix(100, 0)
	a, err := assign.New(assign.Vivaldi, cfg, w.Batch(), w.View(), now)
	if err != nil {
		t.Fatal(err)
	}
	slow := w.Servers[1].Addr
	var out []assign.Ask // answered five ticks later
	for tick := range 40 {
		if _, done := a.Decide(now); done {
			break
		}
		for _, ask := range a.Asks(now) {
			if ask.Server == slow {
				out = append(out, ask)
			} else {
				a.Observe(w.Answer(ask), now)
			}
		}
		if tick%5 == 4 && len(out) > 0 {
			a.Observe(w.Answer(out[0]), now)
			out = nil
		}
		now = now.Add(cfg.Vivaldi.Tick)
	}
	p, done := a.Decide(now)
	if !done || p[0].Estimates != 4 || p[1].Estimates != 4 {
		t.Errorf("decided: %v, by %d and %d estimates; want 4 and 4", done, p[0].Estimates, p[1].Estimates)
	}
}

// An estimate moves the server if it was answered, within a time that a download can take. It counts from where the node is published to be.
func TestVivaldiBelievesTimesThatCanBe(t *testing.T) {
	w := newWorld(madeUp(40, 3), worldConfig{Nodes: 5, Servers: 1, Seed: 3})
	for _, c := range []struct {
		ok    bool
		total time.Duration
		moves bool
	}{
		{true, 500 * time.Microsecond, true}, {true, time.Hour, true},
		{true, 0, false}, {true, time.Hour + time.Millisecond, false}, {false, time.Second, false},
	} {
		now := time.Unix(100, 0)
		a, err := assign.New(assign.Vivaldi, assign.Default(), w.Batch(), w.View(), now)
		if err != nil {
			t.Fatal(err)
		}
		a.Decide(now)
		r := w.Answer(a.Asks(now)[0])
		r.OK, r.Timing = c.ok, assign.Timing{Connect: c.total / 4, FirstByte: c.total / 2, Total: c.total, Bytes: 1000, Fresh: true}
		r.Coord = ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{50_000}, Error: 0.1}
		a.Observe(r, now)
		if m := a.Memory(w.Servers[0].Addr); (m != nil && m.Proxy.Updates > 0) != c.moves || m != nil && c.total < time.Second && m.Proxy.Coord.Vec[0] > 10_000 {
			t.Errorf("%v, answered %v: it is known by %+v", c.total, c.ok, m)
		}
	}
}

// A server's place outlives the batch: it goes over the wire with the lease, its owner's downloads move it, and the next batch begins
// with it where Keep says so.
func TestVivaldiKeepsPlaces(t *testing.T) {
	w := newWorld(madeUp(60, 2), worldConfig{Nodes: 8, Servers: 20, Seed: 2})
	cfg := assign.Default()
	cfg.Vivaldi.Theta, cfg.Vivaldi.Keep = 0.6, true
	decide := func(b assign.Batch, keep bool, now time.Time) (assign.Assigner, []assign.Choice, time.Time) {
		c := cfg
		c.Vivaldi.Keep = keep
		a, err := assign.New(assign.Vivaldi, c, b, w.View(), now)
		if err != nil {
			t.Fatal(err)
		}
		choices, now := w.Decide(a, now, c.Vivaldi.Tick)
		return a, choices, now
	}
	a, first, now := decide(w.Batch(), true, time.Unix(0, 0))
	b := w.Batch()
	for i := range b.Servers {
		m, err := assign.DecodeMemory(a.Memory(b.Servers[i].Addr).AppendBinary(nil, now), now)
		if err != nil {
			t.Fatal(err)
		}
		owner := w.NodeIndex(first[i].Node)
		before := m.Proxy
		for range 10 {
			slow := w.Download(owner, i)
			slow.Total += time.Second
			m.Observe(first[i].Node, w.Nodes[owner].Coord, slow, now)
		}
		at := w.Nodes[owner].Coord
		if d, was := ncoord.Distance(at, m.Proxy.Coord), ncoord.Distance(at, before.Coord); d < was+100 || m.Proxy.Updates != before.Updates+10 {
			t.Errorf("server %d is %.0f ms from its owner after ten slow downloads, %.0f before; %d updates after %d", i, d, was,
				m.Proxy.Updates, before.Updates)
		}
		m.Proxy = before
		b.Servers[i].Memory = m
	}
	_, kept, _ := decide(b, true, now)
	_, anew, _ := decide(b, false, now)
	if kept[0].Estimates != 1 || anew[0].Estimates < 5 {
		t.Errorf("%d estimates with kept places, %d without, %d in the first batch; want 1 and many", kept[0].Estimates,
			anew[0].Estimates, first[0].Estimates)
	}
	if one, two := w.Judge(first).Ratio, w.Judge(kept).Ratio; two > 1.2*one {
		t.Errorf("choice ratio %.2f, and %.2f with kept places", one, two)
	}
}
