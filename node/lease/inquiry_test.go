package lease

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/netsim"
	"proxima/node/peer"
	"proxima/node/view"
	"proxima/node/wire"
)

// await returns how long it takes until a node has a server, two windows at most.
func await(w *world, n *fakeNode, addr netip.Addr) time.Duration {
	begin := time.Now()
	for !n.has(addr) && time.Since(begin) < 2*(w.cfg.Time+w.cfg.Skew) {
		time.Sleep(50 * time.Millisecond)
	}
	return time.Since(begin)
}

// A node that crashed does not ask a server while a peer asks it for the node's former life, whoever is the grantor. Remote fetches of the
// former life that have not begun are refused.
func TestRestartedHolderWaitsForItsPeers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, w *world, ids []string, all []*fakeNode) {
		for i, grantor := range ids {
			addr := grantedBy(t, grantor, ids)
			n := w.nodes[ids[0]]
			n.want(true, addr)
			await(w, n, addr)
			until := time.Now().Add(35 * time.Second)
			all[2].mu.Lock()
			all[2].remote = []Remote{{Server: addr, Holder: ids[0], Until: until}}
			all[2].mu.Unlock()
			if !all[2].holder.FromLife(ids[0], n.boot, func() {}) {
				t.Error("a message of the life that lives is refused")
			}
			n.kill()
			time.Sleep(2 * time.Second)
			n = w.start(ids[0])
			n.see(ids, true)
			n.want(true, addr)
			for time.Now().Before(until) {
				if who := w.askers(addr); len(who) > 0 {
					t.Fatalf("grantor %d: %v may ask %v before the peer has ended", i, who, time.Until(until))
				}
				time.Sleep(100 * time.Millisecond)
			}
			if d := await(w, n, addr); d > w.cfg.Skew+5*time.Second {
				t.Errorf("grantor %d: it got the server only %v after the peer had ended", i, d)
			}
			if all[2].holder.FromLife(ids[0], n.boot-1, func() {}) {
				t.Error("a message of the former life is not refused")
			}
			all[2].mu.Lock()
			all[2].remote = nil
			all[2].mu.Unlock()
		}
	})
}

