package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sync/errgroup"

	"proxima/frontier"
	"proxima/ncoord"
	"proxima/node/member"
	"proxima/node/relay"
	"proxima/node/view"
)

// newRelay makes the node's part in reaching and being reached. address is that of its port for peers.
func (o *overlay) newRelay(address string) (*relay.Relay, error) {
	n := o.node
	forced := n.cfg.Peer.Forced()
	host, _, err := net.SplitHostPort(address)
	if ip, bad := netip.ParseAddr(host); err == nil && bad == nil && ip.IsLoopback() && forced == nil {
		forced = new(view.Reach) // nothing lies between nodes of one machine
	}
	return relay.New(relay.Deps{
		ID:      n.id.Node,
		Connect: func(ctx context.Context, id string) (net.Conn, error) { return o.client.Connect(ctx, id) },
		Way:     func(id string) (view.Way, bool) { return o.members.Way(id) },
		Near:    o.near,
		Publish: o.publishWay,
		Knock:   func(id string, packet []byte) { o.members.Knock(id, packet) },
		First:   o.firstReach(),
		Forced:  forced,
	})
}

// keyReach is where it is kept how this node was reached: homes would move when it starts again, if it took itself for another one.
const keyReach = "reach"

// firstReach is how this node is reached as far as it knows.
func (o *overlay) firstReach() view.Reach {
	kept, err := o.node.frontier.Shelf(tableMembers).Get([]byte(keyReach))
	for r := view.Direct; err == nil && r <= view.Outbound; r++ {
		if string(kept) == r.String() {
			return r
		}
	}
	if len(o.cfg.Member.Join) > 0 {
		return view.Outbound
	}
	return view.Direct
}

func (o *overlay) publishWay(w view.Way) {
	o.members.SetWay(w)
	if err := o.node.frontier.Shelf(tableMembers).Put([]byte(keyReach), []byte(w.Reach.String())); err != nil && !errors.Is(err, frontier.ErrClosed) {
		o.node.warn(fmt.Errorf("remember how this node is reached: %w", err))
	}
}

// runMembers runs the members, and the links for as long: the farewell goes by them, too.
func (o *overlay) runMembers(ctx context.Context) error {
	links, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var g errgroup.Group
	g.Go(func() error { return o.relay.Run(links) })
	g.Go(func() error {
		defer end()
		return o.members.Run(ctx)
	})
	return g.Wait()
}

// through connects to a peer that is not to be dialled.
func (o *overlay) through(ctx context.Context, id string) (net.Conn, error) {
	conn, _, err := o.relay.Dial(ctx, id, relay.Calls)
	return conn, err
}

// near are the other live members, the nearest by coordinate first.
func (o *overlay) near() (all []relay.Neighbour) {
	own, v := o.members.Coordinate(), o.members.View()
	for _, p := range v.Peers {
		if p.ID != v.Self && p.Addr != "" {
			all = append(all, relay.Neighbour{ID: p.ID, Ms: distance(own, p)})
		}
	}
	slices.SortFunc(all, func(a, b relay.Neighbour) int { return cmp.Compare(a.Ms, b.Ms) })
	return all
}

// distance is the round trip that is expected to a peer, in ms; a peer that is nowhere yet is far.
func distance(own ncoord.Coordinate, p member.Peer) float64 {
	if !p.Placed {
		return 1e6
	}
	return ncoord.Distance(own, p.Coord)
}
