package placement

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"proxima/assign"
	"proxima/frontier"
	"proxima/node/bell"
)

// Several nodes download the same pages, so that their times can be compared: in a batch with more than one assigner once, in mode
// persistent in every round.

// chosen is a node that assigners chose for a server.
type chosen struct {
	node   string
	labels []string // of those assigners
}

// chosenFor returns the distinct nodes that were chosen for a server, in the order of the assigners.
func (b *batch) chosenFor(s *server) []chosen {
	var nodes []chosen
	for _, p := range b.plans {
		node := p.choices[s.addr].Node
		if node == "" {
			continue
		}
		i := slices.IndexFunc(nodes, func(c chosen) bool { return c.node == node })
		if i < 0 {
			i = len(nodes)
			nodes = append(nodes, chosen{node: node})
		}
		nodes[i].labels = append(nodes[i].labels, p.label)
	}
	return nodes
}

// download is the result of one node's download of a page.
type download struct {
	chosen
	result Result
	err    error
}

// pageNumber returns the number that downloadByAll gets for the i-th page of a host. That of the first page follows from the host's name: many
// hosts have a single page, and the same node would always be the first to download it.
func pageNumber(host string, i int) int { return int(xxhash.Sum64String(host)>>40) + i }

// downloadByAll lets every node that is there download a page once, one after the other, until the context ends. Which node is first changes
// with the number i of the page, because the first download warms caches at the server. reader is the node that reads the links.
func (s *server) downloadByAll(ctx context.Context, page *frontier.Task, nodes []chosen, i int, reader string, f RemoteFetch) (made []download) {
	at := i % len(nodes)
	for _, c := range slices.Concat(nodes[at:], nodes[:at]) {
		if !s.alive(c.node) { // one that did not answer would cost a minute for each page
			continue
		}
		if s.wait(ctx) != nil {
			break
		}
		s.updateStatus(func(st *Status) { st.Compared++ })
		f.Labels, f.Assigned, f.Quiet = c.labels, true, c.node != reader
		r, err := s.ask(ctx, c.node, page, f)
		made = append(made, download{c, r, err})
	}
	return made
}

// compare lets every node that an assigner chose for a server download the pending URLs of its hosts. The node of the first
// assigner reads the links, and its outcome is the outcome of the page.
func (b *batch) compare(ctx context.Context, s *server) error {
	if b.plans[0].choices[s.addr].Node == "" {
		return nil // the node that would read the links is gone
	}
	nodes := b.chosenFor(s)
	return s.eachPage(ctx, b.cfg.CompareURLs, func(i int, task *frontier.Task) error {
		return b.comparePage(ctx, s, task, nodes, pageNumber(task.Host, i))
	})
}

// eachPage calls do for pages of every host, at most so many for a host, and once for each page.
func (s *server) eachPage(ctx context.Context, most int, do func(i int, task *frontier.Task) error) error {
	for _, h := range s.hosts {
		met := make(map[uint64]bool)
		for i := range most {
			task, err := s.takeOf(ctx, ctx, h)
			if err != nil {
				return err
			}
			if task == nil {
				break
			}
			hash := task.URL.Hash()
			if met[hash] { // it was tried before, so this host has no new pages
				if err := s.finish(ctx, task, putBack(false)); err != nil {
					return err
				}
				break
			}
			met[hash] = true
			if err := do(i, task); err != nil {
				return err
			}
		}
	}
	return nil
}

// comparePage lets the nodes download one page, and finishes its task.
func (b *batch) comparePage(ctx context.Context, s *server, task *frontier.Task, nodes []chosen, i int) error {
	out, first := putBack(true), nodes[0].node
	var longest, after time.Duration
	for _, d := range s.downloadByAll(ctx, task, nodes, i, first, RemoteFetch{Batch: b.id, Fresh: true}) {
		longest, after = max(longest, d.result.Timing.Total), max(after, d.result.RetryAfter)
		if d.node == first {
			out = outcome(b.deps.Self, first, d.result, d.err)
		}
	}
	// The gap of the server begins now, and follows from the slowest download.
	out.Asked, out.Elapsed, out.RetryAfter, out.Lingers = true, longest, after, max(0, time.Until(s.alone))
	return s.finish(ctx, task, out)
}

// runRounds downloads the same batch in rounds until the context ends. Each round adds hosts that have become ready. What an assigner
// learns of a server is kept for its next rounds. The hosts stay with their home, and remote fetches download their pages. The pages
// of a server are downloaded one after the other, and a round begins when the last one has ended. So no queue holds more than one page
// of a server.
func (b *batch) runRounds(ctx context.Context) error {
	ready := b.hosts
	for round := 1; ; round++ {
		if err := b.grow(ctx, ready); err != nil || len(b.servers) == 0 {
			return err
		}
		id := fmt.Sprintf("%s.%d", b.id, round)
		if err := b.decide(ctx, id); err != nil {
			return err
		}
		b.updateStatus(func(s *Status) { s.Rounds++ })
		b.phase(PhaseWait)
		if err := bell.Sleep(ctx, b.cfg.Check); err != nil {
			return err
		}
		b.phase(PhaseRound)
		err := b.each(ctx, func(ctx context.Context, s *server) error { return b.round(ctx, s, id) })
		if err != nil {
			return err
		}
		if ready, err = b.gather(time.Now(), b.hosts); err != nil {
			return err
		}
	}
}

