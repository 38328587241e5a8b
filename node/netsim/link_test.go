package netsim

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

func near(got, want, share float64) bool { return math.Abs(got/want-1) <= share }

func TestLinksAreShared(t *testing.T) {
	const rate, bytes, many = 1250.0, 250_000, 4
	for name, c := range map[string]struct {
		up, down float64 // of each server and of each node
		servers  int
		nodes    int
	}{
		"uplink":   {rate, 0, 1, many},
		"downlink": {0, rate, many, 1},
	} {
		bubble(t, delays(10*time.Millisecond), func(t *testing.T, n *Network) {
			for i := range c.servers {
				pages(t, n.end(t, 1+i, c.up, 0), bytes, 0)
			}
			for i := range c.nodes {
				n.end(t, 100+i, 0, c.down)
			}
			var all sync.WaitGroup
			begin := time.Now()
			for i := range many {
				e, err := n.Open(addr(100 + i%c.nodes))
				must(t, err)
				all.Go(func() {
					got := download(t, e, 1+i%c.servers, bytes)
					if alone := 40 + bytes/rate; got < 2*alone {
						t.Errorf("%s: one of %d took %.0f ms, alone %.0f: it had more than its share", name, many, got, alone)
					}
				})
			}
			all.Wait()
			if got, want := ms(time.Since(begin)), 40+many*bytes*(segment+header)/(segment*rate); !near(got, want, 0.02) {
				t.Errorf("%s: all took %.0f ms, want %.0f", name, got, want)
			}
		})
	}
}

func TestBandwidthChangesUnderWay(t *testing.T) {
	bubble(t, delays(10*time.Millisecond), func(t *testing.T, n *Network) {
		pages(t, n.end(t, 1, 0, 0), 1_000_000, 0)
		node := n.end(t, 2, 0, 1000)
		c := dialed(t, node, 1, 80)
		begin := time.Now()
		time.AfterFunc(500*time.Millisecond, func() {
			n.SetBandwidth(addr(2), 0, 200)
		})
		ask(t, c, 1_000_000)
		// 480 kB came in the first 500 ms; what was queued when the change came passed at the old rate.
		if got := ms(time.Since(begin)); got < 2500 || got > 3110 {
			t.Errorf("it took %.0f ms", got)
		}
	})
}

func TestAConnectionDoesNotFillTheQueueWithoutEnd(t *testing.T) {
	bubble(t, delays(10*time.Millisecond), func(t *testing.T, n *Network) {
		pages(t, n.end(t, 1, 1000, 0), 3_000_000, 0)
		a, b := n.end(t, 2, 0, 0), n.end(t, 3, 0, 0)
		go ask(t, dialed(t, a, 1, 80), 3_000_000)
		time.Sleep(2 * time.Second)
		begin := time.Now()
		dialed(t, b, 1, 80).Close()
		if got := ms(time.Since(begin)); got < 40 || got > 20+4*ms(minQueue) {
			t.Errorf("another connected in %.0f ms", got)
		}
		time.Sleep(2 * time.Second)
	})
}

func TestIdleConnectionsStartAgain(t *testing.T) {
	bubble(t, delays(50*time.Millisecond), func(t *testing.T, n *Network) {
		const bytes = 100_000
		pages(t, n.end(t, 1, 0, 0), bytes, 0)
		c := dialed(t, n.end(t, 2, 0, 0), 1, 80)
		took := func() float64 {
			begin := time.Now()
			ask(t, c, bytes)
			return ms(time.Since(begin))
		}
		first, second := took(), took()
		time.Sleep(time.Second)
		third := took()
		if first != 300 || second != 100 || third != first {
			t.Errorf("%.0f ms, at once again %.0f ms, after a pause %.0f ms; want 300, 100, 300", first, second, third)
		}
	})
}

func TestJitterKeepsTheOrder(t *testing.T) {
	turn := 0
	jitter := func(netip.Addr, netip.Addr) time.Duration {
		turn++
		return time.Duration(10+turn*7%10) * time.Millisecond
	}
	bubble(t, jitter, func(t *testing.T, n *Network) {
		near, far := pair(t, n)
		want := make([]byte, 200_000)
		for i := range want {
			want[i] = byte(i / 1000)
		}
		go func() { _, _ = near.Write(want) }()
		got := make([]byte, len(want))
		for part := range slices.Chunk(got, 1000) { // less than a segment
			_, err := io.ReadFull(far, part)
			must(t, err)
		}
		if !bytes.Equal(got, want) {
			t.Error("it came in another order")
		}
	})
}

func TestPackets(t *testing.T) {
	bubble(t, delays(15*time.Millisecond), func(t *testing.T, n *Network) {
		a, b := n.end(t, 1, 0, 0), n.end(t, 2, 0, 0)
		server, err := b.ListenPacket("udp", "198.18.0.2:53")
		must(t, err)
		go func() {
			for buf := make([]byte, 100); ; {
				k, from, err := server.ReadFrom(buf)
				if err != nil {
					return
				}
				_, _ = server.WriteTo(append([]byte("re "), buf[:k]...), from)
			}
		}()
		c, err := a.DialContext(t.Context(), "udp", "198.18.0.2:53")
		must(t, err)
		if _, ok := c.(net.PacketConn); !ok {
			t.Error("a connection over UDP is no packet connection")
		}
		stranger, err := b.ListenPacket("udp", ":0")
		must(t, err)
		_, err = stranger.WriteTo([]byte("noise"), c.LocalAddr())
		must(t, err)
		took := watch(t)
		_, _ = c.Write([]byte("hello"))
		buf := make([]byte, 100)
		if k, err := c.Read(buf); string(buf[:k]) != "re hello" {
			t.Errorf("got %q: %v", buf[:k], err)
		}
		took("there and back", 30*time.Millisecond)
		n.Partition([]netip.Addr{addr(2)})
		_, _ = c.Write([]byte("lost"))
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		fails(t, "through a partition", os.ErrDeadlineExceeded, read(c))
		if got := n.Stats(); got.Cut != 2 || got.Packets != 3 {
			t.Errorf("counted %+v", got)
		}
	})
}

// Real members find each other over it, and the round trips they measure are those of the network.
func TestGossip(t *testing.T) {
	bubble(t, delays(20*time.Millisecond), func(t *testing.T, n *Network) {
		const many = 5
		var lists []*memberlist.Memberlist
		var ends []*Endpoint
		for i := range many {
			e := n.end(t, i, 0, 0)
			g, err := e.Gossip(7946)
			must(t, err)
			c := memberlist.DefaultWANConfig()
			c.Name, c.Transport, c.LogOutput = fmt.Sprint(i), g, t.Output()
			list, err := memberlist.Create(c)
			must(t, err)
			lists, ends = append(lists, list), append(ends, e)
			_, err = list.Join([]string{"198.18.0.0:7946"})
			must(t, err)
		}
		time.Sleep(time.Minute)
		for i, l := range lists {
			if l.NumMembers() != many {
				t.Errorf("%d sees %d members", i, l.NumMembers())
			}
		}
		rtt, err := lists[1].Ping("3", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr(3), 7946)))
		if err != nil || rtt != 40*time.Millisecond {
			t.Errorf("the round trip is %v: %v", rtt, err)
		}
		ends[4].Close()
		time.Sleep(2 * time.Minute)
		if lists[0].NumMembers() != many-1 {
			t.Errorf("%d members after one died", lists[0].NumMembers())
		}
		for _, l := range lists {
			must(t, l.Shutdown())
		}
		time.Sleep(time.Minute) // memberlist does not wait for what it started
	})
}
