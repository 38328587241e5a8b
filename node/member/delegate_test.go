package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"proxima/ncoord"
	"proxima/node/view"
)

// must ends a test whose set-up has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lone makes node 1 of the tests, in its life 7, on a clock that stands still. It does not run.
func lone(t *testing.T, change ...func(*Config, *Deps)) *Members {
	t.Helper()
	cfg, now := Default(), time.Unix(1_000_000, 0)
	deps := Deps{ID: nodeID(1), Boot: 7, Secrets: [][]byte{bytes.Repeat([]byte{1}, 32)}, PeerAddr: "192.0.2.1:7", Now: func() time.Time { return now }}
	for _, f := range change {
		f(&cfg, &deps)
	}
	m, err := New(cfg, deps)
	must(t, err)
	m.table.events = nil // what its beginning told
	return m
}

// said returns the events so far, as kinds with their reasons, and forgets them.
func said(m *Members) string {
	var all []string
	for _, e := range m.table.events {
		all = append(all, strings.TrimSuffix(e.Kind+": "+e.Reason, ": "))
	}
	m.table.events = nil
	return strings.Join(all, "; ")
}

// woken reports whether a loop was woken, and lets it sleep again.
func woken(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// A message of a voter waits to be read. One that cannot be read is told, and one of this node itself, or too many, are dropped.
func TestMessagesThatCome(t *testing.T) {
	m := lone(t)
	d := delegate{m}
	good := message{from: nodeID(2)}
	for _, c := range []struct {
		what  string
		b     []byte
		waits int
		told  string
		left  int
	}{
		{"a message", encode(nil, good), 0, "", 1},
		{"its own", encode(nil, message{from: nodeID(1)}), 0, "", 0},
		{"garbage", []byte{messageVersion + 1}, 0, "trouble: decode message: unknown version 3", 0},
		{"the last that has room", encode(nil, good), 4095, "", 4096},
		{"one too many", encode(nil, good), 4096, "", 4096},
	} {
		m.messages = make([]message, c.waits)
		d.NotifyMsg(c.b)
		if got := said(m); got != c.told || len(m.messages) != c.left || woken(m.wakeVoting) != (c.left == c.waits+1) {
			t.Errorf("%s: %d wait, and it tells %q", c.what, len(m.messages), got)
		}
	}
}

// A node whose only address to join is its own founds an overlay when it has met itself there.
func TestNodeThatJoinsItself(t *testing.T) {
	const name, self, other = "192.0.2.1:1", "192.0.2.1:7946", "192.0.2.2:1"
	for _, c := range []struct {
		join, known []string
		met         bool
		founds      bool
	}{{[]string{name}, nil, true, true}, {[]string{name}, nil, false, false}, {[]string{name, other}, nil, true, false}, {[]string{name}, []string{other}, true, false},
		{[]string{self}, nil, false, true}, {[]string{self, other}, nil, false, false}, {[]string{self}, []string{other}, false, false}} {
		m := lone(t, func(cfg *Config, d *Deps) { cfg.Join, d.Known = c.join, c.known })
		m.metSelf, m.gossip = c.met, self
		m.update()
		if founds := m.table.paxos.set.version == 1; founds != c.founds {
			t.Errorf("by %v and %v, having met itself %v: it founds an overlay: %v", c.join, c.known, c.met, founds)
		}
	}
}

// Addresses that claim this node's id are dialled, but not too many.
func TestClaimsOfAnID(t *testing.T) {
	m := lone(t)
	d := delegate{m}
	at := func(id, port int) *memberlist.Node {
		return &memberlist.Node{Name: nodeID(id), Addr: []byte{192, 0, 2, 9}, Port: uint16(port)}
	}
	if d.NotifyConflict(nil, at(2, 1)); len(m.claims) > 0 {
		t.Error("it dials the address of another id")
	}
	for port := range 16 {
		if d.NotifyConflict(nil, at(1, port+1)); len(m.claims) != port+1 {
			t.Fatalf("%d addresses of %d wait", len(m.claims), port+1)
		}
	}
	if d.NotifyConflict(nil, at(1, 17)); len(m.claims) > 0 {
		t.Errorf("%d addresses wait", len(m.claims))
	}
}

// saysWhatIs reports whether the answer to pings is that of now.
func saysWhatIs(m *Members) bool {
	return bytes.Equal(delegate{m}.AckPayload(), encode(nil, ack{boot: m.deps.Boot, coord: m.locator.node.Coordinate(), place: m.locator.place}))
}

// An answer to a ping counts if it is of the life that was seen, or if what that life publishes cannot be read.
func TestAnswersToPings(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(r, self *record)
		boot   uint64
		counts bool
		told   string
	}{
		{"the same life", func(_, _ *record) {}, 3, true, "sample"},
		{"another life", func(_, _ *record) {}, 4, false, "sample: an answer of life 4 to a ping of life 3"},
		{"a life that cannot be read", func(r, _ *record) { r.bad = true }, 4, true, "sample"},
		{"the dead", func(r, _ *record) { r.phase = dead }, 3, false, ""},
		{"one far away", func(r, _ *record) { r.location = &ncoord.Location{Lon: 90} }, 3, true, "sample: round trip faster than light"},
		{"one that is outbound only", func(r, _ *record) { r.way.Reach = view.Outbound }, 3, true, "sample"},
		{"one that dials this node", func(_, self *record) { self.way.Reach = view.Outbound }, 3, true, "sample"},
		{"one that a relay carries to this node", func(r, self *record) { r.way.Reach, self.way.Reach = view.Outbound, view.Outbound }, 3, true, "sample: by a relay"},
	} {
		m := lone(t, func(_ *Config, d *Deps) { d.Location = &ncoord.Location{} })
		m.table.seen(nodeID(2), "192.0.2.2:7", meta{boot: 3, addr: "192.0.2.2:8"}, nil, m.now())
		r := m.table.members[nodeID(2)]
		m.table.events = nil
		c.change(r, m.table.self)
		a := ack{boot: c.boot, place: examplePlace()}
		a.coord.Error = 1
		delegate{m}.NotifyPingComplete(&memberlist.Node{Name: nodeID(2)}, 20*time.Millisecond, encode(nil, a))
		if counts := r.trips.n == 1 && r.placed && r.heard.Equal(m.now().Add(-20*time.Millisecond)); counts != c.counts || !saysWhatIs(m) {
			t.Errorf("of %s: it counts %v", c.what, counts)
		}
		if got := said(m); got != c.told {
			t.Errorf("of %s: it tells %q", c.what, got)
		}
	}
}

