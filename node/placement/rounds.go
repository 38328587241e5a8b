package placement

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"proxima/assign"
)

// persist hands the same batch out again every round until the context ends. What was learnt about a server is kept from
// round to round, for each assigner its own. The hosts stay with their home: its pages are downloaded by remote fetches. Those of one
// server wait for one another, and a round for all of the last: of a batch no queue ever holds more than a page a server.
func (t *batch) persist(ctx context.Context) error {
	if err := t.each(ctx, func(ctx context.Context, s *server) error { return s.collect(ctx) }); err != nil {
		return err
	}
	t.servers = slices.DeleteFunc(t.servers, func(s *server) bool {
		if len(s.pages) > 0 {
			return false
		}
		s.keep()
		s.give(t.deps.Self, nil)
		return true
	})
	if len(t.servers) == 0 {
		return nil
	}
	learnt := make(map[string]map[netip.Addr]assign.Memory)
	for _, label := range t.cfg.Assigners {
		learnt[label] = make(map[netip.Addr]assign.Memory)
	}
	rnd := rand.New(rand.NewPCG(seed(t.id), 0))
	var plans []*plan
	for round := 1; ; round++ {
		var err error
		if plans, err = t.decide(ctx, fmt.Sprintf("%s.%d", t.id, round), learnt, plans); err != nil {
			return err
		}
		t.count(func(s *Status) { s.Rounds++ })
		for _, p := range plans {
			for _, s := range t.servers {
				if m := p.memory(s.addr); m != nil {
					learnt[p.label][s.addr] = *m
				}
			}
		}
		if err := t.await(ctx); err != nil {
			return err
		}
		t.phase(PhaseRound)
		// Each server's goroutine keeps what it learns to itself until all are back.
		made, explorers := make([][]download, len(t.servers)), t.explorers(plans, learnt, rnd)
		err = t.each(ctx, func(ctx context.Context, s *server) (err error) {
			made[slices.Index(t.servers, s)], err = s.round(ctx, fmt.Sprintf("%s.%d", t.id, round), plans, explorers[s.addr])
			return err
		})
		if err != nil {
			return err
		}
		for i, s := range t.servers {
			learn(learnt, s.addr, made[i])
		}
	}
}

// explorers are nodes that should download a page of a server besides the one that nearest chose: at few servers a round.
func (t *batch) explorers(plans []*plan, learnt map[string]map[netip.Addr]assign.Memory, rnd *rand.Rand) map[netip.Addr]string {
	view, _ := t.currentView()
	explorers := make(map[netip.Addr]string)
	for _, p := range plans {
		if p.label != assign.Nearest {
			continue
		}
		for _, s := range t.servers {
			if m, ok := learnt[p.label][s.addr]; ok && rnd.Float64() < exploreShare*float64(len(s.pages)) {
				if node, ok := assign.Explorer(t.deps.Assign, &m, view, p.choices[s.addr].Node, rnd.Float64); ok {
					explorers[s.addr] = node
				}
			}
		}
	}
	return explorers
}

// await waits for the time of the next round: rounds are no closer than checks.
func (t *batch) await(ctx context.Context) error {
	t.phase(PhaseWait)
	timer := time.NewTimer(t.cfg.Check)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// collect takes the pages that the rounds repeat. Each is crawled here once, like any other.
func (s *server) collect(ctx context.Context) error {
	for _, h := range s.hosts {
		met := make(map[uint64]bool)
		for len(met) < s.cfg.RoundURLs {
			task, err := s.takeOf(ctx, ctx, h)
			if errors.Is(err, errNothing) {
				break
			} else if err != nil {
				return err
			}
			p := pageOf(task)
			if err := s.deps.Crawler.Do(ctx, task); err != nil {
				return fmt.Errorf("crawl %s: %w", p.url, err)
			}
			s.next = time.Now().Add(s.deps.Frontier.Gap(p.host, s.addr, 0, 0))
			if err := ctx.Err(); err != nil {
				return err
			}
			if met[p.url.Hash()] { // it came back
				break
			}
			met[p.url.Hash()] = true
			s.pages = append(s.pages, p)
		}
	}
	return nil
}

// again asks a node for the next of the pages that are repeated.
func (s *server) again(ctx context.Context, node string, e RemoteFetch) (Result, error) {
	if len(s.pages) == 0 {
		return Result{Unmade: true}, nil
	}
	if err := s.wait(ctx); err != nil {
		return Result{}, err
	}
	s.turn++
	i := s.turn % len(s.pages)
	s.count(func(st *Status) { st.Estimates++ })
	e.Quiet = true
	r, err := s.ask(ctx, node, s.pages[i], e)
	s.weed(i, r, err)
	return r, err
}

// weed forgets a page that the server does not have, unless it is the last.
func (s *server) weed(i int, r Result, err error) bool {
	if err != nil || r.Status < 400 || r.Status >= 500 || r.Status == 429 || len(s.pages) == 1 {
		return false
	}
	s.pages = slices.Delete(s.pages, i, i+1)
	return true
}

// download is what a node's download in a round showed.
type download struct {
	chosen
	result Result
}

// round downloads the pages of a server once by every node that was chosen for it, and one by the explorer, if there is one. A
// node that refuses a page, or gives it back, has too long a queue: the others of the round are not asked of it.
func (s *server) round(ctx context.Context, id string, plans []*plan, explorer string) ([]download, error) {
	nodes := choicesFor(s, plans)
	if len(nodes) == 0 {
		return nil, nil
	}
	var made []download
	if explorer != "" {
		c := chosen{node: explorer, labels: []string{assign.Nearest}}
		r, err := s.again(ctx, c.node, RemoteFetch{Batch: id, Labels: c.labels, Fresh: true})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if useful(r, err) {
			made = append(made, download{c, r})
		}
	}
	full := make(map[string]bool)
	for i := 0; i < len(s.pages); i++ {
		weeded := false
		for _, c := range rotated(nodes, i) {
			if full[c.node] {
				continue
			}
			if err := s.wait(ctx); err != nil {
				return nil, err
			}
			s.count(func(st *Status) { st.Compared++ })
			r, err := s.ask(ctx, c.node, s.pages[i], RemoteFetch{Batch: id, Labels: c.labels, Assigned: true, Fresh: len(nodes) > 1, Quiet: true})
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if useful(r, err) {
				made = append(made, download{c, r})
			}
			full[c.node] = err != nil || r.Unmade
			if weeded = s.weed(i, r, err); weeded {
				break
			}
		}
		if weeded {
			i--
		}
	}
	return made, nil
}

// learn adds downloads to what the assigners that chose their nodes know of a server.
func learn(learnt map[string]map[netip.Addr]assign.Memory, addr netip.Addr, made []download) {
	now := time.Now()
	for _, d := range made {
		for _, label := range d.labels {
			m := learnt[label][addr]
			m.Observe(d.node, d.result.Coord, d.result.Timing, now)
			learnt[label][addr] = m
		}
	}
}
