package assign_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"proxima/assign"
	"proxima/ncoord"
)

func TestConformance(t *testing.T) {
	for _, name := range assign.Names() {
		t.Run(name, func(t *testing.T) { conformance(t, name) })
	}
}

// conformance checks what every assigner must do: decide in the end whatever happens, give each server exactly one live node, ask only
// live nodes and only one at a time for each server, and be deterministic for a seed.
func conformance(t *testing.T, name string) {
	t.Run("decides for every server", func(t *testing.T) {
		for _, size := range []struct{ nodes, servers int }{{1, 1}, {1, 5}, {2, 3}, {9, 20}} {
			w := newWorld(madeUp(40, 1), worldConfig{Nodes: size.nodes, Servers: size.servers, Seed: 1})
			d := start(t, name, w, w.Batch(), w.View(), 1)
			d.run()
		}
	})
	t.Run("decides again by what it has learnt", func(t *testing.T) {
		w := newWorld(madeUp(40, 1), worldConfig{Nodes: 9, Servers: 20, Seed: 1})
		b := w.Batch()
		for range 3 {
			d, at := start(t, name, w, b, w.View(), 1), time.Unix(1000, 0)
			before := b.Servers[0].Memory.AppendBinary(nil, at)
			d.run()
			if !bytes.Equal(b.Servers[0].Memory.AppendBinary(nil, at), before) {
				t.Error("it has changed the caller's memory of a server")
			}
			for i := range b.Servers {
				if m := d.a.Memory(b.Servers[i].Addr); m != nil {
					b.Servers[i].Memory = m.Clone()
				}
			}
		}
	})
	t.Run("concludes at once", func(t *testing.T) {
		w := newWorld(madeUp(40, 1), worldConfig{Nodes: 9, Servers: 20, Seed: 1})
		for answers := range 3 { // with nothing known, and amid its asks
			d := start(t, name, w, w.Batch(), w.View(), 1)
			for range answers {
				for _, ask := range d.a.Asks(d.now) {
					d.a.Observe(w.Answer(ask), d.now)
				}
			}
			late := d.a.Asks(d.now)
			concluded := d.a.Conclude(d.now)
			for _, ask := range late[:len(late)/2] { // the others are never answered
				d.a.Observe(w.Answer(ask), d.now)
			}
			if p, done := d.a.Decide(d.now); !done || len(p) != 20 || !reflect.DeepEqual(p, concluded) {
				t.Errorf("it concluded\n%+v, and decided (%v)\n%+v", concluded, done, p)
			}
			for _, c := range concluded {
				if w.NodeIndex(c.Node) < 0 {
					t.Errorf("concluded %+v", c)
				}
			}
			if asks := d.a.Asks(d.now); len(asks) > 0 {
				t.Errorf("it asks %v after it has concluded", asks)
			}
		}
	})
	t.Run("decides without servers, and without nodes", func(t *testing.T) {
		w := newWorld(madeUp(40, 2), worldConfig{Nodes: 3, Servers: 4, Seed: 2})
		start(t, name, w, assign.Batch{ID: "empty"}, w.View(), 2).run()
		d := start(t, name, w, w.Batch(), assign.View{}, 2)
		if _, done := d.a.Decide(d.now); !done {
			t.Error("it waits for a node")
		}
		for _, c := range d.decided() {
			if c.Node != "" || c.Reason == "" {
				t.Errorf("without nodes it chose %+v", c)
			}
		}
	})
	t.Run("decides when nothing is known and all fail", func(t *testing.T) {
		w := newWorld(madeUp(40, 3), worldConfig{Nodes: 5, Servers: 6, Seed: 3, Unknown: true})
		for _, n := range w.Nodes {
			w.deaf = append(w.deaf, n.ID)
		}
		b := w.Batch()
		start(t, name, w, b, w.View(), 3).run()
		for i := range b.Servers { // nor did any node reach it before
			b.Servers[i].Memory.Spread = i%2 == 0
			for _, id := range w.deaf {
				b.Servers[i].Memory.Fail(id, time.Unix(1000, 0))
			}
		}
		start(t, name, w, b, w.View(), 3).run()
	})
	t.Run("bears any answer", func(t *testing.T) {
		for seed := range uint64(8) {
			w := newWorld(madeUp(40, seed), worldConfig{Nodes: 6, Servers: 10, Seed: seed})
			d := start(t, name, w, w.Batch(), w.View(), seed)
			d.wild, d.answer = true, func(a assign.Ask) assign.Result { return wild(d.rnd, a) }
			d.run()
		}
	})
	t.Run("never chooses or asks the dead", func(t *testing.T) {
		for seed := range uint64(8) {
			w := newWorld(madeUp(40, seed), worldConfig{Nodes: 8, Servers: 12, Seed: seed})
			d := start(t, name, w, w.Batch(), w.View(), seed)
			d.dying = true
			before := d.run()
			// And after it has decided: their servers go to others, and only those. In the end all are dead.
			for n := len(d.view.Nodes) - 1; n >= 0; n-- {
				d.kill(n)
				after := d.decided()
				for i, c := range before {
					if d.alive(c.Node) && after[i].Node != c.Node || n == 0 && after[i].Node != "" {
						t.Errorf("with %d alive it moves %+v to %+v", n, c, after[i])
					}
				}
				before = after
			}
		}
	})
	t.Run("is deterministic for a seed", func(t *testing.T) {
		var first []assign.Choice
		for i := range 3 {
			w := newWorld(madeUp(40, 5), worldConfig{Nodes: 7, Servers: 15, Seed: 5})
			v := w.View()
			rand.New(rand.NewPCG(uint64(i), 0)).Shuffle(len(v.Nodes), func(a, b int) { v.Nodes[a], v.Nodes[b] = v.Nodes[b], v.Nodes[a] })
			d := start(t, name, w, w.Batch(), v, 5)
			if p := d.run(); i == 0 {
				first = p
			} else if !reflect.DeepEqual(p, first) {
				t.Fatalf("the same batch, in another order of nodes, was decided differently:\n%+v\n%+v", first, p)
			}
		}
	})
}