// TestWhatMembersSay checks what a new grantor knows of a server after an inquiry: who has it and until when at the latest, and until when
// a page may be downloaded under a lease of an earlier life.
func TestWhatMembersSay(t *testing.T) {
	both := view.View{Self: "k", Alive: everyone, Settled: []string{"k", "o"}, Majority: true}
	mine, others := grantedBy(t, "k", both.Settled), grantedBy(t, "o", both.Settled)
	says := func(addr netip.Addr, holder string, left time.Duration) *wire.Right {
		return &wire.Right{Server: addr.AsSlice(), Holder: holder, ForMs: left.Milliseconds()}
	}
	cfg := Default()
	for name, c := range map[string]struct {
		claims string // the node that has renewed the lease here before the inquiry
		a, b   *wire.Right
		holder string
		until  time.Duration
		remote time.Duration
	}{
		"nobody has it":                    {},
		"a has it":                         {a: says(mine, "", 10*time.Second), holder: "a", until: 10*time.Second + cfg.Skew},
		"a has it for ever":                {a: says(mine, "", time.Hour), holder: "a", until: cfg.Window()},
		"a has had it":                     {a: says(mine, "", -time.Second), holder: "a", until: cfg.Skew},
		"a claims it":                      {claims: "a", a: says(mine, "a", 10*time.Second), holder: "a", until: cfg.Window()},
		"a has claimed it, b has it":       {claims: "a", b: says(mine, "", 10*time.Second), holder: "b", until: 10*time.Second + cfg.Skew},
		"a has claimed it, nobody":         {claims: "a"},
		"a works for b":                    {a: says(mine, "b", 10*time.Second), remote: 10*time.Second + cfg.Skew},
		"a works for b, which has it":      {claims: "b", a: says(mine, "b", 10*time.Second), b: says(mine, "", time.Second), holder: "b", until: cfg.Window()},
		"a works for b, which has lost it": {claims: "b", a: says(mine, "b", 10*time.Second), remote: 10*time.Second + cfg.Skew},
		"a works for c longer than b":      {a: says(mine, "c", 10*time.Second), b: says(mine, "c", time.Second), remote: 10*time.Second + cfg.Skew},
		"a server of another grantor":      {a: says(others, "", 10*time.Second)},
		"no address":                       {a: &wire.Right{Server: []byte{1, 2, 3}, ForMs: 10_000}},
		"an address by another name":       {a: says(netip.AddrFrom16(mine.As16()), "", 10*time.Second)},
	} {
		d := newSuccessor(t, both, mine)
		if c.claims != "" {
			d.send(request{from: c.claims, boot: 1, id: 2, addr: mine, wish: renew}, given, c.claims)
		}
		said := map[string][]*wire.Right{}
		for id, right := range map[string]*wire.Right{"a": c.a, "b": c.b} {
			if right != nil {
				said[id] = []*wire.Right{{Server: []byte{1, 2, 3}, ForMs: 10_000}, says(others, "", time.Hour), right} // the first two count for nothing
			}
		}
		if !d.inquires(said) {
			t.Fatalf("%s: the inquiry failed", name)
		}
		n := d.entries[mine]
		if n == nil {
			n = &grant{until: d.now, remote: d.now}
		}
		left, has := max(0, n.until.Sub(d.now)), ""
		if left > 0 {
			has = n.holder
		}
		if has != c.holder || left != c.until || max(0, n.remote.Sub(d.now)) != c.remote || left > 0 && n.claimed {
			t.Errorf("%s: %q has it for %v, a page may be under way for %v, claimed: %v; want %q, %v, %v", name, has, left,
				max(0, n.remote.Sub(d.now)), n.claimed, c.holder, c.until, c.remote)
		}
		if len(d.entries) > 1 || n.holder != c.claims && n.id > 0 { // the messages of another holder have other numbers
			t.Errorf("%s: it knows of %d servers, and of message %d of %s", name, len(d.entries), n.id, n.holder)
		}
	}
}

// newSuccessor makes a grantor that has just become one of a server, by a change of members to this view. Node b waits for the server.
func newSuccessor(t *testing.T, v view.View, addr netip.Addr) *desk {
	d := newDesk(t, false)
	d.pass(d.cfg.Window())
	d.setView(view.View{Self: "k", Alive: everyone, Settled: []string{"o"}, Majority: true}, d.now)
	d.setView(v, d.now)
	d.answer(request{from: "b", boot: 1, id: 1, addr: addr, wish: acquire}, d.now)
	return d
}

// A member that has just gone may hold leases, and cannot be asked. Until those have ended, nobody is asked: whoever answers ignores
// the leases that it is waiting for.
func TestNobodyIsAskedWhenAMemberHasJustGone(t *testing.T) {
	v := view.View{Self: "k", Alive: everyone, Settled: []string{"k", "o"}, Majority: true}
	d := newSuccessor(t, v, grantedBy(t, "k", v.Settled))
	v.Alive = everyone[1:]
	d.setView(v, d.now)
	for _, wait := range []time.Duration{0, d.cfg.Window() - 1} {
		if d.pass(wait); d.inquiry(d.now) != nil {
			t.Errorf("an inquiry begins %v after a member has gone", wait)
		}
	}
	d.pass(1)
	if q := d.inquiry(d.now); q == nil || !slices.Equal(q.to, v.Alive) {
		t.Errorf("when the leases of the member have ended, the inquiry is %+v", q)
	}
}

