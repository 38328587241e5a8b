package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"proxima/ncoord"
	"proxima/node/member"
	"proxima/node/relay"
	"proxima/node/view"
)

// reach connects the relay with the members and the client, which it needs and which need it.
type reach struct {
	*relay.Relay
	overlay *overlay
}

// newReach makes the relay of a node. address is that of its port for peers.
func (o *overlay) newReach(address string) (*reach, error) {
	n, r := o.node, &reach{overlay: o}
	first, forced := view.ParseReach(n.cfg.Peer.Reach)
	if host, _, err := net.SplitHostPort(address); err == nil && !forced {
		ip, _ := netip.ParseAddr(host)
		first, forced = view.Direct, ip.IsLoopback() // all nodes run on this machine
	}
	if !forced {
		first = r.first(len(n.cfg.Member.Join) > 0)
	}
	var err error
	r.Relay, err = relay.New(relay.Deps{
		ID:      n.id.Node,
		Connect: func(ctx context.Context, id string) (net.Conn, error) { return o.client.Connect(ctx, id) },
		Way:     func(id string) (view.Way, bool) { return o.members.Way(id) },
		Near:    r.near,
		Publish: r.publish,
		Knock:   func(id string, packet []byte) { o.members.Knock(id, packet) },
		First:   first,
		Forced:  forced,
	})
	return r, err
}

// first returns how this node is reached, as far as it knows before others have tried.
func (r *reach) first(joins bool) view.Reach {
	kept, err := r.overlay.memo.shelf.Get([]byte(keyReach))
	if reach, known := view.ParseReach(string(kept)); known && err == nil {
		return reach
	}
	if joins {
		return view.Outbound
	}
	return view.Direct
}

// publish tells the members how this node is reached, and keeps it for the next start.
func (r *reach) publish(w view.Way) {
	r.overlay.members.SetWay(w)
	r.overlay.memo.put(keyReach, w.Reach.String())
}

// through connects to a peer that cannot be dialled, or that this node has failed to dial.
func (r *reach) through(ctx context.Context, id string, failed error) (net.Conn, error) {
	if failed == nil {
		conn, _, err := r.Dial(ctx, id, relay.Calls)
		return conn, err
	}
	conn, err := r.Detour(ctx, id)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	r.overlay.node.warn(fmt.Errorf("another node carries the calls to %s: %w", id, failed))
	return conn, nil
}

// near returns the other live members, the nearest by coordinate first.
func (r *reach) near() (all []relay.Neighbour) {
	own, v := r.overlay.members.Coordinate(), r.overlay.members.View()
	for _, p := range v.Peers {
		if p.ID != v.Self && p.Addr != "" {
			all = append(all, relay.Neighbour{ID: p.ID, Ms: distance(own, p)})
		}
	}
	slices.SortFunc(all, func(a, b relay.Neighbour) int { return cmp.Compare(a.Ms, b.Ms) })
	return all
}

// distance returns the expected round trip to a peer in ms. A peer without a coordinate counts as far away.
func distance(own ncoord.Coordinate, p member.Peer) float64 {
	if !p.Placed {
		return 1e6
	}
	return ncoord.Distance(own, p.Coord)
}
