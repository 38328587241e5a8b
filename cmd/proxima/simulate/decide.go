package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"proxima/assign"
)

// decision is what an assigner chose in a world.
type decision struct {
	nodes     []int   // chosen, by server
	estimates [][]int // by server, the nodes that downloaded from it before the choice
	homes     []*home // nil for assigners that see the truth
	overlay   *overlay
}

func newDecision(w *World) *decision {
	return &decision{nodes: make([]int, len(w.servers)), estimates: make([][]int, len(w.servers))}
}

// home is a node that decides about its share of the servers.
type home struct {
	node     int
	batch    assign.Batch
	assigner assign.Assigner
	done     bool
	took     time.Duration // by the assigner, so far
}

// timed calls the assigner.
func (h *home) timed(call func()) {
	begun := time.Now()
	call()
	h.took += time.Since(begun)
}

// made counts downloads by node and server, and so numbers them.
type made map[[2]int]int

// next makes the next download from a server by a node.
func (m made) next(w *World, node, server int) assign.Timing {
	t := w.download(node, server, m[[2]int{node, server}])
	m[[2]int{node, server}]++
	return t
}

// downloads returns k of "direct-k".
func downloads(name string) (k int, ok bool) {
	digits, ok := strings.CutPrefix(name, DirectPrefix)
	if !ok {
		return 0, false
	}
	k, err := strconv.Atoi(digits)
	return k, err == nil && k >= 1 && k <= 1000
}

// decide lets the named assigner decide about all servers of a world. Homes decide about their shares in rounds, and know of each
// other only what was published.
func decide(ctx context.Context, w *World, name string) (*decision, error) {
	if k, ok := downloads(name); ok {
		return byDownloads(w, k), nil
	}
	switch name {
	case Best:
		return bySight(w, w.expected), nil
	case TrueRTT:
		return bySight(w, w.trip), nil
	}
	d := newDecision(w)
	d.overlay, d.homes = newOverlay(w, name == assign.Nearest), share(w)
	return d, d.decide(ctx, w, name, w.cfg.budgeted(), d.homes)
}

// bySight gives each server to the node with the least cost.
func bySight(w *World, cost func(node, server int) float64) *decision {
	d := newDecision(w)
	for j := range w.servers {
		least := math.Inf(1)
		for i := range w.nodes {
			if c := cost(i, j); c < least {
				d.nodes[j], least = i, c
			}
		}
	}
	return d
}

// byDownloads lets every node download k pages from every server, and compares the geometric means.
func byDownloads(w *World, k int) *decision {
	d := bySight(w, func(node, server int) float64 {
		sum := 0.0
		for i := range k {
			sum += math.Log(float64(w.download(node, server, i).Total))
		}
		return sum
	})
	var all []int
	for i := range w.nodes {
		all = append(all, slices.Repeat([]int{i}, k)...)
	}
	for j := range d.estimates {
		d.estimates[j] = all
	}
	return d
}

// maxRounds stops an assigner that never decides. It is above the most ticks that can be configured.
const maxRounds = 110_000

func (d *decision) decide(ctx context.Context, w *World, name string, cfg assign.Config, homes []*home) (err error) {
	o := d.overlay
	for _, h := range homes {
		if h.timed(func() { h.assigner, err = assign.New(name, cfg, h.batch, o.view, o.now) }); err != nil {
			return err
		}
	}
	downloads := made{}
	for range maxRounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, h := range homes {
			if err := d.advance(w, h, downloads); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if !slices.ContainsFunc(homes, func(h *home) bool { return !h.done }) {
			return nil
		}
		o.pass()
		for _, h := range homes {
			if !h.done {
				h.timed(func() { h.assigner.SetView(o.view, o.now) })
			}
		}
	}
	return fmt.Errorf("%s: undecided after %d rounds", name, maxRounds)
}

// share gives each home its servers. Homes do not know how large the pages are.
func share(w *World) []*home {
	count := w.cfg.Homes
	if count == 0 {
		count = len(w.nodes)
	}
	homes, ids := make([]*home, count), make([]string, count)
	for i := range homes {
		ids[i] = w.nodes[i].id
		homes[i] = &home{node: i, batch: assign.Batch{ID: "batch." + ids[i], Seed: mix(w.seed<<16 + streamChoice + uint64(i)<<8)}}
	}
	for i, s := range w.servers {
		name := fmt.Sprintf("host%d.example", i)
		h := homes[w.index[assign.Rendezvous(name, ids)]]
		h.batch.Servers = append(h.batch.Servers, assign.Server{Addr: s.addr, Location: s.location,
			Hosts: []assign.Host{{Name: name, Pending: w.cfg.Pages}}})
	}
	return homes
}

// advance lets a home ask, observe the answers, and decide if it can.
func (d *decision) advance(w *World, h *home, downloads made) error {
	if h.done {
		return nil
	}
	o := d.overlay
	now := o.now.Add(round - time.Second) // answers are known at the end of the round
	var asks []assign.Ask
	h.timed(func() { asks = h.assigner.Asks(o.now) })
	for _, ask := range asks {
		i, okNode := w.index[ask.Node]
		j, okServer := w.at[ask.Server]
		if !okNode || !okServer {
			return fmt.Errorf("asks node %q for server %s: one of them is not in this world", ask.Node, ask.Server)
		}
		if budget := w.cfg.Estimates; budget >= 0 && len(d.estimates[j]) >= max(budget, 1) {
			return fmt.Errorf("asks for more than %d estimates of a server", budget)
		}
		t := downloads.next(w, i, j)
		d.estimates[j] = append(d.estimates[j], i)
		h.timed(func() {
			h.assigner.Observe(assign.Result{Ask: ask, OK: true, Timing: t, Coord: o.coords[i].Coordinate()}, now)
		})
		var m *assign.Memory // a node other than the home knows only its own download
		if i == h.node {
			m = h.assigner.Memory(ask.Server)
		}
		o.learn(i, j, t, m)
	}
	var choices []assign.Choice
	if h.timed(func() { choices, h.done = h.assigner.Decide(now) }); !h.done {
		return nil
	}
	for _, c := range choices {
		node, ok := w.index[c.Node]
		if !ok {
			return errors.New("chose no node")
		}
		d.nodes[w.at[c.Server]] = node
	}
	return nil
}

// memory is a copy of what the homes know about a server. It is empty for assigners that see the truth.
func (d *decision) memory(server netip.Addr) assign.Memory {
	for _, h := range d.homes {
		if m := h.assigner.Memory(server); m != nil {
			return m.Clone()
		}
	}
	return assign.Memory{}
}