// A member that sees other settled nodes answers no inquiry. One that sees other members names them, and those that have just gone, until their
// leases have ended. A lease is told as a millisecond longer, so that it is never told as shorter than it is.
func TestRightsAreToldInOneView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(stub).holder(NewClock(nil))
		v := h.view
		v.Alive = append(slices.Clone(v.Alive), "x")
		h.SetView(v)
		v.Alive = v.Alive[:2]
		h.SetView(v) // x has just gone
		for i, left := range []time.Duration{time.Minute, 1, 0, -time.Second} {
			h.book.all[server(i)] = &lease{right: NewRight(time.Now().Add(left))}
		}
		for _, c := range []struct {
			from                   string
			settled, members, told []string
			same                   bool
			rights                 map[netip.Addr]int64
		}{
			{"k", []string{"k"}, []string{"a", "k", "x"}, nil, true, map[netip.Addr]int64{server(0): 60_001, server(1): 1}},
			{"k", []string{"k"}, []string{"a", "k"}, []string{"a", "k", "x"}, true, map[netip.Addr]int64{server(0): 60_001, server(1): 1}},
			{"k", []string{"a", "k"}, []string{"a", "k", "x"}, nil, false, map[netip.Addr]int64{}},
			{"x", []string{"k"}, []string{"a", "k", "x"}, nil, true, map[netip.Addr]int64{}}, // not the grantor
		} {
			a, err := h.Rights(t.Context(), c.from, &wire.RightsRequest{View: view.Digest(c.settled), Members: view.Digest(c.members)})
			if err != nil || a.GetSameView() != c.same || !slices.Equal(a.GetMembers(), c.told) || a.GetBoot() != 1 {
				t.Errorf("asked by %s, which sees %v of %v: %v, %v", c.from, c.settled, c.members, a, err)
			}
			told := map[netip.Addr]int64{}
			for _, r := range a.GetRights() {
				addr, _ := netip.AddrFromSlice(r.GetServer())
				if told[addr] = r.GetForMs(); r.GetHolder() != "" {
					t.Errorf("%v is told as leased to %s", addr, r.GetHolder())
				}
			}
			if !maps.Equal(told, c.rights) {
				t.Errorf("%s, which sees %v of %v, is told %v, not %v", c.from, c.settled, c.members, told, c.rights)
			}
		}
		for _, c := range []struct {
			wait  time.Duration
			named []string
		}{{h.cfg.Window() - 1, []string{"a", "k", "x"}}, {1, []string{"a", "k"}}} {
			time.Sleep(c.wait)
			h.deps.Clock.look()
			a, err := h.Rights(t.Context(), "k", &wire.RightsRequest{View: view.Digest([]string{"k"})})
			if err != nil || !slices.Equal(a.GetMembers(), c.named) {
				t.Errorf("after %v the members are %v, %v, not %v", c.wait, a.GetMembers(), err, c.named)
			}
		}
	})
}

// An inquiry that fails is repeated after pauses that grow, and after short ones when the members have changed: those that see the
// change a little later can answer soon. One that succeeds ends the series.
func TestInquiriesHurryAfterAChangeOfMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64 // how often member a was
		var answers atomic.Bool
		clock := NewClock(nil)
		g := NewGrantor(Default(), GrantorDeps{Clock: clock, Boot: 2, Shelf: new(netsim.Shelf), Rights: asking(func(to string) ([]string, error) {
			if to == "a" {
				asked.Add(1)
			}
			if answers.Load() {
				return nil, nil
			}
			return nil, errLost
		})})
		v := view.View{Self: "k", Alive: []string{"a", "k", "o"}, Settled: []string{"k", "o"}, Majority: true, Version: 1}
		g.SetView(v)
		ctx, cancel := context.WithCancel(t.Context())
		var parts sync.WaitGroup
		for _, run := range []func(context.Context) error{clock.Run, g.Run} {
			parts.Go(func() { _ = run(ctx) })
		}
		acquires := func() {
			item := &wire.LeaseItem{Server: grantedBy(t, "k", v.Settled).AsSlice(), Wish: acquire}
			if _, err := g.Lease(ctx, "a", &wire.LeaseRequest{Header: &wire.Header{Boot: 1, Id: 1}, Items: []*wire.LeaseItem{item}}); err != nil {
				t.Fatal(err)
			}
		}
		acquires()
		time.Sleep(30 * time.Second)
		if n := asked.Load(); n < 7 || n > 10 {
			t.Errorf("%d inquiries in half a minute", n)
		}
		v.Alive, v.Version = []string{"a", "b", "k", "o"}, 2
		g.SetView(v)
		before := asked.Load()
		time.Sleep(10 * time.Second)
		if n := asked.Load() - before; n < 4 {
			t.Errorf("%d inquiries in ten seconds after the change", n)
		}
		answers.Store(true)
		time.Sleep(10 * time.Second)
		before = asked.Load()
		g.forget()
		acquires()
		time.Sleep(time.Second)
		if n := asked.Load() - before; n != 1 {
			t.Errorf("%d inquiries in the next second, not one that succeeds", n)
		}
		cancel()
		parts.Wait()
	})
}

