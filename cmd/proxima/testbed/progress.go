package testbed

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/ncoord/quantile"
	"proxima/node"
	"proxima/node/peer"
	"proxima/node/placement"
)

func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%2d:%02d", s/60, s%60)
}

type totals struct {
	up, all int
	joined  int // the smallest number of members that a node knows, which is the node lonely
	lonely  int
	cut     int // nodes some of whose calls to others could not be made
	pages   int64
	pending int64
	phases  map[string]int
	batches int64     // begun
	errors  []float64 // of coordinates
}

// askAtOnce is the number of nodes that are asked at once. An answer from another machine takes a round trip.
const askAtOnce = 32

// askAll asks all running nodes for their status. A node that does not answer within a second counts with its last number of pages.
func (r *run) askAll(ctx context.Context) totals {
	t := totals{all: len(r.running), joined: len(r.running), pages: r.past, phases: map[string]int{}}
	var mu sync.Mutex // guards t and r.pages
	var g errgroup.Group
	g.SetLimit(askAtOnce)
	for i, l := range r.running {
		if l == nil {
			continue
		}
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			s, err := l.status(ctx)
			mu.Lock()
			defer mu.Unlock()
			t.up++
			if err == nil {
				r.pages[i] = s.Crawl.Pages
				t.add(i, s)
			} else {
				t.joined, t.lonely = 0, i
			}
			t.pages += r.pages[i]
			return nil
		})
	}
	_ = g.Wait() // no function returns an error
	return t
}

func (t *totals) add(i int, s node.Status) {
	t.pending += s.Frontier.Pending
	if why := s.Frontier.Paused; why != "" {
		t.phases["paused: "+why]++
	}
	if o := s.Overlay; o != nil {
		if o.Alive < t.joined {
			t.joined, t.lonely = o.Alive, i
		}
		if o.Calls.Failures[peer.KindUnavailable]+o.Calls.Failures[peer.KindTimeout] > 0 {
			t.cut++
		}
		t.phases[o.Batch.Phase]++
		t.batches += int64(o.Batch.Batches)
		t.errors = append(t.errors, o.Accuracy)
	}
}

// quiet reports whether batches were made and none is in progress.
func (t totals) quiet() bool { return t.batches > 0 && t.phases[placement.PhaseIdle] == t.up }

// phase returns the phase of most nodes that make a batch.
func (t totals) phase() string {
	most, name := 0, "crawl"
	for phase, n := range t.phases {
		if phase != placement.PhaseIdle && (n > most || n == most && phase < name) {
			most, name = n, phase
		}
	}
	if t.pages == 0 && most == 0 {
		return "waiting for the first leases"
	}
	return name
}

func (t totals) line(phase string, left time.Duration, rate float64) string {
	parts := []string{clock(max(left, 0)) + " left at most", phase, fmt.Sprintf("%d of %d nodes up", t.up, t.all),
		fmt.Sprintf("%d pages (%.0f/s)", t.pages, rate), fmt.Sprintf("%d waiting", t.pending)}
	if len(t.errors) > 0 {
		parts = append(parts, fmt.Sprintf("coordinate error %.0f %%", 100*quantile.Median(t.errors)))
	}
	return strings.Join(parts, " · ")
}
