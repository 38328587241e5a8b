package ownership

import (
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"proxima/assign"
	"proxima/frontier/identity"
)

// View is what this node believes of the members. Settled is sorted; Alive are the ids that answer, self included.
type View struct {
	Self     string
	Settled  []string
	Alive    []string
	Majority bool
}

func (v *View) alive(id string) bool {
	return slices.Contains(v.Alive, id)
}

// domainOf is what a home is drawn for: hosts of one registrable domain share their home.
func domainOf(host string) string { return identity.RegistrableDomain(host) }

// homeOf is the home of a host in this view, "" in an empty one.
func (v *View) homeOf(host string) string {
	switch len(v.Settled) {
	case 0:
		return ""
	case 1:
		return v.Settled[0]
	}
	return assign.Rendezvous(domainOf(host), v.Settled)
}

// replicaOf is the node that keeps the replica of a host: the first in the order of its domain that is not the
// owner. So the home has it unless it is the owner; and if it is, the node that becomes the home when this one dies.
func (v *View) replicaOf(host, owner string) string {
	for _, id := range assign.RendezvousOrder(domainOf(host), v.Settled, 2) {
		if id != owner {
			return id
		}
	}
	return ""
}

// digest sums up the settled members.
func (v *View) digest() uint64 {
	var d xxhash.Digest
	d.Reset()
	for _, id := range v.Settled {
		_, _ = d.WriteString(id)
		_, _ = d.Write([]byte{0})
	}
	return d.Sum64()
}

// past is a view that was valid until a time.
type past struct {
	view        View
	from, until time.Time
}

// horizon remembers the views of the last while: a node that has just become the home of a host does not know yet what
// its predecessor knew.
type horizon struct {
	now   View
	known bool // a first view has come
	past  []past
	born  time.Time
	since time.Time // of now
}

func (z *horizon) set(v View, at time.Time, keep time.Duration) {
	switch {
	case !z.known:
		z.born, z.since = at, at
	case !slices.Equal(z.now.Settled, v.Settled) || z.now.Majority != v.Majority:
		z.past = append(z.past, past{z.now, z.since, at})
		z.since = at
	}
	z.now, z.known = v, true
	z.past = slices.DeleteFunc(z.past, func(p past) bool { return at.Sub(p.until) >= keep })
}

// span is the time in which a node was the home of a host.
type span struct {
	home        string
	from, until time.Time
}

// homes are the homes of a host in the views of the last while, up to now.
func (z *horizon) homes(host string, now time.Time) []span {
	var spans []span
	add := func(home string, from, until time.Time) {
		if n := len(spans); n > 0 && spans[n-1].home == home {
			spans[n-1].until = until
			return
		}
		spans = append(spans, span{home, from, until})
	}
	from := z.since
	if len(z.past) > 0 {
		from = z.past[0].from
	}
	for _, p := range z.past {
		add(p.view.homeOf(host), from, p.until)
		from = p.until
	}
	add(z.now.homeOf(host), from, now)
	return spans
}

// collecting says whether this node may not yet know the record of a host although it is its home: within the last
// keep somebody else was, or may have been on the other side of a partition, or the node has just started beside others.
func (z *horizon) collecting(host string, at time.Time, keep time.Duration) bool {
	if len(z.now.Settled) > 1 && at.Sub(z.born) < keep {
		return true
	}
	for _, p := range z.past {
		if at.Sub(p.until) < keep && (!p.view.Majority || p.view.homeOf(host) != z.now.Self) {
			return true
		}
	}
	return false
}
