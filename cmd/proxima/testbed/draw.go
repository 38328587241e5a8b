package testbed

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"proxima/assign"
	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/world"
	"proxima/ncoord"
)

// Plan is a scenario of which nothing is left open.
type Plan struct {
	Scenario Scenario
	Seed     uint64
	Nodes    []PlannedNode
	Servers  []PlannedServer
	// RTTMs is by node and server, NodeRTTMs by node and node: matrix and the access delays of both.
	RTTMs, NodeRTTMs [][]float64
}

// PlannedNode is a node with what was drawn for it.
type PlannedNode struct {
	rundir.Node
	// Group is the name of its group in the scenario.
	Group string
	// ID is the id under which it gossips: drawn, so that homes are the same in each run of a seed.
	ID string
	// CPU is the share of the time in which it may run, 1 for all.
	CPU float64
	// NAT says whether nobody can dial it.
	NAT    bool
	city   int
	access float64
}

// PlannedServer is a server with what was drawn for it.
type PlannedServer struct {
	rundir.Server
	Name   string
	Site   SiteGroup
	city   int
	access float64
}

// The addresses are of a block kept for tests of networks (RFC 2544): they exist on no public network.
var (
	nodeBase   = netip.AddrFrom4([4]byte{198, 18, 0, 0})
	serverBase = netip.AddrFrom4([4]byte{198, 19, 0, 0})
	// nameServer answers names, beside the servers.
	nameServer = netip.AddrFrom4([4]byte{198, 19, 255, 53})
	// ServerPrefix holds all servers.
	ServerPrefix = netip.PrefixFrom(serverBase, 16)
)

// topDomain holds the names of all hosts; nobody has it (RFC 6761).
const topDomain = "test"

// nth is the n-th address of a block of 65536; 1 is the first.
func nth(base netip.Addr, n int) netip.Addr {
	b := base.As4()
	b[2], b[3] = byte(n>>8), byte(n)
	return netip.AddrFrom4(b)
}

// serverAddr is that of the n-th server; 1 is the first. The first 255 are in networks of their own, since servers of one network are
// expected to be in one place, and these are anywhere.
func serverAddr(n int) netip.Addr { return nth(serverBase, n%255<<8|(n/255+1)) }

// What hosts are like where the scenario does not say: bandwidth of nodes in Mbit/s up and down, access delays in ms (means of
// exponential distributions), and the median of servers' think times, in ms, with its deviation in the log domain.
var nodeClasses = [][2]float64{{100, 100}, {50, 50}, {20, 20}, {10, 10}}

const (
	nodeAccessMs   = 1.5
	serverAccessMs = 1.0
	thinkMs        = 40.0
	thinkSD        = 0.6
	serverUpMbit   = 100.0
)

// bytesPerMs converts Mbit/s.
func bytesPerMs(mbit float64) float64 { return mbit * 125 }

// Draw draws what the scenario leaves open. The same scenario, matrix and seed give the same plan.
func Draw(s Scenario, m *world.Matrix, seed uint64) (*Plan, error) {
	if !m.Located() {
		return nil, fmt.Errorf("draw scenario %s: the matrix has cities without location", s.Name)
	}
	p := &Plan{Scenario: s, Seed: seed}
	// Streams of their own: another server does not change the nodes.
	rnd := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }
	if err := p.drawNodes(m, rnd(1)); err != nil {
		return nil, err
	}
	if err := p.drawServers(m, rnd(2)); err != nil {
		return nil, err
	}
	if err := p.nameHosts(); err != nil {
		return nil, err
	}
	p.RTTMs, p.NodeRTTMs = make([][]float64, len(p.Nodes)), make([][]float64, len(p.Nodes))
	for i, n := range p.Nodes {
		for _, s := range p.Servers {
			p.RTTMs[i] = append(p.RTTMs[i], micro(m.RTT[n.city][s.city]+n.access+s.access))
		}
		for j, o := range p.Nodes {
			rtt := 0.0
			if i != j {
				rtt = micro(m.RTT[n.city][o.city] + n.access + o.access)
			}
			p.NodeRTTMs[i] = append(p.NodeRTTMs[i], rtt)
		}
	}
	return p, nil
}

