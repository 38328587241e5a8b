package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"proxima/ncoord/quantile"
)

// What a row of the comparison is.
const (
	ByAssigner = "assigner" // all runs of an assigner
	// ByCandidate is the same: candidates of a batch stand in the logs by their names.
	ByCandidate = "candidate"
	ByRun       = "run"    // an assigner in one run
	ByConfig    = "config" // an assigner in the runs of one configuration
)

// Bys are the values of Options.By.
func Bys() []string { return []string{ByAssigner, ByCandidate, ByRun, ByConfig} }

// maxRows bounds the rows: a record has a bit for each.
const maxRows = 16

// row is one of the things that are compared.
type row struct{ name, assigner, suffix string }

// labelOf is what a line of a run says of its assigners.
type labelOf struct {
	run   int
	label string
}

// suffix is what rows of a run have behind the assigner's name.
func (c *comparer) suffix(r *run, assigner string) string {
	switch c.By {
	case ByRun:
		return " in " + r.name
	case ByConfig:
		return r.differs(assigner)
	}
	return ""
}

// rowBits are the rows of the assigners that a line names, with commas between them.
func (c *comparer) rowBits(r *run, label string) (mask uint16) {
	if label == "" {
		return 0
	}
	if b, ok := c.bits[labelOf{r.index, label}]; ok {
		return b
	}
	for name := range strings.SplitSeq(label, ",") {
		if i := c.rowOf(r, name); i >= 0 {
			mask |= 1 << i
		}
	}
	if len(c.bits) < 1<<12 { // of sound logs there are few
		c.bits[labelOf{r.index, strings.Clone(label)}] = mask
	}
	return mask
}

// rowOf is the row of an assigner in a run, made when first needed; -1 where there are too many.
func (c *comparer) rowOf(r *run, assigner string) int {
	suffix := c.suffix(r, assigner)
	i := slices.IndexFunc(c.rows, func(w row) bool { return w.assigner == assigner && w.suffix == suffix })
	if i < 0 && len(c.rows) < maxRows && assigner != "" {
		i = len(c.rows)
		assigner = strings.Clone(assigner)
		c.rows = append(c.rows, row{assigner + suffix, assigner, suffix})
	}
	return i
}

func (c *comparer) rowNames() (list []string) {
	for _, w := range c.rows {
		list = append(list, w.name)
	}
	return list
}

func (c *comparer) hasReference() bool {
	return slices.ContainsFunc(c.rows, func(w row) bool { return w.name == c.Against || w.assigner == c.Against })
}

// reference is the row that another is compared to: the one that was asked for, or the assigner's of the same run or configuration,
// or the assigner's first; -1 without any.
func (c *comparer) reference(i int) int {
	best := -1
	for k, w := range c.rows {
		switch {
		case w.name == c.Against:
			return k
		case w.assigner == c.Against && (best < 0 || w.suffix == c.rows[i].suffix):
			best = k
		}
	}
	return best
}

// settings are the keys of a configuration with their values as text.
func settings(text string) map[string]string {
	var tree map[string]any
	if _, err := toml.Decode(text, &tree); err != nil {
		return nil // of a version whose form is not known here
	}
	flat := map[string]string{}
	var walk func(prefix string, of map[string]any)
	walk = func(prefix string, of map[string]any) {
		for k, v := range of {
			if sub, ok := v.(map[string]any); ok {
				walk(prefix+k+".", sub)
			} else {
				flat[prefix+k] = fmt.Sprint(v)
			}
		}
	}
	walk("", tree)
	return flat
}

// notTuning are sections that say where a node runs, not how it chooses.
var notTuning = []string{"node.", "peer.", "member.", "output.", "crawl.seeds", "batch.assigners", "geo."}

