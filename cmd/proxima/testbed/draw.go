package testbed

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"proxima/assign"
	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/world"
	"proxima/ncoord"
)

// Plan is a scenario, as one run executes it, together with everything that was drawn for it.
type Plan struct {
	Scenario Scenario
	Nodes    []PlannedNode
	Servers  []PlannedServer
	// RTTMs has round trips by node and server, NodeRTTMs by node and node. Each is that of the matrix and the access delays of both ends.
	RTTMs, NodeRTTMs [][]float64
}

// PlannedNode is a node of a plan.
type PlannedNode struct {
	rundir.Node
	Group  string  // the name of its group in the scenario
	ID     string  // in gossip; it is drawn, so that homes are the same in each run with the same seed
	CPU    float64 // the share of the time in which it may run; 1 is all of it
	NAT    bool    // no other node can dial it
	city   int
	access float64
}

// PlannedServer is a server of a plan.
type PlannedServer struct {
	rundir.Server
	Name   string
	Site   SiteGroup
	city   int
	access float64
}

// These addresses belong to a block for benchmarks (RFC 2544). They exist on no public network.
var (
	nodeBase   = netip.AddrFrom4([4]byte{198, 18, 0, 0})
	serverBase = netip.AddrFrom4([4]byte{198, 19, 0, 0})
	// nameServer is the address of the name server.
	nameServer = netip.AddrFrom4([4]byte{198, 19, 255, 53})
	// ServerPrefix contains the addresses of all servers.
	ServerPrefix = netip.PrefixFrom(serverBase, 16)
)

// topDomain contains the names of all hosts. It is reserved for tests (RFC 6761).
const topDomain = "test"

// nth returns the n-th address of a block of 65536, counted from 1.
func nth(base netip.Addr, n int) netip.Addr {
	b := base.As4()
	b[2], b[3] = byte(n>>8), byte(n)
	return netip.AddrFrom4(b)
}

// serverAddr returns the address of the n-th server, counted from 1. The first 255 servers have different networks. Nodes expect servers of
// one network to be in one place, but these are anywhere.
func serverAddr(n int) netip.Addr { return nth(serverBase, n%255<<8|(n/255+1)) }

// nodeClasses are the bandwidths that nodes are drawn from, up and down, in Mbit/s.
var nodeClasses = [][2]float64{{100, 100}, {50, 50}, {20, 20}, {10, 10}}

// What nodes and servers are like unless the scenario says so.
const (
	nodeAccessMs   = 1.5 // mean of exponential access delays
	serverAccessMs = 1.0
	thinkMs        = 40.0 // median of log-normal think times
	thinkSD        = 0.6  // their standard deviation in the log domain
	serverUpMbit   = 100.0
)

func bytesPerMs(mbit float64) float64 { return mbit * 125 }