// asking is an inquiry that members answer at once, as during says: with the members that they see.
func asking(during func(to string) (members []string, err error)) peer.Call[wire.RightsRequest, wire.RightsResponse] {
	return func(_ context.Context, to string, _ *wire.RightsRequest) (*wire.RightsResponse, error) {
		members, err := during(to)
		return &wire.RightsResponse{SameView: err == nil, Members: members}, err
	}
}

// An inquiry asks every member once, however many there are, and those that only another member sees.
func TestInquiriesAskEverybody(t *testing.T) {
	for _, n := range []int{2, inquireAtOnce, inquireAtOnce + 1} {
		seen := names(n)
		all := append(slices.Clone(seen), "unseen")
		var mu sync.Mutex
		var asked []string
		g := NewGrantor(Default(), GrantorDeps{Clock: NewClock(nil), Boot: 2, Rights: asking(func(to string) ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, to)
			if to == seen[0] {
				return all, nil
			}
			return nil, nil
		})})
		g.SetView(view.View{Self: seen[0], Alive: seen, Settled: seen, Majority: true})
		g.grants.ask = true
		concluded := g.inquire(t.Context(), g.grants.inquiry(time.Now()))
		slices.Sort(asked)
		slices.Sort(all)
		if !concluded || !slices.Equal(asked, all) {
			t.Errorf("of %d members and one more it asked %v, and concluded: %v", n, asked, concluded)
		}
	}
}

// An inquiry during which there was a gap counts for nothing.
func TestInquiryWithAGap(t *testing.T) {
	for what, c := range map[string]struct {
		before, during time.Duration // how far the clock jumps
		noticed        bool
		concluded      bool
		asked          int64
	}{
		"no gap":                 {0, 0, false, true, 2},
		"a gap before":           {time.Minute, 0, false, false, 0},
		"a gap":                  {0, time.Minute, false, false, 2},
		"a gap that was noticed": {0, time.Minute, true, false, 2},
	} {
		var jumped, asked atomic.Int64
		clock := NewClock(func() time.Duration { return time.Duration(jumped.Load()) })
		g := NewGrantor(Default(), GrantorDeps{Clock: clock, Boot: 2, Rights: asking(func(string) ([]string, error) {
			if asked.Add(1) > 1 {
				return nil, nil
			}
			if jumped.Add(int64(c.during)); c.noticed {
				clock.look()
			}
			return nil, nil
		})})
		g.SetView(view.View{Self: "k", Alive: []string{"a", "k"}, Settled: []string{"a", "k"}, Majority: true})
		g.grants.ask = true
		q := g.grants.inquiry(time.Now())
		jumped.Store(int64(c.before))
		if concluded := g.inquire(t.Context(), q); concluded != c.concluded || asked.Load() != c.asked {
			t.Errorf("%s: it asked %d members and concluded: %v", what, asked.Load(), concluded)
		}
	}
}
