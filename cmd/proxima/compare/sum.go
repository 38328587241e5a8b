package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"proxima/node/journal"
)

// result adds everything up.
func (c *comparer) result(dirs []string, o Options) *Result {
	res := &Result{Dirs: dirs, runs: c.runs, labels: c.labels}
	if c.reference >= 0 {
		res.Reference = c.labels[c.reference]
	}
	main := c.main()
	res.Reading = c.reading()
	for _, r := range c.runs {
		res.Runs = append(res.Runs, c.info(r))
	}
	for i, name := range c.labels {
		sum := newTally()
		for _, r := range main {
			if t := r.tallies[i]; t != nil {
				sum.merge(t)
			}
		}
		res.report = append(res.report, sum)
		a := assigner(name, sum)
		if i != c.reference {
			a.Difference = difference(sum.clusters, o.Seed)
		}
		c.seeds(&a, main, i)
		c.separately(&a, i)
		res.Assigners = append(res.Assigners, a)
	}
	if res.Assigners == nil {
		res.Assigners = []Assigner{}
	}
	res.Crawl = c.crawl(main)
	res.Statuses = statuses(main)
	res.Testbed = testbed(c.runs)
	res.Nodes = uses(main[0])
	if len(main) > 1 {
		res.nodesOf = main[0].dir
	}
	for _, p := range main[0].accuracy() {
		res.Accuracy = append(res.Accuracy, TimeError{p.second, p.p50, p.p90})
	}
	return res
}

// main are the runs whose downloads are compared: those of several assigners, or all where each has its own.
func (c *comparer) main() []*run {
	var list []*run
	for _, r := range c.runs {
		if r.compared {
			list = append(list, r)
		}
	}
	if list == nil {
		return c.runs
	}
	return list
}

func assigner(name string, t *tally) Assigner {
	a := Assigner{Name: name, URLs: t.urls, Downloaded: t.downloaded, Failed: t.failed, Unanswered: t.unanswered, Bytes: t.bytes,
		P50Ms: t.times.quantile(.5), P90Ms: t.times.quantile(.9), P99Ms: t.times.quantile(.99), MeanMs: t.times.mean(),
		EstimatesP50: t.asked.quantile(.5), EstimatesP90: t.asked.quantile(.9), EstimatesFailed: t.askedFailed,
		SecondsP50: t.seconds.quantile(.5), AccuracyP50: t.accuracy.quantile(.5),
		Decisions: t.decisions, Short: t.short, Forced: t.forced, Truncated: t.short+t.forced > 0,
		ChoiceRatio: ratio(t.sums.expected, t.sums.best), TotalRatio: ratio(t.sums.measured, t.sums.best)}
	if t.sums.best > 0 {
		a.ChoiceRatioWithEstimates = ratio(t.sums.expected+t.estimates.expected, t.sums.best+t.estimates.best)
		a.TotalRatioWithEstimates = ratio(t.sums.measured+t.estimates.measured, t.sums.best+t.estimates.best)
	}
	if t.judged > 0 {
		a.BestShare = ptr(float64(t.best) / float64(t.judged))
	}
	return a
}

// ratio is nil where there is nothing to divide by.
func ratio(a, b float64) *float64 {
	if !(b > 0) {
		return nil
	}
	return ptr(a / b)
}

// seeds splits an assigner's figures by seed, where there are several.
func (c *comparer) seeds(a *Assigner, main []*run, label int) {
	by := map[uint64]*tally{}
	for _, r := range main {
		if t := r.tallies[label]; t != nil && r.world != nil {
			if by[r.seed()] == nil {
				by[r.seed()] = newTally()
			}
			by[r.seed()].merge(t)
		}
	}
	if len(by) < 2 {
		return
	}
	for _, seed := range slices.Sorted(maps.Keys(by)) {
		f := assigner(a.Name, by[seed])
		a.Seeds = append(a.Seeds, SeedShare{seed, f.ChoiceRatio, f.TotalRatio, f.P50Ms})
	}
}

