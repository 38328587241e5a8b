package compare

import (
	"strings"

	"proxima/node/journal"
)

// Words in the reasons of decisions that had to be made before the assigner was content.
const (
	reasonLastTick = "median error not below"
	reasonOverdue  = "undecided after"
)

// decision takes in a line of the assign log.
func (c *comparer) decision(r *run, a *journal.Assign, last *lastDecision) error {
	second := r.seconds(a.Time)
	if !a.Decided {
		r.plots.moved(c, r, a, second)
		return c.spill.add(record{class: classMove, key: c.hash(a.Host) ^ uint64(r.index), time: a.Time.UnixMilli(), run: uint16(r.index),
			node: c.nodeIndex(r, a.Owner)})
	}
	if a.Label == "" { // nobody was asked: another node has the lease
		return nil
	}
	bit := c.labelBits(a.Label)
	label := c.labelIndex(a.Label)
	if bit == 0 {
		return nil
	}
	batch := c.batch(a.Batch)
	r.labels |= bit
	r.batches[batch] |= bit
	r.plots.decided(c, r, label, a, second)
	if last.batch != a.Batch || last.label != a.Label {
		r.tally(label).seconds.add(a.Seconds)
	}
	if last.batch == a.Batch && last.label == a.Label && last.server == a.Server {
		return nil // another host of the server
	}
	*last = lastDecision{a.Batch, a.Label, a.Server}
	if a.Estimates > 0 {
		r.tally(label).accuracy.add(a.Accuracy)
	}
	rec := record{class: classDecision, key: c.decisionKey(r, a.Batch, a.Server), batch: batch, time: a.Time.UnixMilli(),
		bytes:  uint32(max(a.Estimates, 0)),
		server: c.server(a.Server), run: uint16(r.index), node: c.nodeIndex(r, a.Owner), labels: bit}
	if strings.Contains(a.Reason, reasonLastTick) || strings.HasPrefix(a.Reason, reasonOverdue) {
		rec.flags |= flagTruncated
	}
	return c.spill.add(rec)
}

// lastDecision tells the lines about one server's hosts, which follow one another, from the next decision.
type lastDecision struct{ batch, label, server string }

// changeTook is the word of the member log for a host whose owner died.
const changeTook = "took"

func (c *comparer) member(r *run, m *journal.Member) error {
	if m.Change != changeTook || m.Host == "" {
		return nil
	}
	return c.spill.add(record{class: classMove, key: c.hash(m.Host) ^ uint64(r.index), time: m.Time.UnixMilli(), run: uint16(r.index),
		node: noNode, flags: flagCut})
}

// joinMoves counts the changes of a host's owner after the first hand-off.
func (c *comparer) joinMoves(g []record) {
	r := c.runs[g[0].run]
	first := true
	for _, m := range g {
		if taken := m.flags&flagCut != 0; taken || !first {
			r.crawl.reassigned++
			continue
		}
		first = false
		r.crawl.assigned++
	}
}

// joinDecisions brings what was decided about a server in a batch together with the estimates that were made for it.
func (c *comparer) joinDecisions(g []record) {
	r := c.runs[g[0].run]
	var made [maxLabels]int
	for _, e := range g {
		if e.flags&flagEstimate != 0 {
			each(e.labels, func(label int) { made[label]++ })
		}
	}
	for _, d := range g {
		if d.flags&flagEstimate != 0 {
			continue
		}
		each(d.labels, func(label int) {
			t := r.tally(label)
			t.decisions++
			t.asked.add(float64(made[label]))
			if int(d.bytes) > made[label]+1 { // one may be under way when the decision is made
				t.short++
			}
			if d.flags&flagTruncated != 0 {
				t.forced++
			}
			if size, ok := r.sizes.mean(d.server); ok {
				if here, best, _, ok := r.expected(d.node, c.names[d.server], size, timeOf(d)); ok {
					t.judged++
					if here <= best*(1+1e-9) {
						t.best++
					}
				}
			}
		})
	}
}
