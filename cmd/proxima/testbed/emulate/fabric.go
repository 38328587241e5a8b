package emulate

import (
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"time"
)

const (
	// mtu is the largest IP packet; frameHeader the Ethernet header in front of it, where there is one.
	mtu         = 1500
	frameHeader = 14
	// queueLeast and queueTime bound the queue of a link: a second of its bandwidth, at least 256 KiB.
	queueLeast = 256 << 10
	queueTime  = 1000.0 // ms
	// jitterHold is how long a pair keeps a draw of its jitter: what delays one packet of a burst delays the next.
	jitterHold = int64(10 * time.Millisecond)
	// packetsMost limits the router's memory. It is the number of packets in transit, of 1.5 kB each.
	packetsMost = 1 << 16
)

// packet is an IP packet in transit. It begins at offset frameHeader of the frame.
type packet struct {
	frame    [frameHeader + mtu]byte
	size     int // of the IP packet in bytes
	from, to int // endpoints

	due     int64  // when it arrives at the receiver's downlink or, if deliver is set, is delivered
	order   uint64 // of arrival
	deliver bool
}

// link is one direction of an endpoint's access. It sends one packet after the other at its rate. A change of the rate applies to later
// packets.
type link struct {
	bytesPerMs float64 // 0 is unlimited
	free       int64   // when the last packet will have left, ns
}

// take adds a packet to the queue at a time in ns. It returns when the packet will have left, and false if the queue is full.
func (l *link) take(at int64, size int) (int64, bool) {
	start := max(at, l.free)
	if l.bytesPerMs == 0 {
		return start, true
	}
	waiting := float64(start-at) / 1e6 * l.bytesPerMs
	if waiting+float64(size) > max(queueLeast, queueTime*l.bytesPerMs) {
		return 0, false
	}
	l.free = start + int64(float64(size)/l.bytesPerMs*1e6)
	return l.free, true
}

// pair is one direction between two endpoints.
type pair struct {
	oneWay, jitter int64 // ns
	loss           float64
	cut            bool
	last           int64 // when its latest packet arrives; no later packet may arrive before
	drawn, until   int64 // the current jitter and its end
}

// fabric decides whether and when each packet is delivered. It has no clock and does no I/O. Times are arguments in ns that never decrease.
// Not safe for concurrent use.
type fabric struct {
	index    map[netip.Addr]int
	up, down []link
	pairs    []pair // from*n + to
	nats     []*nat // nil for an endpoint without one
	random   *rand.Rand
	transit  transit
	order    uint64 // of the latest packet in transit
	blanks   []*packet

	stats Stats // counts what it drops; the router adds its own
}

func newFabric(endpoints []Endpoint, paths []Path, seed uint64) *fabric {
	n := len(endpoints)
	f := &fabric{
		index: make(map[netip.Addr]int, n), up: make([]link, n), down: make([]link, n), pairs: make([]pair, n*n),
		nats:   make([]*nat, n),
		random: rand.New(rand.NewPCG(seed, 0x656d756c617465)),
	}
	for i, e := range endpoints {
		f.index[e.Addr] = i
		if e.NAT {
			f.nats[i] = &nat{asked: map[flow]int64{}}
		}
		f.setBandwidth(i, e.UpBytesPerMs, e.DownBytesPerMs)
	}
	for i, p := range paths {
		f.pairs[i] = pair{oneWay: int64(p.OneWay), jitter: int64(p.Jitter), loss: p.Loss}
	}
	return f
}

func (f *fabric) setBandwidth(i int, up, down float64) {
	f.up[i].bytesPerMs, f.down[i].bytesPerMs = up, down
}

// cut drops later packets between a and b alone, in both directions. Packets in transit still arrive.
func (f *fabric) cut(a, b []int) {
	for i := range f.pairs {
		f.pairs[i].cut = false
	}
	n := len(f.up)
	for _, i := range a {
		for _, k := range b {
			f.pairs[i*n+k].cut, f.pairs[k*n+i].cut = true, true
		}
	}
}

// blank returns an unused packet.
func (f *fabric) blank() *packet {
	n := len(f.blanks)
	if n == 0 {
		return new(packet)
	}
	p := f.blanks[n-1]
	f.blanks = f.blanks[:n-1]
	return p
}

// done makes a packet available to blank.
func (f *fabric) done(p *packet) { f.blanks = append(f.blanks, p) }

// enter accepts a packet that was sent now. The packet belongs to the fabric until leave returns it.
func (f *fabric) enter(now int64, p *packet) {
	pair := &f.pairs[p.from*len(f.up)+p.to]
	from, to := f.nats[p.from], f.nats[p.to]
	if from != nil {
		from.out(now, p)
	}
	switch {
	case len(f.transit) == packetsMost:
		f.stats.Unplanned++
	case pair.cut, to != nil && !to.accepts(now, p):
		f.stats.Cut++
	case pair.loss > 0 && f.random.Float64() < pair.loss:
		f.stats.Lost++
	default:
		if left, ok := f.up[p.from].take(now, p.size); ok {
			pair.last = max(pair.last, left+f.delay(pair, left))
			f.schedule(p, pair.last, false)
			return
		}
		f.stats.Overflowed++
	}
	f.done(p)
}

func (f *fabric) delay(p *pair, at int64) int64 {
	if p.jitter > 0 && at >= p.until {
		p.drawn, p.until = int64(f.random.ExpFloat64()*float64(p.jitter)), at+jitterHold
	}
	return p.oneWay + p.drawn
}

// next returns when to call leave, and false if no packet is in transit.
func (f *fabric) next() (int64, bool) {
	if len(f.transit) == 0 {
		return 0, false
	}
	return f.transit[0].due, true
}

// leave returns a packet that is due and its time, or nil if none is due.
func (f *fabric) leave(now int64) (*packet, int64) {
	for len(f.transit) > 0 && f.transit[0].due <= now {
		p := heap.Pop(&f.transit).(*packet)
		if p.deliver {
			return p, p.due
		}
		at, ok := f.down[p.to].take(p.due, p.size)
		switch {
		case !ok:
			f.stats.Overflowed++
			f.done(p)
		case at == p.due:
			return p, p.due
		default:
			f.schedule(p, at, true)
		}
	}
	return nil, 0
}

// schedule adds a packet to those in transit.
func (f *fabric) schedule(p *packet, due int64, deliver bool) {
	f.order++
	p.due, p.order, p.deliver = due, f.order, deliver
	heap.Push(&f.transit, p)
}

// transit is a heap of packets by the time of what happens to them next. The earlier packet is the first of those due at the same time. Full
// queues hold thousands of packets, so that a sorted list would take longer for a packet than the system calls that read and write it.
type transit []*packet

func (t transit) Len() int { return len(t) }
func (t transit) Less(i, k int) bool {
	return t[i].due < t[k].due || t[i].due == t[k].due && t[i].order < t[k].order
}
func (t transit) Swap(i, k int) { t[i], t[k] = t[k], t[i] }
func (t *transit) Push(p any)   { *t = append(*t, p.(*packet)) }
func (t *transit) Pop() any {
	last := len(*t) - 1
	p := (*t)[last]
	(*t)[last], *t = nil, (*t)[:last]
	return p
}
