package relay_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"proxima/node/netsim"
	"proxima/node/relay"
	"proxima/node/view"
)

// TestReachIsFoundOut: nodes find out how they can be reached, and who cannot be dialled keeps the nearest as relays.
func TestReachIsFoundOut(t *testing.T) {
	inBed(t, func(b *bed) {
		b.startAll(6)
		behind := b.shielded(22)
		b.shield(60, false)
		muted := b.start(60, nil)
		time.Sleep(time.Minute)
		for _, n := range b.nodes {
			want := map[*node]view.Reach{behind: view.Outbound, muted: view.Streams}[n] // or direct
			if n.said().Reach != want {
				t.Errorf("node at %d takes itself for %v, want %v", n.place, n.said().Reach, want)
			}
		}
		if err := b.nodes[0].reaches(muted, relay.Gossip, time.Minute); err != nil {
			t.Errorf("gossip stream to a node without packets: %v", err)
		}
		near := []string{netsim.ID(10), netsim.ID(20), netsim.ID(30)}
		if slices.Sort(near); !slices.Equal(behind.said().Relays, near) {
			t.Errorf("relays %v, want %v", behind.said().Relays, near)
		}
		// A nearer one that comes takes the place of the one that is farthest, but not before it answers.
		b.net.Cut(netsim.Place(22), netsim.Place(23))
		b.start(23, nil)
		for range 60 {
			time.Sleep(time.Second)
			if !slices.Equal(behind.said().Relays, near) {
				t.Fatalf("relays %v beside a nearer one that does not answer, want %v", behind.said().Relays, near)
			}
		}
		b.net.Heal()
		time.Sleep(time.Minute)
		if !slices.Contains(behind.said().Relays, netsim.ID(23)) {
			t.Errorf("relays %v, without the nearest", behind.said().Relays)
		}
		// The NAT is opened: it finds out.
		b.net.Shield(netsim.Place(22), false, false)
		time.Sleep(5 * time.Minute)
		if behind.said().Reach != view.Direct || behind.said().Relays != nil {
			t.Errorf("it can be dialled and says %v by %v", behind.said().Reach, behind.said().Relays)
		}
	})
}

// TestFirstMemberIsAsked: a node that has begun alone asks how it is reached as soon as there is another.
func TestFirstMemberIsAsked(t *testing.T) {
	inBed(t, func(b *bed) {
		n := b.start(1, nil)
		time.Sleep(500 * time.Millisecond)
		b.start(10, forced(view.Direct))
		time.Sleep(1500 * time.Millisecond)
		if ways := n.published(); !slices.Contains(ways, view.Direct) {
			t.Errorf("it can be dialled, and said %v", ways)
		}
	})
}

// TestReachBesideDeadMembers: a node that all living members reach is direct, even while members that nobody has missed yet do not answer.
func TestReachBesideDeadMembers(t *testing.T) {
	inBed(t, func(b *bed) {
		for _, place := range []int{10, 20} {
			b.start(place, forced(view.Direct))
		}
		b.net.Cut(netsim.Place(1), netsim.Place(10))
		n := b.start(1, nil)
		time.Sleep(30 * time.Second)
		if ways := n.published(); slices.Contains(ways, view.Streams) || n.said().Reach != view.Direct {
			t.Errorf("its packets come, and it said %v", ways)
		}
	})
}

// TestOutboundIsReached: packets and connections get to a node that cannot be dialled, from those that can be and from
// others like it, also when its relays die one after the other.
func TestOutboundIsReached(t *testing.T) {
	inBed(t, func(b *bed) {
		b.startAll(5)
		one, two := b.shielded(12), b.shielded(31)
		time.Sleep(20 * time.Second)
		all := func(when string) {
			t.Helper()
			for _, from := range b.nodes {
				for _, to := range []*node{one, two} {
					if from == to || !from.alive {
						continue
					}
					for _, kind := range []relay.Kind{relay.Calls, relay.Gossip} {
						if err := from.reaches(to, kind, time.Minute); err != nil {
							t.Errorf("%s: call %d of %d to %d: %v", when, kind, from.place, to.place, err)
						}
					}
					text := fmt.Sprint("from ", from.place)
					if !from.Send(netsim.ID(to.place), []byte(text)) {
						t.Errorf("%s: packet of %d to %d does not go by a link", when, from.place, to.place)
					}
					time.Sleep(time.Second)
					if got := to.got(); !slices.Equal(got, []string{text}) {
						t.Errorf("%s: %d got %q, want %q", when, to.place, got, text)
					}
				}
			}
		}
		all("all alive")
		for _, dead := range []int{1, 3, 0} {
			b.nodes[dead].halt()
			if err := b.nodes[4].reaches(one, relay.Calls, 3*time.Second); err != nil {
				t.Errorf("after the death of %d: %v", b.nodes[dead].place, err)
			}
			time.Sleep(15 * time.Second) // until links that say nothing have ended
			all(fmt.Sprint("without ", b.nodes[dead].place))
		}
	})
}