// A loop takes its first step at once, and the next ones at a tick or when it is woken. It ends with a step that fails.
func TestStepsOfALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for last, want := range [][]time.Duration{{0}, {0, tick}, {0, tick, tick}, {0, tick, tick, 2 * tick}} {
			wake, full, begun := make(chan struct{}, 1), errors.New("full"), time.Now()
			var steps []time.Duration
			err := loop(t.Context(), wake, func() error {
				if steps = append(steps, time.Since(begun)); len(steps) == 2 {
					wake <- struct{}{}
				}
				if len(steps) > last {
					return full
				}
				return nil
			})
			if !errors.Is(err, full) || !slices.Equal(steps, want) {
				t.Errorf("steps at %v, want %v: %v", steps, want, err)
			}
		}
	})
}

// A node that leaves tells nothing of others that leave at the same time: it may not hear their farewells any more.
func TestWhoLeavesTellsOfNoDeaths(t *testing.T) {
	m := lone(t)
	for _, leaves := range []bool{true, false} {
		m.table.seen(nodeID(2), "192.0.2.2:7", meta{boot: 3, addr: "192.0.2.2:8"}, nil, m.now())
		said(m)
		m.table.farewellAcks = nil
		if leaves {
			m.table.farewellAcks = map[string]bool{}
		}
		delegate{m}.NotifyLeave(&memberlist.Node{Name: nodeID(2)})
		if got := said(m); (got == "") != leaves || !woken(m.wakeTend) {
			t.Errorf("leaving %v, it tells %q", leaves, got)
		}
	}
}

// Events wait up to a bound, and samples up to half of it.
func TestEventsAreBounded(t *testing.T) {
	for _, c := range []struct {
		kind  string
		waits int
		kept  bool
	}{{EventSample, 4095, true}, {EventSample, 4096, false}, {EventDeath, 4096, true}, {EventDeath, 8191, true}, {EventDeath, 8192, false}} {
		m := lone(t)
		m.table.events = make([]Event, c.waits)
		if m.emitLocked(Event{Kind: c.kind}); (len(m.table.events) > c.waits) != c.kept || woken(m.wakeTend) != c.kept {
			t.Errorf("with %d that wait, a %s makes them %d", c.waits, c.kind, len(m.table.events))
		}
	}
}