// nameRuns names the runs after what their lines say, or their folders where that is the same, and finds what differs between their
// configurations: keys that the nodes of each run agree on, and the runs do not.
func nameRuns(runs []*run) {
	times := map[string]int{}
	for _, r := range runs {
		times[r.name]++
	}
	for _, r := range runs {
		if r.name == "" || times[r.name] > 1 {
			r.name = r.dir
		}
	}
	keys := map[string]bool{}
	for _, r := range runs {
		for k := range r.settings {
			keys[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		tuned := !slices.ContainsFunc(notTuning, func(p string) bool { return strings.HasPrefix(k, p) }) &&
			!slices.ContainsFunc(runs, func(r *run) bool { return r.disagree[k] })
		if tuned && slices.ContainsFunc(runs, func(r *run) bool { return r.settings[k] != runs[0].settings[k] }) {
			for _, r := range runs {
				r.tuned = append(r.tuned, setting{k, cmp.Or(r.settings[k], "unset")})
			}
		}
	}
}

// setting is a key of the configuration by which runs differ.
type setting struct{ key, value string }

// differs says by which settings a row differs, without those of other assigners.
func (r *run) differs(assigner string) string {
	var b strings.Builder
	for _, s := range r.tuned {
		rest, ofOne := strings.CutPrefix(s.key, "assign.")
		if section, key, ok := strings.Cut(rest, "."); ofOne && ok && section != assigner {
			continue
		} else if ofOne && ok {
			fmt.Fprintf(&b, " %s=%s", key, s.value)
		} else {
			fmt.Fprintf(&b, " %s=%s", s.key, s.value)
		}
	}
	return b.String()
}

// tally is what one run says about one row.
type tally struct {
	urls, downloaded, failed int64
	bytes                    int64
	times                    dist // ms, of the downloads that count
	// The sums are over downloads of which truth knows what they should take, in ms.
	sums, estimates sums

	asked     dist  // estimates made for a server
	seconds   dist  // until a batch was decided
	accuracy  dist  // error of servers when decided
	decisions int64 // servers assigned
	judged    int64 // of these, where truth knows the best node
	best      int64 // of these, given to it
	short     int64 // servers for which fewer pages could be asked for than were wanted
	forced    int64 // servers decided at the last tick or the deadline
}

// merge adds the figures of another run.
func (t *tally) merge(o *tally) {
	for _, n := range [...]struct{ to, of *int64 }{{&t.urls, &o.urls}, {&t.downloaded, &o.downloaded}, {&t.failed, &o.failed},
		{&t.bytes, &o.bytes}, {&t.decisions, &o.decisions},
		{&t.judged, &o.judged}, {&t.best, &o.best}, {&t.short, &o.short}, {&t.forced, &o.forced}} {
		*n.to += *n.of
	}
	for _, d := range [...]struct{ to, of *dist }{{&t.times, &o.times}, {&t.asked, &o.asked}, {&t.seconds, &o.seconds},
		{&t.accuracy, &o.accuracy}} {
		*d.to = append(*d.to, *d.of...)
	}
	t.sums.merge(o.sums)
	t.estimates.merge(o.estimates)
}

// sums of ms.
type sums struct{ measured, expected, best float64 }

func (s *sums) add(measured, expected, best float64) { s.merge(sums{measured, expected, best}) }

func (s *sums) merge(o sums) {
	s.measured += o.measured
	s.expected += o.expected
	s.best += o.best
}

// dist are values of which quantiles are wanted. There are at most as many as records.
type dist []float32

func (d *dist) add(v float64) {
	if v >= 0 && v <= 1e12 { // of a line that a node wrote
		*d = append(*d, float32(v))
	}
}

// quantile is the value of the nearest rank, nil without values.
func (d dist) quantile(p float64) *float64 {
	if len(d) == 0 {
		return nil
	}
	slices.Sort(d)
	return new(float64(quantile.Of(d, p)))
}

func (d dist) mean() *float64 {
	sum := 0.0
	for _, v := range d {
		sum += float64(v)
	}
	return ratio(sum, float64(len(d)))
}

// cdf is the distribution as a line of at most 200 points.
func (d dist) cdf() []Point {
	slices.Sort(d)
	var list []Point
	for i := range 201 {
		if len(d) > 0 {
			list = append(list, Point{float64(quantile.Of(d, float64(i)/200)), float64(i) / 200})
		}
	}
	return list
}

// figures fills what one tally tells of a row.
func figures(name string, t *tally) Assigner {
	a := Assigner{Name: name, URLs: t.urls, Downloaded: t.downloaded, Failed: t.failed, Bytes: t.bytes,
		P50Ms: t.times.quantile(.5), P90Ms: t.times.quantile(.9), P99Ms: t.times.quantile(.99), MeanMs: t.times.mean(), Times: t.times.cdf(), Updates: t.asked.cdf(),
		EstimatesP50: t.asked.quantile(.5), EstimatesP90: t.asked.quantile(.9),
		SecondsP50: t.seconds.quantile(.5), AccuracyP50: t.accuracy.quantile(.5),
		Decisions: t.decisions, Short: t.short, Forced: t.forced, Truncated: t.short+t.forced > 0,
		ChoiceRatio: ratio(t.sums.expected, t.sums.best), TotalRatio: ratio(t.sums.measured, t.sums.best)}
	if t.sums.best > 0 {
		a.ChoiceRatioWithEstimates = ratio(t.sums.expected+t.estimates.expected, t.sums.best+t.estimates.best)
		a.TotalRatioWithEstimates = ratio(t.sums.measured+t.estimates.measured, t.sums.best+t.estimates.best)
	}
	if t.judged > 0 {
		a.BestShare = new(float64(t.best) / float64(t.judged))
	}
	return a
}

// ratio is nil where there is nothing to divide by.
func ratio(a, b float64) *float64 {
	if !(b > 0) {
		return nil
	}
	return new(a / b)
}

// Difference is a mean paired difference to another row with its 95 % confidence interval, in ms and relative to the other's mean.
// Negative is faster.
type Difference struct {
	To                string // name of the other row
	Ms, LowMs, HighMs float64
	Rel, Low, High    float64
	Pairs             int64
	Servers           int
}

// Clear says that chance alone does not explain the difference.
func (d *Difference) Clear() bool { return d != nil && (d.HighMs < 0 || d.LowMs > 0) }

// Resamples of the bootstrap, fewer where there are very many servers.
const (
	resamples = 2000
	mostDraws = 20_000_000
)

// difference draws whole servers with replacement (a cluster bootstrap, percentile interval): an assigner decides by server, so the
// pages of one server are not independent. nil with less than two servers.
func (c *comparer) difference(row, to int) *Difference {
	type pages struct{ n, own, base float64 }
	var list []pages
	var all pages
	add := func(s *pages, p pages) { s.n, s.own, s.base = s.n+p.n, s.own+p.own, s.base+p.base }
	servers := map[uint32]bool{}
	last := clusterKey{}
	for _, k := range c.clusterKeys() {
		if both := uint16(1)<<row | 1<<to; k.rows&both != both {
			continue
		}
		l := c.clusters[k]
		p := pages{float64(l.n), l.ms[row], l.ms[to]}
		add(&all, p)
		if len(list) > 0 && last.seed == k.seed && last.server == k.server {
			add(&list[len(list)-1], p)
		} else {
			list = append(list, p)
		}
		last = k
		servers[k.server] = true
	}
	if len(servers) < 2 || all.base <= 0 {
		return nil
	}
	n := max(200, min(resamples, mostDraws/len(list)))
	ms, rel := make([]float64, n), make([]float64, n)
	random := rand.New(rand.NewPCG(c.Seed, 0x70726f78696d61))
	for i := range n {
		var s pages
		for range list {
			add(&s, list[random.IntN(len(list))])
		}
		ms[i], rel[i] = (s.own-s.base)/s.n, (s.own-s.base)/s.base
	}
	slices.Sort(ms)
	slices.Sort(rel)
	low, high := n*25/1000, n-1-n*25/1000
	return &Difference{To: c.rows[to].name, Ms: (all.own - all.base) / all.n, LowMs: ms[low], HighMs: ms[high],
		Rel: (all.own - all.base) / all.base, Low: rel[low], High: rel[high], Pairs: int64(all.n), Servers: len(list)}
}

// clusterKeys are in an order that is the same each time.
func (c *comparer) clusterKeys() []clusterKey {
	return slices.SortedFunc(maps.Keys(c.clusters), func(a, b clusterKey) int {
		return cmp.Or(cmp.Compare(a.seed, b.seed), cmp.Compare(a.server, b.server), cmp.Compare(a.rows, b.rows))
	})
}

// seedShares split a row's figures by seed, where there are several.
func seedShares(runs []*run, row int) (list []SeedShare) {
	by := map[uint64]*tally{}
	for _, r := range runs {
		if t := r.tallies[row]; t != nil && r.world != nil {
			if by[r.seed()] == nil {
				by[r.seed()] = &tally{}
			}
			by[r.seed()].merge(t)
		}
	}
	if len(by) < 2 {
		return nil
	}
	for _, seed := range slices.Sorted(maps.Keys(by)) {
		f := figures("", by[seed])
		list = append(list, SeedShare{seed, f.ChoiceRatio, f.TotalRatio, f.P50Ms})
	}
	return list
}

// separately adds what only a run with this assigner alone can tell. Of several runs it is the mean; the nodes are those of the first.
func (c *comparer) separately(a *Assigner, row int) {
	var makespans, urls, busy cell
	a.MakespanWhy = "needs a run with this assigner alone"
	for _, r := range c.runs {
		if r.compared || r.rows != 1<<row || len(r.nodes) == 0 {
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
		a.MakespanS, a.MakespanWhy = new(makespans.mean()), ""
	}
	if a.Balance != nil {
		a.Balance.CVURLs, a.Balance.CVBusy = urls.mean(), busy.mean()
		if !math.IsNaN(a.Balance.CVURLs) {
			a.BalanceCV = &a.Balance.CVURLs
		}
	}
}
