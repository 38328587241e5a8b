package node

import (
	"context"

	"proxima/node/quota"
	"proxima/node/runlog"
)

// limits are those of the whole overlay.
func (o *overlay) limits() quota.Limits {
	c := o.cfg.Crawl
	return quota.Limits{MaxPages: c.MaxPages, MaxBytes: c.MaxBytes, MaxTime: c.MaxTime}
}

// shareLimits shares the limits with the other nodes, if there are any.
func (o *overlay) shareLimits(ctx context.Context) error {
	if !o.limits().Any() {
		return nil
	}
	return o.shares.Run(ctx)
}

// meter is the node's loop, for the limits of the whole overlay.
type meter struct{ *overlay }

func (m meter) Spent() (pages, bytes int64, wants bool) { return m.node.loop.Spent() }
func (m meter) Allow(pages int64)                       { m.node.loop.Allow(pages) }
func (m meter) Withdraw() int64                         { return m.node.loop.Withdraw() }

// End ends the crawl here. Its peers are told first that it is over, so that they do not take this node's hosts.
func (m meter) End(limit string) {
	m.node.runlog.Events().Info(runlog.EventOver, runlog.KeyReason, limit+" is reached")
	if err := m.members.Over(); err != nil {
		m.node.warn(err)
	}
	m.node.loop.End(limit)
}
