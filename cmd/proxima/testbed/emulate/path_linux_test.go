package emulate

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"proxima/node/netsim"
)

func TestRoundTrip(t *testing.T) {
	if !inside(t, allWays...) {
		return
	}
	const oneWay, times = 20 * time.Millisecond, 25
	n := up(t, two(0, 0, Path{OneWay: oneWay}))
	pages(t, n, "b", addr(2))
	c := dial(t, n, "a", echo(t, n, "b", addr(2)))
	var pings, connects []time.Duration
	for range times {
		if p, ok := ping(t, c, 100, 5*time.Second); ok {
			pings = append(pings, p)
		}
		connects = append(connects, connect(t, n, "a", netip.AddrPortFrom(addr(2), 80)))
	}
	if len(pings) != times {
		t.Fatalf("%d of %d datagrams came back, though nothing is to be lost", len(pings), times)
	}
	for what, took := range map[string][]time.Duration{"datagram": pings, "connect": connects} {
		half := median(took)
		t.Logf("%s: least %v, median %v, most %v", what, took[0], half, took[len(took)-1])
		if took[0] < 2*oneWay {
			t.Errorf("%s: %v is below the round trip of %v", what, took[0], 2*oneWay)
		}
		if half > 2*oneWay+3*time.Millisecond {
			busy(t, n, fmt.Errorf("%s: the median is %v, the round trip %v", what, half, 2*oneWay))
		}
	}
}

