package assign

import (
	"fmt"
	"slices"
	"time"
)

// prober implements the methods of the literature that measure servers with single probes, or with none (rule). For each server it asks
// one node after another, in the order of the method. It decides when the method has chosen a node for every server.
//
// A probe is the download of one page. Its connect time stands for a ping, its whole time for a timed GET. A node that does not
// answer is not asked again. A download in the server's memory replaces a probe.
type prober struct {
	asker
	method  method
	whole   bool // whether whole times are compared instead of connect times
	servers []*probed
}

// method decides which nodes probe a server and which node gets it.
type method interface {
	// join tells the method the nodes, before the first step and after each change.
	join(nodes []Node, servers []*probed)
	// step returns the node that should probe s now, or the choice if no more probes are needed. It returns neither while s must wait
	// for another server of the batch. It is called again when the node has answered.
	step(s *probed) (ask string, settled *Choice)
}

// probed is a server with the results of its probes.
type probed struct {
	*target
	times  map[string]float64 // by node, in ms; unanswered if the node did not answer
	choice *Choice            // nil until settled
}

// unanswered is the time of a probe without an answer. It is longer than every other time.
const unanswered = 1e9

// newProber begins with the downloads that the memories of the servers remember, as if they were probes.
func newProber(m method, b Batch, v View) *prober {
	a := &prober{asker: newAsker(b), method: m}
	if p, ok := m.(*probe); ok {
		a.whole = p.cfg.By == ProbeTotal
	}
	for _, s := range a.targets {
		p := &probed{target: s, times: map[string]float64{}}
		for _, n := range v.Nodes {
			if t := p.memory.probe(n.ID, a.whole); t > 0 {
				p.times[n.ID] = t
			}
		}
		a.servers = append(a.servers, p)
	}
	a.SetView(v, time.Time{})
	return a
}

func (a *prober) SetView(v View, _ time.Time) {
	a.setNodes(v)
	for _, s := range a.servers {
		if s.choice != nil && a.view.find(s.choice.Node) == nil {
			s.choice = nil
		}
	}
	a.method.join(a.view.Nodes, a.servers)
	if a.choices != nil {
		a.choices = a.decided(a.decide)
	}
}

// step takes a step for every server that is neither settled nor waiting for an answer. It returns the resulting asks.
func (a *prober) step() (asks []Ask) {
	for _, s := range a.servers {
		if s.choice == nil && s.asking == "" && len(a.view.Nodes) > 0 {
			var node string
			if node, s.choice = a.method.step(s); node != "" {
				asks = append(asks, Ask{Server: s.Addr, Node: node})
			}
		}
	}
	return asks
}

func (a *prober) Asks(time.Time) []Ask {
	if a.choices != nil {
		return nil
	}
	asks := a.step()
	for _, ask := range asks {
		a.targets[a.index[ask.Server]].ask(ask.Node)
	}
	return asks
}

func (a *prober) Observe(r Result, now time.Time) {
	i, ok := a.answered(r)
	if !ok {
		return
	}
	s := a.servers[i]
	s.times[r.Node] = unanswered
	if !r.OK {
		return
	}
	s.memory.Observe(r.Node, r.Coord, r.Timing, now)
	t := r.Timing.Total
	if !a.whole && r.Timing.Connect > 0 {
		t = r.Timing.Connect
	}
	if took := ms(t); took > 0 && took <= maxDownloadMs {
		s.times[r.Node] = took
	}
}

func (a *prober) Decide(now time.Time) ([]Choice, bool) {
	if a.choices == nil {
		a.step()
		if len(a.view.Nodes) > 0 && slices.ContainsFunc(a.servers, func(s *probed) bool { return s.choice == nil }) {
			return nil, false
		}
	}
	return a.Conclude(now), true
}

func (a *prober) Conclude(time.Time) []Choice { return a.conclude(a.decide) }

// decide returns the settled choices. A server that is not settled goes to its fastest known node.
func (a *prober) decide() []Choice {
	choices := make([]Choice, len(a.servers))
	for i, s := range a.servers {
		if s.choice != nil {
			choices[i] = *s.choice
		} else {
			choices[i] = s.fastestOf(ids(a.view.Nodes), "fastest of the probes made")
		}
		choices[i].Server, choices[i].Estimates = s.Addr, s.asked
	}
	return choices
}

// fastest returns the fastest node among those that answered, or "".
func (s *probed) fastest(ids []string) (node string, least float64) {
	least = unanswered
	for _, id := range ids {
		if t, ok := s.times[id]; ok && t < least {
			node, least = id, t
		}
	}
	return node, least
}

// fastestOf chooses the fastest of some nodes. If none answered, it draws one of them.
func (s *probed) fastestOf(ids []string, why string) Choice {
	node, t := s.fastest(ids)
	if node == "" {
		c := draw(s.Server, ids)
		c.Reason = "no probe was answered: " + randomReason
		return c
	}
	return Choice{Node: node, PredictedMs: t, Reason: fmt.Sprintf("%s: %.0f ms", why, t)}
}

// probe returns the shortest time among a node's remembered downloads in ms, of the connection or of the whole; 0 if there is none.
func (m *Memory) probe(node string, whole bool) (least float64) {
	e := m.find(nodeKey(node))
	if e == nil {
		return 0
	}
	for _, s := range e.samples {
		t := s.connect.value()
		if whole {
			t += s.first.value() + s.tail.value()
		}
		if t > 0 && (least == 0 || t < least) {
			least = t
		}
	}
	return least
}

// The values of ProbeConfig.By: what is compared.
const (
	ProbeConnect = "connect" // connect times, as by a ping
	ProbeTotal   = "total"   // whole download times, as by a timed GET
)

// probe is brute force (O. Papapetrou: Location Aware Web-Crawling with the Use of Migrating Crawlers, 2003, section 5.3): every
// node probes every server, and the fastest gets it. With a threshold nodes probe one after another until one is fast enough
// (section 5.3.1), in an order drawn for each server.
type probe struct {
	cfg ProbeConfig
	ids []string
}

func (p *probe) join(nodes []Node, _ []*probed) { p.ids = ids(nodes) }

func (p *probe) step(s *probed) (string, *Choice) {
	order := RendezvousOrder(s.Addr.String(), p.ids, len(p.ids))
	for _, id := range order {
		if s.times[id] > 0 && s.times[id] <= p.cfg.ThresholdMs {
			return "", new(s.fastestOf([]string{id}, fmt.Sprintf("first probe within %v ms", p.cfg.ThresholdMs)))
		}
	}
	if i := slices.IndexFunc(order, func(id string) bool { return s.times[id] == 0 }); i >= 0 {
		return order[i], nil
	}
	return "", new(s.fastestOf(order, "fastest probe of all nodes"))
}
