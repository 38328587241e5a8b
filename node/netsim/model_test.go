package netsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func addr(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}) }

// delays has the same distance between all hosts.
func delays(d time.Duration) func(a, b netip.Addr) time.Duration {
	return func(netip.Addr, netip.Addr) time.Duration { return d }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fails checks the error of something that fails.
func fails(t *testing.T, what string, want, err error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// watch begins to measure a time. took checks it.
func watch(t *testing.T) (took func(what string, want time.Duration)) {
	begin := time.Now()
	return func(what string, want time.Duration) {
		t.Helper()
		if got := time.Since(begin); got != want {
			t.Errorf("%s: it took %v, want %v", what, got, want)
		}
	}
}

// end is a host of its own with an endpoint.
func (n *Network) end(t *testing.T, i int, up, down float64) *Endpoint {
	t.Helper()
	n.SetBandwidth(addr(i), up, down)
	e, err := n.Open(addr(i))
	must(t, err)
	return e
}

// dialed is a connection to a port.
func dialed(t *testing.T, e *Endpoint, i int, port int) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := e.DialContext(ctx, "tcp", fmt.Sprintf("%v:%d", addr(i), port))
	must(t, err)
	return c
}

// dial fails to connect to port 80, or closes the connection at once.
func dial(t *testing.T, e *Endpoint, i int) error {
	c, err := e.DialContext(t.Context(), "tcp", fmt.Sprintf("%v:80", addr(i)))
	if err == nil {
		c.Close()
	}
	return err
}

// read reads a byte.
func read(c net.Conn) error {
	_, err := c.Read(make([]byte, 1))
	return err
}

// all reads what comes until the end.
func all(t *testing.T, c net.Conn, want string) {
	t.Helper()
	if got, err := io.ReadAll(c); string(got) != want || err != nil {
		t.Errorf("read %q, want %q: %v", got, want, err)
	}
}

// pages answers every byte at a port with that many bytes, after a while.
func pages(t *testing.T, e *Endpoint, bytes int64, think time.Duration) {
	t.Helper()
	l, err := e.Listen("tcp", ":80")
	must(t, err)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for ask := make([]byte, 1); ; {
					if _, err := io.ReadFull(c, ask); err != nil {
						return
					}
					time.Sleep(think)
					if _, err := c.Write(make([]byte, bytes)); err != nil {
						return
					}
				}
			}()
		}
	}()
}

// download is how long a page takes over a fresh connection, in ms.
func download(t *testing.T, from *Endpoint, i int, bytes int64) float64 {
	t.Helper()
	begin := time.Now()
	c := dialed(t, from, i, 80)
	defer c.Close()
	ask(t, c, bytes)
	return ms(time.Since(begin))
}

