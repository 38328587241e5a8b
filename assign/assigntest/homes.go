package assigntest

import (
	"time"

	"proxima/assign"
)

// Homes decides a batch by several homes at once, as an overlay does. Each home decides its share of the servers, and knows only its
// own estimates and what all nodes publish.
type Homes struct {
	// Own holds what each node has learnt about itself, in the order of the world's nodes.
	Own []*assign.Own

	world *World
	homes []home
}

type home struct {
	node    int
	servers []int
	a       assign.Assigner
}

// NewHomes gives each server to one of the first n nodes by rendezvous draw and makes their assigners. With n = 1, one home sees all.
func NewHomes(w *World, name string, cfg assign.Config, n int, now time.Time) (*Homes, error) {
	h := &Homes{world: w}
	var ids []string
	for i := range w.Nodes {
		h.Own = append(h.Own, assign.NewOwn(w.Nodes[i].Factors))
		if i < n {
			ids = append(ids, w.Nodes[i].ID)
			h.homes = append(h.homes, home{node: i})
		}
	}
	for j, s := range w.Servers {
		i := w.NodeIndex(assign.Rendezvous(s.Addr.String(), ids))
		h.homes[i].servers = append(h.homes[i].servers, j)
	}
	for i := range h.homes {
		b := assign.Batch{ID: w.Nodes[i].ID, Home: w.Nodes[i].ID, Seed: w.cfg.Seed}
		for _, j := range h.homes[i].servers {
			b.Servers = append(b.Servers, w.Servers[j].Server)
		}
		a, err := assign.New(name, cfg, b, w.ViewOf(i), now)
		if err != nil {
			return nil, err
		}
		h.homes[i].a = a
	}
	return h, nil
}

// ViewOf returns all nodes as one of them sees them.
func (w *World) ViewOf(node int) assign.View {
	v := w.View()
	for i := range v.Nodes {
		v.Nodes[i].Self = i == node
	}
	return v
}

// Decide drives all homes until they have decided. In every step all asks are answered, then all nodes publish their factors.
func (h *Homes) Decide(now time.Time, step time.Duration) ([]assign.Choice, time.Time) {
	w := h.world
	choices := make([]assign.Choice, len(w.Servers))
	for range 1_000_000 {
		all := true
		type answer struct {
			home   int
			result assign.Result
		}
		var answers []answer
		for i := range h.homes {
			asks := h.homes[i].a.Asks(now)
			for _, ask := range asks {
				r := w.Answer(ask)
				node := w.NodeIndex(ask.Node)
				var m *assign.Memory
				if node == h.homes[i].node {
					m = h.homes[i].a.Memory(ask.Server)
				}
				h.Own[node].Observe(ask.Node, ask.Server, r.Timing, m, w.View(), now)
				answers = append(answers, answer{i, r})
			}
			if len(asks) > 0 {
				all = false
			}
		}
		now = now.Add(step)
		for _, x := range answers {
			h.homes[x.home].a.Observe(x.result, now)
		}
		if len(answers) > 0 {
			for i := range w.Nodes {
				queue := w.Nodes[i].Factors.QueueMs
				w.Nodes[i].Factors = h.Own[i].Factors()
				w.Nodes[i].Factors.QueueMs = queue
			}
			for i := range h.homes {
				h.homes[i].a.SetView(w.ViewOf(i), now)
			}
		}
		for i := range h.homes {
			c, done := h.homes[i].a.Decide(now)
			if !done {
				all = false
				continue
			}
			for k, j := range h.homes[i].servers {
				choices[j] = c[k]
			}
		}
		if all {
			return choices, now
		}
	}
	return nil, now
}
