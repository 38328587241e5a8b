package revisit

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// sampleSize is how many pages a sample holds. With this size the budget is met within some per cent, and a plan takes some 50 ms.
const sampleSize = 4096

// Sample holds the histories of some thousand pages, drawn evenly from all pages: those whose keys have the smallest hashes. So a page is in
// it at most once, however often it is visited. The zero value is empty.
type Sample struct {
	pages []sampled // by their hashes
}

type sampled struct {
	hash    uint64
	history History
}

// find returns the place of a page, or where it belongs.
func (s *Sample) find(hash uint64) (i int, found bool) {
	return slices.BinarySearchFunc(s.pages, hash, func(p sampled, hash uint64) int { return cmp.Compare(p.hash, hash) })
}

// Put gives the sample the newest history of a page. The key identifies the page, such as a hash of its URL.
func (s *Sample) Put(key uint64, h History) {
	hash := mix(key)
	i, found := s.find(hash)
	switch {
	case found:
		s.pages[i].history = h
		return
	case i == sampleSize:
		return
	case len(s.pages) == sampleSize:
		s.pages = s.pages[:sampleSize-1]
	}
	s.pages = slices.Insert(s.pages, i, sampled{hash, h})
}

// Drop removes a page that is no longer visited.
func (s *Sample) Drop(key uint64) {
	if i, found := s.find(mix(key)); found {
		s.pages = slices.Delete(s.pages, i, i+1)
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
	var got Sample
	for ; len(b) > 0; b = b[sampledSize:] {
		p := sampled{hash: binary.LittleEndian.Uint64(b)}
		if err := p.history.UnmarshalBinary(b[8:sampledSize]); err != nil {
			return fmt.Errorf("read a sample of pages: %w", err)
		}
		if n := len(got.pages); n > 0 && p.hash <= got.pages[n-1].hash {
			return fmt.Errorf("read a sample of pages: %x is not in order", p.hash)
		}
		got.pages = append(got.pages, p)
	}
	*s = got
	return nil
}
