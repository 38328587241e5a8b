package compare

import (
	"strings"

	"proxima/cmd/proxima/rundir"
	"proxima/node/journal"
)

// Kinds of what an event hits.
const (
	kindNode   = "node"
	kindServer = "server"
)

// plots is what a run's timelines are made of.
type plots struct {
	affected []*affected
	progress [maxLabels]*timeline[cell] // URLs downloaded
	// owners are, for each server and assigner, the index of the node that was chosen last, plus 1; 0 is none.
	owners map[string]*[maxLabels]uint16
}

// affected is a node or a server that events hit.
type affected struct {
	kind, name string
	rate       [maxLabels]*timeline[cell] // hosts given to the node
	urls       [maxLabels]*timeline[cell] // URLs downloaded there, or from it
	requests   *timeline[cell]            // of a server
}

func newPlots(w *rundir.World) *plots {
	p := &plots{owners: map[string]*[maxLabels]uint16{}}
	if w == nil {
		return p
	}
	seen := map[string]bool{}
	hit := func(kind, name string) {
		if name != "" && !seen[name] {
			seen[name] = true
			p.affected = append(p.affected, &affected{kind: kind, name: name, requests: newSums()})
		}
	}
	for _, e := range w.Events {
		hit(kindNode, e.Node)
		for _, n := range e.Nodes {
			hit(kindNode, n)
		}
		if e.Server.IsValid() {
			hit(kindServer, e.Server.String())
		}
	}
	return p
}

func count(of *[maxLabels]*timeline[cell], label int, second float64) {
	if of[label] == nil {
		of[label] = newSums()
	}
	of[label].at(second).add(1)
}

// requested notes a request to a server, whatever for and whatever came of it.
func (p *plots) requested(server string, second float64) {
	for _, a := range p.affected {
		if a.kind == kindServer && a.name == server {
			a.requests.at(second).add(1)
		}
	}
}

// downloaded notes a download by a node that the assigners in mask chose.
func (p *plots) downloaded(r *run, n int, server string, mask uint16, second float64) {
	each(mask, func(label int) { count(&p.progress, label, second) })
	for _, a := range p.affected {
		if a.kind == kindServer && a.name == server || a.kind == kindNode && a.name == r.nodes[n].name {
			each(mask, func(label int) { count(&a.urls, label, second) })
		}
	}
}

// decided notes which node an assigner wants a host to go to.
func (p *plots) decided(c *comparer, r *run, label int, d *journal.Assign, second float64) {
	owners := p.owners[d.Server]
	if owners == nil {
		owners = &[maxLabels]uint16{}
		p.owners[strings.Clone(d.Server)] = owners
	}
	owners[label] = c.nodeIndex(r, d.Owner) + 1 // noNode is the largest: 0
	p.given(r, label, d.Owner, second)
}

// moved notes a hand-off that no batch has decided: the owner had become slower than another node.
func (p *plots) moved(c *comparer, r *run, d *journal.Assign, second float64) {
	if r.world == nil || len(r.world.Assigners) != 1 || strings.HasPrefix(d.Reason, r.world.Assigners[0]+": ") {
		return
	}
	p.given(r, c.labelIndex(r.world.Assigners[0]), d.Owner, second)
}

func (p *plots) given(r *run, label int, owner string, second float64) {
	for _, a := range p.affected {
		if i, ok := r.byID[owner]; ok && a.kind == kindNode && r.nodes[i].name == a.name {
			count(&a.rate, label, second)
		}
	}
}
