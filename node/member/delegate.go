package member

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"

	"proxima/node/view"
)

// delegate connects memberlist to Members. memberlist calls it with its own lock held, so nothing here may call
// memberlist back, or wait.
type delegate struct{ *Members }

// NodeMeta returns what this node publishes about itself.
func (m delegate) NodeMeta(int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	is := m.metaLocked()
	if m.repeats = max(0, m.repeats-1); !is.saysSame(m.told) {
		m.repeats = tellAgain
	}
	m.told, m.toldAt = is, m.now()
	return encode(nil, is)
}

// metaLocked is what this node would publish now. It needs mu held.
func (m *Members) metaLocked() meta {
	// A node that has found the crawl over publishes the stamp from before it gave up its vote.
	c := &m.table.paxos
	stamp := marked(c.plain(), c.accepted, c.renounced && !m.over)
	return meta{boot: m.deps.Boot, settled: m.table.self.declared, over: m.over, addr: m.deps.PeerAddr,
		location: m.deps.Location, placed: true, place: m.locator.place, stamp: stamp, way: m.table.self.way}
}

// NotifyMsg receives a message of a voter.
func (m delegate) NotifyMsg(b []byte) {
	msg, err := decode[message](b, "message")
	if err != nil {
		m.trouble("", err.Error())
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if msg.from != m.deps.ID && len(m.messages) < maxMessages {
		m.messages = append(m.messages, msg)
		m.wakeVoting.Ring()
	}
}

// GetBroadcasts returns nothing: there are none.
func (m delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState returns the view that others get when two nodes compare all they know.
func (m delegate) LocalState(bool) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return encode(nil, m.table.state(m.nonce, m.now()))
}

// MergeRemoteState receives another node's view.
func (m delegate) MergeRemoteState(b []byte, _ bool) {
	s, err := decode[state](b, "state")
	now := m.now()
	if err != nil {
		m.trouble("", err.Error())
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case s.sender != m.deps.ID:
		m.table.merge(s, now)
	case s.nonce == m.nonce:
		m.metSelf = true
	default:
		m.duplicateLocked(s, now)
	}
	m.wakeTend.Ring()
}

// NotifyJoin, NotifyUpdate and NotifyLeave report changes of other nodes, and of this one.
func (m delegate) NotifyJoin(n *memberlist.Node)   { m.seen(n) }
func (m delegate) NotifyUpdate(n *memberlist.Node) { m.seen(n) }
func (m delegate) NotifyLeave(n *memberlist.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table.lost(n.Name, m.now())
	m.wakeTend.Ring()
}

// seen tells the table of a live node and of what it publishes.
func (m delegate) seen(n *memberlist.Node) {
	published, err := readMeta(n.Meta, onLoopback(m.deps.PeerAddr))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table.seen(n.Name, n.Address(), published, err, m.now())
	m.wakeTend.Ring()
}

// NotifyAlive refuses names that are not ids, addresses that are not a machine's, and more members than are kept.
func (m delegate) NotifyAlive(n *memberlist.Node) error {
	if !validID(n.Name) {
		return fmt.Errorf("%.40q is not a node's id", n.Name)
	}
	if n.Name != m.deps.ID {
		ip, _ := netip.AddrFromSlice(n.Addr)
		if err := checkIP(ip, onLoopback(m.deps.PeerAddr)); err != nil || n.Port == 0 {
			return fmt.Errorf("%s cannot be a member at %s: %w", n.Name, n.Address(), cmp.Or(err, errors.New("port 0")))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if members := m.table.members; members[n.Name] == nil && !m.table.makeRoom() {
		return fmt.Errorf("there are %d members already, which is the limit", len(members))
	}
	if n.Name == m.deps.ID {
		if says, err := decode[meta](n.Meta, "meta"); err == nil && says.boot > m.deps.Boot {
			m.twinLocked(n)
		}
	}
	return nil
}

// NotifyConflict reports that one id is used at two addresses. If it is this node's id, the other address is dialled:
// it may be left over from an earlier life of this node.
func (m delegate) NotifyConflict(_, other *memberlist.Node) {
	if other.Name != m.deps.ID {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims[other.Address()] = struct{}{}
	if len(m.claims) > maxClaims {
		clear(m.claims)
	}
	m.twinLocked(other)
}

// AckPayload returns this node's place.
func (m delegate) AckPayload() []byte { return *m.locator.payload.Load() }

// NotifyPingComplete reports a measured round trip.
func (m delegate) NotifyPingComplete(n *memberlist.Node, rtt time.Duration, payload []byte) {
	now := m.now()
	a, err := decode[ack](payload, "ack")
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.table.members[n.Name]
	if r == nil || r.phase != alive {
		return
	}
	if err == nil && a.boot != r.boot && !r.bad {
		err = fmt.Errorf("an answer of life %d to a ping of life %d", a.boot, r.boot)
	}
	if err == nil {
		r.put(a.place)
		r.trips.add(rtt)
		m.table.answered(n.Name, now.Add(-rtt))
		if r.way.Reach == view.Outbound && m.table.self.way.Reach == view.Outbound {
			err = errors.New("by a relay") // neither can be dialled: the round trip of a detour says nothing of where they are
		} else {
			err = m.locator.observe(n.Name, a.coord, r.location, rtt, now)
		}
	}
	e := Event{Kind: EventSample, Time: now, ID: n.Name, RTT: rtt, Coord: m.locator.node.Coordinate()}
	if err != nil {
		e.Reason = err.Error()
	}
	m.emitLocked(e)
}

// gossipLog turns memberlist's log into events, at most one a second. memberlist never logs while mu is held.
type gossipLog struct{ *Members }

// Write takes a line of memberlist. It leaves out those that are neither errors nor warnings, and those about news of an earlier life of this node,
// which every restart brings: a second node with its id is found out otherwise. It counts those that come too fast.
func (m gossipLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if !strings.HasPrefix(text, "[ERR") && !strings.HasPrefix(text, "[WARN") {
		return len(line), nil
	}
	_, text, _ = strings.Cut(text, "] ")
	if strings.Contains(text, "Refuting an alive message") || strings.Contains(text, "Refuting a dead message (from: "+m.deps.ID+")") {
		return len(line), nil
	}
	silent, heard := m.complaints.Heard(m.now(), time.Second)
	if silent > 0 {
		text = fmt.Sprintf("%s (and %d more)", text, silent)
	}
	if heard {
		m.trouble("", text)
	}
	return len(line), nil
}
