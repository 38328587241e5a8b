package node

import (
	"context"
	"strings"
	"time"

	"proxima/frontier"
	"proxima/node/bell"
	"proxima/node/runlog"
)

// sampleInterval is how often a node writes samples to its logs. The console gets the places of servers every sixth time.
const sampleInterval = 10 * time.Second

func (w watcher) run(ctx context.Context) error {
	i := 0
	sample := func() {
		w.sample()
		w.book.Sampled(w.sampleNow())
		if i%6 == 0 {
			w.book.Placed(w.placesNow())
		}
		i++
	}
	sample()
	return bell.Every(ctx, sampleInterval, sample)
}

// sample writes the state of the queues and the load of the node to the logs.
func (w watcher) sample() {
	w.runlog.Queue(queueLine(w.frontier.Status(), w.loop.Stats().Drops))
	load := runlog.SampleLoad(w.cfg.Node.Data)
	if w.overlay != nil {
		load.LinksSent = int64(w.overlay.owners.Counts().LinksRouted)
		load.MessagesSent, load.BytesSent, load.BytesReceived = w.overlay.traffic()
	}
	w.runlog.Load(load)
}

// queueLine returns the status of a frontier as the log has it. Links that were dropped before they reached the frontier count as its
// drops: both are URLs that were not crawled.
func queueLine(s frontier.Status, links map[string]int64) runlog.Queue {
	q := runlog.Queue{
		Pending: s.Pending, ServersReady: int64(s.Ready), InFlight: int64(s.InFlight),
		Accepted: int64(s.Accepted), Duplicate: int64(s.Duplicate), Done: int64(s.Done), Failed: int64(s.Failed),
		Dropped: int64(s.Dropped), AtStart: s.AtStart, Arrived: int64(s.Arrived), Left: int64(s.Left), Held: s.Held,
		Drops: map[string]int64{}, Waits: map[string]int64{}, Queues: s.Queues,
	}
	for kind, hosts := range s.Hosts {
		q.HostsActive += int64(hosts)
		if kind != "fetching" && kind != "ready" && kind != "idle" {
			q.Waits[kind] = int64(hosts)
			q.HostsWaiting += int64(hosts)
		}
	}
	q.ServersBusy = int64(s.InFlight)
	q.ServersWaiting = max(0, int64(s.Servers-s.InFlight-s.Ready))
	for reason, count := range s.Reasons {
		q.Drops[short(reason)] += int64(count)
	}
	for reason, count := range links {
		q.Drops[short(reason)] += count
	}
	return q
}

// short returns the kind of a reason, so that reasons can be counted: "blocked" for "blocked: example.org".
func short(reason string) string {
	kind, _, _ := strings.Cut(reason, ":")
	return kind
}
