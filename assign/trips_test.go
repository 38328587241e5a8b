package assign

import (
	"math"
	"net/netip"
	"testing"
	"time"
)

// The least connect time of a server is believed for one to two spans of time, and no longer.
func TestTripsAreBelievedForAWhile(t *testing.T) {
	var all trips
	server, begin := netip.MustParseAddr("192.0.2.1"), time.Unix(1_000_000, 0)
	for _, c := range []struct {
		at             time.Duration
		connect, least float64
	}{
		{0, 20, 20}, {tripSpan, 50, 20}, {tripSpan + time.Second, 50, 20}, {2*tripSpan + time.Second, 0, 20},
		{2*tripSpan + 2*time.Second, 70, 50}, {4*tripSpan + 2*time.Second, 80, 70}, {10 * tripSpan, 90, 90},
	} {
		if got := all.add(server, c.connect, 5, begin.Add(c.at)); got.least != c.least {
			t.Errorf("after %v, connecting in %v ms: the least is %v ms, want %v", c.at, c.connect, got.least, c.least)
		}
	}
}

// Of 10,000 servers the trips of one span are remembered. One more begins the next.
func TestTripsAreBounded(t *testing.T) {
	var all trips
	now := time.Unix(1_000_000, 0)
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }
	for i := range 10_000 {
		all.add(addr(i), 10, 1, now)
	}
	if len(all.recent) != 10_000 || all.before != nil {
		t.Errorf("%d servers, %d before", len(all.recent), len(all.before))
	}
	if all.add(addr(10_000), 10, 1, now); len(all.recent) != 1 || len(all.before) != 10_000 {
		t.Errorf("%d servers, %d before", len(all.recent), len(all.before))
	}
}

// A download that is not learnt from tells how far away its server is all the same.
func TestTripsOfAllDownloads(t *testing.T) {
	o, far, now := NewOwn(Factors{}), netip.MustParseAddr("192.0.2.2"), time.Unix(1_000_000, 0)
	usual := Timing{Connect: 20e6, FirstByte: 50e6, Total: 100e6, Bytes: 1000}
	for o.Due(now) {
		o.Observe("n", netip.MustParseAddr("192.0.2.1"), usual, nil, View{}, now)
	}
	if o.Observe("n", far, usual, nil, View{}, now); o.trips.add(far, 0, 0, now).least != 20 {
		t.Error("the round trip is not known")
	}
}

// A node that has learnt from more downloads than it counts still notices changes of its load. The round trips depend on that.
func TestLoadOfNodeThatHasLearntMuch(t *testing.T) {
	server, now := netip.MustParseAddr("192.0.2.1"), time.Unix(1_000_000, 0)
	for _, samples := range []int{100, math.MaxUint16 - 10} {
		o := NewOwn(Factors{LoadMs: 5, LoadError: 0.1, BytesPerMs: 1000, BytesError: 0.1, Samples: samples})
		for range 40 {
			o.Observe("n", server, Timing{Connect: 20e6, FirstByte: 200e6, Total: 250e6, Bytes: 1000}, nil, View{}, now)
			now = now.Add(time.Second)
		}
		if f := o.Factors(); f.Samples > math.MaxUint16 || o.now < f.LoadMs/2 {
			t.Errorf("after %d downloads and 40 slow ones the load is %v ms, at first taken for %v ms", samples, f.LoadMs, o.now)
		}
	}
	if o := NewOwn(Factors{LoadMs: 2000, LoadError: 3, Samples: 9}); math.Abs(o.now-o.Factors().LoadMs) > 1 {
		t.Errorf("a doubtful load is %v ms, at first taken for %v ms", o.Factors().LoadMs, o.now)
	}
}