// separately adds what only a run with this assigner alone can tell. Of several runs it is the mean; the nodes are those of the first.
func (c *comparer) separately(a *Assigner, label int) {
	var makespans, urls, busy cell
	a.MakespanWhy = "needs a run with this assigner alone"
	for _, r := range c.runs {
		if r.compared || r.labels != 1<<label || len(r.nodes) == 0 {
			continue
		}
		b := r.balance()
		urls.add(b.CVURLs)
		busy.add(b.CVBusy)
		if a.Balance == nil {
			a.Balance = &b
		}
		a.Balance.MinURLs, a.Balance.MaxURLs = min(a.Balance.MinURLs, b.MinURLs), max(a.Balance.MaxURLs, b.MaxURLs)
		a.Balance.MinBusyS, a.Balance.MaxBusyS = min(a.Balance.MinBusyS, b.MinBusyS), max(a.Balance.MaxBusyS, b.MaxBusyS)
		if pending := r.pending(); pending > 0 {
			a.MakespanWhy = fmt.Sprintf("%d URLs were still waiting when the run ended", pending)
		} else if !r.first.IsZero() {
			makespans.add(r.last.Sub(r.first).Seconds())
		}
	}
	if makespans.n > 0 {
		a.MakespanS, a.MakespanWhy = ptr(makespans.sum/float64(makespans.n)), ""
	}
	if a.Balance != nil {
		a.Balance.CVURLs, a.Balance.CVBusy = urls.sum/float64(urls.n), busy.sum/float64(busy.n)
		if !math.IsNaN(a.Balance.CVURLs) {
			a.BalanceCV = &a.Balance.CVURLs
		}
	}
}

// pending are the URLs that waited at the end. What a killed node said last does not count where others ended in order: they have
// taken its hosts over.
func (r *run) pending() int64 {
	var all, orderly int64
	ended := false
	for _, node := range r.nodes {
		if l := node.lastLife(); l != nil {
			all += l.queue.Pending
			if l.stopped {
				orderly += l.queue.Pending
				ended = true
			}
		}
	}
	if ended {
		return orderly
	}
	return all
}

// balance is the work of the run's nodes, those that did nothing too.
func (r *run) balance() Balance {
	b := Balance{MinURLs: math.MaxInt64, MinBusyS: math.Inf(1)}
	var urls, busy []float64
	for _, n := range r.nodes {
		if n.name == "" {
			continue
		}
		s := n.busyMs / 1000
		b.Nodes = append(b.Nodes, NodeShare{n.name, n.pages, s})
		urls, busy = append(urls, float64(n.pages)), append(busy, s)
		b.MinURLs, b.MaxURLs = min(b.MinURLs, n.pages), max(b.MaxURLs, n.pages)
		b.MinBusyS, b.MaxBusyS = min(b.MinBusyS, s), max(b.MaxBusyS, s)
	}
	b.CVURLs, b.CVBusy = variation(urls), variation(busy)
	return b
}

// variation is the standard deviation divided by the mean, NaN without either.
func variation(v []float64) float64 {
	var sum, squares float64
	for _, x := range v {
		sum += x
	}
	mean := sum / float64(len(v))
	for _, x := range v {
		squares += (x - mean) * (x - mean)
	}
	return math.Sqrt(squares/float64(len(v))) / mean
}

// uses is what the nodes of a run used.
func uses(r *run) []NodeUse {
	var list []NodeUse
	for _, n := range r.nodes {
		if n.name == "" {
			continue
		}
		u := NodeUse{Name: n.name, Pages: n.pages, Bytes: n.bytes, BusyS: n.busyMs / 1000, Boots: len(n.lives)}
		if n.world >= 0 {
			u.City = r.world.Nodes[n.world].City
		}
		for _, l := range n.lives {
			u.CPUSeconds += l.load.CPUSeconds
			u.RSSBytes = max(u.RSSBytes, l.rss)
		}
		if k, ok := n.whereWas(math.MaxInt32); ok {
			u.CoordError = &k.Error
		}
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b NodeUse) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func (c *comparer) info(r *run) RunInfo {
	i := RunInfo{Dir: r.dir, Emulated: r.world != nil, Started: r.started, Nodes: len(r.nodes), Servers: len(r.space.servers)}
	if r.world != nil {
		i.Scenario, i.Seed, i.Nodes, i.Servers = r.world.Scenario, r.world.Seed, len(r.world.Nodes), len(r.world.Servers)
	}
	if !r.last.IsZero() {
		i.Seconds = r.last.Sub(r.started).Seconds()
	}
	each(r.labels, func(label int) { i.Assigners = append(i.Assigners, c.labels[label]) })
	return i
}

func (c *comparer) reading() Reading {
	l := c.lines
	g := Reading{Bytes: l.read, Lines: l.lines, Damaged: l.damaged, Cut: l.cut, Repeated: l.repeated, Newer: l.newer}
	for k, n := range l.gaps {
		g.Missing += int64(n)
		g.Gaps = append(g.Gaps, Gap{c.runs[k.run].nameOf(k.node), k.log, k.boot, n})
	}
	slices.SortFunc(g.Gaps, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Log, b.Log), cmp.Compare(a.Boot, b.Boot))
	})
	return g
}

// nameOf is the name of a node by its id.
func (r *run) nameOf(id string) string {
	if i, ok := r.byID[id]; ok && r.nodes[i].name != "" {
		return r.nodes[i].name
	}
	return id
}

