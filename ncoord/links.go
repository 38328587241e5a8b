package ncoord

import (
	"math/rand/v2"
	"slices"

	"proxima/ncoord/quantile"
)

// evictionDraw is how many links are drawn to find one that makes room.
const evictionDraw = 8

// link is what a node remembers of the way to one peer.
type link struct {
	peer   string
	filter filter
	remote Coordinate // at the last sample
	ms     float64    // filtered round trip at the last sample
	weight float64    // near(ms)
	used   int64      // time of the last sample, in ns of the node's own time
}

// links holds a bounded number of links of a node.
type links struct {
	index map[string]int // by peer: its place in all
	all   []link
}

// find returns the link of a peer, nil if there is none.
func (s *links) find(peer string) *link {
	if i, ok := s.index[peer]; ok {
		return &s.all[i]
	}
	return nil
}

// add makes a link for a peer that has none. If there are too many, it removes the longest unused of a few drawn at random.
func (s *links) add(peer string, rnd *rand.Rand) *link {
	if len(s.all) >= maxLinks {
		oldest := rnd.IntN(len(s.all))
		for range evictionDraw - 1 {
			if i := rnd.IntN(len(s.all)); s.all[i].used < s.all[oldest].used {
				oldest = i
			}
		}
		s.remove(s.all[oldest].peer)
	}
	s.index[peer] = len(s.all)
	s.all = append(s.all, link{peer: peer})
	return &s.all[len(s.all)-1]
}

// remove drops the link of a peer, if there is one. The last link takes its place.
func (s *links) remove(peer string) {
	i, ok := s.index[peer]
	if !ok {
		return
	}
	last := len(s.all) - 1
	if i != last {
		s.all[i] = s.all[last]
		s.index[s.all[i].peer] = i
	}
	s.all = s.all[:last]
	delete(s.index, peer)
}

// filter gives a percentile of the last samples of one link. The zero value is empty. It allocates nothing.
type filter struct {
	ring   [window]float32 // ms, in the order in which they came
	at     [window]int64   // times of the samples, in ns of the node's own time
	sorted [window]float32
	first  uint8 // index of the oldest in ring
	n      uint8
}

// add takes a sample and drops those that are too old or too many.
func (f *filter) add(ms float64, now int64) {
	for f.n > 0 && (int(f.n) >= window || now-f.at[f.first] > int64(sampleTTL)) {
		f.drop()
	}
	v := float32(ms)
	last := (f.first + f.n) % window
	f.ring[last], f.at[last] = v, now
	i, _ := slices.BinarySearch(f.sorted[:f.n], v)
	f.n++
	copy(f.sorted[i+1:f.n], f.sorted[i:])
	f.sorted[i] = v
}

// drop forgets the oldest sample.
func (f *filter) drop() {
	v := f.ring[f.first]
	f.first = (f.first + 1) % window
	f.n--
	i, _ := slices.BinarySearch(f.sorted[:f.n+1], v)
	copy(f.sorted[i:f.n], f.sorted[i+1:])
}

// percentile is the round trip of the link, in ms. The filter must not be empty.
func (f *filter) percentile(p float64) float64 {
	return float64(f.sorted[int(p*float64(f.n-1)+0.5)])
}

// delays holds by how much the last round trips, whatever the peer, exceeded the filtered ones of their links, in ms.
type delays struct {
	ring    [15]float64
	samples int
}

// add takes a delay, and drops the oldest.
func (d *delays) add(ms float64) {
	d.ring[d.samples%len(d.ring)] = max(0, ms)
	d.samples++
}

func (d *delays) median() float64 {
	all := d.ring
	last := all[:min(d.samples, len(all))]
	slices.Sort(last)
	return quantile.Of(last, .5)
}
