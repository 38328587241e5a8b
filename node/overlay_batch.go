package node

import (
	"context"

	"proxima/frontier"
	"proxima/node/journal"
	"proxima/node/placement"
)

// placementDeps connects placement with the rooms that carry out what it decides.
func (o *overlay) placementDeps() placement.Deps {
	n := o.node
	return placement.Deps{
		Self: n.id.Node, Boot: n.id.Boot, Assign: n.cfg.Assign.Config(), Frontier: n.frontier, Leases: o.holder, Owners: o.owners,
		Crawler: crawler{n}, Fetch: o.remote.Do, Locate: o.atlas.locate, JoinEvery: n.cfg.Ownership.RenewEvery,
		LeaseFor: n.cfg.Lease.Window(),
		Assigned: n.journal.Assign,
		LeftOut: func(host, reason string, urls int) {
			n.journal.Events().Warn(journal.EventHostLeftOut, journal.KeyHost, host, journal.KeyReason, reason, journal.KeyCount, urls)
		},
		Trouble: n.warn,
	}
}

// crawler is the loop, which is made later.
type crawler struct{ *Node }

func (c crawler) Do(ctx context.Context, task *frontier.Task) error { return c.loop.Do(ctx, task) }
func (c crawler) Refuse(task *frontier.Task) (string, error)        { return c.loop.Refuse(task) }
