package compare

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
	"time"
)

// record is what is kept of a line until it is joined with the others of its key: of a download of a page, or of a decision about a server in
// a batch or an estimate for it. In a decision, bytes is the number of estimates that were asked for, and node the one that was chosen.
type record struct {
	key      uint64 // hash of the URL, or of the batch and the server
	batch    uint64 // hash, 0 for none
	time     int64  // ms since 1970
	ms       float32
	bytes    uint32
	server   uint32 // index in names
	run      uint16
	node     uint16 // index in the run, or noNode
	rows     uint16 // a bit for each
	decision bool
	flags    uint8
}

// Flags of a record.
const (
	flagCompared  = 1 << iota // downloaded for a comparison
	flagEstimate              // downloaded for an estimate
	flagRound                 // in a round of mode persistent
	flagOK                    // answered with a status below 400
	flagHTML                  // an HTML page was answered
	flagCut                   // the node itself broke it off
	flagAgain                 // another try may succeed
	flagTruncated             // the assigner had to decide
)

const noNode = math.MaxUint16

// mostRecords of 48 bytes are a gigabyte.
const mostRecords = 20_000_000

// shards keep the slices that grow and are sorted small: so many for downloads, and as many for decisions.
const shards = 64

// records wait in memory until all logs have been read.
type records struct {
	shards  [2 * shards][]record
	n, most int
}

func (s *records) add(r record) error {
	if s.n++; s.n > s.most {
		return fmt.Errorf("compare: more than %d downloads and decisions: read fewer runs at once", s.most)
	}
	i := r.key >> 32 % shards
	if r.decision {
		i += shards
	}
	s.shards[i] = append(s.shards[i], r)
	return nil
}

// groups calls do with all records of each key, sorted by run, batch and time, and frees them.
func (s *records) groups(do func([]record)) {
	for i, list := range s.shards {
		slices.SortStableFunc(list, func(a, b record) int {
			return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.run, b.run), cmp.Compare(a.batch, b.batch), cmp.Compare(a.time, b.time),
				cmp.Compare(a.node, b.node))
		})
		for g := range chunks(list, func(a, b record) bool { return a.key == b.key }) {
			do(g)
		}
		s.shards[i] = nil
	}
}

// entry returns what a map has for a key, a zero value that it adds if there is nothing.
func entry[K comparable, V any](m map[K]*V, key K) *V {
	if m[key] == nil {
		m[key] = new(V)
	}
	return m[key]
}

// chunks splits a list where neighbours differ.
func chunks[T any](list []T, same func(a, b T) bool) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for len(list) > 0 {
			n := 1
			for n < len(list) && same(list[0], list[n]) {
				n++
			}
			if !yield(list[:n]) {
				return
			}
			list = list[n:]
		}
	}
}

// each yields the index of every bit that is set.
func each(mask uint16) iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; mask != 0; mask &= mask - 1 {
			if !yield(bits.TrailingZeros16(mask)) {
				return
			}
		}
	}
}

func (r record) at() time.Time { return time.UnixMilli(r.time) }