// micro rounds ms to µs: finer is no use, and worse to read.
func micro(ms float64) float64 { return math.Round(ms*1000) / 1000 }

// deck deals cities: each once before any comes again.
type deck struct {
	all, left []int
	rnd       *rand.Rand
}

// newDeck has the cities that a list of cities and countries names, all of them if it is empty. A place that a measured matrix does
// not have, and the built-in world has, stands for the city nearest to it.
func newDeck(m *world.Matrix, places []string, rnd *rand.Rand) (*deck, error) {
	d := &deck{rnd: rnd}
	if len(places) == 0 {
		for i := range m.Cities {
			d.all = append(d.all, i)
		}
		return d, nil
	}
	for _, place := range places {
		here := func(c world.City) bool { return place == c.Name || place == c.Country }
		found, known := false, false
		for i, c := range m.Cities {
			if here(c) {
				d.add(i)
				found = true
			}
		}
		for _, c := range world.Cities() {
			if !found && here(c) {
				known = true
				d.add(nearest(m, *c.At))
			}
		}
		if !found && !known {
			return nil, fmt.Errorf("%q is neither a city nor a country of the matrix", place)
		}
	}
	return d, nil
}

func (d *deck) add(city int) {
	if !slices.Contains(d.all, city) {
		d.all = append(d.all, city)
	}
}

// nearest is the city of a matrix that is nearest to a place.
func nearest(m *world.Matrix, at ncoord.Location) int {
	best, least := 0, math.Inf(1)
	for i, c := range m.Cities {
		if km := ncoord.GreatCircleKm(at, *c.At); km < least {
			best, least = i, km
		}
	}
	return best
}

// deal prefers cities for which free says true.
func (d *deck) deal(free func(city int) bool) int {
	if len(d.left) == 0 {
		d.left = slices.Clone(d.all)
		d.rnd.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	at := max(slices.IndexFunc(d.left, free), 0)
	city := d.left[at]
	d.left = slices.Delete(d.left, at, at+1)
	return city
}

func (p *Plan) drawNodes(m *world.Matrix, rnd *rand.Rand) error {
	taken := map[int]bool{}
	for _, g := range p.Scenario.Nodes {
		d, err := newDeck(m, g.Cities, rnd)
		if err != nil {
			return fmt.Errorf("draw nodes %s: %w", g.Name, err)
		}
		for _, name := range groupNames(g.Name, g.Count) {
			city := d.deal(func(c int) bool { return !taken[c] })
			taken[city] = true
			class := nodeClasses[rnd.IntN(len(nodeClasses))]
			up, down := g.UpMbit, g.DownMbit
			if up == 0 {
				up = class[0]
			}
			if down == 0 {
				down = class[1]
			}
			c := m.Cities[city]
			n := PlannedNode{Group: g.Name, CPU: g.CPU, NAT: g.NAT, city: city, access: micro(rnd.ExpFloat64() * nodeAccessMs),
				Node: rundir.Node{Name: name, Addr: nth(nodeBase, len(p.Nodes)+1), City: c.Name, Country: c.Country,
					Lat: c.At.Lat, Lon: c.At.Lon, Up: bytesPerMs(up), Down: bytesPerMs(down)}}
			if n.CPU == 0 {
				n.CPU = 1
			}
			n.LoadMs = micro(loadMs(n.CPU))
			n.ID = drawID(rnd)
			if n.Name == "" {
				n.Name = p.freeName(slug(c.Name))
			}
			p.Nodes = append(p.Nodes, n)
		}
	}
	return nil
}

// drawID draws the id of a node.
func drawID(rnd *rand.Rand) string {
	id := make([]byte, 16)
	for i := range id {
		id[i] = byte(rnd.Uint32())
	}
	return hex.EncodeToString(id)
}

// drawThink is the think time of a server of a group, in ms. What is stated is drawn, too: the others stay the same.
func drawThink(g SiteGroup, rnd *rand.Rand) float64 {
	drawn := micro(thinkMs * math.Exp(thinkSD*rnd.NormFloat64()))
	return cmp.Or(g.ThinkMs, drawn)
}

// slug makes a name for folders and hosts of the name of a city.
func slug(name string) string {
	var b strings.Builder
	for _, r := range norm.NFD.String(strings.ToLower(name)) { // é is e and an accent then
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case r == ' ' || r == '-':
			b.WriteByte('-')
		}
	}
	if b.Len() == 0 {
		return "place"
	}
	return b.String()
}

