// Package assigntest has what tests of assigners share: a suite that every assigner must pass (Conformance), and a world without a
// network (World) in which the truth about every choice is known.
package assigntest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"proxima/assign"
	"proxima/ncoord"
)

// World is a made-up Internet: nodes and servers at places of a matrix, and noisy downloads between them. NewWorld says how it is
// drawn.
type World struct {
	Nodes   []WorldNode
	Servers []WorldServer
	// RTT is the round trip from node to server, in ms.
	RTT [][]float64

	matrix *Matrix
	rnd    *rand.Rand
	cfg    WorldConfig
}

// WorldNode is one node and the truth about it.
type WorldNode struct {
	assign.Node
	Place      int
	LoadMs     float64
	BytesPerMs float64
}

// WorldServer is one server and the truth about it.
type WorldServer struct {
	assign.Server
	Place     int
	ThinkMs   float64
	PageBytes float64
}

// WorldConfig is how a world is drawn.
type WorldConfig struct {
	Nodes, Servers int
	Seed           uint64
	// NoLocations removes all locations; WrongLocations is the share of servers with a wrong one.
	NoLocations    bool
	WrongLocations float64
	// NoCoordinates leaves the nodes without coordinates.
	NoCoordinates bool
	// Noise scales all noise; 0 stands for 1.
	Noise float64
}

// NewWorld draws a world over a matrix: node load LN(15 ms, 1.2), bandwidth LN(10 Mbit/s, 1.0), think time LN(60 ms, 1.0),
// typical page LN(30 kB, 0.7), where LN is log-normal by median and sigma. Nodes and servers stand at different places as long as
// there are enough.
func NewWorld(m *Matrix, cfg WorldConfig) *World {
	if cfg.Noise == 0 {
		cfg.Noise = 1
	}
	w := &World{matrix: m, cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, 23))}
	places := w.rnd.Perm(len(m.RTT))
	at := func(i int) int { return places[i%len(places)] }
	for i := range cfg.Nodes {
		n := WorldNode{Place: at(i), LoadMs: w.logNormal(15, 1.2), BytesPerMs: w.logNormal(1250, 1.0)}
		n.ID = fmt.Sprintf("node%04d", i)
		if !cfg.NoLocations {
			n.Location = &m.Places[n.Place]
		}
		w.Nodes = append(w.Nodes, n)
	}
	for i := range cfg.Servers {
		s := WorldServer{Place: at(cfg.Nodes + i), ThinkMs: w.logNormal(60, 1.0), PageBytes: w.logNormal(30_000, 0.7)}
		s.Addr = netip.AddrFrom4([4]byte{198, byte(i >> 8), byte(i), 1}) // in a network of its own, so that it tells nothing of its place
		s.Hosts = []assign.Host{{Name: fmt.Sprintf("host%d.example", i), Pending: 50, PageBytes: s.PageBytes}}
		if !cfg.NoLocations {
			s.Location = &m.Places[s.Place]
			if w.rnd.Float64() < cfg.WrongLocations {
				s.Location = &m.Places[w.rnd.IntN(len(m.Places))]
			}
		}
		w.Servers = append(w.Servers, s)
	}
	w.RTT = grid(cfg.Nodes, cfg.Servers)
	for i, n := range w.Nodes {
		for j, s := range w.Servers {
			w.RTT[i][j] = m.RTT[n.Place][s.Place]
		}
	}
	if !cfg.NoCoordinates {
		w.embed(200)
	}
	return w
}

func (w *World) logNormal(median, sigma float64) float64 {
	return median * math.Exp(sigma*w.rnd.NormFloat64())
}

// embed lets the nodes find their coordinates by pings: round trip and both loads, times LN(1, 0.1).
func (w *World) embed(rounds int) {
	now := time.Unix(0, 0)
	nodes := make([]*ncoord.Node, len(w.Nodes))
	for i := range nodes {
		nodes[i] = ncoord.NewNode(rand.New(rand.NewPCG(w.cfg.Seed, uint64(i))))
	}
	for range rounds {
		now = now.Add(5 * time.Second)
		for i := range nodes {
			j := w.rnd.IntN(len(nodes))
			if i == j {
				continue
			}
			ping := w.matrix.RTT[w.Nodes[i].Place][w.Nodes[j].Place] + w.Nodes[i].LoadMs + w.Nodes[j].LoadMs
			ping *= math.Exp(0.1 * w.cfg.Noise * w.rnd.NormFloat64())
			// A sample may be refused, as in real life.
			_ = nodes[i].Observe(w.Nodes[j].ID, nodes[j].Coordinate(), nil, time.Duration(ping*1e6), now)
		}
	}
	for i := range nodes {
		w.Nodes[i].Coord = nodes[i].Coordinate()
	}
}

