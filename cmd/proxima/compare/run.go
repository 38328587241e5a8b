package compare

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"proxima/cmd/proxima/rundir"
	"proxima/ncoord"
	"proxima/ncoord/quantile"
	"proxima/node/runlog"
)

type run struct {
	source
	index   int
	alike   int // index of the first run in the same world
	started time.Time
	nodes   []*node
	byID    map[string]int
	places  map[string]int // servers of the world, by address

	name     string            // in its lines, or its folder
	version  string            // of the nodes' program
	config   string            // of the first node
	settings map[string]string // of that configuration
	disagree map[string]bool   // settings that differ between nodes
	tuned    []setting         // settings that differ between runs

	compared bool              // several assigners decided the same batches
	pages    int64             // of these batches
	uneven   int64             // of these, got by the nodes of some assigners only
	rows     uint16            // all that decided
	leftOut  bool              // another one decided, too, for which there was no room
	batches  map[uint64]uint16 // rows that decided, by the hash of the batch
	tallies  [maxRows]*tally
	choices  map[uint32]map[int]choice // the last, by server and row
	sizes    map[uint32]*cell          // of pages in bytes, by server
	crawl    crawlCounts
	first    time.Time // start of the first page
	last     time.Time // end of the last

	servers  map[string]*serverPlace
	progress [maxRows]timeline[cell] // URLs downloaded
	speeds   [maxRows]timeline[dist] // of these, kB/s
	homes    map[homeRow]*homeCounts
	owned    map[string]bool // hosts that were handed to a node without a batch
	affected []*affected
}

// choice is the node that a row gave a server to, and the best one. here and best are the times in ms that the server's mean page takes
// at them, 0 without truth.
type choice struct {
	node       uint16
	at         int64 // ms since 1970
	here, best float64
	bestNode   int // in the world
}

type node struct {
	name  string // "" if it has no logs of its own
	id    string
	world int // index in the world, -1 for none
	lives map[uint64]*lifeLogs

	pages, bytes int64 // answered
	busyMs       float64
	times        dist      // of downloads, in ms
	recent       []float64 // latest download speeds, kB/s
	path         timeline[placed]
	speed, cpu   timeline[cell]
	queue        timeline[cell] // URLs that wait
}

// lifeLogs are the last counts of one boot.
type lifeLogs struct {
	stopped bool // in order
	queue   runlog.Queue
	load    runlog.Load
	rss     int64   // most
	loadAt  float64 // s
}

type placed struct {
	at    ncoord.Coordinate
	known bool
}

func (p placed) With(later placed) placed {
	if later.known {
		return later
	}
	return p
}

func newRun(index int, s source) *run {
	r := &run{source: s, index: index, byID: map[string]int{}, places: map[string]int{}, batches: map[uint64]uint16{},
		sizes: map[uint32]*cell{}, disagree: map[string]bool{}, choices: map[uint32]map[int]choice{}, servers: map[string]*serverPlace{},
		homes: map[homeRow]*homeCounts{}, owned: map[string]bool{}, crawl: crawlCounts{statuses: map[int]int64{}}}
	if s.world != nil {
		r.started = s.world.Started
		for i, server := range s.world.Servers {
			r.places[server.Addr.String()] = i
		}
		r.affected = whoIsHit(s.world)
	}
	return r
}

// node returns the index of a node by its id, and adds it if it is new.
func (r *run) node(id string) int {
	i, ok := r.byID[id]
	if !ok {
		i = len(r.nodes)
		r.byID[id] = i
		r.nodes = append(r.nodes, &node{id: id, world: -1, lives: map[uint64]*lifeLogs{}})
	}
	return i
}

// own is node for a line of the node's own logs, whose folder has its name. A folder below that one, of older logs, is read before it.
func (r *run) own(id, name string) int {
	i := r.node(id)
	if n := r.nodes[i]; n.name == "" || strings.HasPrefix(n.name, name+"/") {
		n.name = name
		if r.world != nil {
			n.world = slices.IndexFunc(r.world.Nodes, func(w rundir.Node) bool { return w.Name == name })
		}
	}
	return i
}

// seconds since the start of the run.
func (r *run) seconds(t time.Time) float64 {
	if r.started.IsZero() {
		r.started = t
	}
	return t.Sub(r.started).Seconds()
}

