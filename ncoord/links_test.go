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
	ranks, times := 0, 100
	for i := range times {
		kept := make(map[string]bool)
		for _, l := range s.all {
			kept[l.peer] = true
		}
		s.add("new"+strconv.Itoa(i), rnd).used = most
		for _, l := range s.all {
			delete(kept, l.peer)
		}
		for gone := range kept {
			rank, err := strconv.Atoi(gone)
			if err != nil {
				rank = most // a new one
			}
			ranks += rank
		}
		if len(kept) != 1 || len(s.all) != most {
			t.Fatalf("%d links, %d gone", len(s.all), len(kept))
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
