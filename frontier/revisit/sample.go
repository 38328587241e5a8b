package revisit

import (
	"container/heap"
	"encoding/binary"
	"fmt"
)

// sampleSize is how many pages a sample holds. With this size the budget is met within some per cent, and a plan takes some 50 ms.
const sampleSize = 4096

// Sample holds the histories of some thousand pages, drawn evenly from all pages: those whose keys have the smallest hashes. So a page is in
// it at most once, however often it is visited.
type Sample struct {
	pages []sampled // a heap, the largest hash first
	place map[uint64]int
}

type sampled struct {
	hash    uint64
	history History
}

// NewSample makes an empty sample.
func NewSample() *Sample { return &Sample{place: make(map[uint64]int)} }

// Put gives the sample the newest history of a page. The key identifies the page, such as a hash of its URL.
func (s *Sample) Put(key uint64, h History) {
	hash := mix(key)
	if i, ok := s.place[hash]; ok {
		s.pages[i].history = h
		return
	}
	if len(s.pages) == sampleSize {
		if hash >= s.pages[0].hash {
			return
		}
		heap.Pop((*sampleHeap)(s))
	}
	heap.Push((*sampleHeap)(s), sampled{hash, h})
}

// Drop removes a page that is no longer visited.
func (s *Sample) Drop(key uint64) {
	if i, ok := s.place[mix(key)]; ok {
		heap.Remove((*sampleHeap)(s), i)
	}
}

// mix spreads keys evenly and keeps different keys different. It is the finaliser of MurmurHash3.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

const sampledSize = 8 + HistorySize

// AppendBinary appends the sample to b, at most some 90 kB. It never fails.
func (s *Sample) AppendBinary(b []byte) ([]byte, error) {
	for _, p := range s.pages {
		b = binary.LittleEndian.AppendUint64(b, p.hash)
		b, _ = p.history.AppendBinary(b)
	}
	return b, nil
}

// UnmarshalBinary reads what AppendBinary has written.
func (s *Sample) UnmarshalBinary(b []byte) error {
	if len(b)%sampledSize != 0 || len(b) > sampleSize*sampledSize {
		return fmt.Errorf("read a sample of pages: %d bytes", len(b))
	}
	got := NewSample()
	for ; len(b) > 0; b = b[sampledSize:] {
		p := sampled{hash: binary.LittleEndian.Uint64(b)}
		if err := p.history.UnmarshalBinary(b[8:sampledSize]); err != nil {
			return fmt.Errorf("read a sample of pages: %w", err)
		}
		if _, twice := got.place[p.hash]; twice {
			return fmt.Errorf("read a sample of pages: %x is in it twice", p.hash)
		}
		heap.Push((*sampleHeap)(got), p)
	}
	*s = *got
	return nil
}

// sampleHeap implements heap.Interface for a sample.
type sampleHeap Sample

func (s *sampleHeap) Len() int           { return len(s.pages) }
func (s *sampleHeap) Less(i, j int) bool { return s.pages[i].hash > s.pages[j].hash }

func (s *sampleHeap) Swap(i, j int) {
	s.pages[i], s.pages[j] = s.pages[j], s.pages[i]
	s.place[s.pages[i].hash], s.place[s.pages[j].hash] = i, j
}

// Push appends an element, for container/heap.
func (s *sampleHeap) Push(x any) {
	p := x.(sampled)
	s.place[p.hash] = len(s.pages)
	s.pages = append(s.pages, p)
}

// Pop removes the last element, for container/heap.
func (s *sampleHeap) Pop() any {
	last := s.pages[len(s.pages)-1]
	s.pages = s.pages[:len(s.pages)-1]
	delete(s.place, last.hash)
	return last
}
