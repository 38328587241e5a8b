package assign

import (
	"net/netip"
	"slices"
	"time"
)

// asker is what all assigners have in common: the nodes, the servers of the batch with who is asked about them, and the decision.
type asker struct {
	view    View // sorted
	targets []*target
	index   map[netip.Addr]int // by address: the index in targets
	choices []Choice           // nil until decided
}

// target is a server of the batch.
type target struct {
	Server
	memory Memory
	asking string // node asked now, "" if none
	asked  int    // how often nodes were asked
}

// newAsker makes an asker without nodes. setNodes sets them.
func newAsker(b Batch) asker {
	a := asker{index: make(map[netip.Addr]int, len(b.Servers))}
	for i, s := range b.Servers {
		a.targets = append(a.targets, &target{Server: s, memory: s.Memory.Clone()})
		a.index[s.Addr] = i
	}
	return a
}

// Next implements Assigner.
func (a *asker) Next(time.Time) (time.Time, bool) { return time.Time{}, false }

// Memory implements Assigner.
func (a *asker) Memory(server netip.Addr) *Memory {
	if i, ok := a.index[server]; ok && !a.targets[i].memory.Empty() {
		return &a.targets[i].memory
	}
	return nil
}

// setNodes replaces the nodes. It abandons asks to nodes that are gone.
func (a *asker) setNodes(v View) {
	a.view = View{v.sorted()}
	for _, s := range a.targets {
		if a.view.find(s.asking) == nil {
			s.asking = ""
		}
	}
}

// ask notes that a node is asked about the server.
func (s *target) ask(node string) Ask {
	s.asking = node
	s.asked++
	return Ask{Server: s.Addr, Node: node}
}

// answered ends the ask that a result answers, and returns the index of its server. ok is false if the result answers none.
func (a *asker) answered(r Result) (i int, ok bool) {
	i, ok = a.index[r.Server]
	if !ok || a.targets[i].asking == "" || a.targets[i].asking != r.Node {
		return 0, false
	}
	a.targets[i].asking = ""
	return i, true
}

// waiting reports whether an ask has no answer yet.
func (a *asker) waiting() bool {
	return slices.ContainsFunc(a.targets, func(s *target) bool { return s.asking != "" })
}

// conclude returns the choices. Without any, decide makes them.
func (a *asker) conclude(decide func() []Choice) []Choice {
	if a.choices == nil {
		a.choices = a.decided(decide)
	}
	return slices.Clone(a.choices)
}

// revise replaces choices whose nodes are gone with those that decide makes now.
func (a *asker) revise(decide func() []Choice) {
	if a.choices == nil {
		return
	}
	fresh := a.decided(decide)
	for i, c := range a.choices {
		if a.view.find(c.Node) == nil {
			a.choices[i] = fresh[i]
		}
	}
}

// decided returns what decide chooses or, without nodes, choices of no node.
func (a *asker) decided(decide func() []Choice) []Choice {
	if len(a.view.Nodes) > 0 {
		return decide()
	}
	choices := make([]Choice, len(a.targets))
	for i, s := range a.targets {
		choices[i] = Choice{Server: s.Addr, Estimates: s.asked, Reason: "there is no node to choose"}
	}
	return choices
}
