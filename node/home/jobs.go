package home

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// jobKind says what has to be done about a host.
type jobKind uint8

const (
	ship   jobKind = iota // give what is left here to the owner of a newer record
	settle                // find out whether a hand-off was committed
	take                  // take the host over from an owner that is gone
	rescue                // bring a second copy to a home that may not know of the host
	move                  // hand it to a better peer
	follow                // hand it, unassigned, to its new home
	resync                // copy it to where its second copy is kept
)

// job is one thing to be done about a host. A host has one at a time; a job of a smaller kind is not pushed out by one
// of a larger kind, for it is the more urgent.
type job struct {
	kind   jobKind
	record Record
	to     string
	reason string
	// after is when it is tried, tries how often it was.
	after time.Time
	tries int
}

// jobsAtOnce bounds how many hosts are shipped at the same time, and so the memory for chunks.
const jobsAtOnce = 8

// todo puts a job on the list.
func (h *Home) todo(host string, j job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list(host, j)
}

// list is todo. It needs mu held.
func (h *Home) list(host string, j job) {
	if old, ok := h.jobs[host]; !ok || j.kind == old.kind || j.before(old) {
		h.jobs[host] = j
	}
	signal(h.mend)
}

// before says that a job pushes another about the same host out. An owner that is gone takes nothing that is shipped to
// it: the host is taken back first.
func (j job) before(other job) bool {
	if j.kind == take && other.kind == ship || j.kind == ship && other.kind == take {
		return j.kind == take
	}
	return j.kind < other.kind
}

// runJobs does what is on the list. What fails is tried again, later and later.
func (h *Home) runJobs(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var g errgroup.Group
	defer g.Wait() //nolint:errcheck // jobs return none
	g.SetLimit(jobsAtOnce)
	busy := make(map[string]bool)
	for {
		for host, j := range h.due(busy) {
			g.Go(func() error {
				err := h.do(ctx, host, j)
				h.finished(ctx, busy, host, j, err)
				return nil
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-h.mend:
		case <-tick.C:
		}
	}
}

// due takes the jobs whose time has come off the list, a bounded number of them.
func (h *Home) due(busy map[string]bool) map[string]job {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	due := make(map[string]job)
	for host, j := range h.jobs {
		if len(due) == 4*jobsAtOnce {
			signal(h.mend)
			break
		}
		if !busy[host] && !j.after.After(now) {
			due[host], busy[host] = j, true
			delete(h.jobs, host)
		}
	}
	return due
}

// finished ends a job and takes it off busy (used under the lock of Home); it puts it back on the list if it failed.
func (h *Home) finished(ctx context.Context, busy map[string]bool, host string, j job, err error) {
	j.tries++
	h.mu.Lock()
	delete(busy, host)
	if other, ok := h.jobs[host]; err != nil && (!ok || j.before(other)) {
		j.after = time.Now().Add(min(time.Duration(j.tries)*h.cfg.RenewEvery/4, h.cfg.FenceAfter))
		h.jobs[host] = j
	}
	h.mu.Unlock()
	// Views differ for a moment whenever a node comes or goes, and a first try or two then fail.
	if err != nil && ctx.Err() == nil && j.tries > 2 {
		h.deps.Warn(fmt.Errorf("host %s, try %d: %w", host, j.tries, err))
	}
}

// do carries out one job. nil means that it is done, or no longer needed.
func (h *Home) do(ctx context.Context, host string, j job) error {
	switch j.kind {
	case take:
		return h.takeOver(ctx, j.record, j.reason)
	case rescue:
		return h.rescue(ctx, j.record)
	case move:
		// It is a wish, not a duty: who wished may wish again.
		if err := h.HandOff(ctx, host, j.to, true, j.reason); err != nil && !errors.Is(err, ErrNotOwner) {
			h.deps.Warn(err)
		}
		return nil
	case follow:
		home := h.HomeOf(host)
		if home == h.self() || home == "" {
			return nil
		}
		if err := h.HandOff(ctx, host, home, false, "it follows its home"); !errors.Is(err, ErrNotOwner) {
			return err
		}
		return nil
	case ship:
		return h.shipRest(ctx, host)
	case settle:
		return h.settleDoubt(ctx, host)
	case resync:
		return h.resync(ctx, host)
	}
	return nil
}