// drive is one run of an assigner with its checks.
type drive struct {
	t      *testing.T
	a      assign.Assigner
	batch  assign.Batch
	view   assign.View
	rnd    *rand.Rand
	now    time.Time
	out    map[netip.Addr]assign.Ask
	asked  map[netip.Addr]int
	learnt map[netip.Addr]int // downloads that its memory must have
	answer func(assign.Ask) assign.Result
	dying  bool
	wild   bool // answers may be of no use
}

func start(t *testing.T, name string, w *world, b assign.Batch, v assign.View, seed uint64) *drive {
	t.Helper()
	d := &drive{t: t, batch: b, view: v, rnd: rand.New(rand.NewPCG(seed, 31)), now: time.Unix(1000, 0),
		out: map[netip.Addr]assign.Ask{}, asked: map[netip.Addr]int{}, learnt: map[netip.Addr]int{}, answer: w.Answer}
	for _, s := range b.Servers {
		d.learnt[s.Addr] = s.Memory.Downloads()
	}
	cfg := assign.Default()
	cfg.Vivaldi.Keep = true
	d.a = build(t, name, cfg, b, v, d.now)
	return d
}

func (d *drive) alive(id string) bool {
	return slices.ContainsFunc(d.view.Nodes, func(n assign.Node) bool { return n.ID == id })
}

// kill removes nodes until n are left.
func (d *drive) kill(n int) {
	d.rnd.Shuffle(len(d.view.Nodes), func(i, j int) {
		d.view.Nodes[i], d.view.Nodes[j] = d.view.Nodes[j], d.view.Nodes[i]
	})
	d.view.Nodes = append([]assign.Node(nil), d.view.Nodes[:n]...)
	d.a.SetView(d.view, d.now)
	for addr, ask := range d.out {
		if !d.alive(ask.Node) {
			delete(d.out, addr)
		}
	}
}

