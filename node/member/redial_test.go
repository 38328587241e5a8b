package member

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/view"
)

// A dead voter is dialled for ever, as this node may wait for it, and another dead member for a while; the configured
// addresses are dialled for ever, and those of an earlier life for a while or as long as there is no majority.
func TestWhoIsDialled(t *testing.T) {
	const voter, member, joined, known = "10.0.0.2:1", "10.0.0.3:1", "192.0.2.1:1", "192.0.2.2:1"
	for what, k := range map[string]struct {
		change func(m *Members, voter, member *record)
		after  time.Duration
		want   []string
		alone  bool
	}{
		"soon":                     {nil, 0, []string{voter, member, joined, known}, false},
		"as long as all":           {nil, redialFor - 1, []string{voter, member, joined, known}, false},
		"later":                    {nil, redialFor, []string{voter, joined}, false},
		"in a minority":            {func(m *Members, _, _ *record) { m.table.majority = false }, redialFor, []string{voter, joined, known}, false},
		"who has left":             {func(_ *Members, v, _ *record) { v.phase = left }, 0, []string{member, joined, known}, false},
		"who lives":                {func(_ *Members, v, _ *record) { v.phase = alive }, 0, []string{member, joined, known}, false},
		"who has no address":       {func(_ *Members, v, _ *record) { v.gossip = "" }, 0, []string{member, joined, known}, false},
		"who cannot be dialled":    {func(_ *Members, v, _ *record) { v.way.Reach = view.Outbound }, 0, []string{member, joined, known}, false},
		"who lives where one died": {func(m *Members, v, _ *record) { m.table.members[nodeID(4)].gossip = v.gossip }, 0, []string{member, joined, known}, false},
		"itself":                   {func(m *Members, _, _ *record) { m.gossip = joined }, 0, []string{voter, member, known}, false},
		"an address twice":         {func(m *Members, _, _ *record) { m.deps.Known = []string{joined} }, 0, []string{voter, member, joined}, false},
		"while nobody lives":       {func(m *Members, _, _ *record) { delete(m.table.members, nodeID(4)) }, 0, []string{voter, member, joined, known}, true},
	} {
		c := clockOf(t, 1, []int{2, 3, 4}, 1, 2, 4)
		c.lost(nodeID(2), c.now)
		c.lost(nodeID(3), c.now)
		c.cfg.Join = []string{joined}
		m := &Members{cfg: c.cfg, table: c.table, gossip: "10.0.0.1:1", deps: Deps{Known: []string{known}}}
		c.majority = true
		if k.change != nil {
			k.change(m, c.members[nodeID(2)], c.members[nodeID(3)])
		}
		if addrs, alone := m.toDial(c.now.Add(k.after)); !slices.Equal(addrs, k.want) || alone != k.alone {
			t.Errorf("%s: it dials %v, alone %v, want %v, %v", what, addrs, alone, k.want, k.alone)
		}
	}
}

// nowhere has no port, so that no dial of it takes time.
const nowhere = "nowhere"

// dialling is a node that dials nowhere, and its clock. Unless it is alone, another one lives.
func dialling(t *testing.T, alone bool) (m *Members, now *time.Time) {
	t.Helper()
	now = new(time.Time)
	*now = time.Unix(1_000_000, 0)
	m = lone(t, func(_ *Config, d *Deps) { d.Now = func() time.Time { return *now } })
	m.cfg.Join = []string{nowhere}
	if !alone {
		m.table.seen(nodeID(2), "192.0.2.2:7", meta{boot: 3, addr: "192.0.2.2:8"}, nil, *now)
	}
	return m, now
}

// dialNow dials what is due, and waits until that is done.
func (m *Members) dialNow(t *testing.T, targets map[string]*target) {
	m.redial(t.Context(), targets)
	_, _ = m.joins.Wait(), m.dials.Wait()
}

