package member

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// origin is where a line of voter sets begins.
type origin struct {
	// founded is the founder's wall clock in ms, forced how often an operator has cut the line short (GoAlone).
	founded int64
	forced  uint64
	// by is who founded it, or forced it last.
	by string
}

// compare is positive where o takes precedence over p: the older overlay, then the one forced more often.
func (o origin) compare(p origin) int {
	return cmp.Or(cmp.Compare(p.founded, o.founded), cmp.Compare(o.forced, p.forced), cmp.Compare(p.by, o.by))
}

// voters is who votes: one decided set in a line of them. Version 0 is none.
type voters struct {
	origin  origin
	version uint64
	ids     []string // sorted
}

func (v voters) has(id string) bool {
	_, ok := slices.BinarySearch(v.ids, id)
	return ok
}

// compare is positive where v is to be believed rather than w.
func (v voters) compare(w voters) int {
	if v.version == 0 || w.version == 0 {
		return cmp.Compare(v.version, w.version)
	}
	return cmp.Or(v.origin.compare(w.origin), cmp.Compare(v.version, w.version))
}

// ballot numbers an attempt to decide the next set.
type ballot struct {
	number uint64
	by     string
}

func (b ballot) compare(c ballot) int {
	return cmp.Or(cmp.Compare(b.number, c.number), cmp.Compare(b.by, c.by))
}

// proposal is a set that was accepted in a ballot; nil ids are none.
type proposal struct {
	ballot ballot
	ids    []string
}

// stamp sums up what a node holds for others to compare; 0 is no set.
func (v voters) stamp() uint64 {
	if v.version == 0 {
		return 0
	}
	return max(xxhash.Sum64(appendVoters(nil, v)), 1)
}

// marked is the stamp of who holds a set with a stamp, and has accepted the next one or gave its vote up.
func marked(stamp uint64, accepted proposal, renounced bool) uint64 {
	if stamp == 0 || accepted.ids == nil && !renounced {
		return stamp
	}
	b := appendProposal(binary.LittleEndian.AppendUint64(nil, stamp), accepted)
	if renounced {
		b = append(b, 1)
	}
	return max(xxhash.Sum64(b), 1)
}

// appendVoters encodes a set: version, and unless that is 0, founded, forced, by, ids.
func appendVoters(b []byte, v voters) []byte {
	b = binary.AppendUvarint(b, v.version)
	if v.version == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(max(v.origin.founded, 0)))
	b = binary.AppendUvarint(b, v.origin.forced)
	b = appendID(b, v.origin.by)
	return appendIDs(b, v.ids)
}

func (r *reader) voters() (v voters) {
	if v.version = r.uvarint(); v.version == 0 {
		return v
	}
	v.origin.founded = int64(r.uvarint() & (1<<62 - 1))
	v.origin.forced = r.uvarint()
	v.origin.by = r.id()
	v.ids = r.ids()
	return v
}

func appendBallot(b []byte, at ballot) []byte {
	b = binary.AppendUvarint(b, at.number)
	if at.number == 0 {
		return b
	}
	return appendID(b, at.by)
}

func (r *reader) ballot() (at ballot) {
	if at.number = r.uvarint(); at.number > 0 {
		at.by = r.id()
	}
	return at
}

func appendProposal(b []byte, p proposal) []byte { return appendIDs(appendBallot(b, p.ballot), p.ids) }

func (r *reader) proposal() proposal { return proposal{ballot: r.ballot(), ids: r.ids()} }

func appendIDs(b []byte, ids []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		b = appendID(b, id)
	}
	return b
}

// ids takes ids in their order, each once.
func (r *reader) ids() (ids []string) {
	n := r.uvarint()
	if r.err == nil && n > maxEntries {
		r.err = errMany
	}
	for k := range n {
		id := r.id()
		if r.err != nil {
			return nil
		}
		if k > 0 && ids[k-1] >= id {
			r.err = errOrder
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}
