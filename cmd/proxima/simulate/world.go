package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"proxima/assign"
	"proxima/cmd/proxima/world"
	"proxima/ncoord"
)

// The standard world. Quantities are log-normal, by median and sigma.
const (
	loadMs, loadSD             = 15.0, 1.2   // a node adds this to every download
	bandwidth, bandwidthSD     = 1250.0, 1.0 // of a node, bytes per ms: 10 Mbit/s
	thinkMs, thinkSD           = 60.0, 1.0   // of a server
	pageBytes, pageSD          = 30_000, 0.7 // typical page of a host
	sizeSD                     = 0.6         // a page around its host's typical one
	downloadSD                 = 0.25        // a download around its expectation
	slowShare, slowTimes       = 0.03, 3     // share of downloads that take this many times longer
	connectLoad, connectExcess = 0.3, 0.15   // connect time = (round trip + 0.3 load) × (1 + 0.15 |N|)
	pingSD                     = 0.1
	accessMs, accessSD         = 3.0, 0.8 // access delay of a server that shares its city
	segmentsBytes              = 14_600   // TCP's initial window (RFC 6928)
)

// Each concern has its own stream of random numbers, so that one more draw in one changes no other.
const (
	streamPlaces = iota + 1
	streamNodes
	streamServers
	streamLocations
	streamPings
	streamDownloads
	streamPages
	streamChoice
	streamPrefixes = 1 << 8
)

// World is the truth about one simulated Internet. newWorld makes it.
type World struct {
	cfg     Config
	seed    uint64
	matrix  *world.Matrix
	nodes   []node
	servers []server
	index   map[string]int     // nodes by id
	at      map[netip.Addr]int // servers by address
}

type node struct {
	id                 string
	city               int
	location           *ncoord.Location // nil if unknown
	loadMs, bytesPerMs float64
}

type server struct {
	addr               netip.Addr
	city               int
	accessMs           float64
	location           *ncoord.Location // as the database says
	thinkMs, pageBytes float64
	rounds, bytes      float64 // expected over all its pages
}

func stream(seed, concern uint64) *rand.Rand {
	return rand.New(rand.NewPCG(mix(seed), mix(concern<<32+seed)))
}

// mix makes neighbouring numbers unlike each other (splitmix64; G. Steele, D. Lea, C. Flood, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func logNormal(r *rand.Rand, median, sigma float64) float64 {
	return median * math.Exp(sigma*r.NormFloat64())
}

// newWorld draws a world. Nodes and servers stand in different cities while there are enough. A server that must share a city gets
// an access delay of its own.
func newWorld(cfg Config, seed uint64) *World {
	w := &World{cfg: cfg, seed: seed, matrix: matrixOf(cfg, seed), index: map[string]int{}, at: map[netip.Addr]int{}}
	cities := len(w.matrix.Cities)
	places := stream(seed, streamPlaces).Perm(cities)
	rnd := stream(seed, streamNodes)
	for i := range cfg.Nodes {
		n := node{id: fmt.Sprintf("node%04d", i), city: places[i%cities], loadMs: logNormal(rnd, loadMs, loadSD),
			bytesPerMs: logNormal(rnd, bandwidth, bandwidthSD)}
		w.index[n.id] = i
		w.nodes = append(w.nodes, n)
	}
	rnd = stream(seed, streamServers)
	var addrs []netip.Addr
	var at []int // their cities
	if cfg.Prefixed {
		addrs, at = prefixed(cfg, seed, w.matrix.Cities)
	}
	for i := range cfg.Servers {
		s := server{addr: address(i), city: places[(cfg.Nodes+i)%cities], thinkMs: logNormal(rnd, thinkMs, thinkSD),
			pageBytes: logNormal(rnd, pageBytes, pageSD)}
		s.rounds, s.bytes = meanRounds(s.pageBytes), s.pageBytes*math.Exp(sizeSD*sizeSD/2)
		if cfg.Prefixed {
			s.addr, s.city = addrs[i], at[i]
		}
		if access := logNormal(rnd, accessMs, accessSD); cfg.Nodes+i >= cities || cfg.Prefixed {
			s.accessMs = access
		}
		w.at[s.addr] = i
		w.servers = append(w.servers, s)
	}
	w.locate()
	return w
}

func matrixOf(cfg Config, seed uint64) *world.Matrix {
	if len(cfg.Matrices) > 0 {
		return cfg.Matrices[seed%uint64(len(cfg.Matrices))]
	}
	return world.Synthetic(world.Cities(), seed)
}

