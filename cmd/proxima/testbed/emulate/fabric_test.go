package emulate

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func addrOf(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 19, byte(i >> 8), byte(i)}) }

const msNs = int64(time.Millisecond)

// fabricOf returns a fabric whose endpoints have the same paths and unlimited bandwidth.
func fabricOf(n int, p Path) *fabric {
	endpoints, paths := make([]Endpoint, n), make([]Path, n*n)
	for i := range endpoints {
		endpoints[i].Addr = addrOf(i)
	}
	for i := range paths {
		paths[i] = p
	}
	return newFabric(endpoints, paths, 7)
}

// send makes a packet of that size enter the fabric.
func (f *fabric) send(now int64, from, to, size int) *packet {
	p := f.blank()
	p.from, p.to, p.size = from, to, size
	f.enter(now, p)
	return p
}

// delivery is a packet with the time it was delivered.
type delivery struct {
	packet *packet
	due    int64
}

// drain delivers all packets, each exactly when it is due.
func (f *fabric) drain() []delivery {
	var all []delivery
	for {
		now, ok := f.next()
		if !ok {
			return all
		}
		for p, due := f.leave(now); p != nil; p, due = f.leave(now) {
			all = append(all, delivery{p, due})
		}
	}
}

// What is sent to endpoint 2 arrives in this order at these times. Packets of a burst queue at the uplink of 10 bytes per ms and then find
// the downlink free. A downlink takes the packets of two senders in the order of their arrivals. Packets that are queued when the bandwidth
// changes leave as planned, and later ones do not overtake them.
func TestDelayAndBandwidth(t *testing.T) {
	type send func(at int64, from, size int)
	for name, c := range map[string]struct {
		oneWay time.Duration
		do     func(f *fabric, send send)
		want   string // sender:size@ms
	}{
		"delay": {30 * time.Millisecond, func(_ *fabric, send send) { send(5, 0, 100) }, "0:100@35"},
		"both links": {20 * time.Millisecond, func(f *fabric, send send) {
			f.setBandwidth(0, 10, 0)
			f.setBandwidth(2, 0, 10)
			send(0, 0, 1000)
			send(0, 0, 1000)
			send(0, 0, 1000)
		}, "0:1000@220 0:1000@320 0:1000@420"},
		"two senders": {10 * time.Millisecond, func(f *fabric, send send) {
			f.setBandwidth(2, 0, 100)
			f.pairs[1*3+2].oneWay = 2 * msNs
			send(0, 0, 1000)
			send(1, 1, 500)
			send(1, 1, 1000)
			send(1000, 0, 100) // does not wait, because the queue is empty
		}, "1:500@8 1:1000@18 0:1000@28 0:100@1011"},
		"changes of the uplink": {0, func(f *fabric, send send) {
			f.setBandwidth(0, 10, 0)
			send(0, 0, 1000)
			f.setBandwidth(0, 100, 0)
			send(50, 0, 1000)
			f.setBandwidth(0, 0, 0)
			send(60, 0, 1000)
		}, "0:1000@100 0:1000@110 0:1000@110"},
		"changes of the downlink": {0, func(f *fabric, send send) {
			f.setBandwidth(2, 0, 10)
			send(0, 0, 1000)
			if p, _ := f.leave(5 * msNs); p != nil {
				t.Error("delivered too early")
			}
			f.setBandwidth(2, 0, 0)
			send(10, 0, 100)
		}, "0:1000@100 0:100@100"},
	} {
		f := fabricOf(3, Path{OneWay: c.oneWay})
		c.do(f, func(at int64, from, size int) { f.send(at*msNs, from, 2, size) })
		var got []string
		for _, d := range f.drain() {
			got = append(got, fmt.Sprintf("%d:%d@%v", d.packet.from, d.packet.size, float64(d.due)/float64(msNs)))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestTailDrops(t *testing.T) {
	f := fabricOf(2, Path{})
	f.setBandwidth(0, 1000, 0) // a queue of a second holds 1,000,000 bytes
	for range 1001 {
		f.send(0, 0, 1, 1000)
	}
	got := f.drain()
	if len(got) != 1000 || f.stats.Overflowed != 1 {
		t.Fatalf("%d delivered, %d dropped", len(got), f.stats.Overflowed)
	}
	if last := got[999].due; last != 1000*msNs {
		t.Errorf("the last at %d", last)
	}
	// The downlink of a slow receiver has the shortest queue.
	f = fabricOf(2, Path{})
	f.setBandwidth(1, 0, 1)
	for range 256 + 5 {
		f.send(0, 0, 1, 1024)
	}
	if got := f.drain(); len(got) != 256 || f.stats.Overflowed != 5 {
		t.Errorf("%d delivered, %d dropped", len(got), f.stats.Overflowed)
	}
}

func TestLoss(t *testing.T) {
	const sent, share = 20_000, 0.03
	f := fabricOf(2, Path{Loss: share})
	f.pairs[1*2+0].loss = 0
	for range sent {
		f.send(0, 0, 1, 100)
		f.send(0, 1, 0, 100)
		f.drainAll()
	}
	// The limit is five standard deviations.
	if d := math.Abs(float64(f.stats.Lost) - sent*share); d > 5*math.Sqrt(sent*share*(1-share)) {
		t.Errorf("%d of %d lost", f.stats.Lost, sent)
	}
}

func (f *fabric) drainAll() {
	for _, d := range f.drain() {
		f.done(d.packet)
	}
}

func TestJitter(t *testing.T) {
	const sent = 20_000
	f := fabricOf(2, Path{OneWay: 10 * time.Millisecond, Jitter: 2 * time.Millisecond})
	var sum, least float64 = 0, math.Inf(1)
	for i := range int64(sent) {
		at := i * 1000 * msNs
		f.send(at, 0, 1, 100)
		first := f.drain()[0].due - at
		f.send(at+5*msNs, 0, 1, 100)
		if second := f.drain()[0].due - at - 5*msNs; second != first {
			t.Fatalf("packets 5 ms apart delayed by %d and %d", first, second)
		}
		sum, least = sum+float64(first), min(least, float64(first))
	}
	mean := sum / sent / float64(msNs)
	if d := math.Abs(mean - 12); d > 5*2/math.Sqrt(sent) || least < 10*float64(msNs) || least > 10.01*float64(msNs) {
		t.Errorf("mean delay %f ms, least %f ns", mean, least)
	}
}

func TestCutAndHeal(t *testing.T) {
	f := fabricOf(4, Path{OneWay: time.Millisecond})
	onTheWay := f.send(0, 0, 1, 100)
	f.cut([]int{0}, []int{1, 2})
	f.send(0, 0, 1, 100)
	f.send(0, 1, 0, 100)
	f.send(0, 2, 0, 100)
	kept := []*packet{onTheWay, f.send(0, 0, 3, 100), f.send(0, 1, 2, 100)}
	got := f.drain()
	if len(got) != len(kept) || f.stats.Cut != 3 {
		t.Fatalf("%d delivered, %d cut", len(got), f.stats.Cut)
	}
	for i := range kept {
		if got[i].packet != kept[i] {
			t.Errorf("delivery %d is another packet", i)
		}
	}
	f.cut(nil, []int{0, 1, 2, 3})
	f.send(0, 1, 0, 100)
	if got := f.drain(); len(got) != 1 || f.stats.Cut != 3 {
		t.Errorf("%d delivered after healing, %d cut", len(got), f.stats.Cut)
	}
}

// Dropped packets are reused, wherever they were dropped.
func TestMemoryIsReused(t *testing.T) {
	f := fabricOf(3, Path{Loss: 0.5})
	f.setBandwidth(1, 0, 1) // 0 to 1 overflows at the downlink
	f.setBandwidth(2, 1, 0) // 2 to 0 at the uplink
	f.cut([]int{1}, []int{2})
	made := map[*packet]bool{}
	for _, from := range []int{0, 1, 2} {
		overflowed := f.stats.Overflowed
		for range 1000 {
			made[f.send(0, from, (from+1)%3, mtu)] = true
		}
		f.drainAll()
		if from != 1 && f.stats.Overflowed == overflowed {
			t.Errorf("no packet from %d overflowed", from)
		}
	}
	if f.stats.Lost == 0 || f.stats.Cut != 1000 {
		t.Errorf("%d lost, %d cut off", f.stats.Lost, f.stats.Cut)
	}
	if len(f.blanks) != len(made) {
		t.Errorf("%d of %d packets are to be had", len(f.blanks), len(made))
	}
}

func TestMemoryIsBounded(t *testing.T) {
	f := fabricOf(2, Path{OneWay: time.Hour})
	for range packetsMost + 1 {
		f.send(0, 0, 1, 100)
	}
	if len(f.transit) != packetsMost || f.stats.Unplanned != 1 {
		t.Fatalf("%d packets in transit, %d too many", len(f.transit), f.stats.Unplanned)
	}
	f.drainAll()
	if f.send(0, 0, 1, 100); len(f.transit) != 1 {
		t.Fatal("no room, though all are delivered")
	}
}

// No packet is delivered early, twice, or out of order within a pair. Links do not exceed their bandwidth. Every packet is delivered or
// counted.
func TestNeverReorders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 3
		least := time.Duration(rapid.IntRange(0, 50).Draw(t, "delay")) * time.Millisecond
		f := fabricOf(n, Path{OneWay: least, Jitter: time.Duration(rapid.IntRange(0, 20).Draw(t, "jitter")) * time.Millisecond, Loss: 0.05})
		type sent struct{ at, order int64 }
		under := map[*packet]sent{}
		last, busy := map[[2]int]int64{}, map[int]int64{}
		now, count, delivered := int64(0), int64(0), int64(0)
		limited := rapid.Bool().Draw(t, "limited")
		for i := range n {
			if limited {
				f.setBandwidth(i, float64(rapid.IntRange(1, 2000).Draw(t, "up")), float64(rapid.IntRange(1, 2000).Draw(t, "down")))
			}
		}
		take := func(until int64) {
			for p, due := f.leave(until); p != nil; p, due = f.leave(until) {
				s, ok := under[p]
				delete(under, p)
				pair := [2]int{p.from, p.to}
				switch {
				case !ok:
					t.Fatal("delivered twice, or never sent")
				case due > until || due < s.at+int64(least):
					t.Fatalf("sent at %d, delivered at %d, asked at %d", s.at, due, until)
				case s.order <= last[pair]:
					t.Fatalf("packet %d after %d", s.order, last[pair])
				}
				last[pair] = s.order
				if limited {
					// Rounding errors are below a nanosecond per packet.
					need := int64(float64(p.size) / f.down[p.to].bytesPerMs * 1e6)
					if due-busy[p.to] < need {
						t.Fatalf("%d bytes in %d ns", p.size, due-busy[p.to])
					}
					busy[p.to] = due
				}
				delivered++
				f.done(p)
			}
		}
		for range rapid.IntRange(1, 300).Draw(t, "packets") {
			now += int64(rapid.IntRange(0, 5_000_000).Draw(t, "pause"))
			take(now)
			from := rapid.IntRange(0, n-1).Draw(t, "from")
			count++
			dropped := f.stats.Lost + f.stats.Overflowed
			p := f.send(now, from, (from+rapid.IntRange(1, n-1).Draw(t, "to"))%n, rapid.IntRange(20, mtu).Draw(t, "size"))
			if f.stats.Lost+f.stats.Overflowed == dropped {
				under[p] = sent{now, count}
			}
		}
		take(math.MaxInt64)
		if delivered+f.stats.Lost+f.stats.Overflowed+f.stats.Cut != count {
			t.Fatalf("%d sent, %d delivered, %d lost, %d overflowed", count, delivered, f.stats.Lost, f.stats.Overflowed)
		}
	})
}
