package node

import (
	"context"
	"strings"
	"time"

	"proxima/frontier"
	"proxima/node/runlog"
)

// sampleEvery writes the state of the queues and the load of the node until the context ends.
func (n *Node) sampleEvery(ctx context.Context, interval time.Duration) error {
	i := 0
	sample := func() {
		n.sample()
		n.book.Sampled(n.sampleNow())
		if i%6 == 0 {
			n.book.Placed(n.placesNow())
		}
		i++
	}
	sample()
	return every(ctx, interval, sample)
}

// every does something again and again until the context ends.
func every(ctx context.Context, interval time.Duration, do func()) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		do()
	}
}

func (n *Node) sample() {
	n.runlog.Queue(queueLine(n.frontier.Status(), n.loop.Stats().Drops))
	load := runlog.SampleLoad(n.cfg.Node.Data)
	if n.overlay != nil {
		load.LinksSent = int64(n.overlay.owners.Counts().LinksRouted)
		load.MessagesSent, load.BytesSent, load.BytesReceived = n.overlay.traffic()
	}
	n.runlog.Load(load)
}

// queueLine is a frontier's status in the words of the log. Links dropped before they reached the frontier are counted
// with its drops: for the reader of a log both are URLs that were not crawled.
func queueLine(s frontier.Status, links map[string]int64) runlog.Queue {
	q := runlog.Queue{
		Pending: s.Pending, ServersReady: int64(s.Ready), InFlight: int64(s.InFlight),
		Accepted: int64(s.Accepted), Duplicate: int64(s.Duplicate), Done: int64(s.Done), Failed: int64(s.Failed),
		Dropped: int64(s.Dropped), AtStart: s.AtStart, Arrived: int64(s.Arrived), Left: int64(s.Left), Held: s.Held,
		Drops: map[string]int64{}, Waits: map[string]int64{}, Queues: map[string]int64{},
	}
	for origin, urls := range s.Queues {
		q.Queues[origin] = int64(urls)
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

// short cuts what is particular off a reason ("blocked: example.org" is "blocked"), so that reasons can be counted.
func short(reason string) string {
	kind, _, _ := strings.Cut(reason, ":")
	return kind
}
