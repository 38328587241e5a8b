package lease

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/netsim"
	"proxima/node/view"
	"proxima/node/wire"
)

// bubble runs a test on a fake clock, with nodes that have run for more than a window.
func bubble(t *testing.T, nodes int, test func(t *testing.T, w *world, ids []string, all []*fakeNode)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Default(), 1)
		ids := names(nodes)
		all := w.startAll(ids...)
		defer w.shutdown()
		time.Sleep(w.cfg.Window())
		test(t, w, ids, all)
	})
}

func page(firstByte time.Duration) assign.Timing {
	return assign.Timing{Connect: 10 * time.Millisecond, FirstByte: firstByte, Total: firstByte + 20*time.Millisecond,
		Bytes: 20_000}
}

// Wishes that come one after the other all the time do not keep each other waiting: the last call may be under way, and the next may
// gather for a while.
func TestWishesThatKeepComing(t *testing.T) {
	bubble(t, 2, func(t *testing.T, w *world, _ []string, all []*fakeNode) {
		const pause = gather / 2
		addrs, late := servers(200), int((4*gather+4*w.delay)/pause)
		for i, addr := range addrs {
			if i%50 == 0 {
				time.Sleep(w.cfg.lookEvery() * 5 / 4) // all is quiet, at any time between two looks
			}
			all[0].want(true, addr)
			time.Sleep(pause)
			if i >= late && !all[0].has(addrs[i-late]) {
				t.Fatalf("%d: %s", i-late, all[0].holder.Why(addrs[i-late]))
			}
		}
	})
}

