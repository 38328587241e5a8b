package compare

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"proxima/fetch"
	"proxima/fetch/page"
	"proxima/node/runlog"
)

// mostMs bounds the time of a download. No node writes a longer one.
const mostMs = 1e9

// download handles a line of the fetch log.
func (c *comparer) download(r *run, n int, f *runlog.Fetch) error {
	f.TotalMs = min(max(f.TotalMs, 0), mostMs)
	begin := f.Time.Add(-time.Duration(f.TotalMs * float64(time.Millisecond)))
	ok := f.Error == "" && f.Status > 0 && f.Status < 400
	cut := fetch.Class(f.Error) == fetch.Canceled
	at := r.nodes[n]
	at.busyMs += f.TotalMs
	second := r.seconds(f.Time)
	r.requested(f.Server, second)
	if f.Kind != runlog.KindPage {
		return nil
	}
	compared, estimate := f.Origin == runlog.OriginAssigned && f.Batch != "", f.Origin == runlog.OriginEstimate
	if !cut {
		r.crawl.statuses[f.Status]++
		r.crawl.links += int64(f.Links)
		if r.first.IsZero() || begin.Before(r.first) {
			r.first = begin
		}
		if f.Time.After(r.last) {
			r.last = f.Time
		}
	}
	if f.Status > 0 && !cut {
		at.pages++
		at.bytes += f.Bytes
	}
	server := c.server(f.Server)
	mask := c.rowBits(r, f.Label)
	if ok {
		at.spedAt(second, float64(f.Bytes)/f.TotalMs)
		at.times.add(f.TotalMs)
		entry(r.sizes, server).add(float64(f.Bytes))
	}
	// What the owner downloads besides a comparison belongs to no row.
	if ok && !estimate && (compared || !r.compared) {
		r.downloaded(n, f.Server, mask, second, float64(f.Bytes)/f.TotalMs)
	}
	rec := record{key: xxhash.Sum64String(f.URL), batch: batchHash(f.Batch), time: begin.UnixMilli(), ms: float32(f.TotalMs),
		bytes: uint32(min(max(f.Bytes, 0), math.MaxUint32)), server: server, run: uint16(r.index), node: uint16(n),
		rows: mask}
	set := func(on bool, flag uint8) {
		if on {
			rec.flags |= flag
		}
	}
	set(ok, flagOK)
	set(cut, flagCut)
	set(ok && f.Status == http.StatusOK && page.IsHTML(f.Type, nil), flagHTML)
	set(compared, flagCompared)
	set(estimate, flagEstimate)
	set(strings.Contains(f.Batch, "."), flagRound) // the batch, a point, the number of the round
	set(!ok && (f.Error != "" || f.Status >= 500 || f.Status == http.StatusTooManyRequests), flagAgain)
	if estimate && !cut {
		ofDecision := rec
		ofDecision.decision, ofDecision.key = true, decisionKey(r, f.Batch, f.Server)
		if err := c.records.add(ofDecision); err != nil {
			return err
		}
	}
	return c.records.add(rec)
}

// Parts of the reasons of decisions that could not wait until the assigner was content.
const (
	reasonLastTick = "median error not below"
	reasonOverdue  = "undecided after"
)

// lastDecision is what the line before was about: a decision has a line for each host of the server.
type lastDecision struct{ batch, label, server string }

// decision handles a line of the assign log.
func (c *comparer) decision(r *run, n int, a *runlog.Assign, last *lastDecision) error {
	second := r.seconds(a.Time)
	if !a.Decided {
		c.moved(r, a, second)
		r.recordNode(a.Owner) // it may have no logs
		if r.owned[a.Host] {  // the first owner is no other one
			r.crawl.reassigned++
		}
		r.owned[a.Host] = true
		return nil
	}
	bit := c.rowBits(r, a.Label)
	if bit == 0 || strings.Contains(a.Label, ",") { // without a label, another node has the lease and no assigner was asked
		return nil
	}
	row, batch := c.rowOf(r, a.Label), batchHash(a.Batch)
	r.rows |= bit
	r.batches[batch] |= bit
	r.given(row, a.Owner, second)
	home := entry(r.homes, homeRow{n, row})
	if last.batch != a.Batch || last.label != a.Label {
		r.tally(row).seconds.add(a.Seconds)
		home.seconds.add(a.Seconds)
	} else if last.server == a.Server {
		return nil // another host of the server
	}
	*last = lastDecision{a.Batch, a.Label, a.Server}
	home.updates.add(float64(a.Estimates))
	if a.Accuracy > 0 { // some assigners know of none
		home.wrong.add(a.Accuracy)
		if a.Estimates > 0 {
			r.tally(row).accuracy.add(a.Accuracy)
		}
	}
	rec := record{decision: true, key: decisionKey(r, a.Batch, a.Server), batch: batch, time: a.Time.UnixMilli(),
		bytes: uint32(max(a.Estimates, 0)), server: c.server(a.Server), run: uint16(r.index), node: r.recordNode(a.Owner), rows: bit}
	if strings.Contains(a.Reason, reasonLastTick) || strings.HasPrefix(a.Reason, reasonOverdue) {
		rec.flags |= flagTruncated
	}
	return c.records.add(rec)
}

// recordNode is the index of a node in a record.
func (r *run) recordNode(id string) uint16 {
	if id == "" {
		return noNode
	}
	return uint16(min(r.node(id), noNode))
}

// changeTook is the word of the member log for a host whose owner died.
const changeTook = "took"

// member handles a line of the member log.
func (r *run) member(m *runlog.Member) {
	if m.Change == changeTook && m.Host != "" {
		r.crawl.reassigned++
	}
}