// What happens while events are told is told after them.
func TestEventsWhileEventsAreTold(t *testing.T) {
	var m *Members
	told := ""
	m = lone(t, func(_ *Config, d *Deps) {
		d.Event = func(e Event) {
			if told += e.Reason; e.Reason == "a" {
				m.trouble("", "c")
				m.trouble("", "d")
			}
		}
	})
	m.trouble("", "a")
	m.trouble("", "b")
	m.flush()
	if m.flush(); told != "abcd" {
		t.Errorf("told are %s", told)
	}
}

// Of a member that is gone, or lives anew, no round trips are remembered.
func TestRoundTripsOfWhoIsGone(t *testing.T) {
	for kind, links := range map[string]int{EventDeath: 0, EventLeave: 0, EventRejoin: 0, EventJoin: 1} {
		m := lone(t)
		must(t, m.locator.observe(nodeID(2), ncoord.Coordinate{Error: 1}, nil, time.Second, m.now()))
		m.emitLocked(Event{Kind: kind, ID: nodeID(2)})
		if m.flush(); m.locator.node.Links() != links || len(m.table.events) > 0 {
			t.Errorf("after a %s it remembers %d members", kind, m.locator.node.Links())
		}
	}
}

// A node that leaves says that it has given up its vote. One that has found the crawl to be over says that instead, with the same voters.
func TestWhatALeavingNodePublishes(t *testing.T) {
	m := lone(t)
	m.table.seen(nodeID(2), "192.0.2.2:7", meta{boot: 3, addr: "192.0.2.2:8"}, nil, m.now())
	m.table.adopt(voters{origin{1, 0, nodeID(1)}, 2, []string{nodeID(1), nodeID(2)}}, m.now())
	plain := m.table.paxos.plain()
	for _, c := range []struct {
		act   func() error
		over  bool
		stamp uint64
	}{{func() error { return nil }, false, plain}, {m.giveUp, false, marked(plain, proposal{}, true)}, {m.Over, true, plain}} {
		must(t, c.act())
		if got, err := readMeta(delegate{m}.NodeMeta(0), false); err != nil || got.over != c.over || got.stamp != c.stamp || !got.saysSame(m.told) {
			t.Errorf("it publishes %+v, %v; want the stamp %d, over %v", got, err, c.stamp, c.over)
		}
		if said := m.table.farewellMessage(messageLeave, nodeID(2)); said.renounced != (c.stamp != plain || c.over) {
			t.Errorf("over %v, it says farewell as %+v", c.over, said)
		}
	}
}

// A voter that leaves may count for the set that it has accepted: its farewell gives up no vote.
func TestFarewellAfterAnAcceptance(t *testing.T) {
	m := lone(t)
	m.table.paxos.renounced, m.table.paxos.accepted.ids = true, []string{nodeID(2)}
	if m.table.farewellMessage(messageLeave, nodeID(2)).renounced {
		t.Error("it gives up its vote")
	}
}

// A node that has been told of no peers founds an overlay. One that knows of some, by whatever way, waits for them.
func TestWhoHasPeers(t *testing.T) {
	for what, change := range map[string]func(*Config, *Deps){
		"":       func(*Config, *Deps) {},
		"join":   func(c *Config, _ *Deps) { c.Join = []string{"192.0.2.2:7"} },
		"known":  func(_ *Config, d *Deps) { d.Known = []string{"192.0.2.2:7"} },
		"voters": func(_ *Config, d *Deps) { d.Voters = encode(nil, kept{}) },
	} {
		if m := lone(t, change); m.table.majority != (what == "") {
			t.Errorf("by %q it is the majority: %v", what, m.table.majority)
		}
	}
}