// grow adds hosts and their pages to the batch. Hosts whose lease cannot be had now are left out for a while.
func (b *batch) grow(ctx context.Context, ready []*host) error {
	if len(ready) > 0 {
		more := &batch{Placement: b.Placement, id: b.id, hosts: ready}
		defer more.end()
		if err := more.begin(ctx); err != nil {
			return err
		}
		known := make(map[netip.Addr]*server)
		for _, s := range b.servers {
			known[s.addr] = s
		}
		for _, s := range more.servers {
			if k := known[s.addr]; k != nil {
				s.next = k.next // the frontier does not know of remote fetches in the last round
			}
		}
		if err := more.each(ctx, more.collect); err != nil {
			return err
		}
		for _, s := range more.servers {
			k := known[s.addr]
			if k == nil {
				b.servers = append(b.servers, s)
				continue
			}
			k.hosts, k.pages, k.next = append(k.hosts, s.hosts...), append(k.pages, s.pages...), s.next
			b.reserve(s.addr, false) // k has reserved it, too
		}
		more.servers = nil
	}
	b.prune()
	b.updateStatus(func(s *Status) { s.Hosts, s.Servers = len(b.hosts), len(b.servers) })
	return nil
}

// prune drops hosts that this node may not assign any more, and gives back servers that have no pages left.
func (b *batch) prune() {
	b.hosts = nil
	b.servers = slices.DeleteFunc(b.servers, func(s *server) bool {
		s.hosts = slices.DeleteFunc(s.hosts, func(h *host) bool { return !b.deps.Owners.Mine(h.name) })
		s.pages = slices.DeleteFunc(s.pages, func(page *frontier.Task) bool {
			return !slices.ContainsFunc(s.hosts, func(h *host) bool { return h.name == page.Host })
		})
		if len(s.pages) > 0 {
			b.hosts = append(b.hosts, s.hosts...)
			return false
		}
		s.keep()
		s.give(b.deps.Self, nil)
		return true
	})
}

// collect takes the pages that the rounds repeat. This node crawls each of them once like any other page.
func (b *batch) collect(ctx context.Context, s *server) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.eachPage(ctx, min(b.cfg.CompareURLs, maxRound), func(_ int, page *frontier.Task) error {
		if err := b.deps.Crawler.Do(ctx, page); err != nil {
			return fmt.Errorf("crawl %s: %w", page.URL, err)
		}
		s.next = time.Now().Add(b.deps.Frontier.Gap(page.Host, s.addr, 0, 0))
		s.pages = append(s.pages, page)
		return ctx.Err()
	})
}

// repeatPage lets a node download the next of the pages that are repeated.
func (s *server) repeatPage(ctx context.Context, node string, f RemoteFetch) (Result, error) {
	if err := s.wait(ctx); err != nil {
		return Result{}, err
	}
	s.turn++
	i := s.turn % len(s.pages)
	s.updateStatus(func(st *Status) { st.Estimates++ })
	f.Quiet = true
	r, err := s.ask(ctx, node, s.pages[i], f)
	if missing(r, err) {
		s.dropPage(i)
	}
	return r, err
}

// missing reports whether the server does not have a page.
func missing(r Result, err error) bool {
	return err == nil && r.Status >= 400 && r.Status < 500 && r.Status != 429
}

// dropPage drops a page from the rounds, unless it is the last one of the server. It reports whether it did.
func (s *server) dropPage(i int) bool {
	if len(s.pages) == 1 {
		return false
	}
	s.pages = slices.Delete(s.pages, i, i+1)
	return true
}

// round lets every node that was chosen for a server download its pages once, and now and then another node one page. A node that
// refuses a page or gives it back has too long a queue, so it gets no more pages in this round.
func (b *batch) round(ctx context.Context, s *server, id string) error {
	// Another node may have got the lease since the last round. That has ended the hold.
	wait, cancel := context.WithTimeout(ctx, b.deps.LeaseFor)
	defer cancel()
	if _, err := b.deps.Leases.Hold(wait, s.addr); err != nil {
		return ctx.Err() // the next round may get it
	}
	s.learnt = make(map[string]assign.Memory) // the assigners began with the last one
	for _, p := range b.plans {
		if m := p.memory(s.addr); m != nil {
			s.learnt[p.label] = *m
		}
		if p.method == assign.Nearest {
			b.exploreRound(ctx, s, id, p)
		}
	}
	nodes := b.chosenFor(s)
	f := RemoteFetch{Batch: id, Fresh: len(nodes) > 1}
	for i := 0; i < len(s.pages) && len(nodes) > 0 && ctx.Err() == nil; i++ {
		gone := false
		for _, d := range s.downloadByAll(ctx, s.pages[i], nodes, pageNumber(s.pages[i].Host, i), "", f) {
			s.learn(d.labels, d.node, d.result, d.err)
			gone = gone || missing(d.result, d.err)
			if d.err != nil || d.result.Unmade {
				nodes = slices.DeleteFunc(nodes, func(c chosen) bool { return c.node == d.node })
			}
		}
		if gone && s.dropPage(i) {
			i--
		}
	}
	return ctx.Err()
}

// exploreRound lets another node than the chosen one download a page, at few servers in a round.
func (b *batch) exploreRound(ctx context.Context, s *server, id string, p *plan) {
	m, known := s.learnt[p.label]
	if !known || rand.Float64() >= exploreShare*float64(len(s.pages)) {
		return
	}
	view, _ := b.currentView()
	if node, ok := assign.Explorer(p.cfg, &m, view, p.choices[s.addr].Node, rand.Float64); ok {
		labels := []string{p.label}
		r, err := s.repeatPage(ctx, node, RemoteFetch{Batch: id, Labels: labels, Fresh: true})
		s.learn(labels, node, r, err)
	}
}

// learn adds the result of a download to what some assigners have learnt of the server.
func (s *server) learn(labels []string, node string, r Result, err error) {
	if !usable(r, err) {
		return
	}
	for _, label := range labels {
		m := s.learnt[label]
		m.Observe(node, r.Coord, r.Timing, time.Now())
		s.learnt[label] = m
	}
}
