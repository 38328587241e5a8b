package relay_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"proxima/node/netsim"
	"proxima/node/relay"
	"proxima/node/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const port = 7947

// bed is a few nodes in a bubble. What they publish all know at once.
type bed struct {
	t   *testing.T
	net *netsim.Network

	mu    sync.Mutex
	nodes []*node
}

// node is one with a relay, and what came to it.
type node struct {
	*relay.Relay
	bed   *bed
	place int
	end   *netsim.Endpoint
	stop  context.CancelFunc
	work  sync.WaitGroup

	// The bed's mu guards what follows.
	way     view.Way
	ways    []view.Reach // all that it published
	alive   bool
	packets []string
}

// inBed runs a test in a bubble. The one-way delay between places is the difference of their numbers, in ms.
func inBed(t *testing.T, test func(b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t}
		b.net = netsim.New(func(a, c netip.Addr) time.Duration {
			d := netsim.PlaceOf(a) - netsim.PlaceOf(c)
			return time.Duration(max(d, -d)) * time.Millisecond
		})
		defer b.net.Close() //nolint:errcheck // it has none
		defer func() {
			for _, n := range b.nodes {
				n.halt()
			}
		}()
		test(b)
	})
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// at is the address of a node.
func at(place int) string { return netip.AddrPortFrom(netsim.Place(place), port).String() }

// start begins a node at the next place. change may change what it gets.
func (b *bed) start(place int, change func(*relay.Deps)) *node {
	b.t.Helper()
	end, err := b.net.Open(netsim.Place(place))
	b.must(err)
	n := &node{bed: b, place: place, end: end, alive: true}
	deps := relay.Deps{
		ID: netsim.ID(place), First: view.Outbound, Connect: n.connect, Near: n.near, Knock: n.knock,
		Way: func(id string) (view.Way, bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, o := range b.nodes {
				if netsim.ID(o.place) == id {
					return o.way, o.alive
				}
			}
			return view.Way{}, false
		},
		Publish: func(w view.Way) {
			b.mu.Lock()
			defer b.mu.Unlock()
			n.way = w
			n.ways = append(n.ways, w.Reach)
		},
	}
	if change != nil {
		change(&deps)
	}
	n.Relay, err = relay.New(deps)
	b.must(err)
	inner, err := end.Listen("tcp", at(place))
	b.must(err)
	socket, err := end.ListenPacket("udp", at(place))
	b.must(err)
	b.mu.Lock()
	b.nodes = append(b.nodes, n)
	b.mu.Unlock()
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.work.Go(func() { _ = n.Run(ctx) })
	n.work.Go(func() { n.listen(inner) })
	n.work.Go(func() { n.echo(ctx, n.Calls()) })
	n.work.Go(func() { n.echo(ctx, n.Streams()) })
	n.work.Go(func() {
		for {
			select {
			case p := <-n.Packets():
				b.mu.Lock()
				n.packets = append(n.packets, string(p.Buf))
				b.mu.Unlock()
			case <-ctx.Done():
				return
			}
		}
	})
	n.work.Go(func() {
		buf := make([]byte, 2048)
		for {
			k, _, err := socket.ReadFrom(buf)
			if err != nil {
				return
			}
			n.Knocked(buf[:k])
		}
	})
	return n
}

func (n *node) near() (all []relay.Neighbour) {
	n.bed.mu.Lock()
	defer n.bed.mu.Unlock()
	for _, o := range n.bed.nodes {
		if d := o.place - n.place; d != 0 && o.alive {
			all = append(all, relay.Neighbour{ID: netsim.ID(o.place), Reach: o.way.Reach, Ms: 2 * float64(max(d, -d))})
		}
	}
	slices.SortFunc(all, func(a, c relay.Neighbour) int { return int(a.Ms - c.Ms) })
	return all
}

func placeOf(id string) int {
	b, _ := hex.DecodeString(id)
	return int(b[14])<<8 | int(b[15])
}

