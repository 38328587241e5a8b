package compare

import (
	"slices"
	"strings"

	"proxima/cmd/proxima/rundir"
	"proxima/node/runlog"
)

// What an event hits.
const (
	kindNode   = "node"
	kindServer = "server"
)

// affected is a node or a server that events hit, with timelines by row.
type affected struct {
	kind, name string
	rate       [maxRows]timeline[cell] // hosts given to the node
	urls       [maxRows]timeline[cell] // URLs downloaded there, or from it
	requests   timeline[cell]          // to a server
	// Distances to the other side in the coordinate space, and errors of the servers' places, by the assigner that used them or by
	// owners.
	far, wrong map[string]*timeline[dist]
}

// owners stands for the nodes that know a server's place from its lease.
const owners = "owners"

// whoIsHit lists whom the events of a world hit.
func whoIsHit(w *rundir.World) (list []*affected) {
	hit := func(kind, name string) {
		if name != "" && !slices.ContainsFunc(list, func(a *affected) bool { return a.name == name }) {
			list = append(list, &affected{kind: kind, name: name, far: map[string]*timeline[dist]{}, wrong: map[string]*timeline[dist]{}})
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

func (r *run) requested(server string, second float64) {
	for _, a := range r.affected {
		if a.kind == kindServer && a.name == server {
			a.requests.at(second).add(1)
		}
	}
}

// downloaded notes a download by a node that the rows in mask chose. The speed is in kB/s.
func (r *run) downloaded(n int, server string, mask uint16, second, speed float64) {
	for row := range each(mask) {
		r.progress[row].at(second).add(1)
		r.speeds[row].at(second).add(speed)
		for _, a := range r.affected {
			if a.kind == kindServer && a.name == server || a.kind == kindNode && a.name == r.nodes[n].name {
				a.urls[row].at(second).add(1)
			}
		}
	}
}

// moved notes a hand-off that no batch decided: the owner had become slower than another node.
func (c *comparer) moved(r *run, d *runlog.Assign, second float64) {
	if r.world != nil && len(r.world.Assigners) == 1 && !strings.HasPrefix(d.Reason, r.world.Assigners[0]+": ") {
		if row := c.rowOf(r, r.world.Assigners[0]); row >= 0 {
			r.given(row, d.Owner, second)
		}
	}
}

func (r *run) given(row int, owner string, second float64) {
	for _, a := range r.affected {
		if i, ok := r.byID[owner]; ok && a.kind == kindNode && r.nodes[i].name == a.name {
			a.rate[row].at(second).add(1)
		}
	}
}

// affectedSeries shows what happened to whom the events of the main run hit, for each row in a run of its own.
func (c *comparer) affectedSeries(main *run) (list []Affected) {
	for k, a := range main.affected {
		p := Affected{Kind: a.kind, Name: a.name}
		for i, row := range c.rows {
			r := c.runOf(i)
			if r == nil {
				continue
			}
			// An event that hits the busiest node may hit different ones in different runs.
			if k < len(r.affected) && r.affected[k].kind == a.kind {
				b := r.affected[k]
				end := r.last.Sub(r.started).Seconds()
				urls, rate := &b.urls[i], &b.rate[i]
				urls.at(end) // empty cells up to the end of the run
				rate.at(end)
				p.URLs = append(p.URLs, cumulative(row.name, urls))
				if b.kind == kindServer {
					rate = urls
				}
				p.Rate = append(p.Rate, rates(row.name, rate, perMinute))
				p.Distance = drawn(p.Distance, medians(row.name, entry(b.far, row.assigner), 1))
				p.Error = drawn(p.Error, medians(row.name, entry(b.wrong, row.assigner), 1))
			}
		}
		p.Distance = drawn(p.Distance, medians(owners, entry(a.far, owners), 1))
		p.Error = drawn(p.Error, medians(owners, entry(a.wrong, owners), 1))
		if a.kind == kindServer {
			p.Spacing = drawn(p.Spacing, rates("spacing", &a.requests, spacing))
		}
		list = append(list, p)
	}
	return list
}

// runOf returns the first run of a row, preferring runs of several assigners.
func (c *comparer) runOf(row int) *run {
	for _, r := range slices.Concat(c.main(), c.runs) {
		if r.tallies[row] != nil {
			return r
		}
	}
	return nil
}

// inWords describes the events of a scenario. A state lasts until the event that ends it.
func inWords(all []rundir.Event) []Event {
	var list []Event
	for i, e := range all {
		label, target, ends := e.Words()
		if ends {
			continue
		}
		p := Event{AtS: e.AtS, UntilS: e.AtS, Label: label, Target: target}
		if until, ok := endOf(all[i+1:], e); ok {
			p.UntilS = until
		}
		list = append(list, p)
	}
	return list
}

// endOf returns when the state that an event began was over.
func endOf(after []rundir.Event, e rundir.Event) (float64, bool) {
	for _, f := range after {
		over := f.Kind == e.Kind && f.Node == e.Node && f.Server == e.Server
		switch e.Kind {
		case rundir.EventKill:
			over = f.Kind == rundir.EventRestart && f.Node == e.Node
		case rundir.EventPartition:
			over = f.Kind == rundir.EventHeal || f.Kind == rundir.EventPartition
		case rundir.EventRestart, rundir.EventHeal: // they begin none
			over = false
		}
		if over {
			return f.AtS, true
		}
	}
	return 0, false
}