// The router loses the configured share of datagrams. No datagram is lost elsewhere.
func TestLossOfDatagrams(t *testing.T) {
	if !inside(t, allWays[0]) {
		return
	}
	const loss, rounds, each = 0.05, 40, 50
	n := up(t, two(0, 0, Path{OneWay: time.Millisecond, Loss: loss}))
	c := dial(t, n, "a", echo(t, n, "b", addr(2)))
	var s Stats
	received := 0
	read := func(silence time.Duration) (more bool) {
		if err := c.SetReadDeadline(time.Now().Add(silence)); err != nil {
			t.Fatal(err)
		}
		_, err := c.Read(make([]byte, 100))
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		if err == nil {
			received++
		}
		return err == nil
	}
	for round := range rounds {
		for range each {
			if _, err := c.Write(make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		// Wait until all of them are back or lost, so that no buffer of a socket overflows on a slow machine.
		for deadline := time.Now().Add(20 * time.Second); ; {
			for read(20 * time.Millisecond) {
			}
			var err error
			if s, err = n.Stats(); err != nil {
				t.Fatal(err)
			}
			if int64(received)+s.Lost >= int64((round+1)*each) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d datagrams came back and %d were lost of %d", received, s.Lost, (round+1)*each)
			}
		}
	}
	if read(time.Second) {
		t.Error("a datagram came back twice")
	}
	sent, share := float64(rounds*each), 1-(1-loss)*(1-loss)
	t.Logf("%d of %d came back, %d lost", received, rounds*each, s.Lost)
	if int64(received)+s.Lost != rounds*each {
		t.Errorf("%d datagrams came back and %d were lost of %d", received, s.Lost, rounds*each)
	}
	if off := math.Abs(float64(s.Lost) - sent*share); off > 5*math.Sqrt(sent*share*(1-share)) {
		t.Errorf("%d of %d lost, not about %.0f", s.Lost, rounds*each, sent*share)
	}
}

// A large transfer has the bandwidth of the sender's uplink, and then that of the receiver's downlink, which is set during the run.
func TestBandwidth(t *testing.T) {
	if !inside(t, allWays...) {
		return
	}
	const rate, size = 2500, 1_500_000
	n := up(t, two(rate, rate, Path{OneWay: 5 * time.Millisecond}))
	pages(t, n, "b", addr(2))
	measure := func(what string, bytesPerMs float64, size int) {
		least := float64(size) / bytesPerMs * 1500 / 1448 // with headers
		most := least*1.05 + 50
		best := math.Inf(1)
		for range 3 { // the machine may hold one up
			took := ms(download(t, n, "a", addr(2), size))
			t.Logf("%s: %.1f ms for %d bytes, %.1f of them by bandwidth", what, took, size, least)
			if took < least {
				t.Errorf("%s: %d bytes in %.1f ms, faster than %v bytes a ms", what, size, took, bytesPerMs)
			}
			if best = min(best, took); best <= most {
				return
			}
		}
		busy(t, n, fmt.Errorf("%s: %d bytes in %.1f ms at best, %.1f by bandwidth", what, size, best, least))
	}
	measure("uplink", rate, size)
	if err := n.SetBandwidth(addr(2), 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := n.SetBandwidth(addr(1), rate/5, rate/5); err != nil {
		t.Fatal(err)
	}
	measure("downlink", rate/5, size/5)
	var connects []time.Duration
	for range 5 {
		connects = append(connects, connect(t, n, "a", netip.AddrPortFrom(addr(2), 80)))
	}
	if took := slices.Min(connects); took > 20*time.Millisecond {
		busy(t, n, fmt.Errorf("connecting takes %v with an empty queue", took))
	}
	if err := n.SetBandwidth(addr(3), 1, 1); err == nil {
		t.Error("no error for an address that is no endpoint")
	}
	if err := n.SetBandwidth(addr(1), 0, 0); err != nil {
		t.Fatal(err)
	}
	// Without limits a transfer consists of bursts of thousands of packets. None may be dropped (see up).
	t.Logf("unlimited: 16 MB in %v", download(t, n, "a", addr(2), 16<<20))
}

// Downloads take the time that the truth of the testbed predicts.
func TestSlowStart(t *testing.T) {
	if !inside(t, allWays[0], allWays[3]) {
		return
	}
	const rate, oneWay = 1250, 50 * time.Millisecond // 10 Mbit/s
	n := up(t, two(rate, rate, Path{OneWay: oneWay}))
	pages(t, n, "b", addr(2))
	for _, size := range []int{1_000, 20_000, 100_000, 1_000_000} {
		var took []time.Duration
		for range 3 {
			took = append(took, download(t, n, "a", addr(2), size))
		}
		model := netsim.DownloadMs(ms(2*oneWay), rate, 0, 0, int64(size))
		half := ms(median(took))
		least := ms(took[0])
		t.Logf("%d bytes: least %.1f ms, median %.1f ms, model %.1f ms", size, least, half, model)
		if least < model-1 {
			t.Errorf("%d bytes: %.1f ms, the model expects %.1f", size, least, model)
		}
		if least > model*1.015+5 {
			busy(t, n, fmt.Errorf("%d bytes: %.1f ms at least, the model expects %.1f", size, least, model))
		}
	}
}

func TestJitterOfPings(t *testing.T) {
	if !inside(t, allWays[0]) {
		return
	}
	const oneWay, jitter, times = 5 * time.Millisecond, 5 * time.Millisecond, 100
	n := up(t, two(0, 0, Path{OneWay: oneWay, Jitter: jitter}))
	c := dial(t, n, "a", echo(t, n, "b", addr(2)))
	var sum time.Duration
	for range times {
		took, ok := ping(t, c, 100, 5*time.Second)
		if !ok || took < 2*oneWay {
			t.Fatalf("%v, %v", took, ok)
		}
		sum += took
	}
	// The sum of two exponential delays is within five standard deviations of its mean.
	off := math.Abs(ms(sum)/times - ms(2*oneWay+2*jitter))
	t.Logf("mean %.1f ms", ms(sum)/times)
	if off > 5*math.Sqrt(2)*ms(jitter)/math.Sqrt(times) {
		busy(t, n, fmt.Errorf("the mean round trip is %.1f ms", ms(sum)/times))
	}
}

func TestPartition(t *testing.T) {
	if !inside(t, allWays[0]) {
		return
	}
	n := up(t, Config{
		Endpoints: []Endpoint{{Addr: addr(1), Namespace: "a"}, {Addr: addr(2), Namespace: "b"}, {Addr: addr(3), Namespace: "c"}},
		Path:      func(int, int) Path { return Path{OneWay: time.Millisecond} },
	})
	ab, cb := dial(t, n, "a", echo(t, n, "b", addr(2))), dial(t, n, "c", netip.AddrPortFrom(addr(2), 7))
	pages(t, n, "b", addr(2))
	reach := func(c net.Conn, want bool) {
		t.Helper()
		patience := 100 * time.Millisecond
		if want {
			patience = 5 * time.Second
		}
		if _, ok := ping(t, c, 100, patience); ok != want {
			t.Errorf("reached: %v", ok)
		}
	}
	reach(ab, true)
	if err := n.Partition([]netip.Addr{addr(1)}, []netip.Addr{addr(2), addr(3)}); err != nil {
		t.Fatal(err)
	}
	reach(ab, false)
	reach(cb, true)
	if s, err := n.Stats(); err != nil || s.Cut != 1 {
		t.Errorf("%d packets cut off, %v", s.Cut, err)
	}
	// TCP survives a partition: this handshake succeeds after the end of the partition.
	connected := make(chan time.Duration, 1)
	go func() { connected <- connect(t, n, "a", netip.AddrPortFrom(addr(2), 80)) }()
	for cut := int64(0); cut < 2; { // its first packet was cut off
		s, err := n.Stats()
		if err != nil {
			t.Fatal(err)
		}
		cut = s.Cut
	}
	if err := n.Partition([]netip.Addr{addr(3)}, nil); err != nil {
		t.Fatal(err)
	}
	reach(ab, true)
	t.Logf("connected after %v", <-connected)
}

func dial(t *testing.T, n *Net, namespace string, to netip.AddrPort) net.Conn {
	t.Helper()
	c, err := n.Dialer(namespace)(t.Context(), "udp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