// run drives the assigner until it decides. Answers come late and in any order, nodes die, results come twice or unasked.
func (d *drive) run() []assign.Choice {
	d.t.Helper()
	for range 100_000 {
		if d.rnd.IntN(4) > 0 { // or nodes die before it decides what it knows
			if _, done := d.a.Decide(d.now); done {
				return d.decided()
			}
		}
		for _, ask := range d.a.Asks(d.now) {
			if _, twice := d.out[ask.Server]; twice {
				d.t.Fatalf("it asks for %s while an ask is out", ask.Server)
			}
			if !d.alive(ask.Node) {
				d.t.Fatalf("it asks %s, which is not in the view", ask.Node)
			}
			d.out[ask.Server] = ask
			d.asked[ask.Server]++
		}
		if d.dying && len(d.view.Nodes) > 2 && (d.rnd.IntN(8) == 0 || len(d.out) == 0 && d.rnd.IntN(2) == 0) {
			d.kill(len(d.view.Nodes) - 1)
		}
		for _, s := range d.batch.Servers {
			ask, ok := d.out[s.Addr]
			if !ok || d.rnd.IntN(3) == 0 {
				continue
			}
			delete(d.out, s.Addr)
			r := d.answer(ask)
			if d.rnd.IntN(10) == 0 {
				r.OK, r.Unreached = false, true
			}
			strange := r
			for _, strange.Ask = range []assign.Ask{{Server: s.Addr, Node: "stranger"}, {Server: netip.IPv6Loopback(), Node: ask.Node}} {
				d.a.Observe(strange, d.now)
			}
			d.a.Observe(r, d.now)
			d.a.Observe(r, d.now)
			if m := d.a.Memory(s.Addr); r.OK && !d.wild {
				if d.learnt[s.Addr]++; m == nil || m.Downloads() != d.learnt[s.Addr] {
					d.t.Fatalf("after %d answers for %v it remembers %+v", d.learnt[s.Addr], s.Addr, m)
				}
			}
		}
		d.now = d.now.Add(time.Second)
		if len(d.out) == 0 {
			if next, ok := d.a.Next(d.now); ok && next.After(d.now) {
				d.now = next
			}
		}
	}
	d.t.Fatal("it has not decided after 100,000 steps")
	return nil
}

// decided checks the choices.
func (d *drive) decided() []assign.Choice {
	d.t.Helper()
	for own := d.a.Conclude(d.now); len(own) > 0; own = own[1:] {
		own[0].Node = "changed by the caller"
	}
	p, done := d.a.Decide(d.now)
	if !done {
		d.t.Fatal("it was done and is not any more")
	}
	if len(p) != len(d.batch.Servers) {
		d.t.Fatalf("%d choices for %d servers", len(p), len(d.batch.Servers))
	}
	for i, c := range p {
		if err := d.check(i, c); err != nil {
			d.t.Errorf("%v: %+v", err, c)
		}
	}
	if asks := d.a.Asks(d.now); len(asks) > 0 {
		d.t.Errorf("it asks %v after it decided", asks)
	}
	return p
}

func (d *drive) check(i int, c assign.Choice) error {
	switch {
	case c.Server != d.batch.Servers[i].Addr:
		return fmt.Errorf("choice %d is not for server %d", i, i)
	case c.Reason == "":
		return fmt.Errorf("there is no reason")
	case c.Estimates != d.asked[c.Server]:
		return fmt.Errorf("%d asks were made", d.asked[c.Server])
	case len(d.view.Nodes) > 0 && !d.alive(c.Node):
		return fmt.Errorf("the node is not in the view")
	case !(c.PredictedMs >= 0 && c.PredictedMs < 1e12) || !(c.Error >= 0 && c.Error < 1e6):
		return fmt.Errorf("the numbers make no sense")
	}
	return nil
}

// wild is an answer that a liar or a broken clock might give.
func wild(rnd *rand.Rand, a assign.Ask) assign.Result {
	any := func() time.Duration {
		switch rnd.IntN(6) {
		case 0:
			return 0
		case 1:
			return -time.Second
		case 2:
			return 1<<63 - 1
		case 3:
			return 1
		}
		return time.Duration(rnd.Int64N(int64(time.Minute)))
	}
	r := assign.Result{Ask: a, OK: true, Timing: assign.Timing{Connect: any(), TLS: any(), FirstByte: any(), Total: any(),
		Bytes: rnd.Int64N(1<<40) - 1000}}
	for i := range r.Coord.Vec {
		r.Coord.Vec[i] = 1e5 * rnd.NormFloat64()
	}
	r.Coord.Height, r.Coord.Error = 100*rnd.NormFloat64(), rnd.NormFloat64()
	if rnd.IntN(2) == 0 {
		r.Coord = ncoord.Coordinate{Error: 0.2}
	}
	return r
}
