package ncoord

import "math/rand/v2"

// evictionDraw is how many links are looked at to find one that makes room.
const evictionDraw = 8

// link is what a node remembers of the way to one peer.
type link struct {
	peer   string
	filter filter
	remote Coordinate // as of the last sample
	ms     float64    // filtered round trip as of then
	weight float64    // of a sample of ms, by its length
	used   int64      // when, in ns of the node's own time
	light  lightBound
}

// lightBound is the least round trip between two locations, kept because it takes longer to compute than all the rest.
type lightBound struct {
	from, to Location
	ms       float64
}

func (l *lightBound) between(from, to Location) float64 {
	if l.from != from || l.to != to {
		*l = lightBound{from, to, lightMsWithin(from, to)}
	}
	return l.ms
}

// links are the links of a node, a bounded number of them.
type links struct {
	index map[string]int // peer -> place in all
	all   []link
}

// find gives a link, nil if there is none.
func (s *links) find(peer string) *link {
	if i, ok := s.index[peer]; ok {
		return &s.all[i]
	}
	return nil
}

// add makes a link for a peer that has none. If there are too many, the one longest unused of a few drawn goes.
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

// remove forgets a link if there is one; the last takes its place.
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
	s.all[last] = link{}
	s.all = s.all[:last]
	delete(s.index, peer)
}