// TestBrokenPath: nodes that can be dialled, but not by each other, talk by way of others, of which some may not reach the other end either.
func TestBrokenPath(t *testing.T) {
	inBed(t, func(b *bed) {
		b.startAll(5)
		outbound := b.shielded(15)
		time.Sleep(20 * time.Second)
		from, to := b.nodes[1], b.nodes[2]
		b.net.Cut(netsim.Place(10), netsim.Place(20))
		b.net.Cut(netsim.Place(0), netsim.Place(20)) // one of the two that are nearest
		try := func(to *node) error {
			conn, err := from.Detour(b.t.Context(), netsim.ID(to.place))
			if err != nil {
				return err
			}
			defer conn.Close() //nolint:errcheck // it has none
			who := make([]byte, 32)
			if _, err = io.ReadFull(conn, who); err == nil && string(who) != netsim.ID(to.place) {
				err = fmt.Errorf("reached %q", who)
			}
			return err
		}
		b.must(try(to))
		if try(to) == nil {
			t.Error("others are asked again at once")
		}
		if carried := b.nodes[3].Status().Calls; carried != 1 {
			t.Errorf("the node that reaches both carried %d connections", carried)
		}
		time.Sleep(5 * time.Second)
		b.must(try(to))
		outbound.halt()
		to.halt()
		time.Sleep(5 * time.Second)
		for _, gone := range []*node{to, outbound} {
			if try(gone) == nil {
				t.Errorf("reached the one at %d, which is dead", gone.place)
			}
		}
	})
}

// TestRelayFallsSilent: a relay that is off the network without a word does not hold calls up, and is none any more after 12 s.
func TestRelayFallsSilent(t *testing.T) {
	inBed(t, func(b *bed) {
		b.startAll(4)
		behind := b.shielded(12)
		time.Sleep(20 * time.Second)
		b.must(b.nodes[3].reaches(behind, relay.Calls, time.Minute))
		b.net.Partition([]netip.Addr{netsim.Place(10)})
		silent := time.Now()
		for i := range 5 {
			if err := b.nodes[3].reaches(behind, relay.Calls, 2*time.Second); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		}
		// It reaches no other relay, and does not try for longer than 5 s.
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if _, err := b.nodes[1].Dial(ctx, netsim.ID(12), relay.Calls); err == nil || time.Since(began) > 5*time.Second {
			t.Errorf("call of the silent one: %v after %v", err, time.Since(began))
		}
		time.Sleep(12*time.Second + 100*time.Millisecond - time.Since(silent))
		if relays := behind.said().Relays; slices.Contains(relays, netsim.ID(10)) {
			t.Errorf("relays %v, with the silent one", relays)
		}
		time.Sleep(10 * time.Second) // it is dialled once more, because it is near
		if relays := behind.said().Relays; slices.Contains(relays, netsim.ID(10)) || len(relays) != 3 {
			t.Errorf("relays %v, without another one in place of the silent one", relays)
		}
		b.net.Heal()
	})
}