// How to reach a member is known while it is remembered. A change is told, and the homes change only if dialling changes.
func TestWays(t *testing.T) {
	m := lone(t)
	m.table.seen(nodeID(2), "192.0.2.2:7", meta{boot: 3, addr: "192.0.2.2:8", way: view.Way{Reach: view.Streams}}, nil, m.now())
	for range 2 {
		there := m.table.members[nodeID(2)].phase == alive
		if way, is := m.Way(nodeID(2)); way.Reach != view.Streams || is != there {
			t.Errorf("it is reached by %v, alive %v", way.Reach, is)
		}
		m.table.lost(nodeID(2), m.now())
	}
	if _, is := m.Way(nodeID(3)); is {
		t.Error("a node that nobody has seen is alive")
	}
	m.table.settled = []string{nodeID(1), nodeID(2)}
	for _, c := range []struct {
		reach view.Reach
		stirs bool
		told  string
		homes int
	}{{view.Streams, false, "streams, was direct", 2}, {view.Outbound, true, "outbound, was streams", 1}, {view.Outbound, false, "", 1}, {view.Direct, true, "direct, was outbound", 2}} {
		m.table.stirred, m.table.events = false, nil
		woken(m.wakeTend)
		m.SetWay(view.Way{Reach: c.reach, Relays: []string{nodeID(2)}})
		told := ""
		for _, e := range m.table.events {
			told += e.Reason
		}
		if way, _ := m.Way(nodeID(1)); way.Reach != c.reach || m.table.stirred != c.stirs || told != c.told || !woken(m.wakeTend) || len(m.table.homes()) != c.homes {
			t.Errorf("to %v: it is %v, stirred %v, tells %q, and the homes are %v", c.reach, way.Reach, m.table.stirred, told, m.table.homes())
		}
	}
	if m.SetWay(view.Way{Reach: view.Streams}); !m.table.stirred {
		t.Error("a change is forgotten with the next one")
	}
	m.SetWay(view.Way{Reach: view.Outbound})
	m.table.members[nodeID(2)].way.Reach = view.Outbound
	if homes := m.table.homes(); len(homes) != 2 {
		t.Errorf("of nodes that nobody can dial the homes are %v", homes)
	}
}

// A node tells where its members are, who counts, and whom it misses.
func TestWhatANodeSees(t *testing.T) {
	m := lone(t)
	m.table.seen(nodeID(2), "192.0.2.2:7", meta{boot: 3, addr: "192.0.2.3:8"}, nil, m.now())
	m.table.seen(nodeID(3), "192.0.2.4:7", meta{}, errors.New("garbage"), m.now())
	m.table.adopt(voters{origin{1, 0, nodeID(1)}, 2, []string{nodeID(1), nodeID(2), nodeID(4)}}, m.now())
	m.update()
	for host, knows := range map[string]bool{"192.0.2.2": true, "192.0.2.3": true, "192.0.2.4": true, "192.0.2.5": false} {
		if m.Knows(host) != knows {
			t.Errorf("it knows %s: %v", host, !knows)
		}
	}
	for i, want := range map[int]string{1: "192.0.2.1:7", 2: "192.0.2.3:8", 3: "", 4: ""} {
		if addr, there := m.Addr(nodeID(i)); addr != want || there != (want != "") {
			t.Errorf("node %d is at %q, %v", i, addr, there)
		}
	}
	v := m.View()
	if !slices.Equal(v.Absent, []string{nodeID(2), nodeID(4)}) || len(v.Alive) != 3 || !v.Members[0].Placed || v.Members[1].Placed || !v.Members[1].Settled || v.Members[3].Settled {
		t.Errorf("it sees %+v", v)
	}
	changed := m.Changed()
	m.update()
	select {
	case <-changed:
		t.Error("it tells of a change where there is none")
	default:
	}
	m.table.members[nodeID(4)].over = true
	m.table.lost(nodeID(2), m.now())
	if _, there := m.Addr(nodeID(2)); there || !slices.Equal(m.View().Over, []string{nodeID(4)}) {
		t.Errorf("one that is gone is dialled: %v; the crawl is over for %v", there, m.View().Over)
	}
	delegate{m}.NotifyJoin(&memberlist.Node{Name: nodeID(5), Addr: []byte{192, 0, 2, 5}, Meta: encode(nil, meta{boot: 1, addr: "127.0.0.1:8"})})
	if !m.table.members[nodeID(5)].bad {
		t.Error("it takes a node on loopback for a member, and is not on loopback itself")
	}
}

// A knock goes to the gossip port of a member while this node runs.
func TestKnock(t *testing.T) {
	m := lone(t)
	m.table.seen(nodeID(2), "192.0.2.2:7", meta{boot: 3, addr: "192.0.2.2:8"}, nil, m.now())
	m.table.members[nodeID(4)] = &record{id: nodeID(4)}
	m.Knock(nodeID(2), []byte("knock"))
	p := &ports{}
	m.carrier = newCarrier(p, anybody(), nil, nil)
	for i, want := range map[int]int{2: 1, 3: 0, 4: 0} {
		p.packets = 0
		if m.Knock(nodeID(i), []byte("knock")); p.packets != want {
			t.Errorf("%d packets went to node %d", p.packets, i)
		}
	}
	if err := m.carrier.Shutdown(); err != nil {
		t.Error(err)
	}
}