// freeName adds a number to a name that is taken.
func (p *Plan) freeName(name string) string {
	free := name
	for i := 2; slices.ContainsFunc(p.Nodes, func(n PlannedNode) bool { return n.Name == free }) ||
		slices.Contains(p.Scenario.nodeNames(), free); i++ {
		free = fmt.Sprintf("%s-%d", name, i)
	}
	return free
}

func (p *Plan) drawServers(m *world.Matrix, rnd *rand.Rand) error {
	for _, g := range p.Scenario.Sites {
		d, err := newDeck(m, g.Cities, rnd)
		if err != nil {
			return fmt.Errorf("draw sites %s: %w", g.Name, err)
		}
		for _, name := range groupNames(g.Name, g.Count) {
			city := d.deal(func(int) bool { return true })
			c := m.Cities[city]
			think, up := drawThink(g, rnd), g.UpMbit
			if up == 0 {
				up = serverUpMbit
			}
			if name == "" {
				name = fmt.Sprintf("s%d", len(p.Servers)+1)
			}
			p.Servers = append(p.Servers, PlannedServer{Name: name, Site: g, city: city, access: micro(rnd.ExpFloat64() * serverAccessMs),
				Server: rundir.Server{Addr: serverAddr(len(p.Servers) + 1), City: c.Name, Country: c.Country,
					Lat: c.At.Lat, Lon: c.At.Lon, Up: bytesPerMs(up), ThinkMs: think, Software: g.Software}})
		}
	}
	return nil
}

// nameHosts gives all hosts names. Each address has a domain of its own, so that homes spread; with Scenario.Home all have the
// first domain for which the rendezvous draw of the overlay gives that node.
func (p *Plan) nameHosts() error {
	below := ""
	if p.Scenario.Home != "" {
		home, ids := "", []string{}
		for _, n := range p.Nodes {
			ids = append(ids, n.ID)
			if n.Name == p.Scenario.Home {
				home = n.ID
			}
		}
		if home == "" {
			return fmt.Errorf("draw scenario %s: no node %q", p.Scenario.Name, p.Scenario.Home)
		}
		for i := 1; ; i++ {
			below = fmt.Sprintf("web%d.%s", i, topDomain)
			if assign.Rendezvous(below, ids) == home {
				break
			}
		}
	}
	for i := range p.Servers {
		s := &p.Servers[i]
		for h := range s.Site.Hosts {
			name := fmt.Sprintf("h%d.%s.%s", h+1, s.Name, topDomain)
			if below != "" {
				name = fmt.Sprintf("h%d.%s.%s", h+1, s.Name, below)
			}
			s.Hosts = append(s.Hosts, name)
		}
	}
	return nil
}

// World is the plan in the form in which the run leaves it.
func (p *Plan) World(assigners []string) rundir.World {
	w := rundir.World{Scenario: p.Scenario.Name, Seed: p.Seed, Assigners: assigners, RTTMs: p.RTTMs, NodeRTTMs: p.NodeRTTMs,
		Events: []rundir.Event{}}
	for _, n := range p.Nodes {
		w.Nodes = append(w.Nodes, n.Node)
	}
	for _, s := range p.Servers {
		w.Servers = append(w.Servers, s.Server)
	}
	return w
}
