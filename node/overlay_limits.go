package node

import (
	"context"

	"proxima/node/crawl"
	"proxima/node/quota"
	"proxima/node/runlog"
)

// limitsOf returns the limits that all nodes of an overlay share.
func limitsOf(c Config) quota.Limits {
	return quota.Limits{MaxPages: c.Crawl.MaxPages, MaxBytes: c.Crawl.MaxBytes, MaxTime: c.Crawl.MaxTime}
}

// shareLimits shares the limits with the other nodes, if there are any.
func (o *overlay) shareLimits(ctx context.Context) error {
	if !limitsOf(o.node.cfg).Any() {
		return nil
	}
	return o.shares.Run(ctx)
}

// meter tells the quota what this node has spent, and carries out what the quota allows.
type meter struct {
	*crawl.Limits
	overlay *overlay
}

// End ends the crawl at this node. It first tells the peers that the crawl is over, so that they do not take over this node's hosts.
func (m meter) End(limit string) {
	n := m.overlay.node
	n.runlog.Events().Info(runlog.EventOver, runlog.KeyReason, limit+" is reached")
	if err := m.overlay.members.Over(); err != nil {
		n.warn(err)
	}
	m.Limits.End(limit)
}
