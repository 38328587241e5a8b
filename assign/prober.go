package assign

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// prober is what the methods of the literature have in common that measure servers by single probes: for each server it asks
// one node after another, as its method says, and decides when the method has settled every server.
//
// A probe is a download of one page. Its connect time is what a ping would show, its whole time what a timed GET would. A node
// that does not answer gives no value, and is not asked again. What a server's memory holds of earlier batches costs no probe.
type prober struct {
	name    string
	method  method
	whole   bool   // whole times count, not connect times
	nodes   []Node // by id
	servers []*probed
	choices []Choice
}

// method is what differs between probers.
type method interface {
	// join tells which nodes there are: before the first step, and when that changes.
	join(nodes []Node, servers []*probed)
	// step is the node that shall probe s now, or the choice that needs no more probes. Neither: s waits for another server
	// of the batch. It is called again until its node has answered.
	step(s *probed) (ask string, settled *Choice)
}

// probed is one server and what its probes showed.
type probed struct {
	Server
	memory Memory
	asking string
	asked  int
	times  map[string]float64 // in ms, by node; unanswered where there was no answer
	choice *Choice            // once it is settled
}

// unanswered stands for the time of a probe without an answer. It is above every time.
const unanswered = 1e9

func newProber(name string, m method, whole bool, b Batch, v View) *prober {
	a := &prober{name: name, method: m, whole: whole}
	for _, s := range b.Servers {
		p := &probed{Server: s, memory: s.Memory.Clone(), times: map[string]float64{}}
		for _, n := range v.Nodes {
			if t := p.memory.probe(n.ID, whole); t > 0 {
				p.times[n.ID] = t
			}
		}
		a.servers = append(a.servers, p)
	}
	a.SetView(v, time.Time{})
	return a
}

func (a *prober) Name() string                     { return a.name }
func (a *prober) Next(time.Time) (time.Time, bool) { return time.Time{}, false }

func (a *prober) Memory(server netip.Addr) *Memory {
	if s := a.server(server); s != nil && !s.memory.Empty() {
		return &s.memory
	}
	return nil
}

func (a *prober) server(addr netip.Addr) *probed {
	for _, s := range a.servers {
		if s.Addr == addr {
			return s
		}
	}
	return nil
}

func (a *prober) alive(id string) bool {
	return slices.ContainsFunc(a.nodes, func(n Node) bool { return n.ID == id })
}

func (a *prober) SetView(v View, _ time.Time) {
	a.nodes = v.sorted()
	for _, s := range a.servers {
		if !a.alive(s.asking) {
			s.asking = ""
		}
		if s.choice != nil && !a.alive(s.choice.Node) {
			s.choice = nil
		}
	}
	a.method.join(a.nodes, a.servers)
	if a.choices != nil {
		a.choices = a.decide()
	}
}

// step lets the method look at every server that is not settled and waits for no answer; it gives the nodes to ask.
func (a *prober) step() map[*probed]string {
	asks := make(map[*probed]string)
	for _, s := range a.servers {
		if s.choice == nil && s.asking == "" && len(a.nodes) > 0 {
			var node string
			if node, s.choice = a.method.step(s); node != "" {
				asks[s] = node
			}
		}
	}
	return asks
}

func (a *prober) Asks(time.Time) (asks []Ask) {
	if a.choices != nil {
		return nil
	}
	wanted := a.step()
	for _, s := range a.servers {
		if node := wanted[s]; node != "" {
			s.asking = node
			s.asked++
			asks = append(asks, Ask{Server: s.Addr, Node: node})
		}
	}
	return asks
}

func (a *prober) Observe(r Result, now time.Time) {
	s := a.server(r.Server)
	if s == nil || s.asking == "" || s.asking != r.Node {
		return
	}
	s.asking = ""
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

func (a *prober) Decide(time.Time) ([]Choice, bool) {
	if a.choices == nil {
		a.step()
		if len(a.nodes) > 0 && slices.ContainsFunc(a.servers, func(s *probed) bool { return s.choice == nil }) {
			return nil, false
		}
		a.choices = a.decide()
	}
	return slices.Clone(a.choices), true
}

func (a *prober) Conclude(time.Time) []Choice {
	if a.choices == nil {
		a.choices = a.decide()
	}
	return slices.Clone(a.choices)
}

// decide is the choices as they are settled, and the fastest node known for servers that are not.
func (a *prober) decide() []Choice {
	choices := make([]Choice, len(a.servers))
	for i, s := range a.servers {
		s.asking = ""
		switch {
		case len(a.nodes) == 0:
			choices[i].Reason = noNode
		case s.choice != nil:
			choices[i] = *s.choice
		default:
			choices[i] = s.fastestOf(ids(a.nodes), "fastest of the probes made")
		}
		choices[i].Server, choices[i].Estimates = s.Addr, s.asked
	}
	return choices
}

// fastest is the node of the least time among those that answered, "" if none did.
func (s *probed) fastest(ids []string) (node string, least float64) {
	least = unanswered
	for _, id := range ids {
		if t, ok := s.times[id]; ok && t < least {
			node, least = id, t
		}
	}
	return node, least
}

// fastestOf is the choice of the fastest of some nodes, drawn among them where none answered.
func (s *probed) fastestOf(ids []string, why string) Choice {
	node, t := s.fastest(ids)
	if node == "" {
		c := draw(s.Server, ids)
		c.Reason = "no probe was answered: " + randomReason
		return c
	}
	return Choice{Node: node, PredictedMs: t, Reason: fmt.Sprintf("%s: %.0f ms", why, t)}
}

// probe is the least time of a node's downloads that m remembers, in ms: of the connection, or of the whole; 0 if there is none.
func (m *Memory) probe(node string, whole bool) (least float64) {
	key := nodeKey(node)
	for i := range m.seen {
		if m.seen[i].key != key {
			continue
		}
		for _, s := range m.seen[i].samples {
			t := s.connect.value()
			if whole {
				t += s.first.value() + s.tail.value()
			}
			if t > 0 && (least == 0 || t < least) {
				least = t
			}
		}
	}
	return least
}
