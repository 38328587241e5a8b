package placement

import (
	"context"
	"errors"
	"slices"
	"time"

	"proxima/frontier"
)

// chosen is a node that assigners chose for a server.
type chosen struct {
	node   string
	labels []string
}

// choicesFor are the distinct nodes that were chosen for a server; the first is the choice of the first assigner.
func choicesFor(s *server, plans []*plan) []chosen {
	var nodes []chosen
	for _, p := range plans {
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

// rotated is the order of the nodes for the i-th page: each is first as often as the others, so that what the first leaves
// warm at the server favours nobody.
func rotated(nodes []chosen, i int) []chosen {
	at := i % len(nodes)
	return append(slices.Clone(nodes[at:]), nodes[:at]...)
}

// compare downloads the pending URLs of a server's hosts once by every node that some assigner chose for it. The node of
// the first assigner reads the links, and its outcome is that of the page.
func (t *batch) compare(ctx context.Context, s *server, plans []*plan) error {
	nodes := choicesFor(s, plans)
	if len(nodes) == 0 || plans[0].choices[s.addr].Node != nodes[0].node {
		return nil // the owner to be is gone: nobody could read the links
	}
	for _, h := range s.hosts {
		if err := t.compareHost(ctx, s, h, nodes); err != nil {
			return err
		}
	}
	return nil
}

func (t *batch) compareHost(ctx context.Context, s *server, h *host, nodes []chosen) error {
	met := make(map[uint64]bool)
	for i := range t.cfg.CompareURLs {
		task, err := s.takeOf(ctx, ctx, h)
		if errors.Is(err, errNothing) {
			return nil
		} else if err != nil {
			return err
		}
		hash := task.URL.Hash()
		if met[hash] { // it came back: each page is downloaded once, the rest is the owner's
			return s.finish(ctx, task, putBack(false))
		}
		met[hash] = true
		if err := t.comparePage(ctx, s, task, rotated(nodes, i), nodes[0].node); err != nil {
			return err
		}
	}
	return nil
}

// comparePage downloads one page by several nodes, one after the other.
func (t *batch) comparePage(ctx context.Context, s *server, task *frontier.Task, order []chosen, first string) error {
	out := putBack(true)
	expired, cancel := context.WithCancel(ctx)
	defer cancel()
	task.OnExpire(cancel)
	var longest, after time.Duration
	for j, c := range order {
		if j > 0 && s.wait(expired) != nil {
			break
		}
		t.count(func(st *Status) { st.Compared++ })
		r, err := s.ask(expired, c.node, pageOf(task),
			RemoteFetch{Batch: t.id, Labels: c.labels, Assigned: true, Fresh: true, Quiet: c.node != first})
		longest, after = max(longest, r.Timing.Total), max(after, r.RetryAfter)
		if c.node == first {
			out = outcome(t.deps.Self, c.node, r, err)
		}
	}
	// Whoever asked last: the server's clock starts now, and the slowest download sets the gap.
	out.Asked, out.Elapsed, out.RetryAfter, out.Lingers = true, longest, after, max(0, time.Until(s.alone))
	return s.finish(ctx, task, out)
}