// distrust says why coverage and losses of a run cannot be known from its logs, "" if they can.
func (c *comparer) distrust(r *run) string {
	var why []string
	for k, n := range c.lines.gaps {
		if k.run == r.index && (k.log == journal.LogFetch || k.log == journal.LogQueue || k.log == journal.LogNode) {
			why = append(why, fmt.Sprintf("%d lines are missing in the %s log of %s (boot %d)", n, k.log, r.nameOf(k.node), k.boot))
		}
	}
	slices.Sort(why)
	if c.lines.cut > 0 {
		why = append(why, fmt.Sprintf("%d packed files break off", c.lines.cut))
	}
	if c.lines.newer != "" {
		why = append(why, c.lines.newer+" is of a newer version")
	}
	there := map[string]bool{}
	for _, n := range r.nodes {
		if there[n.name] = true; n.name == "" {
			why = append(why, fmt.Sprintf("there are no logs of node %.8s", n.id))
		}
	}
	if r.world != nil {
		for _, n := range r.world.Nodes {
			if !there[n.Name] {
				why = append(why, "there are no logs of "+n.Name)
			}
		}
	}
	if len(why) > 3 {
		why = append(why[:3], fmt.Sprintf("%d more reasons", len(why)-3))
	}
	return strings.Join(why, "; ")
}

// crawl adds up the runs' crawls.
func (c *comparer) crawl(runs []*run) Crawl {
	var f crawlFigures
	k := Crawl{}
	for _, r := range runs {
		g := r.figures(c.distrust(r))
		f.attempted += g.attempted
		f.assigned += g.assigned
		f.found, f.listed = f.found+g.found, f.listed+g.listed
		f.repeats, f.downloaded, f.answers = f.repeats+g.repeats, f.downloaded+g.downloaded, f.answers+g.answers
		f.messages, f.bytes, f.links = f.messages+g.messages, f.bytes+g.bytes, f.links+g.links
		f.reassigned += g.reassigned
		f.lost += g.lost
		f.withheld, f.unsure = cmp.Or(f.withheld, g.withheld), cmp.Or(f.unsure, g.unsure)
	}
	k.Reassigned, k.Found, k.Listed, k.Attempted, k.Answers = f.reassigned, f.found, f.listed, f.attempted, f.answers
	k.Withheld, k.LostWhy = f.withheld, f.unsure
	k.Overlap = ratio(float64(f.repeats), float64(f.downloaded))
	k.URLsExchangedPerPage = ratio(float64(f.links), float64(f.answers))
	k.MessagesPerPage, k.BytesPerPage = ratio(float64(f.messages), float64(f.answers)), ratio(float64(f.bytes), float64(f.answers))
	if f.withheld == "" {
		k.Coverage = ratio(float64(f.attempted), float64(f.assigned))
		k.CoverageGenerated = ratio(float64(f.found), float64(f.listed))
		if f.unsure == "" && len(runs) > 0 {
			k.Lost = &f.lost
		}
	}
	return k
}

// portable is the emulation that is the least like a network.
const portable = "portable"

// testbed is the worst of what the runs' testbeds say.
func testbed(runs []*run) Testbed {
	var t Testbed
	for _, r := range runs {
		if r.world == nil {
			continue
		}
		b := r.testbed
		if b == nil {
			t.Trusted = ptr(false)
			t.Why = append(t.Why, r.dir+": the testbed left no word on how faithful it was")
			continue
		}
		t.Trusted = ptr(b.Trusted && (t.Trusted == nil || *t.Trusted))
		worst := func(have *float64, v float64) *float64 {
			if have == nil || v > *have {
				return &v
			}
			return have
		}
		t.DelayErrorP50Ms, t.DelayErrorP99Ms = worst(t.DelayErrorP50Ms, b.DelayErrorP50Ms), worst(t.DelayErrorP99Ms, b.DelayErrorP99Ms)
		if t.Dropped += b.DroppedForOwn; t.Emulation != portable {
			t.Emulation = b.Emulation
		}
		t.Busy, t.WaitP99Ms = max(t.Busy, b.CPUBusy), max(t.WaitP99Ms, b.WaitP99Ms)
		if b.Calibrations > 0 && (t.Calibrations == 0 || math.Abs(b.CalibrationP50-1) > math.Abs(t.CalibrationP50-1)) {
			t.CalibrationP10, t.CalibrationP50, t.CalibrationP90 = b.CalibrationP10, b.CalibrationP50, b.CalibrationP90
			t.Calibrations = b.Calibrations
		}
		for _, why := range b.Why {
			if !slices.Contains(t.Why, why) {
				t.Why = append(t.Why, why)
			}
		}
	}
	return t
}
