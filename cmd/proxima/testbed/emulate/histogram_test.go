package emulate

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func addrOf(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 19, byte(i >> 8), byte(i)}) }

func TestQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(random.ExpFloat64() * float64(3*time.Millisecond))
		all = append(all, d)
		h.add(d, 1)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999} {
		exact, got := all[int(q*float64(len(all)))], h.quantile(q)
		if got < exact || float64(got) > float64(exact)*(1+1.0/16)+float64(time.Microsecond) {
			t.Errorf("quantile %v is %v, not %v", q, got, exact)
		}
	}
	if h.quantile(1) != all[len(all)-1] || h.Max != all[len(all)-1] {
		t.Errorf("most is %v, not %v", h.quantile(1), all[len(all)-1])
	}
	h = histogram{}
	if h.quantile(0.99) != 0 {
		t.Error("an empty histogram has a quantile")
	}
	h.add(-time.Second, 3)
	h.add(200*365*24*time.Hour, 1)
	if got := h.quantile(0.5); got > time.Microsecond || h.Total != 4 {
		t.Errorf("the median of three negatives of four is %v of %d", got, h.Total)
	}
}

func TestDoubts(t *testing.T) {
	good := Stats{Congestion: "reno", LateP99: time.Millisecond, LateMax: time.Second, Lost: 5, Overflowed: 7, Cut: 9, Strays: 1}
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

func TestConfigIsChecked(t *testing.T) {
	path := func(int, int) Path { return Path{} }
	var many []Endpoint
	for i := range 1001 {
		many = append(many, Endpoint{Addr: addrOf(i), Namespace: "a"})
	}
	ok := Endpoint{Addr: addrOf(1), Namespace: "a"}
	for want, c := range map[string]Config{
		"no endpoints":      {Path: path},
		"1000 at most":      {Endpoints: many, Path: path},
		"no paths":          {Endpoints: []Endpoint{ok}},
		"given twice":       {Endpoints: []Endpoint{ok, ok}, Path: path},
		"no namespace":      {Endpoints: []Endpoint{{Addr: addrOf(1)}}, Path: path},
		"not an address of": {Endpoints: []Endpoint{{Addr: netip.MustParseAddr("198.20.0.1"), Namespace: "a"}}, Path: path},
		"endpoint ::1":      {Endpoints: []Endpoint{{Addr: netip.IPv6Loopback(), Namespace: "a"}}, Path: path},
		"endpoint invalid":  {Endpoints: []Endpoint{{Namespace: "a"}}, Path: path},
		"negative":          {Endpoints: []Endpoint{{Addr: addrOf(1), Namespace: "a", UpBytesPerMs: -1}}, Path: path},
		"netem":             {Endpoints: []Endpoint{ok}, Path: path, Emulation: "netem"},
	} {
		if err := c.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := (Config{Endpoints: []Endpoint{ok}, Path: path, Emulation: Veth}).check(); err != nil {
		t.Error(err)
	}
}
