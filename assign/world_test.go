package assign_test

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

// world is a made-up Internet: nodes and servers at places of a matrix, and noisy downloads between them. newWorld says how it is
// drawn.
type world struct {
	Nodes   []worldNode
	Servers []worldServer
	// RTT is the round trip from node to server, in ms.
	RTT [][]float64

	deaf   []string // nodes whose downloads fail
	matrix *matrix
	rnd    *rand.Rand
	cfg    worldConfig
}

// worldNode is one node and the truth about it.
type worldNode struct {
	assign.Node
	Place      int
	LoadMs     float64
	BytesPerMs float64
}

// worldServer is one server and the truth about it.
type worldServer struct {
	assign.Server
	Place     int
	ThinkMs   float64
	PageBytes float64
}

// worldConfig is how a world is drawn.
type worldConfig struct {
	Nodes, Servers int
	Seed           uint64
	// Unknown leaves all without a location and a coordinate. WrongLocations is the share of servers with a wrong location.
	Unknown        bool
	WrongLocations float64
}

// newWorld draws a world over a matrix: node load LN(15 ms, 1.2), bandwidth LN(10 Mbit/s, 1.0), think time LN(60 ms, 1.0),
// typical page LN(30 kB, 0.7), where LN is log-normal by median and sigma. Nodes and servers stand at different places as long as
// there are enough.
func newWorld(m *matrix, cfg worldConfig) *world {
	w := &world{matrix: m, cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, 23))}
	places := w.rnd.Perm(len(m.RTT))
	at := func(i int) int { return places[i%len(places)] }
	for i := range cfg.Nodes {
		n := worldNode{Place: at(i), LoadMs: w.logNormal(15, 1.2), BytesPerMs: w.logNormal(1250, 1.0)}
		n.ID = fmt.Sprintf("node%04d", i)
		if !cfg.Unknown {
			n.Location = &m.Places[n.Place]
		}
		w.Nodes = append(w.Nodes, n)
	}
	for i := range cfg.Servers {
		s := worldServer{Place: at(cfg.Nodes + i), ThinkMs: w.logNormal(60, 1.0), PageBytes: w.logNormal(30_000, 0.7)}
		s.Addr = netip.AddrFrom4([4]byte{198, byte(i >> 8), byte(i), 1}) // in a network of its own, so that it tells nothing of its place
		s.Hosts = []assign.Host{{Name: fmt.Sprintf("host%d.example", i), Pending: 50, PageBytes: s.PageBytes}}
		if !cfg.Unknown {
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
	if !cfg.Unknown {
		w.embed(200)
	}
	return w
}

func (w *world) logNormal(median, sigma float64) float64 {
	return median * math.Exp(sigma*w.rnd.NormFloat64())
}

// embed lets the nodes find their coordinates by pings: round trip and both loads, times LN(1, 0.1).
func (w *world) embed(rounds int) {
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
			ping *= math.Exp(0.1 * w.rnd.NormFloat64())
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
func (w *world) Expected(node, server int) float64 {
	return w.expected(node, server, w.Servers[server].PageBytes)
}

func (w *world) expected(node, server int, bytes float64) float64 {
	n, s := &w.Nodes[node], &w.Servers[server]
	return rounds(bytes)*w.RTT[node][server] + bytes/n.BytesPerMs + s.ThinkMs + n.LoadMs
}

// Download draws one download on a fresh connection: a page of LN(1, 0.6) times the typical, the time times LN(1, 0.25),
// and times 3 for 3 % of them; the connect time is (round trip + 0.3 load) × (1 + 0.15 |N(0,1)|).
func (w *world) Download(node, server int) assign.Timing {
	n, s := &w.Nodes[node], &w.Servers[server]
	bytes := s.PageBytes * math.Exp(0.6*w.rnd.NormFloat64())
	factor := math.Exp(0.25 * w.rnd.NormFloat64())
	if w.rnd.Float64() < 0.03 {
		factor *= 3
	}
	total := factor * w.expected(node, server, bytes)
	first := factor * (w.RTT[node][server] + s.ThinkMs + n.LoadMs)
	connect := (w.RTT[node][server] + 0.3*n.LoadMs) * (1 + 0.15*math.Abs(w.rnd.NormFloat64()))
	d := func(ms float64) time.Duration { return time.Duration(ms * 1e6) }
	return assign.Timing{Connect: d(connect), FirstByte: d(first), Total: d(max(total, connect+first)), Bytes: int64(bytes)}
}

// View returns all nodes.
func (w *world) View() assign.View {
	var v assign.View
	for _, n := range w.Nodes {
		v.Nodes = append(v.Nodes, n.Node)
	}
	return v
}

// Batch returns all servers as one batch.
func (w *world) Batch() assign.Batch {
	b := assign.Batch{ID: "batch1", Seed: w.cfg.Seed}
	for _, s := range w.Servers {
		b.Servers = append(b.Servers, s.Server)
	}
	return b
}

// Answer carries out an ask.
func (w *world) Answer(a assign.Ask) assign.Result {
	node, server := w.NodeIndex(a.Node), w.ServerIndex(a.Server)
	if node < 0 || server < 0 {
		return assign.Result{Ask: a}
	}
	deaf := slices.Contains(w.deaf, a.Node)
	return assign.Result{Ask: a, OK: !deaf, Unreached: deaf, Timing: w.Download(node, server), Coord: w.Nodes[node].Coord}
}

// NodeIndex returns the index of a node, -1 if there is none.
func (w *world) NodeIndex(id string) int {
	return slices.IndexFunc(w.Nodes, func(n worldNode) bool { return n.ID == id })
}

// ServerIndex returns the index of a server, -1 if there is none.
func (w *world) ServerIndex(a netip.Addr) int {
	return slices.IndexFunc(w.Servers, func(s worldServer) bool { return s.Addr == a })
}

// score judges choices by the truth.
type score struct {
	// Ratio is the sum of expected times at the chosen nodes over the sum at the best nodes.
	Ratio float64
	// Estimates is the mean number for a server.
	Estimates float64
}

// Judge compares choices with the truth.
func (w *world) Judge(choices []assign.Choice) score {
	var s score
	var chosen, best float64
	for _, c := range choices {
		node, server := w.NodeIndex(c.Node), w.ServerIndex(c.Server)
		least := math.Inf(1)
		for i := range w.Nodes {
			least = min(least, w.Expected(i, server))
		}
		chosen, best = chosen+w.Expected(node, server), best+least
		s.Estimates += float64(c.Estimates) / float64(len(choices))
	}
	s.Ratio = chosen / best
	return s
}

// Decide drives an assigner until it decides, in steps of the given length. All asks of a step are answered at its end. It returns nil
// after a million steps.
func (w *world) Decide(a assign.Assigner, now time.Time, step time.Duration) ([]assign.Choice, time.Time) {
	for range 1_000_000 {
		if choices, done := a.Decide(now); done {
			return choices, now
		}
		now = w.round(a, now, step)
	}
	return nil, now
}

// round answers all that an assigner asks now, a step later.
func (w *world) round(a assign.Assigner, now time.Time, step time.Duration) time.Time {
	asks := a.Asks(now)
	now = now.Add(step)
	for _, ask := range asks {
		a.Observe(w.Answer(ask), now)
	}
	return now
}

// matrix has places and the round trips between them, in ms. RTT is symmetric and complete.
type matrix struct {
	Places []ncoord.Location
	RTT    [][]float64
}

// grid returns a matrix of zeros.
func grid(rows, columns int) [][]float64 {
	m := make([][]float64, rows)
	for i := range m {
		m[i] = make([]float64, columns)
	}
	return m
}

// madeUp returns a synthetic matrix. Its places are clusters on the globe. Round trips follow the ground, with detours that neighbours share.
func madeUp(places int, seed uint64) *matrix {
	rnd := rand.New(rand.NewPCG(seed, 17))
	centres := []ncoord.Location{{Lat: 50, Lon: 8}, {Lat: 40, Lon: -76}, {Lat: 36, Lon: -119}, {Lat: 35, Lon: 137},
		{Lat: 15, Lon: 80}, {Lat: -25, Lon: -48}, {Lat: -33, Lon: 148}, {Lat: 1, Lon: 104}}
	m := &matrix{RTT: grid(places, places)}
	detour := grid(len(centres), len(centres))
	for i := range centres {
		for j := range i + 1 {
			detour[i][j] = math.Exp(0.25 * rnd.NormFloat64())
			detour[j][i] = detour[i][j]
		}
	}
	of := make([]int, places)
	for i := range places {
		of[i] = rnd.IntN(len(centres))
		c := centres[of[i]]
		m.Places = append(m.Places, ncoord.Location{Lat: c.Lat + 6*rnd.NormFloat64(), Lon: c.Lon + 9*rnd.NormFloat64()})
		for j := range i {
			km := ncoord.GreatCircleKm(m.Places[i], m.Places[j])
			v := 2 + km*0.0155*detour[of[i]][of[j]]*math.Exp(0.15*rnd.NormFloat64())
			m.RTT[i][j] = max(v, ncoord.LightMs(m.Places[i], m.Places[j])*1.05)
			m.RTT[j][i] = m.RTT[i][j]
		}
		m.RTT[i][i] = 0.1
	}
	return m
}