// TestFloodIsBounded: a member that floods its relay has few packets and connections carried, and others have theirs.
func TestFloodIsBounded(t *testing.T) {
	inBed(t, func(b *bed) {
		b.startAll(2)
		behind, flooder, other := b.shielded(12), b.shielded(15), b.shielded(17)
		time.Sleep(20 * time.Second)
		behind.got()
		const flood = 100_000
		for i := range flood {
			flooder.Send(netsim.ID(12), make([]byte, 1400))
			if i%100 == 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		if n := len(behind.got()); n > 12_000 || n < 1000 {
			t.Errorf("%d of %d packets of a flood came", n, flood)
		}
		var open []io.Closer
		refused := 0
		for range 200 {
			if conn, err := flooder.call(behind, relay.Calls); err != nil {
				refused++
			} else {
				open = append(open, conn)
			}
		}
		if n := len(open); n > 2*64 || refused == 0 {
			t.Errorf("%d connections of one member are carried at once, %d refused", n, refused)
		}
		for _, c := range open {
			_ = c.Close()
		}
		time.Sleep(time.Second)
		if ends := b.net.Ends(); ends >= refused {
			t.Errorf("%d ends of connections are open after %d calls were refused", ends, refused)
		}
		if err := other.reaches(behind, relay.Calls, time.Minute); err != nil {
			t.Errorf("call of another one: %v", err)
		}
		other.Send(netsim.ID(12), []byte("a word"))
		time.Sleep(time.Second)
		if got := behind.got(); !slices.Contains(got, "a word") {
			t.Errorf("packet of another one is lost: %q", got)
		}
	})
}

// TestSlowEndPausesItsOwn: an end that reads nothing holds no other connection up, and no packet.
func TestSlowEndPausesItsOwn(t *testing.T) {
	inBed(t, func(b *bed) {
		b.start(0, nil)
		behind, other := b.shielded(12), b.shielded(15)
		time.Sleep(20 * time.Second)
		slow, err := other.call(behind, relay.Calls)
		b.must(err)
		_ = slow.SetWriteDeadline(time.Now().Add(5 * time.Second))
		sent, err := io.Copy(slow, io.LimitReader(zeroes{}, 64<<20)) // the echo is never read
		// Four connections of the network hold their windows of 4 MiB each, to the end and back; the relay holds next to nothing.
		if err == nil || sent > 4*4<<20+2<<20 {
			t.Errorf("%d bytes were taken in that nobody read: %v", sent, err)
		}
		if err := other.reaches(behind, relay.Calls, time.Second); err != nil {
			t.Errorf("call beside it: %v", err)
		}
		_ = slow.Close()
	})
}

type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) { return len(b), nil }

// TestItBeginsAsItWas: a node that was direct before is never taken for anything else while it asks, even if all packets of a round are lost,
// of every other one.
// It finds out all the same that it is not direct any more.
func TestItBeginsAsItWas(t *testing.T) {
	inBed(t, func(b *bed) {
		var mu sync.Mutex
		rounds := map[string]int{} // numbers, by the packets
		lossy := func(d *relay.Deps) {
			knock := d.Knock
			d.Knock = func(id string, packet []byte) {
				mu.Lock()
				defer mu.Unlock()
				n, again := rounds[string(packet)]
				if id == netsim.ID(40) && !again {
					n = len(rounds)
					rounds[string(packet)] = n
				}
				if id != netsim.ID(40) || n%2 == 1 {
					knock(id, packet)
				}
			}
		}
		for _, place := range []int{0, 10, 20} {
			b.start(place, lossy)
		}
		behind := b.shielded(35)
		time.Sleep(20 * time.Second)
		again := b.start(40, func(d *relay.Deps) { d.First = view.Direct })
		b.shield(50, true)
		moved := b.start(50, func(d *relay.Deps) {
			lossy(d)
			d.First = view.Direct
		})
		time.Sleep(5 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if ways := again.published(); !slices.Equal(ways, []view.Reach{view.Direct}) || len(rounds) < 6 {
			t.Errorf("it published %v, in %d rounds", ways, len(rounds))
		}
		if moved.said().Reach != view.Outbound || behind.said().Reach != view.Outbound {
			t.Errorf("behind NATs they take themselves for %v and %v", moved.said().Reach, behind.said().Reach)
		}
	})
}

// TestLinksAreLetGo: of two links that two nodes have dialled at once, one ends when nothing uses it, even if it led to a relay. The
// other one stays until the relay cannot be dialled any more.
func TestLinksAreLetGo(t *testing.T) {
	inBed(t, func(b *bed) {
		a := b.start(10, forced(view.Direct))
		var dialled atomic.Int64
		n := b.start(60, func(d *relay.Deps) {
			forced(view.Outbound)(d)
			connect := d.Connect
			d.Connect = func(ctx context.Context, id string) (net.Conn, error) {
				dialled.Add(1)
				return connect(ctx, id)
			}
		})
		time.Sleep(10 * time.Millisecond)
		a.Send(netsim.ID(60), []byte("at once"))
		time.Sleep(10 * time.Minute)
		if ends := b.net.Ends(); ends != 2 || !slices.Equal(n.said().Relays, []string{netsim.ID(10)}) {
			t.Fatalf("%d ends of links, want 2; relays %v", ends, n.said().Relays)
		}
		if n := dialled.Load(); n > 2 {
			t.Errorf("it dialled %d times, as if its link with the relay were idle", n)
		}
		b.mu.Lock()
		a.way.Reach = view.Outbound
		b.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if ends := b.net.Ends(); ends != 0 || len(n.said().Relays) > 0 {
			t.Errorf("%d ends of links, want none; relays %v", ends, n.said().Relays)
		}
	})
}
