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
	nodes     []int // by server
	estimates []estimated
	homes     []*home // nil for those that see the truth
	overlay   *overlay
}

// estimated are the nodes that downloaded a server before it was given away.
type estimated []int

// home is a node that decides about its share of the servers.
type home struct {
	node     int
	batch    assign.Batch
	assigner assign.Assigner
	done     bool
	choices  []assign.Choice
}

// downloads is k of "direct-k".
func downloads(name string) (k int, ok bool) {
	digits, ok := strings.CutPrefix(name, DirectPrefix)
	if !ok {
		return 0, false
	}
	k, err := strconv.Atoi(digits)
	return k, err == nil && k >= 1 && k <= 1000
}

// decide lets the assigner of that name decide about all servers of a world.
func decide(ctx context.Context, w *World, name string) (*decision, error) {
	if k, ok := downloads(name); ok {
		return byDownloads(w, k), nil
	}
	switch name {
	case Best:
		return bySight(w, w.Expected), nil
	case TrueRTT:
		return bySight(w, w.trip), nil
	}
	return byAssigner(ctx, w, name)
}

// bySight gives each server to the node of the least cost.
func bySight(w *World, cost func(node, server int) float64) *decision {
	d := &decision{nodes: make([]int, len(w.servers)), estimates: make([]estimated, len(w.servers))}
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

// byDownloads lets every node download k pages of every server, and goes by the geometric mean.
func byDownloads(w *World, k int) *decision {
	d := bySight(w, func(node, server int) float64 {
		sum := 0.0
		for i := range k {
			sum += math.Log(float64(w.download(node, server, i).Total))
		}
		return sum
	})
	all := make(estimated, 0, k*len(w.nodes))
	for i := range w.nodes {
		all = append(all, slices.Repeat([]int{i}, k)...)
	}
	for j := range d.estimates {
		d.estimates[j] = all
	}
	return d
}

// maxRounds ends what will never decide: the most ticks that a configuration can have, and some.
const maxRounds = 110_000

// byAssigner lets the homes decide their shares, in rounds. What a home learns of the others is what they published.
func byAssigner(ctx context.Context, w *World, name string) (*decision, error) {
	d := &decision{nodes: make([]int, len(w.servers)), estimates: make([]estimated, len(w.servers)),
		overlay: newOverlay(w, name == assign.Nearest), homes: share(w)}
	return d, d.decide(ctx, w, name, w.cfg.budgeted(), d.homes)
}

// decide lets some homes decide about their batches.
func (d *decision) decide(ctx context.Context, w *World, name string, cfg assign.Config, homes []*home) (err error) {
	o := d.overlay
	for _, h := range homes {
		if h.assigner, err = assign.New(name, cfg, h.batch, o.viewOf(h.node), o.now); err != nil {
			return err
		}
	}
	made := make(map[[2]int]int) // downloads by node and server
	for range maxRounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		open := 0
		for _, h := range homes {
			if err := d.advance(w, h, made); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if !h.done {
				open++
			}
		}
		if open == 0 {
			return nil
		}
		o.pass()
		for _, h := range homes {
			if !h.done {
				h.assigner.SetView(o.viewOf(h.node), o.now)
			}
		}
	}
	return fmt.Errorf("%s: not decided after %d rounds", name, maxRounds)
}

// share gives the homes their servers. How large pages are is for them to find out.
func share(w *World) []*home {
	count := w.cfg.Homes
	if count == 0 {
		count = len(w.nodes)
	}
	homes, ids := make([]*home, count), make([]string, count)
	index := make(map[string]int, count)
	for i := range homes {
		ids[i] = w.nodes[i].id
		index[ids[i]] = i
		homes[i] = &home{node: i, batch: assign.Batch{ID: "batch." + ids[i], Home: ids[i], Seed: mix(w.seed<<16 + streamChoice + uint64(i)<<8)}}
	}
	for i, s := range w.servers {
		name := fmt.Sprintf("host%d.example", i)
		h := homes[index[assign.Rendezvous(name, ids)]]
		h.batch.Servers = append(h.batch.Servers, assign.Server{Addr: s.addr, Location: s.location,
			Hosts: []assign.Host{{Name: name, Pending: w.cfg.Pages}}})
	}
	return homes
}

// advance carries out what a home asks for now.
func (d *decision) advance(w *World, h *home, made map[[2]int]int) error {
	if h.done {
		return nil
	}
	o := d.overlay
	// What asks bring is known at the end of the round: the results of all are observed once they are all made.
	asks := h.assigner.Asks(o.now)
	now := o.now.Add(round - time.Second)
	for _, ask := range asks {
		i, okNode := w.index[ask.Node]
		j, okServer := w.at[ask.Server]
		if !okNode || !okServer {
			return fmt.Errorf("asks node %q for server %s, which are not both of this world", ask.Node, ask.Server)
		}
		if budget := w.cfg.Estimates; budget >= 0 && len(d.estimates[j]) >= max(budget, 1) {
			return fmt.Errorf("asks for more than %d estimates of a server", budget)
		}
		t := w.download(i, j, made[[2]int{i, j}])
		made[[2]int{i, j}]++
		d.estimates[j] = append(d.estimates[j], i)
		h.assigner.Observe(assign.Result{Ask: ask, OK: true, Timing: t, Coord: o.coords[i].Coordinate()}, now)
		// An estimator knows nothing of the server but its own download, unless it is the home itself.
		var m *assign.Memory
		if i == h.node {
			m = h.assigner.Memory(ask.Server)
		}
		o.learn(i, j, t, m)
	}
	choices, done := h.assigner.Decide(now)
	if !done {
		return nil
	}
	h.done, h.choices = true, choices
	for _, c := range choices {
		node, ok := w.index[c.Node]
		if !ok {
			return errors.New("chose no node")
		}
		d.nodes[w.at[c.Server]] = node
	}
	return nil
}

// memory is what the homes know of a server, a copy; nothing for assigners that see the truth.
func (d *decision) memory(server netip.Addr) assign.Memory {
	for _, h := range d.homes {
		if m := h.assigner.Memory(server); m != nil {
			return m.Clone()
		}
	}
	return assign.Memory{}
}
