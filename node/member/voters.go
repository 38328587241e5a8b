package member

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"

	"proxima/frontier/coder"
)

// origin is where a line of voter sets begins.
type origin struct {
	// founded is the founder's wall clock in ms; forced counts how often an operator has cut the line short (GoAlone).
	founded int64
	forced  uint64
	// by is who founded it, or last forced it.
	by string
}

// compare is positive if o takes precedence over p: the older overlay first, then the one forced more often.
func (o origin) compare(p origin) int {
	return cmp.Or(cmp.Compare(p.founded, o.founded), cmp.Compare(o.forced, p.forced), cmp.Compare(p.by, o.by))
}

// voters is one decided set of voters in a line of sets. Version 0 is none.
type voters struct {
	origin  origin
	version uint64
	ids     []string // sorted
}

func (v voters) has(id string) bool {
	_, ok := slices.BinarySearch(v.ids, id)
	return ok
}

// compare is positive if v takes precedence over w.
func (v voters) compare(w voters) int {
	if v.version == 0 || w.version == 0 {
		return cmp.Compare(v.version, w.version)
	}
	return cmp.Or(v.origin.compare(w.origin), cmp.Compare(v.version, w.version))
}

// ballot identifies an attempt to decide the next set.
type ballot struct {
	number uint64
	by     string
}

func (b ballot) compare(c ballot) int {
	return cmp.Or(cmp.Compare(b.number, c.number), cmp.Compare(b.by, c.by))
}

// proposal is a set accepted in a ballot; nil ids are none.
type proposal struct {
	ballot ballot
	ids    []string
}

// stamp is a hash of the set, for others to compare; 0 is no set.
func (v voters) stamp() uint64 {
	if v.version == 0 {
		return 0
	}
	return max(xxhash.Sum64(encode(nil, v)), 1)
}

// marked is the stamp of a node that has the set with this stamp, and has accepted the next one or gave up its vote.
func marked(stamp uint64, accepted proposal, renounced bool) uint64 {
	if stamp == 0 || accepted.ids == nil && !renounced {
		return stamp
	}
	b := encode(binary.LittleEndian.AppendUint64(nil, stamp), accepted)
	if renounced {
		b = append(b, 1)
	}
	return max(xxhash.Sum64(b), 1)
}

// code is: version and, unless that is 0, founded, forced, by, ids.
func (v *voters) code(c *coder.Coder) {
	if c.Uvarint(&v.version); v.version == 0 {
		return
	}
	founded := uint64(max(v.origin.founded, 0))
	c.Uvarint(&founded)
	v.origin.founded = int64(founded & (1<<62 - 1))
	c.Uvarint(&v.origin.forced)
	id(c, &v.origin.by)
	ids(c, &v.ids)
}

func (b *ballot) code(c *coder.Coder) {
	if c.Uvarint(&b.number); b.number > 0 {
		id(c, &b.by)
	}
}

func (p *proposal) code(c *coder.Coder) {
	p.ballot.code(c)
	ids(c, &p.ids)
}