// The keys of the gossip become the new secrets, the first of them in use. A bad one leaves the old ones there.
func TestRekey(t *testing.T) {
	key := func(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }
	m := lone(t, func(_ *Config, d *Deps) { d.Secrets = [][]byte{key(1), key(9)} })
	if keys := m.ring.GetKeys(); len(keys) != 2 || keys[0][0] != 1 || keys[1][0] != 9 {
		t.Errorf("it begins with the keys %v", keys)
	}
	for _, c := range []struct {
		secrets [][]byte
		ok      bool
		keys    string
	}{{[][]byte{key(2), key(1)}, true, "2 1"}, {[][]byte{key(2)}, true, "2"}, {[][]byte{key(3), {4}}, false, "3 2"}, {[][]byte{key(5)}, true, "5"},
		{[][]byte{key(6), key(7), key(8)}, true, "6 7 8"}, {[][]byte{key(9)}, true, "9"}} {
		err := m.Rekey(c.secrets)
		var keys []string
		for _, k := range m.ring.GetKeys() {
			keys = append(keys, fmt.Sprint(k[0]))
		}
		if got := strings.Join(keys, " "); got != c.keys || (err == nil) != c.ok {
			t.Errorf("the keys are %s, want %s; %v", got, c.keys, err)
		}
	}
}

// Only a running node goes on alone. What it has decided must be on its disk, and so must the end of its vote.
func TestDecisionsOnAFullDisk(t *testing.T) {
	full := errors.New("full")
	for _, c := range []struct {
		what             string
		running, leaving bool
		disk             error
		alone, over      bool
	}{
		{"a node that does not run", false, false, nil, false, true},
		{"one that leaves", true, true, nil, false, true},
		{"one that runs", true, false, nil, true, true},
		{"one with a full disk", true, false, full, false, false},
	} {
		kept := 0
		m := lone(t, func(_ *Config, d *Deps) { d.Keep = func([]byte) error { kept++; return c.disk } })
		if m.running = c.running; c.leaving {
			m.table.farewellAcks = map[string]bool{}
		}
		m.table.paxos.dirty = true
		if _, err := m.GoAlone("test"); (err == nil) != c.alone || errors.Is(err, full) != (c.disk != nil) {
			t.Errorf("%s goes alone: %v", c.what, err)
		}
		m.table.paxos.dirty = true
		woken(m.wakeTend)
		if err := m.Over(); (err == nil) != c.over || m.over != c.over || m.table.paxos.dirty == c.over || woken(m.wakeTend) != c.over {
			t.Errorf("%s says that the crawl is over: %v, %v", c.what, m.over, err)
		}
		before := kept
		if m.table.paxos.dirty = false; m.store() != nil || kept != before {
			t.Errorf("%s stores what is stored", c.what)
		}
		if m.table.whyMinority(m.now()) != "this node leaves" {
			t.Errorf("%s waits: %s", c.what, m.table.whyMinority(m.now()))
		}
	}
}

// An address to join that has no port is not dialled. A name that cannot be resolved is told.
func TestAddressesThatCannotBeDialled(t *testing.T) {
	asked := ""
	m := lone(t, func(_ *Config, d *Deps) {
		d.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
			asked += host
			return nil, errors.New("no such name")
		}
	})
	m.dial(t.Context(), "a.test")
	if asked != "" || said(m) != "" {
		t.Errorf("without a port it asks for %s", asked)
	}
	m.dial(t.Context(), "a.test:1")
	if got := said(m); asked != "a.test" || got != "trouble: resolve address to join: no such name" {
		t.Errorf("it asks for %s and tells %q", asked, got)
	}
	if r := (&record{gossip: "a.test:1"}); r.at() != nil {
		t.Errorf("%s is %v", r.gossip, r.at())
	}
}

// The log of memberlist becomes one event a second at most, which counts those left out since the one before.
func TestLogOfMemberlist(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	m := lone(t, func(_ *Config, d *Deps) { d.Now = func() time.Time { return now } })
	for _, line := range []string{"[WARN] memberlist: a", "[ERR] memberlist: b", "[DEBUG] memberlist: c", "[WARN] memberlist: d", "[WARN] memberlist: e",
		"[WARN] memberlist: f", "[DEBUG] memberlist: g", "[DEBUG] memberlist: h", "[ERR] memberlist: i"} {
		if _, err := (gossipLog{m}).Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second / 4)
	}
	if got, want := said(m), "trouble: memberlist: a; trouble: memberlist: e (and 2 more); trouble: memberlist: i (and 1 more)"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
}
