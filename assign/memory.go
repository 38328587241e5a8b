package assign

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"proxima/ncoord"
	"proxima/ncoord/quantile"
)

const (
	// MaxMemoryNodes is the number of nodes that a Memory remembers.
	MaxMemoryNodes = 24
	// nodeSamples is the number of downloads it remembers of each node, memorySamples of all nodes together.
	nodeSamples   = 8
	memorySamples = 120
	// The recent think time adapts within about 10 downloads, the usual one within hundreds.
	recentStep, usualStep = 0.2, 0.01
)

// Memory is what is known about a server: where it is, how long it thinks, and how long downloads by each node took. Its encoded form
// has at most 2 KiB. Nodes store it and send it with leases. The zero value knows nothing. It is not safe for concurrent use.
// Callers copy it with Clone.
type Memory struct {
	// Proxy is the server's proxy coordinate. Downloads by its owners also move it.
	Proxy Proxy
	// Location is the location of the address in a database, or nil if unknown.
	Location *ncoord.Location
	// PageBytes is the size of a typical page on the wire, in bytes; 0 if unknown.
	PageBytes float64
	// Spread says that the address answers at several places (anycast), so that Proxy and Location mean nothing.
	Spread bool

	downloads uint32
	// Running medians of first byte − connect, in ms.
	recentThink, usualThink float64
	seen                    []seen // in the order of the first download
}

// seen has the downloads by one node.
type seen struct {
	key     uint64
	coord   ncoord.Coordinate
	at      time.Time // of the last download or failure
	samples []sample  // oldest first; none if the node failed to reach the server when it last tried
}

// sample is one download. It holds codes, so that encoding a Memory loses nothing.
type sample struct{ connect, first, tail, bytes code }

// code is the logarithm of a positive number in 16 bits, with a precision of 0.03 %. 0 means no number.
type code uint16

const codeLeast, codeSpan = 1e-3, 23.03 // e^23.03 is 1e10

// encode returns the nearest code of a number; 0 for one that is not positive.
func encode(v float64) code {
	if !(v > 0) {
		return 0
	}
	return code(1 + math.Round(max(0, min(math.Log(v/codeLeast)/codeSpan, 1))*65534))
}

func (c code) value() float64 {
	if c == 0 {
		return 0
	}
	return codeLeast * math.Exp(float64(c-1)/65534*codeSpan)
}