func TestStopGivesLeasesBack(t *testing.T) {
	for part := range 3 { // of the time between two looks
		bubble(t, 2, func(t *testing.T, w *world, ids []string, all []*fakeNode) {
			addr := grantedBy(t, ids[1], ids)
			all[0].want(true, addr)
			time.Sleep(time.Second + w.cfg.lookEvery()*time.Duration(part)/3)
			all[1].want(true, addr)
			all[0].set(addr, func(s *Server) { s.InFlight = 1 })
			begin := time.Now()
			all[0].stop()
			time.Sleep(300 * time.Millisecond)
			all[0].set(addr, func(s *Server) { s.InFlight = 0 })
			<-all[0].ended
			if d := time.Since(begin) - 300*time.Millisecond; d < 0 || d > 2*gather+2*w.delay {
				t.Errorf("it ended %v after its last request", d)
			}
			if all[0].has(addr) {
				t.Error("a stopped node may dial")
			}
			time.Sleep(2 * w.cfg.HeldRetry())
			if !all[1].has(addr) {
				t.Error("its server was not leased on")
			}
			if _, err := all[0].holder.Hold(t.Context(), addr); !errors.Is(err, errStopped) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A node that stops does not wait for long for grantors that it does not reach.
func TestStopWithoutGrantors(t *testing.T) {
	bubble(t, 2, func(t *testing.T, w *world, ids []string, all []*fakeNode) {
		all[0].want(true, grantedBy(t, ids[1], ids))
		time.Sleep(time.Second)
		w.part(ids[0], ids[1])
		begin := time.Now()
		all[0].stop()
		<-all[0].ended
		if d := time.Since(begin); d > farewell {
			t.Errorf("it ended after %v", d)
		}
	})
}

func TestMemoryTravels(t *testing.T) {
	bubble(t, 2, func(t *testing.T, w *world, ids []string, all []*fakeNode) {
		addr := grantedBy(t, ids[1], ids)
		all[0].holder.Observed(addr, "x", ncoord.Coordinate{}, page(time.Second)) // not its server: nothing happens
		all[0].want(true, addr)
		time.Sleep(time.Second)
		for range 120 {
			all[0].holder.Observed(addr, ids[0], ncoord.Coordinate{}, page(50*time.Millisecond))
			time.Sleep(time.Second)
		}
		if m, ok := all[0].holder.Memory(addr); !ok || m.Downloads() != 120 {
			t.Fatalf("%v", ok)
		}
		moved := all[0].sentMemories()
		if len(moved) < 3 || len(moved) > 6 {
			t.Errorf("sent %d times in two minutes", len(moved))
		}
		all[0].want(false, addr)
		time.Sleep(time.Minute)
		moved = all[0].sentMemories()
		if n := len(moved); moved[0] == 120 || moved[n-1] != 120 {
			t.Errorf("sent with %v downloads", moved)
		}
		// The grantor dies and comes back with its disk.
		all[1].kill()
		n := w.start(ids[1])
		n.see(ids, true)
		time.Sleep(w.cfg.Window() + time.Hour)
		m, err := all[0].holder.Hold(t.Context(), addr)
		if err != nil || m == nil || m.Downloads() != 120 {
			t.Fatal(m, err)
		}
		if age, ok := m.Age(time.Now()); !ok || age < time.Hour || age > time.Hour+5*time.Minute {
			t.Errorf("it is %v old", age)
		}
	})
}

func TestOverloadedServerIsSpared(t *testing.T) {
	bubble(t, 2, func(t *testing.T, w *world, ids []string, all []*fakeNode) {
		n, addrs := all[0], servers(12)
		n.want(true, addrs...)
		time.Sleep(5 * time.Second)
		visit := func(rounds int, slow func(i int) time.Duration) {
			for range rounds {
				for i, addr := range addrs {
					n.holder.Observed(addr, ids[i%2], ncoord.Coordinate{}, page(60*time.Millisecond+slow(i)))
				}
				time.Sleep(2 * time.Second)
			}
		}
		visit(200, func(int) time.Duration { return 0 })
		visit(30, func(i int) time.Duration { return map[bool]time.Duration{true: 5 * time.Second}[i == 3] })
		if f := n.spacing(addrs[3]); f < 4 || f > paceMax {
			t.Errorf("a server that takes 5 s more is spared by %v", f)
		}
		if f := n.spacing(addrs[4]); f != 1 {
			t.Errorf("another server is spared by %v", f)
		}
		visit(60, func(int) time.Duration { return 0 })
		if f := n.spacing(addrs[3]); f != 1 {
			t.Errorf("a server that came back is spared by %v", f)
		}
		// All servers are slow, so the load is this node's own.
		visit(60, func(int) time.Duration { return 2 * time.Second })
		if s := n.holder.Status(); s.Spared != 0 {
			t.Errorf("%d servers are blamed for a slow node", s.Spared)
		}
	})
}

func FuzzLease(f *testing.F) {
	b, err := proto.Marshal(&wire.LeaseRequest{Header: &wire.Header{Boot: 1, Id: 2}, Items: []*wire.LeaseItem{
		{Server: []byte{192, 0, 2, 1}, Wish: renew, WaitMs: 5, Memory: (&assign.Memory{}).AppendBinary(nil, time.Unix(1e9, 0))},
		{Server: []byte{192, 0, 2, 2}, Wish: release, Successor: "y"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	w := newWorld(f, Default(), 1)
	f.Fuzz(func(t *testing.T, b []byte) {
		var req wire.LeaseRequest
		if proto.Unmarshal(b, &req) != nil {
			return
		}
		k := NewGrantor(w.cfg, GrantorDeps{Clock: NewClock(nil), Rights: (&fakeNode{w: w}).Rights, Shelf: new(netsim.Shelf)})
		k.SetView(view.View{Self: "k", Settled: []string{"k"}, Alive: []string{"k", "x"}, Majority: true})
		for range 2 {
			resp, err := k.Lease(t.Context(), "x", &req)
			if err != nil || len(resp.Answers) != len(req.Items) {
				t.Fatalf("%v, %v", resp, err)
			}
			for _, a := range resp.Answers {
				if a.WaitMs < 0 || a.WaitMs > maxWait.Milliseconds() || a.RetryMs < 0 || a.ForMs < 0 {
					t.Fatalf("%v", a)
				}
			}
		}
	})
}
