package emulate

import (
	"strings"
	"testing"
	"time"
)

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
