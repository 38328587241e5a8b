// Package view holds the members of the overlay as one node sees them, and draws from them: homes, replicas and witnesses of hosts, and
// grantors of servers. Package member finds the members.
//
// A node that begins to decide about something may have to wait first: another node decided about it in an earlier view, and this node does
// not know how. History keeps recent views and says how long to wait.
package view

import (
	"net/netip"
	"slices"

	"github.com/cespare/xxhash/v2"

	"proxima/assign"
	"proxima/frontier/identity"
)

// View is what one node sees at one moment. It never changes. All lists are sorted.
type View struct {
	// Self is the id of this node.
	Self string
	// Version grows with every change of Settled, Majority or Alive.
	Version uint64
	// Settled are the ids of the settled members. A node that is alone is settled.
	Settled []string
	// Homes are the settled members from which homes, replicas and grantors are drawn: those that can be dialled. Nil means all of them.
	Homes []string
	// Majority reports whether this side may raise epochs and grant leases.
	Majority bool
	// Voting are the members whose votes make the majority, whether they answer or not.
	Voting []string
	// Alive are the members that answer, including Self. Absent are others that may be alive all the same: they are dead but not yet
	// forgotten, or awaited.
	Alive, Absent []string
	// Over are the other members that have said that the crawl is over, even if they are no longer alive.
	Over []string
}

// IsAlive reports whether a member answers.
func (v *View) IsAlive(id string) bool { return slices.Contains(v.Alive, id) }

// HasReplica reports whether the node that keeps the replica of a host answers, or there is none: a dead one is drawn until it is no longer
// settled.
func (v *View) HasReplica(host, owner string) bool {
	if !slices.ContainsFunc(v.Settled, func(id string) bool { return !v.IsAlive(id) }) {
		return true // the usual case
	}
	to := v.Replica(host, owner)
	return to == "" || v.IsAlive(to)
}

// Others returns the other members that answer.
func (v *View) Others() []string {
	return slices.DeleteFunc(slices.Clone(v.Alive), func(id string) bool { return id == v.Self })
}

// AllOver reports whether the crawl is over for all others: some have said so, and no others are alive.
func (v *View) AllOver() bool {
	return len(v.Over) > 0 && !slices.ContainsFunc(v.Others(), func(id string) bool { return !slices.Contains(v.Over, id) })
}

// GoneSince returns the members that have died or left since an earlier view, and those dead ones that do not count as settled any more: until
// then they are still asked things.
func (v *View) GoneSince(before View) []string {
	settled := slices.DeleteFunc(slices.Clone(before.Settled), func(id string) bool { return slices.Contains(v.Settled, id) })
	return slices.DeleteFunc(slices.Concat(before.Alive, settled), v.IsAlive)
}

// Custodian returns another member that answers and is not among those: the next one after the last of them. So a node that fails again and
// again asks all. It returns "" if there is none.
func (v *View) Custodian(not ...string) string {
	i := slices.Index(v.Alive, not[len(not)-1])
	for range v.Alive {
		i = (i + 1) % len(v.Alive)
		if id := v.Alive[i]; id != v.Self && !slices.Contains(not, id) {
			return id
		}
	}
	return ""
}

// homes returns the ids to draw from.
func (v *View) homes() []string {
	if len(v.Homes) > 0 {
		return v.Homes
	}
	return v.Settled
}

// Same reports whether draws from two views give the same nodes.
func (v *View) Same(o *View) bool {
	return slices.Equal(v.Settled, o.Settled) && slices.Equal(v.homes(), o.homes())
}

// Digest returns a digest of the ids to draw from.
func (v *View) Digest() uint64 {
	d := Digest(v.Settled)
	if len(v.homes()) < len(v.Settled) {
		d ^= Digest(v.Homes) * 31
	}
	return d
}

// Home returns the home of a host, or "" in an empty view. Hosts of one registrable domain have the same home.
func (v *View) Home(host string) string {
	return assign.Rendezvous(identity.RegistrableDomain(host), v.homes())
}

// Replica returns the node that keeps the replica of a host: the first in the order of its domain that is not the owner. This is the home,
// or, if the home is the owner, the node that would become the home next.
func (v *View) Replica(host, owner string) string { return v.Heir(host, owner, 0) }

// Witness returns the node that keeps only the record of a host: the one after the replica.
func (v *View) Witness(host, owner string) string { return v.Heir(host, owner, 1) }

// Heir returns the i-th node in the order of a host's domain, not counting its owner, or "" if there are fewer.
func (v *View) Heir(host, owner string, i int) string {
	domain, homes := identity.RegistrableDomain(host), v.homes()
	order := assign.RendezvousOrder(domain, homes, i+2)
	if len(homes) < min(i+2, len(v.Settled)) { // with too few homes, other members are better than none
		rest := slices.DeleteFunc(slices.Clone(v.Settled), func(id string) bool { return slices.Contains(homes, id) })
		order = append(order, assign.RendezvousOrder(domain, rest, i+2-len(homes))...)
	}
	order = slices.DeleteFunc(order, func(id string) bool { return id == owner })
	if len(order) <= i {
		return ""
	}
	return order[i]
}

// Grantor returns the node that grants the leases of a server, or "" in an empty view.
func (v *View) Grantor(server netip.Addr) string {
	return assign.Rendezvous(server.String(), v.homes())
}

// Drawn returns the node that does a task for the whole overlay, or "" in an empty view.
func (v *View) Drawn(task string) string { return assign.Rendezvous(task, v.homes()) }

// Digest returns a digest of a sorted list of ids.
func Digest(ids []string) uint64 {
	var d xxhash.Digest
	d.Reset()
	for _, id := range ids {
		_, _ = d.WriteString(id)
		_, _ = d.Write([]byte{0})
	}
	return d.Sum64()
}

// Reach is how other nodes can contact a node.
type Reach uint8

const (
	// Direct means that its port can be dialled, and packets arrive.
	Direct Reach = iota
	// Streams means that its port can be dialled, but no packets arrive: UDP may be blocked.
	Streams
	// Outbound means that it can dial others but cannot be dialled: it may be behind a NAT.
	Outbound
)

func (r Reach) String() string {
	if r > Outbound {
		return "unknown"
	}
	return [...]string{"direct", "streams", "outbound"}[r]
}

// ParseReach returns the reach with a name, and whether there is one.
func ParseReach(name string) (Reach, bool) {
	for r := Direct; r <= Outbound; r++ {
		if r.String() == name {
			return r, true
		}
	}
	return 0, false
}

// MaxRelays is how many relays a node has at most.
const MaxRelays = 3

// Way is how a node is reached.
type Way struct {
	Reach Reach
	// Relays are the nodes to which an Outbound node keeps connections, by id. There are at most MaxRelays.
	Relays []string
}
