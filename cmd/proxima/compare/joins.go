package compare

import (
	"math/bits"
	"time"
)

// each calls a function with the index of every bit.
func each(mask uint16, do func(label int)) {
	for ; mask != 0; mask &= mask - 1 {
		do(bits.TrailingZeros16(mask))
	}
}

func timeOf(r record) time.Time { return time.UnixMilli(r.time) }

// join is called with all records of a key.
func (c *comparer) join(g []record) error {
	switch g[0].class {
	case classDecision:
		c.joinDecisions(g)
	case classMove:
		c.joinMoves(g)
	default:
		c.joinPage(g)
	}
	return nil
}

// joinPage is join for the downloads of one URL, in all runs.
func (c *comparer) joinPage(g []record) {
	c.separate = c.separate[:0]
	for len(g) > 0 {
		n := span(g, func(a, b record) bool { return a.run == b.run })
		r := c.runs[g[0].run]
		r.crawl.page(g[:n])
		for rest := g[:n]; len(rest) > 0; {
			m := span(rest, func(a, b record) bool { return a.batch == b.batch })
			c.joinBatch(r, rest[:m])
			rest = rest[m:]
		}
		g = g[n:]
	}
	c.pairSeparate()
}

// span is how many records at the beginning are alike.
func span(g []record, same func(a, b record) bool) int {
	n := 1
	for n < len(g) && same(g[0], g[n]) {
		n++
	}
	return n
}

// joinBatch is joinPage for the downloads of one run in one batch, or outside of all.
func (c *comparer) joinBatch(r *run, g []record) {
	var wanted uint16
	for _, d := range g {
		switch {
		case d.flags&flagEstimate != 0:
			c.estimate(r, d)
		case d.flags&flagCompared != 0 && r.compared:
			if wanted = r.batches[d.batch]; wanted == 0 {
				wanted = r.labels
			}
		case !r.compared:
			wanted |= d.labels
		}
	}
	if wanted == 0 {
		return
	}
	var chosen [maxLabels]*record
	whole := true
	each(wanted, func(label int) {
		d := pick(g, label, r.compared)
		t := r.tally(label)
		t.urls++
		switch {
		case d == nil:
			t.unanswered++
		case d.flags&flagOK == 0:
			t.failed++
		default:
			t.downloaded++
			t.bytes += int64(d.bytes)
			chosen[label] = d
		}
		whole = whole && chosen[label] != nil
	})
	if !whole {
		return // what one assigner's node did not get says nothing about time, for none of them
	}
	each(wanted, func(label int) {
		d, t := chosen[label], r.tally(label)
		t.times.add(float64(d.ms))
		if here, best, _, ok := r.expected(d.node, c.names[d.server], int64(d.bytes), timeOf(*d)); ok {
			t.sums.add(float64(d.ms), here, best)
		}
		switch {
		case !r.compared:
			c.separate = append(c.separate, separatePage{r, label, d.server, float64(d.ms)})
		case c.reference >= 0 && chosen[c.reference] != nil && label != c.reference:
			t.pair(r.index, d.server, float64(d.ms), float64(chosen[c.reference].ms))
		}
	})
}

// pick is the download that counts for an assigner: the first that was answered, else one that failed, else none.
func pick(g []record, label int, compared bool) (best *record) {
	for i := range g {
		d := &g[i]
		if d.labels&(1<<label) == 0 || d.flags&(flagEstimate|flagCut) != 0 || compared && d.flags&flagCompared == 0 {
			continue
		}
		if d.flags&flagOK != 0 {
			return d
		}
		best = d
	}
	return best
}

// estimate counts a page downloaded for an estimate.
func (c *comparer) estimate(r *run, d record) {
	if d.flags&flagCut != 0 {
		return
	}
	each(d.labels, func(label int) {
		t := r.tally(label)
		if d.flags&flagOK == 0 {
			t.askedFailed++
			return
		}
		if here, best, _, ok := r.expected(d.node, c.names[d.server], int64(d.bytes), timeOf(d)); ok {
			t.estimates.add(float64(d.ms), here, best)
		}
	})
}

// separatePage is a download of a URL in a run of its own for an assigner.
type separatePage struct {
	run    *run
	label  int
	server uint32
	ms     float64
}

// pairSeparate pairs the downloads of one URL in runs of one seed, where runs have one assigner each.
func (c *comparer) pairSeparate() {
	for i, p := range c.separate {
		if p.label == c.reference || p.run == nil {
			continue
		}
		own, base := cell{}, cell{}
		for j := i; j < len(c.separate); j++ {
			if q := &c.separate[j]; q.run == p.run && q.label == p.label {
				own.add(q.ms)
				q.run = nil // counted
			}
		}
		for _, q := range c.reserve(p) {
			base.add(q.ms)
		}
		if base.n > 0 {
			p.run.tally(p.label).pair(p.run.index, p.server, own.sum/float64(own.n), base.sum/float64(base.n))
		}
	}
}

// reserve lists the reference's downloads of the same URL with the same seed.
func (c *comparer) reserve(p separatePage) []separatePage {
	var list []separatePage
	for _, q := range c.separate {
		if q.run != nil && q.label == c.reference && q.run.seed() == p.run.seed() {
			list = append(list, q)
		}
	}
	return list
}
