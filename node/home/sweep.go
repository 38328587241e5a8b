package home

import (
	"context"
	"fmt"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// sweepHosts is how many hosts are compared with their second copies in one message.
const sweepHosts = 200

// runSweeps looks at all records after the members have changed, and now and then: hosts that must follow their home,
// second copies that must be made, copies that nobody needs any more.
func (h *Home) runSweeps(ctx context.Context) error {
	tick := time.NewTicker(h.cfg.SweepEvery)
	defer tick.Stop()
	for {
		all := false
		select {
		case <-ctx.Done():
			return nil
		case <-h.sweep:
		case <-tick.C:
			all = true
		}
		if err := h.sweepAll(ctx, time.Now(), all); err != nil {
			return fmt.Errorf("look at all hosts: %w", err)
		}
	}
}

// sweepAll looks at all records, and compares second copies with the nodes with which that is due, or with all.
func (h *Home) sweepAll(ctx context.Context, now time.Time, all bool) error {
	h.mu.Lock()
	v := h.horizon.now
	stable := now.Sub(h.changed) >= h.cfg.SweepEvery
	if len(v.Settled) < 2 || !v.Majority {
		h.mu.Unlock()
		return nil
	}
	compare := h.compare
	all = all || compare == nil
	h.compare = make(map[string]bool)
	h.mu.Unlock()
	items := make(map[string][]*wire.BackupItem)
	err := h.records.visit(func(r Record) error {
		home, second := v.homeOf(r.Host), v.copyOf(r.Host, r.Owner)
		if r.Owner != v.Self {
			if !v.alive(r.Owner) && home != v.Self {
				h.todo(r.Host, job{kind: rescue, record: r, after: now.Add(h.cfg.TakeAfter)})
			} else if stable && second != v.Self && v.alive(r.Owner) {
				if err := h.forget(ctx, r, home == v.Self); err != nil {
					return err
				}
			}
			return nil
		}
		if !r.Assigned && home != v.Self {
			h.todo(r.Host, job{kind: follow})
			return nil
		}
		if second == "" || !v.alive(second) || !all && !compare[second] {
			return nil
		}
		d, err := h.deps.Frontier.DigestOf(ctx, r.Host)
		if err != nil {
			return err
		}
		items[second] = append(items[second], &wire.BackupItem{Record: r.wire(), Digest: digestToWire(d)})
		if len(items[second]) == sweepHosts {
			h.sendBackups(ctx, second, items[second])
			delete(items, second)
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	for to, items := range items {
		h.sendBackups(ctx, to, items)
	}
	return nil
}

// forget removes a second copy that is kept elsewhere now, and with it the record, but at the home.
func (h *Home) forget(ctx context.Context, r Record, home bool) error {
	defer h.locks.lock(r.Host)()
	hold, known, err := h.deps.Frontier.HoldOf(ctx, r.Host)
	if err != nil {
		return err
	}
	if known && hold == frontier.Backup {
		if err := h.deps.Frontier.Remove(ctx, r.Host); err != nil {
			return err
		}
	}
	if home || (known && hold != frontier.Backup) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now, ok, err := h.records.get(r.Host); err != nil || !ok || now != r {
		return err
	}
	return h.drop(r)
}
