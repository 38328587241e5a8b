// Package view is who is there, as one node sees it: the members, what is drawn from them (homes, replicas and witnesses of
// hosts, grantors of servers), and what was so in the last while. It does not find the members out (package member).
//
// Whoever decides about something by a view may have to wait before it does: in an earlier view another node decided about it,
// and what that one did is not known here. History says for how long.
package view

import (
	"net/netip"
	"slices"

	"github.com/cespare/xxhash/v2"

	"proxima/assign"
	"proxima/frontier/identity"
)

// View is what one node sees. It is a copy: nothing in it changes any more. All lists are sorted.
type View struct {
	// Self is the id of the node that looks.
	Self string
	// Version grows with every change of Settled, Majority or Alive.
	Version uint64
	// Settled are the ids of the members that count; never empty while the node is alone.
	Settled []string
	// Homes are those of them that homes, replicas and grantors are drawn from: those that can be dialled, unless there is none. nil: all.
	Homes []string
	// Majority says whether this side may raise epochs and grant leases.
	Majority bool
	// Alive are the members that answer, Self included. Absent are others that may be alive all the same: dead, but not
	// forgotten, or awaited.
	Alive, Absent []string
	// Over are the other members that have told, to all, that the crawl is over, whatever has become of them since.
	Over []string
}

// IsAlive says whether a member answers.
func (v *View) IsAlive(id string) bool { return slices.Contains(v.Alive, id) }

// Alone says whether nobody else answers.
func (v *View) Alone() bool {
	return !slices.ContainsFunc(v.Alive, func(id string) bool { return id != v.Self })
}

// AllOver says whether the crawl is over for all others: for some by what they told, and nobody else is there.
func (v *View) AllOver() bool {
	return len(v.Over) > 0 && !slices.ContainsFunc(v.Alive, func(id string) bool { return id != v.Self && !slices.Contains(v.Over, id) })
}

// homes are the ids to draw from.
func (v *View) homes() []string {
	if len(v.Homes) > 0 {
		return v.Homes
	}
	return v.Settled
}

// Same says whether the same is drawn from two views.
func (v *View) Same(o *View) bool {
	return slices.Equal(v.Settled, o.Settled) && slices.Equal(v.homes(), o.homes())
}

// Digest sums up what is drawn from.
func (v *View) Digest() uint64 {
	d := Digest(v.Settled)
	if len(v.homes()) < len(v.Settled) {
		d ^= Digest(v.Homes) * 31
	}
	return d
}

// Home is the node that decides about a host, "" in an empty view. Hosts of one registrable domain share their home.
func (v *View) Home(host string) string {
	homes := v.homes()
	switch len(homes) {
	case 0:
		return ""
	case 1:
		return homes[0]
	}
	return assign.Rendezvous(identity.RegistrableDomain(host), homes)
}

// Replica is the node that keeps the replica of a host: the first in the order of its domain that is not the owner. So the
// home has it unless it is the owner; and if it is, the node that becomes the home when this one dies.
func (v *View) Replica(host, owner string) string { return v.besides(host, owner, 0) }

// Witness is the node that keeps the record of a host only: the one after that which keeps the replica.
func (v *View) Witness(host, owner string) string { return v.besides(host, owner, 1) }

// besides is one of those that come first in the order of a host's domain, without its owner; "" where there are not so many.
func (v *View) besides(host, owner string, i int) string {
	domain, homes := identity.RegistrableDomain(host), v.homes()
	order := assign.RendezvousOrder(domain, homes, i+2)
	if len(homes) < min(i+2, len(v.Settled)) { // others are better than nobody
		rest := slices.DeleteFunc(slices.Clone(v.Settled), func(id string) bool { return slices.Contains(homes, id) })
		order = append(order, assign.RendezvousOrder(domain, rest, i+2-len(homes))...)
	}
	order = slices.DeleteFunc(order, func(id string) bool { return id == owner })
	if len(order) <= i {
		return ""
	}
	return order[i]
}

// Grantor is the node that grants the leases of a server, "" in an empty view.
func (v *View) Grantor(server netip.Addr) string {
	return assign.Rendezvous(server.String(), v.homes())
}

// Drawn is the node that does what one node does for all, by its name; "" in an empty view.
func (v *View) Drawn(task string) string { return assign.Rendezvous(task, v.homes()) }

// Digest sums up a sorted list of ids.
func Digest(ids []string) uint64 {
	var d xxhash.Digest
	d.Reset()
	for _, id := range ids {
		_, _ = d.WriteString(id)
		_, _ = d.Write([]byte{0})
	}
	return d.Sum64()
}
