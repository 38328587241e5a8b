package compare

import (
	"fmt"
	"slices"
	"strings"

	"proxima/cmd/proxima/rundir"
	"proxima/node/journal"
)

// Kinds of what an event hits.
const (
	kindNode   = "node"
	kindServer = "server"
)

// affected is a node or a server that events hit.
type affected struct {
	kind, name string
	rate       [maxRows]*timeline[cell] // hosts given to the node
	urls       [maxRows]*timeline[cell] // URLs downloaded there, or from it
	requests   *timeline[cell]          // to a server
	// By who decided by them, owners for those that did not decide: distances in the coordinate space between it and the other side, and
	// the errors of the servers' places.
	far, wrong map[string]*timeline[dist]
}

// owners stands for all who know the place of a server by its lease.
const owners = "owners"

// whoIsHit lists whom the events of a world hit.
func whoIsHit(w *rundir.World) (list []*affected) {
	hit := func(kind, name string) {
		if name != "" && !slices.ContainsFunc(list, func(a *affected) bool { return a.name == name }) {
			list = append(list, &affected{kind: kind, name: name, requests: newSums(), far: map[string]*timeline[dist]{},
				wrong: map[string]*timeline[dist]{}})
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
	return list
}

func count(of *[maxRows]*timeline[cell], row int, second float64) {
	if of[row] == nil {
		of[row] = newSums()
	}
	of[row].at(second).add(1)
}

// requested notes a request to a server, whatever for and whatever came of it.
func (r *run) requested(server string, second float64) {
	for _, a := range r.affected {
		if a.kind == kindServer && a.name == server {
			a.requests.at(second).add(1)
		}
	}
}

// downloaded notes a download by a node that the rows in mask chose.
func (r *run) downloaded(n int, server string, mask uint16, second, speed float64) {
	each(mask, func(row int) {
		count(&r.progress, row, second)
		if r.speeds[row] == nil {
			r.speeds[row] = newDists()
		}
		r.speeds[row].at(second).add(speed)
	})
	for _, a := range r.affected {
		if a.kind == kindServer && a.name == server || a.kind == kindNode && a.name == r.nodes[n].name {
			each(mask, func(row int) { count(&a.urls, row, second) })
		}
	}
}

// moved notes a hand-off that no batch has decided: the owner had become slower than another node.
func (c *comparer) moved(r *run, d *journal.Assign, second float64) {
	if r.world != nil && len(r.world.Assigners) == 1 && !strings.HasPrefix(d.Reason, r.world.Assigners[0]+": ") {
		if row := c.rowOf(r, r.world.Assigners[0]); row >= 0 {
			r.given(row, d.Owner, second)
		}
	}
}

// given notes that a node is to have a host.
func (r *run) given(row int, owner string, second float64) {
	for _, a := range r.affected {
		if i, ok := r.byID[owner]; ok && a.kind == kindNode && r.nodes[i].name == a.name {
			count(&a.rate, row, second)
		}
	}
}

// affectedSeries are what happened to whom the events of the main run hit; of each row in the run that it took part in.
func (c *comparer) affectedSeries(main *run) (list []Affected) {
	for k, a := range main.affected {
		p := Affected{Kind: a.kind, Name: a.name}
		for i, row := range c.rows {
			r := c.runOf(i)
			if r == nil {
				continue
			}
			// In a run of its own the busiest node, which an event hits, may be another.
			if k < len(r.affected) && r.affected[k].kind == a.kind {
				b := r.affected[k]
				end := r.last.Sub(r.started).Seconds()
				urls, rate := upTo(b.urls[i], end), upTo(b.rate[i], end)
				p.URLs = append(p.URLs, cumulative(row.name, urls))
				if b.kind == kindServer {
					rate = urls
				}
				p.Rate = append(p.Rate, rates(row.name, rate, perMinute))
				p.Distance = drawn(p.Distance, medians(row.name, b.far[row.assigner], 1))
				p.Error = drawn(p.Error, medians(row.name, b.wrong[row.assigner], 1))
			}
		}
		p.Distance = drawn(p.Distance, medians(owners, a.far[owners], 1))
		p.Error = drawn(p.Error, medians(owners, a.wrong[owners], 1))
		if a.kind == kindServer {
			p.Spacing = drawn(p.Spacing, rates("spacing", a.requests, spacing))
		}
		list = append(list, p)
	}
	return list
}

// runOf is the first run that a row took part in, those of several assigners before those of one.
func (c *comparer) runOf(row int) *run {
	for _, r := range slices.Concat(c.main(), c.runs) {
		if r.tallies[row] != nil {
			return r
		}
	}
	return nil
}

// inWords words the events of a scenario. A state lasts until the event that ends it.
func inWords(all []rundir.Event) []Event {
	var list []Event
	for i, e := range all {
		p := Event{AtS: e.AtS, UntilS: e.AtS, Target: e.Node}
		ends := false // of a state that an earlier event began
		switch e.Kind {
		case rundir.EventBandwidth:
			ends = e.Factor == 1 || e.Factor == 0
			if p.Label = "bandwidth × " + fmt.Sprintf("%.2g", e.Factor); e.Factor > 0 && e.Factor < 1 {
				p.Label = "bandwidth ÷ " + fmt.Sprintf("%.3g", 1/e.Factor)
			}
		case rundir.EventCPU:
			p.Label, ends = "CPU burnt", e.Factor == 1 || e.Factor == 0 && e.AddMs == 0 && wasBurnt(all[:i], e.Node)
		case rundir.EventSlow:
			p.Label, p.Target, ends = fmt.Sprintf("+%.3g s", e.AddMs/1000), e.Server.String(), e.AddMs == 0
		case rundir.EventKill:
			p.Label = "kill -9"
		case rundir.EventPartition:
			p.Label, p.Target = "partition", strings.Join(e.Nodes, ", ")
		default:
			p.Label = e.Kind
		}
		if ends {
			continue
		}
		if until, ok := endOf(all[i+1:], e); ok {
			p.UntilS = until
		}
		list = append(list, p)
	}
	return list
}

// wasBurnt says that the last event about a node's processor was its burning.
func wasBurnt(before []rundir.Event, node string) bool {
	burnt := false
	for _, e := range before {
		if e.Kind == rundir.EventCPU && e.Node == node {
			burnt = !burnt
		}
	}
	return burnt
}

// endOf is when the state that an event set was over.
func endOf(after []rundir.Event, e rundir.Event) (float64, bool) {
	ending := map[string]string{rundir.EventKill: rundir.EventRestart, rundir.EventPartition: rundir.EventHeal}
	kind := e.Kind
	if k, ok := ending[e.Kind]; ok {
		kind = k
	}
	for _, f := range after {
		if f.Kind == kind && (kind == rundir.EventHeal || f.Node == e.Node && f.Server == e.Server) {
			return f.AtS, true
		}
	}
	return 0, false
}
