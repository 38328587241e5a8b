package node

import (
	"context"

	"proxima/frontier"
	"proxima/node/journal"
	"proxima/node/ownership"
	"proxima/node/placement"
)

// placementDeps connects placement with the rooms that carry out what it decides.
func (o *overlay) placementDeps() placement.Deps {
	n := o.node
	return placement.Deps{
		Self: n.id.Node, Boot: n.id.Boot, Assign: n.cfg.Assign, Frontier: n.frontier, Leases: o.holder, Owners: owners{o.owners},
		Crawler: crawler{n}, Fetch: o.remote.Do, Locate: o.atlas.locate, JoinEvery: n.cfg.Ownership.RenewEvery,
		LeaseFor: n.cfg.Lease.Window(),
		Assigned: n.journal.Assign,
		LeftOut: func(host, reason string, urls int) {
			n.journal.Events().Warn(journal.EventHostLeftOut, journal.KeyHost, host, journal.KeyReason, reason, journal.KeyCount, urls)
		},
		Trouble: n.warn,
	}
}

// owners is ownership as placement sees it.
type owners struct{ *ownership.Ownership }

func (o owners) Record(host string) (epoch uint64, assigned bool, err error) {
	r, _, err := o.Ownership.Record(host)
	return r.Epoch, r.Assigned, err
}

func (o owners) HandOff(ctx context.Context, host, to, reason string) error {
	return o.Ownership.HandOff(ctx, host, to, true, reason)
}

// crawler is the loop, which is made later.
type crawler struct{ *Node }

func (c crawler) Do(ctx context.Context, task *frontier.Task) error { return c.loop.Do(ctx, task) }
func (c crawler) Refuse(task *frontier.Task) (string, error)        { return c.loop.Refuse(task) }