// ask asks for a page and reads it.
func ask(t *testing.T, c net.Conn, bytes int64) {
	t.Helper()
	if _, err := c.Write([]byte{1}); err != nil {
		t.Error(err)
		return
	}
	if n, err := io.CopyN(io.Discard, c, bytes); err != nil {
		t.Errorf("read %d of %d: %v", n, bytes, err)
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// bubble runs a test on the fake clock, with a network.
func bubble(t *testing.T, delay func(a, b netip.Addr) time.Duration, test func(t *testing.T, n *Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := New(delay)
		defer n.Close()
		test(t, n)
	})
}

func TestDownloadsTakeWhatTheModelSays(t *testing.T) {
	for _, c := range []struct {
		rtt       time.Duration
		up, down  float64
		bandwidth float64
		bytes     int64
	}{
		// 10 Mbit/s at 100 ms, at either end and at both.
		{100 * time.Millisecond, 1250, 0, 1250, 1_000},
		{100 * time.Millisecond, 1250, 0, 1250, 20_000},
		{100 * time.Millisecond, 1250, 0, 1250, 100_000},
		{100 * time.Millisecond, 1250, 0, 1250, 1_000_000},
		{100 * time.Millisecond, 0, 1250, 1250, 1_000},
		{100 * time.Millisecond, 0, 1250, 1250, 20_000},
		{100 * time.Millisecond, 0, 1250, 1250, 100_000},
		{100 * time.Millisecond, 0, 1250, 1250, 1_000_000},
		{100 * time.Millisecond, 1250, 1250, 1250, 100_000},
		{100 * time.Millisecond, 5000, 1250, 1250, 1_000_000},
		{10 * time.Millisecond, 250, 250, 250, 1_000},
		// Near, far, slow, fast, without a bound.
		{10 * time.Millisecond, 0, 1250, 1250, 100_000},
		{300 * time.Millisecond, 0, 12_500, 12_500, 300_000},
		{100 * time.Millisecond, 0, 250, 250, 100_000},
		{100 * time.Millisecond, 0, 12_500, 12_500, 1_000_000},
		{100 * time.Millisecond, 0, 0, 0, 1_000_000},
	} {
		bubble(t, delays(c.rtt/2), func(t *testing.T, n *Network) {
			const think = 30 * time.Millisecond
			server, node := n.end(t, 1, c.up, 0), n.end(t, 2, 0, c.down)
			pages(t, server, c.bytes, think)
			got, want := download(t, node, 1, c.bytes), DownloadMs(ms(c.rtt), c.bandwidth, ms(think), 0, c.bytes)
			t.Logf("%v, up %v, down %v, %d bytes: %.1f ms, the model says %.1f", c.rtt, c.up, c.down, c.bytes, got, want)
			if math.Abs(got/want-1) > 0.015 {
				t.Errorf("that is %.1f %% off", 100*(got/want-1))
			}
		})
	}
}

// What nobody wakes up for in time still happens as of its own time: rounds of acknowledgements do not add up their delays.
func TestALateWakeDelaysNoPlan(t *testing.T) {
	const bytes = 100_000 // four rounds
	bubble(t, delays(50*time.Millisecond), func(t *testing.T, n *Network) {
		near, far := pair(t, n)
		n.lock()
		n.plan.timer.Stop()
		n.plan.armed = time.Nanosecond // as if the timer were still to go off
		n.unlock()
		_, err := near.Write(make([]byte, bytes))
		must(t, err)
		time.Sleep(time.Second)
		n.lock()
		if got := far.(*conn).waiting; got != bytes {
			t.Errorf("%d bytes have arrived", got)
		}
		n.plan.armed = 0
		n.unlock()
		if got := n.Stats(); got.LateP99 != 500*time.Millisecond { // the most that is counted; the first part was due after 50 ms
			t.Errorf("it knows of no delay: %+v", got)
		}
	})
}

// TestTransferByHand: 100 ms, 1,250 bytes a ms (10 Mbit/s), 14,480 bytes at first; a round takes a segment longer than the round trip.
func TestTransferByHand(t *testing.T) {
	const perByte = 1500 / 1448. / 1250
	for _, c := range []struct {
		bytes     int64
		rtt, rate float64
		want      float64
	}{
		{0, 100, 1250, 0},
		{1_448, 100, 1250, 1.2},
		{14_480, 100, 1250, 12},
		{20_000, 100, 1250, 101.2 + 5_520*perByte},
		{100_000, 100, 1250, 202.4 + (100_000-14_480-28_960)*perByte},
		// 14,480 + 28,960 + 57,920 + 115,840 in four rounds; 231,680 at once would fill the pipe.
		{1_000_000, 100, 1250, 404.8 + (1_000_000-217_200)*perByte},
		{1_000_000, 100, 0, 600}, // without a bound: 14,480 × 63 = 912,240 in six round trips
		{1_448_000, 1, 100, 15_000},
		{20_000, 0, 0, 0},
	} {
		if got := TransferMs(c.rtt, c.rate, c.bytes); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d bytes over %v ms at %v bytes/ms: %v ms, want %v", c.bytes, c.rtt, c.rate, got, c.want)
		}
	}
}

// TestDownloadAsMeasured: kernels took 202, 308, 451 and 1258 ms for these pages over such a path, with their headers.
func TestDownloadAsMeasured(t *testing.T) {
	for bytes, measured := range map[int64]float64{1_000: 202, 20_000: 308, 100_000: 451, 1_000_000: 1258} {
		if got := DownloadMs(100, 1250, 0, 0, bytes); math.Abs(got-measured) > .01*measured {
			t.Errorf("%d bytes: %v ms, measured %v", bytes, got, measured)
		}
	}
	if got := DownloadMs(100, 1250, 30, 7, 0); got != 237 {
		t.Errorf("with thought and load: %v", got)
	}
}