func (n *node) connect(ctx context.Context, id string) (net.Conn, error) {
	return n.end.DialContext(ctx, "tcp", at(placeOf(id)))
}

func (n *node) knock(id string, b []byte) {
	if c, err := n.end.DialContext(context.Background(), "udp", at(placeOf(id))); err == nil {
		_, _ = c.Write(b)
		_ = c.Close()
	}
}

// listen takes connections. Their addresses say who has dialled.
func (n *node) listen(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // it has ended
		}
		n.Serve(c, netsim.ID(netsim.PlaceOf(netip.MustParseAddrPort(c.RemoteAddr().String()).Addr())))
	}
}

// echo answers each connection with what it says, and with who it is before.
func (n *node) echo(ctx context.Context, conns <-chan net.Conn) {
	for {
		var c net.Conn
		select {
		case <-ctx.Done():
			return
		case c = <-conns:
		}
		n.work.Go(func() {
			defer c.Close() //nolint:errcheck // it has none
			_, _ = io.WriteString(c, netsim.ID(n.place))
			_, _ = io.Copy(c, c)
		})
	}
}

// halt ends a node without a word.
func (n *node) halt() {
	n.stop()
	_ = n.end.Close()
	n.work.Wait()
	n.bed.mu.Lock()
	defer n.bed.mu.Unlock()
	n.alive = false
}

// got is what came to a node since it was asked last.
func (n *node) got() []string {
	n.bed.mu.Lock()
	defer n.bed.mu.Unlock()
	got := n.packets
	n.packets = nil
	return got
}

// said is how a node says that it is reached.
func (n *node) said() view.Way {
	n.bed.mu.Lock()
	defer n.bed.mu.Unlock()
	return n.way
}

// published are all the ways in which it has said that it is reached.
func (n *node) published() []view.Reach {
	n.bed.mu.Lock()
	defer n.bed.mu.Unlock()
	return slices.Clone(n.ways)
}

// call makes a connection, and has the right node answer it.
func (n *node) call(to *node, kind relay.Kind) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(n.bed.t.Context(), 5*time.Second)
	defer cancel()
	conn, err := n.Dial(ctx, netsim.ID(to.place), kind)
	if err != nil {
		return nil, err
	}
	if conn == nil {
		return nil, errors.New("it is to be dialled as usual")
	}
	text := strings.Repeat("some words ", 1000)
	go func() { _, _ = io.WriteString(conn, text) }()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	want := netsim.ID(to.place) + text
	back := make([]byte, len(want))
	if _, err := io.ReadFull(conn, back); err != nil || string(back) != want {
		return nil, errors.Join(err, fmt.Errorf("%.32q came back", back), conn.Close())
	}
	return conn, nil
}

// reaches reports whether a call succeeds, and within that time.
func (n *node) reaches(to *node, kind relay.Kind, within time.Duration) error {
	began := time.Now()
	conn, err := n.call(to, kind)
	if err != nil {
		return err
	}
	if took := time.Since(began); took > within {
		err = fmt.Errorf("it took %v", took)
	}
	return errors.Join(err, conn.Close())
}

// startAll begins nodes at the places 0, 10, 20 and so on.
func (b *bed) startAll(count int) {
	b.t.Helper()
	for i := range count {
		b.start(10*i, nil)
	}
}

// shielded begins a node that cannot be dialled.
func (b *bed) shielded(place int) *node {
	b.t.Helper()
	b.shield(place, true)
	return b.start(place, nil)
}

// shield keeps packets away from a place where no node is yet, and connections, too, if asked.
func (b *bed) shield(place int, connections bool) {
	b.t.Helper()
	b.net.Shield(netsim.Place(place), connections, true)
}

// forced makes a node take itself for one that is reached in some way.
func forced(as view.Reach) func(*relay.Deps) {
	return func(d *relay.Deps) { d.First, d.Forced = as, true }
}
