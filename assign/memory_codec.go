package assign

import (
	"errors"
	"fmt"
	"math"
	"time"

	"proxima/frontier/coder"
	"proxima/ncoord"
)

const (
	memoryVersion = 3 // 2 had a number of downloads for each node
	// MaxMemorySize is the size of the longest encoded Memory, in bytes.
	MaxMemorySize = 2048
)

// AppendBinary appends the form for wire and disk, at most MaxMemorySize bytes. Times are written as ages at now.
func (m *Memory) AppendBinary(b []byte, now time.Time) []byte {
	written := *m
	return coder.Append(b, func(c *coder.Coder) { written.code(c, now) })
}

// DecodeMemory reads what AppendBinary wrote. It fails on unknown versions, on more nodes or samples than a Memory holds, on
// impossible places, and on bytes left over. Ages count back from now; pass an earlier time for bytes that were stored for a while.
func DecodeMemory(b []byte, now time.Time) (m Memory, err error) {
	if err := coder.Read(b, func(c *coder.Coder) { m.code(c, now) }); err != nil {
		return Memory{}, fmt.Errorf("decode memory: %w", err)
	}
	return m, nil
}

// code writes all fields, or reads them. Writing does not change the nodes, which copies of m share.
func (m *Memory) code(c *coder.Coder, now time.Time) {
	c.Version(memoryVersion)
	placed := m.Proxy.Updates > 0 && m.Proxy.Coord.Check() == nil
	located := m.Location != nil && m.Location.Valid()
	c.Flags(&placed, &located, &m.Spread)
	c.Half(&m.downloads)
	for _, v := range []*float64{&m.PageBytes, &m.recentThink, &m.usualThink} {
		short := encode(*v)
		short.code(c)
		*v = short.value()
	}
	if placed {
		m.Proxy.Coord.Code(c)
		updates := uint32(min(m.Proxy.Updates, math.MaxInt32))
		c.Half(&updates)
		m.Proxy.Updates = int(updates)
	}
	if located {
		at := ncoord.Location{}
		if !c.Reading() {
			at = *m.Location
		}
		c.Float(&at.Lat)
		c.Float(&at.Lon)
		if m.Location = &at; !at.Valid() {
			c.Fail(fmt.Errorf("location %v", at))
		}
	}
	keys, samples := make(map[uint64]bool, len(m.seen)), 0
	coder.List(c, &m.seen, MaxMemoryNodes, func(s *seen) {
		s.code(c, now)
		if samples += len(s.samples); keys[s.key] {
			c.Fail(errors.New("a node comes twice"))
		}
		keys[s.key] = true
	})
	if c.Reading() && samples > memorySamples {
		c.Fail(fmt.Errorf("%d samples, more than %d", samples, memorySamples))
	}
}

func (s *seen) code(c *coder.Coder, now time.Time) {
	c.Word(&s.key)
	for i := range s.coord.Vec {
		c.Float(&s.coord.Vec[i])
	}
	codeError(c, &s.coord.Error)
	age := uint32(max(0, min(now.Sub(s.at)/time.Second, math.MaxUint32)))
	if c.Half(&age); c.Reading() {
		s.at = now.Add(-time.Duration(age) * time.Second)
		switch {
		case known(s.coord) && s.coord.Check() != nil:
			c.Fail(s.coord.Check())
		case !known(s.coord) && s.coord != (ncoord.Coordinate{}):
			c.Fail(errors.New("a place without error"))
		}
	}
	coder.List(c, &s.samples, nodeSamples, func(x *sample) {
		x.connect.code(c)
		x.first.code(c)
		x.tail.code(c)
		if x.bytes.code(c); c.Reading() && x.first == 0 {
			c.Fail(errors.New("a download without a first byte"))
		}
	})
}

func (x *code) code(c *coder.Coder) { c.Short((*uint16)(x)) }