// Draw draws what the scenario leaves open. The same scenario and matrix give the same plan.
func Draw(s Scenario, m *world.Matrix) (*Plan, error) {
	if !m.Located() {
		return nil, fmt.Errorf("draw scenario %s: the matrix has cities without location", s.Name)
	}
	p := &Plan{Scenario: s}
	if err := errors.Join(p.addNodes(m), p.addServers(m, nil)); err != nil {
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

// micro rounds ms to whole µs, for readable files.
func micro(ms float64) float64 { return math.Round(ms*1000) / 1000 }

// misplaced is the error about a key that names a place which the world does not have.
type misplaced struct {
	key string
	err error
}

func (e *misplaced) Error() string { return e.key + ": " + e.err.Error() }

// cityPicker picks cities at random. It picks each city once before it repeats any.
type cityPicker struct {
	all, left []int
	rnd       *rand.Rand
}

// newCityPicker picks from the cities of a list of cities and countries, or from all cities if the list is empty. If the matrix does not have
// a place, but the built-in world does, the city of the matrix nearest to it takes its place. Without a matrix there is no city to pick.
func newCityPicker(m *world.Matrix, places []string, rnd *rand.Rand) (*cityPicker, error) {
	d := &cityPicker{rnd: rnd}
	if m == nil {
		return d, nil
	}
	if len(places) == 0 {
		for i := range m.Cities {
			d.all = append(d.all, i)
		}
		return d, nil
	}
	for _, place := range places {
		here := func(c world.City) bool { return place == c.Name || place == c.Country }
		var found []int
		for i, c := range m.Cities {
			if here(c) {
				found = append(found, i)
			}
		}
		if found == nil {
			for _, c := range slices.DeleteFunc(world.Cities(), func(c world.City) bool { return !here(c) }) {
				found = append(found, nearest(m, *c.At))
			}
		}
		if found == nil {
			return nil, fmt.Errorf("%q is neither a city nor a country of the matrix", place)
		}
		for _, i := range found {
			if !slices.Contains(d.all, i) {
				d.all = append(d.all, i)
			}
		}
	}
	return d, nil
}

// nearest returns the city of a matrix that is nearest to a location.
func nearest(m *world.Matrix, at ncoord.Location) int {
	best, least := 0, math.Inf(1)
	for i, c := range m.Cities {
		if km := ncoord.GreatCircleKm(at, *c.At); km < least {
			best, least = i, km
		}
	}
	return best
}

// next picks the next city. It prefers cities for which free returns true.
func (d *cityPicker) next(free func(city int) bool) int {
	if len(d.left) == 0 {
		d.left = slices.Clone(d.all)
		d.rnd.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	at := max(slices.IndexFunc(d.left, free), 0)
	city := d.left[at]
	d.left = slices.Delete(d.left, at, at+1)
	return city
}

// random returns a random stream. Nodes and servers have separate ones, so that adding a server does not change the nodes.
func (p *Plan) random(stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(p.Scenario.Seed, stream))
}

// addNodes adds the nodes of the scenario. Without a matrix they have no places.
func (p *Plan) addNodes(m *world.Matrix) error {
	rnd, taken := p.random(1), map[int]bool{}
	for i, g := range p.Scenario.Nodes {
		d, err := newCityPicker(m, g.Cities, rnd)
		if err != nil {
			return fmt.Errorf("draw nodes: %w", &misplaced{fmt.Sprintf("nodes[%d].cities", i), err})
		}
		for _, name := range groupNames(g.Name, g.Count) {
			n := PlannedNode{Group: g.Name, CPU: cmp.Or(g.CPU, 1), NAT: g.NAT, Node: rundir.Node{Name: name}}
			n.LoadMs = micro(loadMs(n.CPU))
			if m != nil {
				n.city = d.next(func(c int) bool { return !taken[c] })
				taken[n.city] = true
				class, c := nodeClasses[rnd.IntN(len(nodeClasses))], m.Cities[n.city]
				n.access, n.Addr = micro(rnd.ExpFloat64()*nodeAccessMs), nth(nodeBase, len(p.Nodes)+1)
				n.City, n.Country, n.Lat, n.Lon = c.Name, c.Country, c.At.Lat, c.At.Lon
				n.Up, n.Down = bytesPerMs(cmp.Or(g.UpMbit, class[0])), bytesPerMs(cmp.Or(g.DownMbit, class[1]))
				n.Name = cmp.Or(name, p.freeName(slug(c.Name)))
			}
			n.ID = drawID(rnd)
			p.Nodes = append(p.Nodes, n)
		}
	}
	return nil
}

func drawID(rnd *rand.Rand) string {
	id := make([]byte, 16)
	for i := range id {
		id[i] = byte(rnd.Uint32())
	}
	return hex.EncodeToString(id)
}

// slug turns the name of a city into a name for folders and hosts.
func slug(name string) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r == ' ':
			return '-'
		}
		return -1
	}, norm.NFD.String(strings.ToLower(name))) // NFD separates é into e and an accent
	return cmp.Or(plain, "place")
}

// freeName adds a number to a name if a node has it.
func (p *Plan) freeName(name string) string {
	free := name
	for i := 2; slices.ContainsFunc(p.Nodes, func(n PlannedNode) bool { return n.Name == free }) ||
		slices.Contains(p.Scenario.nodeNames(), free); i++ {
		free = fmt.Sprintf("%s-%d", name, i)
	}
	return free
}

