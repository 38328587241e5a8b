package member_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/member"
	"proxima/node/netsim"
)

// join has a rogue join an overlay, and returns how it is ended.
func (o *overlay) join(r netsim.Rogue, place int, name string, secret []byte) (end func()) {
	o.t.Helper()
	leave, err := r.Join(name, "test", secret, o.transport(place))
	must(o.t, err)
	return func() {
		if err := leave(); err != nil {
			o.t.Error(err)
		}
	}
}

// Who does not know the secret is no member, even if it does not encrypt, nor is who has no id.
func TestRoguesAreRefused(t *testing.T) {
	for name, key := range map[string][]byte{netsim.ID(3): nil, "mallory\n": secret} {
		settled(t, flat(40), 3, func(t *testing.T, o *overlay) {
			stop := o.join(netsim.Rogue{}, 3, name, key)
			time.Sleep(time.Minute)
			o.expect(name, upTo(3), upTo(3), upTo(3), true)
			if o.nodes[0].count(member.EventTrouble, "") == 0 {
				t.Errorf("nobody complained of %q", name)
			}
			stop()
		})
	}
}

func TestGarbageIsBorne(t *testing.T) {
	settled(t, flat(40), 4, func(t *testing.T, o *overlay) {
		garbage := make([]byte, 500)
		for i := range garbage {
			garbage[i] = byte(rand.New(rand.NewPCG(1, uint64(i))).Uint32())
		}
		stop := o.join(netsim.Rogue{Meta: garbage, Ack: garbage, State: garbage}, 4, netsim.ID(4), secret)
		time.Sleep(30 * time.Second)
		o.expect("garbage", upTo(4), upTo(5), upTo(4), true)
		for i := range 4 {
			n := o.nodes[i]
			if p := n.sees(4); p.Placed || p.Addr != "" {
				t.Errorf("node %d sees the garbage as %+v", i, p)
			}
			if k := n.count(member.EventBadMeta, netsim.ID(4)); k != 1 {
				t.Errorf("node %d told of the garbage %d times", i, k)
			}
			if n.count(member.EventSample, netsim.ID(4)) == 0 || n.sees(4).RTT != 0 {
				t.Errorf("node %d could read the garbage", i)
			}
		}
		stop()
	})
}

// A liar that knows the secret moves nobody far: honest nodes go on to predict each other's round trips.
func TestLiar(t *testing.T) {
	const n = 10
	settled(t, world(n+1, 11), n, func(t *testing.T, o *overlay) {
		wild := ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{50_000, -50_000, 0, 0}, Error: 0.001}
		liar := netsim.Rogue{Meta: member.EncodeMeta(1, "10.0.0.99:1", wild), Ack: member.EncodeAck(1, 2, wild)}
		stop := o.join(liar, n, netsim.ID(n), secret)
		time.Sleep(2 * time.Minute)
		var errs []float64
		for i := range n {
			if p := o.nodes[i].sees(n); !p.Placed || p.Addr == "" {
				t.Fatalf("node %d sees the liar as %+v", i, p)
			}
			for j := range n {
				if i != j {
					a, b := o.nodes[0].sees(i).Coord, o.nodes[0].sees(j).Coord
					errs = append(errs, math.Abs(ncoord.Distance(a, b)-o.rtt(i, j))/o.rtt(i, j))
				}
			}
		}
		t.Logf("median relative error of published distances beside a liar: %.3f", median(errs))
		if m := median(errs); m > 0.2 {
			t.Errorf("median relative error is %.3f, above 0.2", m)
		}
		stop()
	})
}

func TestLoadAndFactorsReachAll(t *testing.T) {
	const n = 12
	settled(t, world(n, 9), n, func(t *testing.T, o *overlay) {
		f := assign.Factors{LoadMs: 120, BytesPerMs: 800, Samples: 9, QueueMs: 150}
		before := o.nodes[0].sees(5).Coord.Height
		var still []ncoord.Coordinate
		for i := range n {
			still = append(still, o.nodes[i].Coordinate())
		}
		sent := o.sent(5)
		o.nodes[5].SetFactors(f)
		o.nodes[5].SetFactors(assign.Factors{LoadMs: -1}) // is ignored
		time.Sleep(8 * time.Second)
		for i := range n {
			p := o.nodes[i].sees(5)
			if p.Factors != f || p.Location == nil || *p.Location != (ncoord.Location{Lat: 1, Lon: 2}) {
				t.Errorf("node %d sees %+v", i, p)
			}
			if p.Coord.Height < before+100 {
				t.Errorf("node %d sees a height of %.1f ms, from %.1f, under a load of 150 ms", i, p.Coord.Height, before)
			}
		}
		// What is set again and again is not announced again and again.
		time.Sleep(20 * time.Second)
		quiet := o.sent(5)
		for range 200 {
			o.nodes[5].SetFactors(f)
			time.Sleep(100 * time.Millisecond)
		}
		if k := o.sent(5) - quiet; k > 2*(quiet-sent) {
			t.Errorf("%d packets in 20 s of nothing new, %d in 28 s before", k, quiet-sent)
		}
		// Load is no distance: it moves nobody.
		for i := range n {
			c := o.nodes[i].Coordinate()
			for k := range c.Vec {
				if d := math.Abs(c.Vec[k] - still[i].Vec[k]); d > 10 {
					t.Errorf("node %d moved by %.1f ms in one dimension", i, d)
				}
			}
			if c.Height > still[i].Height+10 {
				t.Errorf("node %d rose from %.1f to %.1f ms", i, still[i].Height, c.Height)
			}
		}
	}, func(_ *member.Config, d *member.Deps) { d.Location = &ncoord.Location{Lat: 1, Lon: 2} })
}

// Many come, go, die and come back; in the end all see the same, and on the way they seldom differ.
func TestChurn(t *testing.T) {
	const seed = 0
	synctest.Test(t, func(t *testing.T) {
		const n = 16
		rnd := rand.New(rand.NewPCG(seed, 99))
		o := newOverlay(t, world(n, seed))
		join := func(c *member.Config, _ *member.Deps) {
			c.Join = []string{netsim.GossipAt(0), netsim.GossipAt(1), netsim.GossipAt(2)}
		}
		boots := make([]uint64, n)
		start := func(i int) {
			boots[i]++
			o.start(i, boots[i], join)
		}
		for i := range n {
			start(i)
		}
		time.Sleep(90 * time.Second)
		differ, looks := 0, 0
		for range 120 {
			if i := rnd.IntN(n); rnd.IntN(8) == 0 {
				switch {
				case o.nodes[i] == nil:
					start(i)
				case rnd.IntN(2) == 0 && len(o.nodes) > n*3/4:
					o.kill(i)
				case len(o.nodes) > n*3/4:
					o.leave(i)
				}
			}
			time.Sleep(time.Second)
			count := map[string]int{}
			for i, m := range o.nodes {
				if m != nil && m.sees(i).For > 5*time.Second {
					count[strings.Join(m.View().Settled, " ")]++
					looks++
				}
			}
			best, all := 0, 0
			for _, k := range count {
				best, all = max(best, k), all+k
			}
			differ += all - best
		}
		for i := range n {
			if o.nodes[i] == nil {
				start(i)
			}
		}
		took := o.agreed(upTo(n), 2*time.Minute)
		share := float64(differ) / float64(looks)
		t.Logf("%.2f %% of the looks differ from what most see; agreed %v after the last came", 100*share, took)
		if share > 0.05 {
			t.Errorf("%.1f %% of the looks differ", 100*share)
		}
		o.expect("in the end", upTo(n), upTo(n), upTo(n), true)
		o.close()
	})
}
