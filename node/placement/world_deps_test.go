package placement

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/ncoord"
	"proxima/node/bell"
	"proxima/node/ownership"
	"proxima/node/runlog"
)

// Mine implements Owners.
func (w *world) Mine(host string) bool { return w.ownerOf(host) == w.self }

// Record implements Owners.
func (w *world) Record(host string) (ownership.Record, bool, error) {
	return ownership.Record{Epoch: 7, Assigned: strings.HasPrefix(w.ownerOf(host), "assigned:")}, true, nil
}

// Wish implements Owners.
func (w *world) Wish(host, to, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf("wish %s %s: %s", host, to, reason))
}

// HandOff implements Owners.
func (w *world) HandOff(_ context.Context, host, to string, assigned bool, reason string) error {
	time.Sleep(50 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.handOff != nil {
		if err := w.handOff(host, to); err != nil {
			return err
		}
	}
	h := w.hosts[host]
	if w.servers[h.addr].tasks > 0 {
		w.t.Errorf("%s was handed off with a task out", host)
	}
	if h.owner = to; assigned {
		h.owner = "assigned:" + to
	}
	w.log = append(w.log, fmt.Sprintf("hand %s %s: %s", host, to, reason))
	return nil
}

// Do implements Crawler.
func (w *world) Do(ctx context.Context, task *frontier.Task) error {
	w.mu.Lock()
	if s := w.servers[task.Server]; time.Now().Before(s.next) || time.Now().Before(s.alone) {
		s.violations++
	}
	w.mu.Unlock()
	time.Sleep(100 * time.Millisecond)
	w.mu.Lock()
	w.crawled++
	w.mu.Unlock()
	return w.Finish(ctx, task, frontier.Outcome{Ending: frontier.Done, Asked: true, Links: linksOf(task.URL)})
}

// Refuse implements Crawler.
func (w *world) Refuse(_ context.Context, task *frontier.Task) (string, error) {
	if strings.HasSuffix(task.URL.Path, "7") {
		return "robots.txt disallows", nil
	}
	return "", nil
}

func (w *world) deps() Deps {
	return Deps{
		Self: w.self, Boot: 3, Assign: assign.Default(), Frontier: w, Leases: w, Owners: w, Crawler: w, Fetch: w.fetch,
		Locate: func(netip.Addr) *ncoord.Location { return nil }, JoinEvery: time.Minute, LeaseFor: 75 * time.Second,
		Assigned: func(d runlog.Assign) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.decided = append(w.decided, d)
		},
		Placed: func(label string, server netip.Addr, m *assign.Memory) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.placed = append(w.placed, fmt.Sprintf("%s %s %d", label, server, m.Downloads()))
		},
		LeftOut: func(host, reason string, urls int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.dropped = append(w.dropped, fmt.Sprintf("%s %d", host, urls))
		},
		Trouble: func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.troubles = append(w.troubles, err)
		},
	}
}

// Activate implements Frontier. A host that does not resolve is not even read from disk in time.
func (w *world) Activate(ctx context.Context, host string) error {
	w.mu.Lock()
	h := w.hosts[host]
	resolves := h.resolves
	w.mu.Unlock()
	if !resolves {
		return bell.Sleep(ctx, time.Hour)
	}
	time.AfterFunc(300*time.Millisecond, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		h.active = h.resolves
	})
	return nil
}

// Placed implements Frontier.
func (w *world) Placed(host string) ([]netip.Addr, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.hosts[host]; h.active {
		return []netip.Addr{h.addr}, true
	}
	return nil, false
}
