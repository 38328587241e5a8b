package emulate

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func addrOf(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 19, byte(i >> 8), byte(i)}) }

func TestQuantiles(t *testing.T) {
	var h histogram
	if h.quantile(0.99) != 0 {
		t.Error("an empty histogram has a quantile")
	}
	for i := range 1000 { // 0 to 9.99 ms
		h.add(time.Duration(i)*lateStep, 1)
	}
	h.add(-time.Second, 500)
	h.add(time.Hour, 500)
	for q, want := range map[float64]time.Duration{0: 0, 0.25: 0, 0.5: 500 * lateStep, 0.7: 900 * lateStep, 0.76: lateSteps * lateStep, 0.999: lateSteps * lateStep} {
		if got := h.quantile(q); got != want {
			t.Errorf("quantile %v is %v, not %v", q, got, want)
		}
	}
}

func TestDoubts(t *testing.T) {
	good := Stats{Congestion: "reno", LateP99: time.Millisecond, Lost: 5, Overflowed: 7, Cut: 9, Strays: 1}
	if d := good.Doubts(); d != nil || good.Planned() != 21 {
		t.Errorf("%v, %d planned", d, good.Planned())
	}
	for want, change := range map[string]func(*Stats){
		"1.50 ms":                func(s *Stats) { s.LateP99 = 1500 * time.Microsecond },
		"2 packets were dropped": func(s *Stats) { s.Unplanned = 2 },
		"is cubic,reno":          func(s *Stats) { s.Congestion = "cubic,reno" },
	} {
		bad := good
		change(&bad)
		if d := bad.Doubts(); len(d) != 1 || !strings.Contains(d[0], want) {
			t.Errorf("%q does not say %q", d, want)
		}
	}
}
