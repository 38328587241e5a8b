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
	// Settled are the ids that homes and grantors are drawn from; never empty while the node is alone.
	Settled []string
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

// Home is the node that decides about a host, "" in an empty view. Hosts of one registrable domain share their home.
func (v *View) Home(host string) string {
	switch len(v.Settled) {
	case 0:
		return ""
	case 1:
		return v.Settled[0]
	}
	return assign.Rendezvous(identity.RegistrableDomain(host), v.Settled)
}

// Replica is the node that keeps the replica of a host: the first in the order of its domain that is not the owner. So the
// home has it unless it is the owner; and if it is, the node that becomes the home when this one dies.
func (v *View) Replica(host, owner string) string { return v.besides(host, owner, 0) }

// Witness is the node that keeps the record of a host only: the one after that which keeps the replica.
func (v *View) Witness(host, owner string) string { return v.besides(host, owner, 1) }

// besides is one of those that come first in the order of a host's domain, without its owner; "" where there are not so many.
func (v *View) besides(host, owner string, i int) string {
	order := assign.RendezvousOrder(identity.RegistrableDomain(host), v.Settled, i+2)
	order = slices.DeleteFunc(order, func(id string) bool { return id == owner })
	if len(order) <= i {
		return ""
	}
	return order[i]
}

// Grantor is the node that grants the leases of a server, "" in an empty view.
func (v *View) Grantor(server netip.Addr) string {
	return assign.Rendezvous(server.String(), v.Settled)
}

// Drawn is the node that does what one node does for all, by its name; "" in an empty view.
func (v *View) Drawn(task string) string { return assign.Rendezvous(task, v.Settled) }

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
