package lease

import (
	"flag"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var modelSeeds = flag.Int("lease.seeds", 12, "seeds of the model test")

// In TestOneHolder nodes come, go, freeze and are replaced for good, clocks jump, some lack the majority, views change at different times, and
// messages are lost, late and repeated. Two nodes may never dial one server. When all is calm, every wanted server is leased.
func TestOneHolder(t *testing.T) {
	expired := uint64(0)
	for seed := range *modelSeeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { expired += oneHolder(t, uint64(seed)) })
		})
	}
	if expired == 0 { // leases expire many at a time, so a single seed may have none
		t.Error("no lease has expired")
	}
}

func oneHolder(t *testing.T, seed uint64) (expired uint64) {
	cfg := Default()
	w := newWorld(t, cfg, seed)
	w.loss, w.repeat, w.late = 0.05, 0.05, 0.05
	ids, addrs := names(6), servers(40)
	settled := slices.Clone(ids) // the nodes keep it, and ids changes
	w.startAll(settled...)
	// change shows other members to all nodes, to each at its own time.
	change := func(to []string) {
		w.mu.Lock()
		settled = to
		w.mu.Unlock()
		for _, id := range ids {
			w.wg.Go(func() {
				time.Sleep(time.Duration(w.random() * float64(cfg.Skew)))
				if n := w.reach(id, id); n != nil {
					n.thawed()
					w.mu.Lock()
					now, calm := slices.Clone(settled), w.calm
					w.mu.Unlock()
					n.see(now, w.chance(0.95) || calm)
				}
			})
		}
	}
	jumps := 0.005 // in half of the runs clocks jump so often that two nodes may be without their leases at once
	if seed%2 == 1 {
		jumps = 0.1
	}
	changed := time.Now()
	var remotes []remoteFetch
	for range 4000 {
		time.Sleep(300 * time.Millisecond)
		id := w.pick(ids)
		n := w.reach(id, id)
		switch x := w.random(); {
		case n == nil:
			if x < 0.05 {
				if x < 0.01 { // its disk is lost, and with it the number of its life
					w.mu.Lock()
					// A real node loses its id, too, so two lives with one number never meet.
					if w.shelf[id] = nil; w.boots[id] > 1 && len(settled) > 1 {
						w.boots[id] = 0
					}
					w.mu.Unlock()
				} else if x < 0.02 { // a newcomer takes its place
					i := slices.Index(ids, id)
					id = fmt.Sprintf("new%02d-%x", i, uint32(w.random()*(1<<32)))
					ids[i] = id
				}
				w.start(id).see(settled, true)
				change(settled)
			}
		case x < 0.005:
			n.kill()
			change(settled)
		case x < 0.01:
			n.stop() // in order
			n.thaw()
			<-n.ended
			n.kill()
			change(settled)
		case x < 0.3:
			for range 3 {
				addr := addrs[int(w.random()*float64(len(addrs)))]
				n.want(w.chance(0.5), addr)
				if slices.Contains(addrs[:20], addr) {
					n.set(addr, func(s *Server) { s.InFlight = int(2 * w.random()) })
				}
			}
		case x < 0.3+0.2 && !n.isFrozen():
			addr := addrs[20+int(w.random()*8)]
			if peer := w.reach(id, w.pick(ids)); peer != nil && peer != n && !peer.isFrozen() && n.holder.MayAsk(addr) == nil {
				if r, ok := w.fetchRemotely(n, peer, addr); ok {
					remotes = append(remotes, r)
				}
			}
		case x < 0.51 && time.Since(changed) > cfg.Skew:
			// The settled nodes may differ from those alive. Views lag by up to Skew, so changes are further apart than that.
			changed = time.Now()
			var next []string
			for _, id := range ids {
				if w.chance(0.7) {
					next = append(next, id)
				}
			}
			if len(next) == 0 {
				next = append(next, ids[0])
			}
			change(next)
		case x < 0.52 && !n.isFrozen():
			n.freeze()
			w.wg.Go(func() {
				time.Sleep(time.Duration(w.random() * float64(150*time.Second)))
				n.thaw()
			})
		case x < 0.52+jumps:
			n.setClock(time.Duration((w.random() - 0.5) * float64(4*time.Minute) * (1 + 100*math.Floor(2*w.random())))) // by minutes, or by hours
		case x < 0.535+jumps:
			other := w.pick(ids)
			w.mu.Lock()
			w.cut[[2]string{id, other}] = !w.cut[[2]string{id, other}] && other != id
			w.mu.Unlock()
		}
		for _, addr := range addrs {
			who := w.askers(addr)
			if len(who) > 1 {
				t.Errorf("%v may be asked by %v", addr, who)
			}
			for _, r := range remotes {
				if r.Server == addr && len(who) > 0 && r.underWay() && w.reach(who[0], who[0]) != r.by {
					t.Errorf("%v may be asked by %v, and is by %s for %s", addr, who, r.at.id, r.Holder)
				}
			}
		}
		for _, addr := range addrs[:5] { // requests end
			if n != nil {
				n.set(addr, func(s *Server) { s.InFlight = 0 })
			}
		}
	}
	time.Sleep(cfg.Skew) // for the last change
	w.mu.Lock()
	w.calm = true
	clear(w.cut)
	settled = slices.Clone(ids) // nodes that thaw later see them, too
	w.mu.Unlock()
	for _, id := range ids {
		if n := w.reach(id, id); n != nil {
			n.thaw()
		}
	}
	for _, id := range ids {
		if w.reach(id, id) == nil {
			w.start(id)
		}
	}
	for _, id := range ids {
		n := w.reach(id, id)
		n.see(settled, true)
		for _, addr := range addrs {
			n.set(addr, func(s *Server) { s.InFlight = 0 })
			if w.chance(0.2) {
				n.want(true, addr)
			}
		}
	}
	time.Sleep(2*(cfg.Window()) + 30*time.Second)
	leased := 0
	for _, addr := range addrs {
		wanted := map[string]bool{}
		for _, id := range ids {
			n := w.reach(id, id)
			n.mu.Lock()
			if n.wants[addr] {
				wanted[id] = true
			}
			n.mu.Unlock()
		}
		if len(wanted) == 0 {
			continue
		}
		if h := w.holder(addr); wanted[h] {
			leased++
		} else {
			t.Errorf("%v is wanted by %v and held by %q", addr, wanted, h)
			for id := range wanted {
				t.Logf("%s: %s", id, w.reach(id, id).holder.Why(addr))
			}
		}
	}
	w.shutdown()
	sum := w.sum
	t.Logf("%d grants, %d leased at the end, %+v", w.grants, leased, sum)
	if w.grants < 200 || leased < 10 || sum.Refused < 50 || sum.Released < 10 {
		t.Error("too little happened")
	}
	return sum.Expired
}