// addServers adds the servers of the scenario and names their hosts. Without a matrix they are the built-in ones, at the addresses in order.
func (p *Plan) addServers(m *world.Matrix, addresses []netip.Addr) error {
	rnd, given := p.random(2), p.Scenario.siteNames()
	servers := 0
	for _, g := range p.Scenario.Sites {
		servers += g.Count
	}
	if m == nil && servers > len(addresses) {
		return fmt.Errorf("%d servers need an address each, and there are %d", servers, len(addresses))
	}
	for i, g := range p.Scenario.Sites {
		d, err := newCityPicker(m, g.Cities, rnd)
		if err != nil {
			return fmt.Errorf("draw sites: %w", &misplaced{fmt.Sprintf("sites[%d].cities", i), err})
		}
		for _, name := range groupNames(g.Name, g.Count) {
			s := PlannedServer{Name: name, Site: g, Server: rundir.Server{Software: SoftwarePages}}
			if s.Name == "" {
				s.Name = fmt.Sprintf("s%d", len(p.Servers)+1)
				for slices.Contains(given, s.Name) {
					s.Name += "x"
				}
			}
			if m != nil {
				s.city = d.next(func(int) bool { return true })
				c := m.Cities[s.city]
				s.City, s.Country, s.Lat, s.Lon = c.Name, c.Country, c.At.Lat, c.At.Lon
				s.Addr, s.Up, s.Software = serverAddr(len(p.Servers)+1), bytesPerMs(cmp.Or(g.UpMbit, serverUpMbit)), g.Software
			} else {
				s.Addr = addresses[len(p.Servers)]
			}
			drawn := micro(thinkMs * math.Exp(thinkSD*rnd.NormFloat64())) // even if it is stated, so that other servers stay the same
			s.ThinkMs = cmp.Or(g.ThinkMs, drawn)
			s.access = micro(rnd.ExpFloat64() * serverAccessMs)
			p.Servers = append(p.Servers, s)
		}
	}
	return p.nameHosts()
}

// nameHosts names all hosts. Each server has its own domain, so that different nodes are homes. With Scenario.Home, all hosts are in the first
// domain whose home is that node.
func (p *Plan) nameHosts() error {
	below := topDomain
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
			s.Hosts = append(s.Hosts, fmt.Sprintf("h%d.%s.%s", h+1, s.Name, below))
		}
	}
	return nil
}

// resolverMs is the round trip to the name server in ms, that of a nearby resolver.
const resolverMs = 4.0

// rtt returns the round trip in ms between two endpoints of the emulation.
func (p *Plan) rtt(from, to int) float64 {
	from, to = min(from, to), max(from, to)
	switch nodes := len(p.Nodes); {
	case to < nodes:
		return p.NodeRTTMs[from][to]
	case from < nodes && to < nodes+len(p.Servers):
		return p.RTTMs[from][to-nodes]
	case from < nodes:
		return resolverMs
	}
	return 0
}

func ms(f float64) time.Duration { return time.Duration(f * float64(time.Millisecond)) }

func inMs(d time.Duration) float64 { return micro(float64(d) / float64(time.Millisecond)) }

// World returns the plan in the form of the run's folder. The number of pages is known unless nginx or the real web has them.
func (p *Plan) World() rundir.World {
	w := rundir.World{Scenario: p.Scenario.Name, Seed: p.Scenario.Seed, Assigners: p.Scenario.Assigners, RTTMs: p.RTTMs, NodeRTTMs: p.NodeRTTMs,
		Events: []rundir.Event{}}
	for _, n := range p.Nodes {
		w.Nodes = append(w.Nodes, n.Node)
	}
	for _, s := range p.Servers {
		w.Servers = append(w.Servers, s.Server)
		w.Pages += s.Site.Pages * len(s.Hosts)
	}
	if slices.ContainsFunc(p.Servers, servedByNginx) {
		w.Pages = 0
	}
	return w
}
