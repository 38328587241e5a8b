package assign

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"proxima/ncoord"
)

const (
	memoryVersion = 3 // 2 had a number of downloads for each node
	// MaxMemorySize is the size of the longest encoded Memory, in bytes.
	MaxMemorySize = 2048
)

// Flags of an encoded Memory.
const (
	hasProxy byte = 1 << iota
	hasLocation
	isSpread
	memoryFlags = hasProxy | hasLocation | isSpread
)

// AppendBinary appends the form for wire and disk, at most MaxMemorySize bytes. Times are written as ages at now.
func (m *Memory) AppendBinary(b []byte, now time.Time) []byte {
	var flags byte
	if m.Proxy.Updates > 0 && m.Proxy.Coord.Check() == nil {
		flags |= hasProxy
	}
	if m.Location != nil && m.Location.Valid() {
		flags |= hasLocation
	}
	if m.Spread {
		flags |= isSpread
	}
	le := binary.LittleEndian
	b = append(b, memoryVersion, flags)
	b = le.AppendUint32(b, m.downloads)
	b = le.AppendUint16(b, uint16(encode(m.PageBytes)))
	b = le.AppendUint16(b, uint16(encode(m.recentThink)))
	b = le.AppendUint16(b, uint16(encode(m.usualThink)))
	if flags&hasProxy != 0 {
		b = m.Proxy.Coord.AppendBinary(b)
		b = le.AppendUint32(b, uint32(min(m.Proxy.Updates, math.MaxInt32)))
	}
	if flags&hasLocation != 0 {
		b = le.AppendUint32(b, math.Float32bits(float32(m.Location.Lat)))
		b = le.AppendUint32(b, math.Float32bits(float32(m.Location.Lon)))
	}
	b = append(b, byte(len(m.seen)))
	for _, s := range m.seen {
		b = le.AppendUint64(b, s.key)
		for _, v := range s.coord.Vec {
			b = le.AppendUint32(b, math.Float32bits(float32(v)))
		}
		b = append(b, errorCode(s.coord.Error))
		age := max(0, min(now.Sub(s.at)/time.Second, math.MaxUint32))
		b = le.AppendUint32(b, uint32(age))
		b = append(b, byte(len(s.samples)))
		for _, x := range s.samples {
			b = le.AppendUint16(b, uint16(x.connect))
			b = le.AppendUint16(b, uint16(x.first))
			b = le.AppendUint16(b, uint16(x.tail))
			b = le.AppendUint16(b, uint16(x.bytes))
		}
	}
	return b
}

// reader reads fields of a Memory. After the end of the text it returns zeros and sets short.
type reader struct {
	b     []byte
	short bool
}

// take returns the next n bytes, zeros if there are fewer.
func (r *reader) take(n int) []byte {
	if len(r.b) < n {
		r.b, r.short = nil, true
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() byte     { return r.take(1)[0] }
func (r *reader) code() code     { return code(binary.LittleEndian.Uint16(r.take(2))) }
func (r *reader) uint32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) float() float64 { return float64(math.Float32frombits(r.uint32())) }

// DecodeMemory reads what AppendBinary wrote. It fails on unknown versions, on more nodes or samples than a Memory holds, on
// impossible places, and on bytes left over. Ages count back from now; pass an earlier time for bytes that were stored for a while.
func DecodeMemory(b []byte, now time.Time) (Memory, error) {
	r := &reader{b: b}
	if v := r.byte(); v != memoryVersion {
		return Memory{}, fmt.Errorf("decode memory: unknown version %d", v)
	}
	flags := r.byte()
	if flags&^memoryFlags != 0 {
		return Memory{}, fmt.Errorf("decode memory: unknown flags %#x", flags)
	}
	m := Memory{Spread: flags&isSpread != 0, downloads: r.uint32()}
	m.PageBytes, m.recentThink, m.usualThink = r.code().value(), r.code().value(), r.code().value()
	if flags&hasProxy != 0 {
		c, err := ncoord.DecodeCoordinate(r.take(ncoord.EncodedSize))
		if err != nil {
			return Memory{}, fmt.Errorf("decode memory: %w", err)
		}
		m.Proxy.Coord, m.Proxy.Updates = c, int(r.uint32())
	}
	if flags&hasLocation != 0 {
		m.Location = &ncoord.Location{Lat: r.float(), Lon: r.float()}
		if !m.Location.Valid() {
			return Memory{}, fmt.Errorf("decode memory: location %v", *m.Location)
		}
	}
	n := int(r.byte())
	if n > MaxMemoryNodes {
		return Memory{}, fmt.Errorf("decode memory: %d nodes, more than %d", n, MaxMemoryNodes)
	}
	keys, samples := make(map[uint64]bool, n), 0
	for range n {
		s, err := decodeSeen(r, now)
		if err != nil {
			return Memory{}, err
		}
		if keys[s.key] {
			return Memory{}, errors.New("decode memory: a node comes twice")
		}
		keys[s.key] = true
		samples += len(s.samples)
		m.seen = append(m.seen, s)
	}
	switch {
	case r.short:
		return Memory{}, errors.New("decode memory: it ends too soon")
	case len(r.b) > 0:
		return Memory{}, fmt.Errorf("decode memory: %d bytes too many", len(r.b))
	case samples > memorySamples:
		return Memory{}, fmt.Errorf("decode memory: %d samples, more than %d", samples, memorySamples)
	}
	return m, nil
}

// decodeSeen reads the downloads by one node.
func decodeSeen(r *reader, now time.Time) (seen, error) {
	s := seen{key: binary.LittleEndian.Uint64(r.take(8))}
	for i := range s.coord.Vec {
		s.coord.Vec[i] = r.float()
	}
	s.coord.Error = float64(r.byte()) / 64
	if known(s.coord) {
		if err := s.coord.Check(); err != nil {
			return seen{}, fmt.Errorf("decode memory: %w", err)
		}
	} else if s.coord != (ncoord.Coordinate{}) {
		return seen{}, errors.New("decode memory: a place without error")
	}
	s.at = now.Add(-time.Duration(r.uint32()) * time.Second)
	n := int(r.byte())
	if n > nodeSamples {
		return seen{}, fmt.Errorf("decode memory: %d samples of one node, more than %d", n, nodeSamples)
	}
	for range n {
		x := sample{connect: r.code(), first: r.code(), tail: r.code(), bytes: r.code()}
		if x.first == 0 && !r.short {
			return seen{}, errors.New("decode memory: a download without a first byte")
		}
		s.samples = append(s.samples, x)
	}
	return s, nil
}