// met returns from how many servers pages came, or for how many a node was chosen.
func (r *run) met() int {
	n := len(r.sizes)
	for server := range r.choices {
		if r.sizes[server] == nil {
			n++
		}
	}
	return n
}

// emulated reports whether the round trips are known: those between real machines are not.
func (r *run) emulated() bool { return r.world != nil && len(r.world.RTTMs) > 0 }

// expected returns how long a page should take at a node and at the best one, in ms. ok is false if the truth is not known.
func (r *run) expected(node uint16, server string, bytes int64, at time.Time) (here, best float64, bestNode int, ok bool) {
	k, known := r.places[server]
	if !r.emulated() || int(node) >= len(r.nodes) || r.nodes[node].world < 0 || !known {
		return 0, 0, 0, false
	}
	here = r.world.DownloadMs(r.nodes[node].world, k, bytes, at)
	bestNode, best = r.world.Best(k, bytes, at, func(i int) bool { return r.world.Alive(i, at) })
	return here, best, bestNode, bestNode >= 0 && best > 0 && !math.IsInf(here, 0)
}

func (r *run) tally(row int) *tally {
	if r.tallies[row] == nil {
		r.tallies[row] = &tally{}
	}
	return r.tallies[row]
}

// seed is that of the world, 0 for logs of real machines.
func (r *run) seed() uint64 {
	if r.world == nil {
		return 0
	}
	return r.world.Seed
}

// sameWorld reports whether a page of one run is that page of the other: the round trips, nodes and servers are the same, whatever the
// location database says of them. Real machines are the same world if their seed is.
func sameWorld(a, b *run) bool {
	if a.seed() != b.seed() || a.emulated() != b.emulated() {
		return false
	}
	return !a.emulated() || reflect.DeepEqual(a.world.RTTMs, b.world.RTTMs) && reflect.DeepEqual(a.world.Nodes, b.world.Nodes) &&
		slices.EqualFunc(a.world.Servers, b.world.Servers, func(s, t rundir.Server) bool {
			s.Stated = t.Stated
			return reflect.DeepEqual(s, t)
		})
}

// recentPages is over how many pages a download speed is a median.
const recentPages = 120

// spedAt notes the speed of a download in kB/s.
func (n *node) spedAt(second, speed float64) {
	if math.IsNaN(speed) || math.IsInf(speed, 0) {
		return
	}
	n.recent = append(n.recent, speed)
	if len(n.recent) > recentPages {
		n.recent = slices.Delete(n.recent, 0, 1)
	}
	if s := n.speed.at(second); s.n == 0 {
		s.add(quantile.Median(n.recent))
	}
}

func (r *run) uses() []NodeUse {
	var list []NodeUse
	for _, n := range r.nodes {
		if n.name == "" {
			continue
		}
		u := NodeUse{Name: n.name, Pages: n.pages, Bytes: n.bytes, BusyS: n.busyMs / 1000, Times: n.times.cdf()}
		if n.world >= 0 {
			w := r.world.Nodes[n.world]
			u.City, u.Geo = w.City, &Point{w.Lon, w.Lat}
		}
		for _, l := range n.lives {
			u.CPUSeconds += l.load.CPUSeconds
			u.RSSBytes = max(u.RSSBytes, l.rss)
		}
		if k, ok := n.whereWas(math.MaxInt32); ok {
			u.CoordError, u.Space = &k.Error, k.Vec[:]
		}
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b NodeUse) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// nameOf returns the name of a node, or its id if it has none.
func (r *run) nameOf(id string) string {
	if i, ok := r.byID[id]; ok {
		return cmp.Or(r.nodes[i].name, id)
	}
	return id
}

// homeRow is a home and a row that decides its batches.
type homeRow struct{ node, row int }

// homeCounts are the times of a home's batches, and the estimates and errors of their servers.
type homeCounts struct{ seconds, updates, wrong dist }

func (c *comparer) homeUses(r *run) (list []HomeUse) {
	for k, h := range r.homes {
		list = append(list, HomeUse{r.nodes[k.node].name, c.rows[k.row].name, len(h.seconds), len(h.updates), h.seconds.quantile(.5),
			h.updates.quantile(.5), h.wrong.quantile(.5)})
	}
	slices.SortFunc(list, func(a, b HomeUse) int { return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Node, b.Node)) })
	return list
}