// locate draws what the location database says. It is never wrong about a node: operators can tell where theirs are.
func (w *World) locate() {
	rnd := stream(w.seed, streamLocations)
	cities := w.matrix.Cities
	for i := range w.nodes {
		if known := rnd.Float64() >= w.cfg.LocationMissing; known {
			w.nodes[i].location = cities[w.nodes[i].city].At
		}
	}
	for i := range w.servers {
		s := &w.servers[i]
		wrong, missing, elsewhere := rnd.Float64(), rnd.Float64(), rnd.IntN(len(cities))
		if elsewhere == s.city {
			elsewhere = (elsewhere + 1) % len(cities)
		}
		switch {
		case missing < w.cfg.LocationMissing:
		case wrong < w.cfg.LocationWrong:
			s.location = cities[elsewhere].At
		default:
			s.location = cities[s.city].At
		}
	}
}

// rounds is how many round trips a download takes: one to connect, and those of slow start.
func rounds(bytes float64) float64 { return 1 + math.Ceil(math.Log2(bytes/segmentsBytes+1)) }

// meanRounds is the mean of rounds over the pages of a host: it sums the probabilities that a page needs one more.
func meanRounds(typical float64) float64 {
	mean := 2.0
	for m := 1; m < 60; m++ {
		z := math.Log(segmentsBytes*(math.Exp2(float64(m))-1)/typical) / sizeSD
		mean += math.Erfc(z/math.Sqrt2) / 2
	}
	return mean
}

// trip is the round trip between a node and a server, in ms.
func (w *World) trip(node, server int) float64 {
	s := &w.servers[server]
	return w.matrix.RTT[w.nodes[node].city][s.city] + s.accessMs
}

// took is the time of a download without noise, in ms.
func (w *World) took(node, server int, bytes float64) float64 {
	return w.time(node, server, rounds(bytes), bytes)
}

// expected is the mean time of a download over the server's pages, in ms. It leaves out the mean of the noise, which is the same for
// all nodes. Choices are judged by it.
func (w *World) expected(node, server int) float64 {
	return w.time(node, server, w.servers[server].rounds, w.servers[server].bytes)
}

func (w *World) time(node, server int, rounds, bytes float64) float64 {
	n := &w.nodes[node]
	return rounds*w.trip(node, server) + bytes/n.bytesPerMs + w.servers[server].thinkMs + n.loadMs
}

// best is the node that is truly best for a server.
func (w *World) best(server int) int {
	best := 0
	for i := range w.nodes {
		if w.expected(i, server) < w.expected(best, server) {
			best = i
		}
	}
	return best
}

// ratio is the choice ratio of some servers with these owners, 1 without any.
func (w *World) ratio(owner, servers []int) float64 {
	if len(servers) == 0 {
		return 1
	}
	var sum, best float64
	for _, j := range servers {
		sum += w.expected(owner[j], j)
		best += w.expected(w.best(j), j)
	}
	return sum / best
}

// pageNoise draws the relative size of a page, and the factor of the time that its download takes.
func (w *World) pageNoise(r *rand.Rand) (size, factor float64) {
	size = math.Exp(sizeSD * r.NormFloat64())
	factor = math.Exp(downloadSD * w.cfg.Noise * r.NormFloat64())
	if r.Float64() < slowShare*w.cfg.Noise {
		factor *= slowTimes
	}
	return size, factor
}

// download is the k-th download from a server by a node. It is the same for all assigners, so that they are compared in pairs. One
// factor of noise delays all stages but the handshake, which has its own.
func (w *World) download(node, server, k int) assign.Timing {
	rnd := rand.New(rand.NewPCG(mix(w.seed<<8+streamDownloads), mix(mix(uint64(server)<<20+uint64(node))+uint64(k))))
	n, s := &w.nodes[node], &w.servers[server]
	size, factor := w.pageNoise(rnd)
	bytes := math.Max(1, math.Round(s.pageBytes*size))
	connect := (w.trip(node, server) + connectLoad*n.loadMs) * (1 + connectExcess*w.cfg.Noise*math.Abs(rnd.NormFloat64()))
	first := factor * (w.trip(node, server) + s.thinkMs + n.loadMs)
	total := factor * w.took(node, server, bytes)
	d := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	return assign.Timing{Connect: d(connect), FirstByte: d(first), Total: d(max(total, connect+first)), Bytes: int64(bytes)}
}
