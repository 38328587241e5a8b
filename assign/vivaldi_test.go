package assign_test

import (
	"testing"
	"time"

	"proxima/assign"
	"proxima/ncoord"
)

// A tick asks one node about all servers. One that comes late by less than its length does not move the next ones; after a longer pause
// they begin anew. The batch is decided after the last.
func TestVivaldiTicks(t *testing.T) {
	w := newWorld(madeUp(40, 1), worldConfig{Nodes: 5, Servers: 6, Seed: 1})
	ticks := []struct{ at, next int64 }{{100, 110}, {113, 120}, {120, 130}, {139, 140}, {150, 160}, {185, 195}}
	cfg := assign.Default()
	cfg.Vivaldi.Tick, cfg.Vivaldi.MaxTicks = 10*time.Second, len(ticks)
	a := build(t, assign.Vivaldi, cfg, w.Batch(), w.View(), time.Unix(100, 0))
	for _, tick := range ticks {
		now := time.Unix(tick.at, 0)
		asks := a.Asks(now)
		if len(asks) != 6 {
			t.Fatalf("the tick at %d has %d asks for 6 servers", tick.at, len(asks))
		}
		for _, ask := range asks {
			if ask.Node != asks[0].Node {
				t.Errorf("the tick at %d asks %s and %s", tick.at, asks[0].Node, ask.Node)
			}
			a.Observe(w.Answer(ask), now)
		}
		if next, ok := a.Next(now); !ok || next.Unix() != tick.next {
			t.Errorf("after the tick at %d the next is at %d, %v, want %d", tick.at, next.Unix(), ok, tick.next)
		}
		if asks := a.Asks(time.Unix(tick.next-1, 0)); len(asks) > 0 {
			t.Errorf("it asks %v between ticks", asks)
		}
	}
	if choices, done := a.Decide(time.Unix(195, 0)); !done {
		t.Errorf("after the last tick it has not decided: %+v", choices)
	}
}

// The next round goes on from the places of the last: from those of the assigner before it, or, where Keep says so, from those that went
// over the wire with the servers' leases. One tick is enough while nothing has changed.
func TestVivaldiGoesOn(t *testing.T) {
	w := newWorld(madeUp(60, 2), worldConfig{Nodes: 8, Servers: 20, Seed: 2})
	cfg := assign.Default()
	cfg.Vivaldi.Theta = 0.6 // within its ticks in this small world
	before := build(t, assign.Vivaldi, cfg, w.Batch(), w.View(), time.Unix(0, 0))
	first, now := w.Decide(before, time.Unix(0, 0), cfg.Vivaldi.Tick)
	persistent, carried := w.Batch(), w.Batch()
	persistent.Before = before
	for i := range carried.Servers {
		m, err := assign.DecodeMemory(before.Memory(carried.Servers[i].Addr).AppendBinary(nil, now), now)
		if err != nil {
			t.Fatal(err)
		}
		carried.Servers[i].Memory = m
	}
	for _, c := range []struct {
		batch       assign.Batch
		keep        bool
		least, most int // estimates
	}{{persistent, false, 1, 1}, {carried, true, 1, 1}, {carried, false, 5, 300}} {
		cfg.Vivaldi.Keep = c.keep
		a := build(t, assign.Vivaldi, cfg, c.batch, w.View(), now)
		if _, done := a.Decide(now); done {
			t.Error("decided without a tick")
		}
		asks := a.Asks(now)
		if _, done := a.Decide(now); done {
			t.Error("decided before the tick was answered")
		}
		for _, ask := range asks {
			a.Observe(w.Answer(ask), now)
		}
		second, _ := w.Decide(a, now, cfg.Vivaldi.Tick)
		if n := second[0].Estimates; n < c.least || n > c.most {
			t.Errorf("keep %v: %d estimates in the second round, %d in the first", c.keep, n, first[0].Estimates)
		}
		if one, two := w.Judge(first).Ratio, w.Judge(second).Ratio; c.most == 1 && two > 1.2*one {
			t.Errorf("keep %v: choice ratio %.2f, and %.2f in the second round", c.keep, one, two)
		}
	}
}

// Downloads by its owner move the place of a server, away from an owner for whom they are slow.
func TestDownloadsMoveThePlaceOfAServer(t *testing.T) {
	w := newWorld(madeUp(60, 2), worldConfig{Nodes: 2, Servers: 1, Seed: 2})
	var m assign.Memory
	download := func(delay time.Duration) float64 {
		for range 10 {
			d := w.Download(0, 0)
			d.Total += delay
			m.Observe(w.Nodes[0].ID, w.Nodes[0].Coord, d, time.Unix(0, 0))
		}
		return ncoord.Distance(w.Nodes[0].Coord, m.Proxy.Coord)
	}
	if was, is := download(0), download(time.Second); is < was+100 || m.Proxy.Updates != 20 {
		t.Errorf("it is %.0f ms from its owner after ten slow downloads, %.0f before, after %d updates", is, was, m.Proxy.Updates)
	}
}

// A tick that finds a server still being asked does not count for it: slow answers cost time, not estimates.
func TestVivaldiCountsWhatItAsked(t *testing.T) {
	w := newWorld(madeUp(40, 3), worldConfig{Nodes: 5, Servers: 2, Seed: 3})
	cfg := assign.Default()
	cfg.Vivaldi.MaxTicks, cfg.Vivaldi.Theta = 4, 0.001
	now := time.Unix(100, 0)
	a := build(t, assign.Vivaldi, cfg, w.Batch(), w.View(), now)
	slow := w.Servers[1].Addr
	var late []assign.Ask // answered five ticks later
	for tick := range 40 {
		for _, ask := range a.Asks(now) {
			if ask.Server == slow {
				late = append(late, ask)
			} else {
				a.Observe(w.Answer(ask), now)
			}
		}
		if tick%5 == 4 && len(late) > 0 {
			a.Observe(w.Answer(late[0]), now)
			late = nil
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
		a := build(t, assign.Vivaldi, assign.Default(), w.Batch(), w.View(), now)
		a.Decide(now)
		r := w.Answer(a.Asks(now)[0])
		r.OK, r.Timing = c.ok, assign.Timing{Connect: c.total / 4, FirstByte: c.total / 2, Total: c.total, Bytes: 1000}
		r.Coord = ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{50_000}, Error: 0.1}
		a.Observe(r, now)
		if m := a.Memory(w.Servers[0].Addr); (m != nil && m.Proxy.Updates > 0) != c.moves || m != nil && c.total < time.Second && m.Proxy.Coord.Vec[0] > 10_000 {
			t.Errorf("%v, answered %v: it is known by %+v", c.total, c.ok, m)
		}
	}
}