// remoteFetch is a page that a peer downloads for a holder.
type remoteFetch struct {
	Remote
	by, at *fakeNode
}

func (r *remoteFetch) underWay() bool { return time.Now().Before(r.Until) && !r.at.isDead() }

// fetchRemotely lets a peer download a page for a node under the node's lease, which is not given back meanwhile.
func (w *world) fetchRemotely(n, peer *fakeNode, addr netip.Addr) (remoteFetch, bool) {
	until := time.Now().Add(35 * time.Second)
	if held := n.holder.Until(addr); held.Before(until) {
		until = held
	}
	r := remoteFetch{Remote{Server: addr, Holder: n.id, Until: until}, n, peer}
	if !peer.holder.FromLife(n.id, n.boot, func() { // in there, so that no inquiry comes in between
		peer.mu.Lock()
		defer peer.mu.Unlock()
		peer.remote = append(slices.DeleteFunc(peer.remote, func(r Remote) bool { return time.Now().After(r.Until) }), r.Remote)
	}) {
		return remoteFetch{}, false
	}
	n.set(addr, func(s *Server) { s.InFlight++ })
	w.wg.Go(func() {
		time.Sleep(time.Until(until))
		n.set(addr, func(s *Server) { s.InFlight-- })
	})
	return r, true
}