// The waits between two dials double up to a bound. While nobody is known they begin with a second, and stay short. Half of each is random.
func TestWaitsBetweenDials(t *testing.T) {
	for _, c := range []struct {
		alone bool
		waits []time.Duration // in seconds
	}{{true, []time.Duration{1, 2, 4, 8, 15, 15, 15, 15}}, {false, []time.Duration{15, 30, 60, 120, 240, 300, 300}}} {
		m, now := dialling(t, c.alone)
		targets := map[string]*target{}
		spread := map[time.Duration]bool{}
		for _, want := range c.waits {
			want *= time.Second
			m.dialNow(t, targets)
			at := targets[nowhere]
			wait := at.due.Sub(*now)
			if at.wait != want || wait < want/2 || wait > want {
				t.Errorf("alone %v: a wait of %v, for %v now, want one of %v", c.alone, at.wait, wait, want)
			}
			spread[wait*100/want] = true
			for due := at.due; now.Before(due) && at.due.Equal(due); *now = now.Add(min(tick, due.Sub(*now))) {
				if m.dialNow(t, targets); !at.due.Equal(due) {
					t.Errorf("alone %v: it does not wait for %v", c.alone, want)
				}
			}
		}
		if len(spread) < 3 {
			t.Errorf("the waits are not random: %v", slices.Collect(maps.Keys(spread)))
		}
	}
}

// A node that has lost all others does not wait out a long wait. Where it dials no more is forgotten, after one dial.
func TestWhatEndsAWait(t *testing.T) {
	for _, c := range []struct {
		alone     bool
		wait, due time.Duration // beside Config.Redial
		dials     bool
	}{{true, 1, 1, true}, {true, 0, 0, false}, {true, 1, 0, false}, {false, 1, 1, false}} {
		m, now := dialling(t, c.alone)
		at := &target{wait: m.cfg.Redial + c.wait, due: now.Add(m.cfg.Redial + c.due)}
		before := at.wait
		m.dialNow(t, map[string]*target{nowhere: at})
		if dials := at.wait != before; dials != c.dials {
			t.Errorf("alone %v, a wait of %v until %v from now: it dials: %v", c.alone, before, m.cfg.Redial+c.due, dials)
		}
	}
	m, _ := dialling(t, false)
	targets := map[string]*target{}
	m.claims["claim"] = struct{}{}
	if m.dialNow(t, targets); targets["claim"] == nil || targets["claim"].wait != m.cfg.Redial {
		t.Error("an address that claims this node's id is not dialled")
	}
	if m.dialNow(t, targets); targets["claim"] != nil || targets[nowhere] == nil {
		t.Error("it is dialled again, or what is configured is not")
	}
}

// A few addresses are dialled at once, of those that are configured as many as of the others. The rest is dialled when these are done.
func TestAddressesDialledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		dialled, ends := map[byte]int{}, make(chan struct{})
		m := lone(t, func(cfg *Config, d *Deps) {
			for i := range 2*maxDials + 1 {
				cfg.Join, d.Known = append(cfg.Join, fmt.Sprintf("join%d:1", i)), append(d.Known, fmt.Sprintf("known%d:1", i))
			}
			d.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
				mu.Lock()
				dialled[host[0]]++
				mu.Unlock()
				<-ends
				return nil, nil
			}
		})
		targets := map[string]*target{}
		for _, want := range []int{maxDials, 2 * maxDials, 2*maxDials + 1} {
			m.redial(t.Context(), targets)
			synctest.Wait()
			mu.Lock()
			if dialled['j'] != want || dialled['k'] != want {
				t.Errorf("%d that are configured and %d others were dialled, want %d", dialled['j'], dialled['k'], want)
			}
			mu.Unlock()
			close(ends)
			synctest.Wait()
			ends = make(chan struct{})
		}
		close(ends)
		_, _ = m.joins.Wait(), m.dials.Wait()
	})
}

