package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"proxima/node/relay"
	"proxima/node/view"
)

// newRelay makes the relay of a node. It needs the members and the client, which need it. address is that of the node's port for peers.
func (o *overlay) newRelay(address string) (*relay.Relay, error) {
	n := o.node
	first, forced := view.ParseReach(n.cfg.Peer.Reach)
	if host, _, err := net.SplitHostPort(address); err == nil && !forced {
		ip, _ := netip.ParseAddr(host)
		first, forced = view.Direct, ip.IsLoopback() // all nodes run on this machine
	}
	if !forced {
		first = o.firstReach()
	}
	return relay.New(relay.Deps{
		ID:      n.id.Node,
		Connect: func(ctx context.Context, id string) (net.Conn, error) { return o.client.Connect(ctx, id) },
		Way:     func(id string) (view.Way, bool) { return o.members.Way(id) },
		Near:    func() []relay.Neighbour { return o.members.Near() },
		Publish: o.publishWay,
		Knock:   func(id string, packet []byte) { o.members.Knock(id, packet) },
		First:   first,
		Forced:  forced,
	})
}

// firstReach returns how this node is reached, as far as it knows before others have tried.
func (o *overlay) firstReach() view.Reach {
	kept, err := o.memo.shelf.Get([]byte(keyReach))
	if reach, known := view.ParseReach(string(kept)); known && err == nil {
		return reach
	}
	if len(o.node.cfg.Member.Join) > 0 {
		return view.Outbound
	}
	return view.Direct
}

// publishWay tells the members how this node is reached, and keeps it for the next start.
func (o *overlay) publishWay(w view.Way) {
	o.members.SetWay(w)
	o.memo.put(keyReach, w.Reach.String())
}

// through connects to a peer, by way of another node if it cannot be dialled, or if that fails.
func (o *overlay) through(ctx context.Context, id string, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	if conn, err := o.relay.Dial(ctx, id, relay.Calls); conn != nil || err != nil {
		return conn, err
	}
	conn, failed := dial(ctx)
	if failed == nil {
		return conn, nil
	}
	conn, err := o.relay.Detour(ctx, id)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	o.node.warn(fmt.Errorf("another node carries the calls to %s: %w", id, failed))
	return conn, nil
}