// nodeKey is the hash by which memories name a node.
func nodeKey(id string) uint64 { return xxhash.Sum64String(id) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Clone returns a deep copy.
func (m *Memory) Clone() Memory {
	c := *m
	if m.Location != nil {
		c.Location = new(*m.Location)
	}
	c.seen = slices.Clone(m.seen)
	for i := range c.seen {
		c.seen[i].samples = slices.Clone(c.seen[i].samples)
	}
	return c
}

// Copy is Clone, nil if there is no memory.
func (m *Memory) Copy() *Memory {
	if m == nil {
		return nil
	}
	return new(m.Clone())
}

// Empty reports whether no download has been seen.
func (m *Memory) Empty() bool { return m.downloads == 0 }

// Downloads returns the number of downloads seen.
func (m *Memory) Downloads() int { return int(m.downloads) }

// Age returns the time since the last download; ok is false if there was none.
func (m *Memory) Age(now time.Time) (age time.Duration, ok bool) {
	last := m.latest()
	return now.Sub(last), !last.IsZero()
}

// latest returns the time of the last download, or the zero time.
func (m *Memory) latest() (last time.Time) {
	for _, s := range m.seen {
		if len(s.samples) > 0 && s.at.After(last) {
			last = s.at
		}
	}
	return last
}

// Observe adds a successful download by a node whose coordinate was coord (the zero value if unknown). It ignores impossible
// timings.
func (m *Memory) Observe(node string, coord ncoord.Coordinate, t Timing, now time.Time) {
	connect, first := ms(t.Connect), ms(t.FirstByte)
	if t.Total <= 0 || first <= 0 || connect < 0 || t.TLS < 0 || t.Bytes < 0 || ms(t.Total) > maxDownloadMs {
		return
	}
	if coord.Check() != nil {
		coord = ncoord.Coordinate{}
	}
	m.downloads = saturate(m.downloads)
	e := m.entry(nodeKey(node))
	if known(coord) {
		e.coord = coord
	}
	// The node may have changed during a pause between its downloads. Keep only two samples from before the pause, for servers that are
	// asked rarely. They are those with the smallest connect times, since the cause of the pause may have slowed the others.
	switch silence := now.Sub(e.at); {
	case silence > 4*freshFor:
		e.samples = e.samples[:0]
	case silence > freshFor && len(e.samples) > 2:
		slices.SortStableFunc(e.samples, func(a, b sample) int { return cmp.Compare(a.connect-1, b.connect-1) }) // 0, none, wraps to the end
		e.samples = e.samples[:2]
	}
	e.at = now
	s := sample{connect: encode(connect), first: encode(first), bytes: encode(float64(t.Bytes))}
	if tail := ms(t.Total-t.TLS) - connect - first; tail > 0 {
		s.tail = encode(tail)
	}
	e.samples = append(e.samples, s)
	if len(e.samples) > nodeSamples {
		e.samples = slices.Delete(e.samples, 0, 1)
	}
	m.bound()
	if t.Bytes > 0 {
		m.PageBytes = track(m.PageBytes, float64(t.Bytes), max(1/float64(m.downloads), 0.02), 1)
	}
	if connect <= 0 {
		return
	}
	if known(coord) && !m.Spread {
		// Randomness matters only for places that coincide.
		m.Proxy.move(Default().Vivaldi, coord, e.usual(), rand.New(rand.NewPCG(uint64(m.downloads), nodeKey(node))))
		if m.Proxy.Coord.Check() != nil {
			m.Proxy = Proxy{} // some reported time was impossible
		}
	}
	if think := first - connect; think > 0 {
		n := float64(m.downloads)
		m.recentThink = track(m.recentThink, think, max(1/n, recentStep), 2)
		m.usualThink = track(m.usualThink, think, max(1/n, usualStep), 1)
	}
}

const maxDownloadMs = 3_600_000

// Fail notes that a node could not reach the server, although others can. What it measured before does not count any more. Until it has
// downloaded again, it is not chosen.
func (m *Memory) Fail(node string, now time.Time) {
	e := m.entry(nodeKey(node))
	e.at, e.samples = now, nil
}

// forget removes the downloads by a node, but not that it could not reach the server.
func (m *Memory) forget(node string) {
	m.seen = slices.DeleteFunc(m.seen, func(s seen) bool { return s.key == nodeKey(node) && len(s.samples) > 0 })
}

// failed reports whether a node could not reach the server when it last tried, and how long that was before the last download.
func (m *Memory) failed(node string) (ago time.Duration, ok bool) {
	e := m.find(nodeKey(node))
	if e == nil || len(e.samples) > 0 {
		return 0, false
	}
	return m.latest().Sub(e.at), true
}

// usual returns the median of the whole times on fresh connections, in ms. The last download is always one of them.
func (s *seen) usual() float64 {
	var times []float64
	for _, x := range s.samples {
		if x.connect > 0 {
			times = append(times, x.connect.value()+x.first.value()+x.tail.value())
		}
	}
	return quantile.Median(times)
}

// saturate returns n + 1, or n if it is the largest number.
func saturate(n uint32) uint32 { return max(n, n+1) }

// known reports whether there is a coordinate at all.
func known(c ncoord.Coordinate) bool { return c.Error > 0 }

// track moves a positive number towards a sample, by a share of their distance in the log domain. It limits the distance to most, so
// that an outlier moves the number hardly more than any other sample.
func track(v, sample, share, most float64) float64 {
	if v <= 0 {
		return sample
	}
	return v * math.Exp(share*max(-most, min(math.Log(sample/v), most)))
}

func (m *Memory) find(key uint64) *seen {
	if i := slices.IndexFunc(m.seen, func(s seen) bool { return s.key == key }); i >= 0 {
		return &m.seen[i]
	}
	return nil
}

// entry returns the entry of a node. It adds one if necessary, and then removes the least recently used entry if there are too many.
func (m *Memory) entry(key uint64) *seen {
	if e := m.find(key); e != nil {
		return e
	}
	if len(m.seen) >= MaxMemoryNodes {
		oldest := slices.MinFunc(m.seen, func(a, b seen) int { return a.at.Compare(b.at) }).key
		m.seen = slices.DeleteFunc(m.seen, func(s seen) bool { return s.key == oldest })
	}
	m.seen = append(m.seen, seen{key: key})
	return &m.seen[len(m.seen)-1]
}

// bound removes the oldest samples of the nodes with the most samples until the rest is small enough.
func (m *Memory) bound() {
	for {
		sum, most := 0, 0
		for i := range m.seen {
			sum += len(m.seen[i].samples)
			if len(m.seen[i].samples) > len(m.seen[most].samples) {
				most = i
			}
		}
		if sum <= memorySamples {
			return
		}
		m.seen[most].samples = slices.Delete(m.seen[most].samples, 0, 1)
	}
}

// Think returns the time in ms that the server takes before the first byte, including the load of the nodes that asked. recent is that
// of the last downloads, usual that of hundreds of downloads. ok is false before the first download.
func (m *Memory) Think() (recent, usual float64, ok bool) {
	return m.recentThink, m.usualThink, m.usualThink > 0
}

// Slowed returns the factor by which downloads take longer than usual because the server thinks longer. It is at least 1. It compares
// whole download times. So a near server that thinks for 2 ms instead of 1 is not slow, and neither is a distant one with noisy times.
func (m *Memory) Slowed() float64 {
	const leastMs = 100
	var connects []float64
	for i := range m.seen {
		if c := m.seen[i].connect(); c > 0 {
			connects = append(connects, c)
		}
	}
	rest := float64(leastMs)
	if len(connects) > 0 {
		rest += rounds(m.PageBytes) * quantile.Median(connects)
	}
	return max(1, (rest+m.recentThink)/(rest+m.usualThink))
}