// An address that claims this node's id is dialled once at a time, however often it does.
func TestClaimsAreDialledOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialled, ends := atomic.Int32{}, make(chan struct{})
		m := lone(t, func(_ *Config, d *Deps) {
			d.Resolve = func(context.Context, string) ([]netip.Addr, error) {
				dialled.Add(1)
				<-ends
				return nil, nil
			}
		})
		targets := map[string]*target{}
		for range 3 {
			m.claims["claim.test:1"] = struct{}{}
			m.redial(t.Context(), targets)
			synctest.Wait()
		}
		if n := dialled.Load(); n != 1 {
			t.Errorf("%d dials of one address are under way", n)
		}
		close(ends)
		synctest.Wait()
		m.claims["claim.test:1"] = struct{}{}
		m.dialNow(t, targets)
		if n := dialled.Load(); n != 2 {
			t.Errorf("a later claim is not dialled: %d dials", n)
		}
	})
}

// What a node tells its next life to dial: who lives, and for a while who is dead.
func TestWhoIsKnown(t *testing.T) {
	for what, k := range map[string]struct {
		change func(m *Members, r *record)
		known  bool
	}{
		"alive":              {func(*Members, *record) {}, true},
		"dead":               {func(m *Members, r *record) { r.phase, r.since = dead, m.now().Add(1-redialFor) }, true},
		"dead for long":      {func(m *Members, r *record) { r.phase, r.since = dead, m.now().Add(-redialFor) }, false},
		"left":               {func(_ *Members, r *record) { r.phase = left }, false},
		"without an address": {func(_ *Members, r *record) { r.gossip = "" }, false},
		"not to be dialled":  {func(_ *Members, r *record) { r.way.Reach = view.Outbound }, false},
	} {
		m, _ := dialling(t, false)
		m.table.self.gossip = "192.0.2.1:7"
		k.change(m, m.table.members[nodeID(2)])
		m.table.update(m.now())
		if known := m.Known(); (len(known) == 1) != k.known {
			t.Errorf("%s: known are %v", what, known)
		}
	}
}

// unusable is a transport that has no address.
type unusable struct {
	ports
	advertise string
	ended     bool
}

func (u *unusable) FinalAdvertiseAddr(host string, port int) (net.IP, int, error) {
	if host != "" {
		u.advertise = net.JoinHostPort(host, strconv.Itoa(port))
	}
	return nil, 0, errors.New("no address")
}
func (u *unusable) Shutdown() error { u.ended = true; return nil }

// A node that cannot gossip says why, and ends its transport.
func TestTransportThatCannotBeUsed(t *testing.T) {
	for _, c := range []struct {
		bind, advertise string
		remedy          bool
	}{{"127.0.0.1:7946", "", false}, {"0.0.0.0:7946", "", true}, {"0.0.0.0:7946", "192.0.2.1:7950", false}} {
		u := &unusable{}
		m := lone(t, func(cfg *Config, d *Deps) { cfg.Bind, cfg.Advertise, d.Transport = c.bind, c.advertise, u })
		err := m.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "no address") || strings.Contains(err.Error(), "set member.advertise") != c.remedy || !u.ended {
			t.Errorf("at %s it runs without an address, %v; its transport has ended: %v", c.bind, err, u.ended)
		}
		if u.advertise != c.advertise {
			t.Errorf("it advertises %q, not %q", u.advertise, c.advertise)
		}
	}
}

// A name that stands for this node alone is its own address. One that stands for others, too, is not.
func TestNameOfThisNode(t *testing.T) {
	self, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for _, c := range []struct {
		ips []netip.Addr
		met bool
	}{{[]netip.Addr{self}, true}, {[]netip.Addr{netip.AddrFrom16(self.As16())}, true}, {[]netip.Addr{self, other}, false}, {nil, false}} {
		m := lone(t, func(_ *Config, d *Deps) {
			d.Resolve = func(context.Context, string) ([]netip.Addr, error) { return c.ips, nil }
		})
		m.gossip = "192.0.2.1:7946"
		m.table.seen(nodeID(2), "192.0.2.2:7946", meta{boot: 3, addr: "192.0.2.2:8"}, nil, m.now()) // so that nobody is dialled
		if m.dial(t.Context(), "seed.test:7946"); m.metSelf != c.met {
			t.Errorf("by a name of %v it has met itself: %v", c.ips, m.metSelf)
		}
	}
}