// rounds counts the connection and the rounds of slow start from an initial window of 14,600 bytes.
func rounds(bytes float64) float64 { return 1 + math.Ceil(math.Log2(bytes/14_600+1)) }

// Expected returns the true download time of a typical page, without noise, in ms.
func (w *World) Expected(node, server int) float64 {
	return w.expected(node, server, w.Servers[server].PageBytes)
}

func (w *World) expected(node, server int, bytes float64) float64 {
	n, s := &w.Nodes[node], &w.Servers[server]
	return rounds(bytes)*w.RTT[node][server] + bytes/n.BytesPerMs + s.ThinkMs + n.LoadMs
}

// Download draws one download on a fresh connection: a page of LN(1, 0.6) times the typical, the time times LN(1, 0.25),
// and times 3 for 3 % of them; the connect time is (round trip + 0.3 load) × (1 + 0.15 |N(0,1)|).
func (w *World) Download(node, server int) assign.Timing {
	n, s, noise := &w.Nodes[node], &w.Servers[server], w.cfg.Noise
	bytes := s.PageBytes * math.Exp(0.6*w.rnd.NormFloat64())
	factor := math.Exp(0.25 * noise * w.rnd.NormFloat64())
	if w.rnd.Float64() < 0.03*noise {
		factor *= 3
	}
	total := factor * w.expected(node, server, bytes)
	first := factor * (w.RTT[node][server] + s.ThinkMs + n.LoadMs)
	connect := (w.RTT[node][server] + 0.3*n.LoadMs) * (1 + 0.15*noise*math.Abs(w.rnd.NormFloat64()))
	d := func(ms float64) time.Duration { return time.Duration(ms * 1e6) }
	return assign.Timing{Connect: d(connect), FirstByte: d(first), Total: d(max(total, connect+first)), Bytes: int64(bytes), Fresh: true}
}

// View returns all nodes.
func (w *World) View() assign.View {
	var v assign.View
	for _, n := range w.Nodes {
		v.Nodes = append(v.Nodes, n.Node)
	}
	return v
}

// Batch returns all servers as one batch.
func (w *World) Batch() assign.Batch {
	b := assign.Batch{ID: "batch1", Seed: w.cfg.Seed}
	for _, s := range w.Servers {
		b.Servers = append(b.Servers, s.Server)
	}
	return b
}

// Answer carries out an ask.
func (w *World) Answer(a assign.Ask) assign.Result {
	node, server := w.NodeIndex(a.Node), w.ServerIndex(a.Server)
	if node < 0 || server < 0 {
		return assign.Result{Ask: a}
	}
	return assign.Result{Ask: a, OK: true, Timing: w.Download(node, server), Coord: w.Nodes[node].Coord}
}

// NodeIndex returns the index of a node, -1 if there is none.
func (w *World) NodeIndex(id string) int {
	return slices.IndexFunc(w.Nodes, func(n WorldNode) bool { return n.ID == id })
}

// ServerIndex returns the index of a server, -1 if there is none.
func (w *World) ServerIndex(a netip.Addr) int {
	return slices.IndexFunc(w.Servers, func(s WorldServer) bool { return s.Addr == a })
}

// Score judges choices by the truth.
type Score struct {
	// Ratio is the sum of expected times at the chosen nodes over the sum at the best nodes.
	Ratio float64
	// BestShare is the share of servers whose best node was chosen.
	BestShare float64
	// Makespan is the largest sum of expected times at one node, over the mean sum of all nodes under the best choice.
	Makespan float64
	// Estimates is the mean number for a server.
	Estimates float64
}

// Judge compares choices with the truth.
func (w *World) Judge(choices []assign.Choice) Score {
	var s Score
	var chosen, best float64
	load := make([]float64, len(w.Nodes))
	for _, c := range choices {
		node, server := w.NodeIndex(c.Node), w.ServerIndex(c.Server)
		least := math.Inf(1)
		for i := range w.Nodes {
			least = min(least, w.Expected(i, server))
		}
		took := w.Expected(node, server)
		chosen, best = chosen+took, best+least
		load[node] += took
		s.Estimates += float64(c.Estimates) / float64(len(choices))
		if took == least {
			s.BestShare += 1 / float64(len(choices))
		}
	}
	s.Ratio = chosen / best
	s.Makespan = slices.Max(load) / (best / float64(len(w.Nodes)))
	return s
}

// Decide drives an assigner until it decides, in steps of the given length. All asks of a step are answered at its end. It returns nil
// after a million steps.
func (w *World) Decide(a assign.Assigner, now time.Time, step time.Duration) ([]assign.Choice, time.Time) {
	for range 1_000_000 {
		if choices, done := a.Decide(now); done {
			return choices, now
		}
		asks := a.Asks(now)
		now = now.Add(step)
		for _, ask := range asks {
			a.Observe(w.Answer(ask), now)
		}
	}
	return nil, now
}