func (c *comparer) join(g []record) {
	if g[0].decision {
		c.joinDecisions(g)
	} else {
		c.joinPage(g)
	}
}

// joinDecisions joins the decisions about a server in a batch with the estimates that were made for them.
func (c *comparer) joinDecisions(g []record) {
	r := c.runs[g[0].run]
	var made [maxRows]int
	for _, e := range g {
		if e.flags&flagEstimate != 0 {
			for row := range each(e.rows) {
				made[row]++
			}
		}
	}
	for _, d := range g {
		if d.flags&flagEstimate != 0 {
			continue
		}
		for row := range each(d.rows) {
			t := r.tally(row)
			t.Decisions++
			t.asked.add(float64(made[row]))
			if int(d.bytes) > made[row]+1 { // one may still be in progress at the decision
				t.Short++
			}
			if d.flags&flagTruncated != 0 {
				t.Forced++
			}
			c.judge(r, row, d)
		}
	}
}

// judge compares the node that was chosen for a server with the best one for the server's mean page.
func (c *comparer) judge(r *run, row int, d record) {
	k := choice{node: d.node, at: d.time}
	if size := r.sizes[d.server]; size != nil {
		var ok bool
		if k.here, k.best, k.bestNode, ok = r.expected(d.node, c.names[d.server], int64(size.mean()), d.at()); ok {
			t := r.tally(row)
			t.judged++
			if k.here <= k.best*(1+1e-9) {
				t.best++
			}
		}
	}
	of := r.choices[d.server]
	if of == nil {
		of = map[int]choice{}
		r.choices[d.server] = of
	}
	if old, ok := of[row]; !ok || k.at >= old.at {
		of[row] = k
	}
}

// joinPage joins the downloads of one URL in all runs.
func (c *comparer) joinPage(g []record) {
	c.samples = c.samples[:0]
	for ofRun := range chunks(g, func(a, b record) bool { return a.run == b.run }) {
		r := c.runs[ofRun[0].run]
		r.crawl.page(ofRun)
		for ofBatch := range chunks(ofRun, func(a, b record) bool { return a.batch == b.batch }) {
			c.joinBatch(r, ofBatch)
		}
	}
	c.pair()
}

// joinBatch joins those of one run in one batch, or outside all batches.
func (c *comparer) joinBatch(r *run, g []record) {
	var wanted uint16
	for _, d := range g {
		switch {
		case d.flags&flagEstimate != 0:
			for row := range each(d.rows) {
				if d.flags&flagOK != 0 {
					r.tally(row).estimates.merge(c.sums(r, d))
				}
			}
		case d.flags&flagCompared != 0 && r.compared:
			wanted = cmp.Or(r.batches[d.batch], r.rows)
		case !r.compared:
			wanted |= d.rows
		}
	}
	var chosen [maxRows]*record
	whole, some := true, false
	for row := range each(wanted) {
		d := pick(g, row, r.compared)
		t := r.tally(row)
		t.URLs++
		switch {
		case d == nil: // the chosen node made no download
		case d.flags&flagOK == 0:
			t.Failed++
		default:
			t.Downloaded++
			t.Bytes += int64(d.bytes)
			chosen[row] = d
		}
		whole, some = whole && chosen[row] != nil, some || chosen[row] != nil
	}
	if r.compared && wanted != 0 {
		r.pages++
	}
	if !whole {
		if r.compared && some {
			r.uneven++
		}
		return // a page that one assigner's node did not get says nothing about time, for any of them
	}
	for row := range each(wanted) {
		d, t := chosen[row], r.tally(row)
		t.times.add(float64(d.ms))
		t.sums.merge(c.sums(r, *d))
		if r.compared || c.separate {
			c.samples = append(c.samples, sample{r.alike, r.seed(), row, d.server, float64(d.ms)})
		}
	}
}

// sums are the measured and the expected times of a download, 0 where the truth is not known.
func (c *comparer) sums(r *run, d record) sums {
	here, best, _, ok := r.expected(d.node, c.names[d.server], int64(d.bytes), d.at())
	if !ok {
		return sums{}
	}
	return sums{float64(d.ms), here, best}
}

// pick returns the download that counts for a row: the first that was answered, else one that failed, else none.
func pick(g []record, row int, compared bool) (best *record) {
	for i := range g {
		d := &g[i]
		if d.rows&(1<<row) == 0 || d.flags&(flagEstimate|flagCut) != 0 || compared && d.flags&flagCompared == 0 {
			continue
		}
		if d.flags&flagOK != 0 {
			return d
		}
		best = d
	}
	return best
}

// sample is a download of the URL that is being joined.
type sample struct {
	world  int // index of the first run in it
	seed   uint64
	row    int
	server uint32
	ms     float64
}

// clusterKey is a server in the runs of one seed, and the rows that got the pages.
type clusterKey struct {
	seed   uint64
	server uint32
	rows   uint16
}

// cluster sums up pages of one server, which are not independent samples.
type cluster struct {
	n  int64
	ms [maxRows]float64
}

// pair adds the URL to the sums of its server, once for the runs in each world, with the mean of each row's downloads.
func (c *comparer) pair() {
	slices.SortStableFunc(c.samples, func(a, b sample) int { return cmp.Compare(a.world, b.world) })
	for of := range chunks(c.samples, func(a, b sample) bool { return a.world == b.world }) {
		var sums [maxRows]cell
		k := clusterKey{seed: of[0].seed, server: of[0].server}
		for _, s := range of {
			sums[s.row].add(s.ms)
			k.rows |= 1 << s.row
		}
		to := entry(c.clusters, k)
		to.n++
		for row := range each(k.rows) {
			to.ms[row] += sums[row].mean()
		}
	}
}
