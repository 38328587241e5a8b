package ncoord

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestLinksThatMakeRoom: where there are too many peers, one of those longest unheard of goes. One that is forgotten takes no
// other with it, nor does one that is not known.
func TestLinksThatMakeRoom(t *testing.T) {
	const most = 512
	rnd := rand.New(rand.NewPCG(1, 2))
	s := links{index: map[string]int{}}
	for i := range most {
		s.add(strconv.Itoa(i), rnd).used = int64(i)
	}
	sum := func() (used int64) {
		for _, l := range s.all {
			used += l.used
		}
		return used
	}
	const times = 100
	ranks := int64(0) // of those that went, by when they were heard of
	for i := range times {
		before := sum()
		s.add("new"+strconv.Itoa(i), rnd).used = most
		if ranks += before + most - sum(); len(s.all) != most {
			t.Fatalf("%d links", len(s.all))
		}
	}
	if mean := ranks / times; mean > most/evictionDraw*2 {
		t.Errorf("of %d links the one heard of %d before all others goes on average", most, mean)
	}
	for _, peer := range []string{"nobody", s.all[len(s.all)-2].peer, s.all[0].peer, s.all[len(s.all)-1].peer, s.all[7].peer} {
		_, known := s.index[peer]
		before := len(s.all)
		s.remove(peer)
		if gone := before - len(s.all); gone != map[bool]int{true: 1}[known] || s.find(peer) != nil {
			t.Errorf("%d links are gone with %s", gone, peer)
		}
		for i, l := range s.all {
			if s.find(l.peer) != &s.all[i] {
				t.Errorf("without %s, %s is not found", peer, l.peer)
			}
		}
	}
}
