package compare

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"proxima/cmd/proxima/compare/report"
	"proxima/cmd/proxima/rundir"
)

// HTML writes the comparison as one page with plots.
func (r *Result) HTML(w io.Writer) error {
	if err := report.Write(w, r.data()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// data fills what the page shows. Timelines of nodes are those of the first run; those of assigners come from the first run of each.
func (r *Result) data() report.Data {
	d := report.Data{Headline: r.Headline(), Reference: r.Reference, Notes: slices.Concat(r.explain(), r.notes()), Sources: r.Dirs}
	var seeds []string
	for _, run := range r.Runs {
		if d.Scenario == "" {
			d.Scenario = run.Scenario
			if !run.Started.IsZero() {
				d.Made = run.Started.UTC().Format(time.RFC3339)
			}
		}
		if s := fmt.Sprint(run.Seed); run.Emulated && !slices.Contains(seeds, s) {
			seeds = append(seeds, s)
		}
		d.LengthS = max(d.LengthS, run.Seconds)
	}
	d.Seed = strings.Join(seeds, ", ")
	d.Testbed = r.pageTestbed()
	d.Crawl = r.pageCrawl()
	for _, s := range r.Statuses {
		d.Statuses = append(d.Statuses, report.Status(s))
	}
	for i, a := range r.Assigners {
		d.Assigners = append(d.Assigners, pageAssigner(a))
		if t := &r.report[i].times; t.n > 0 {
			d.CDF = append(d.CDF, distribution(a.Name, t))
		}
		if a.Balance != nil {
			b := report.Balance{Assigner: a.Name}
			for _, n := range a.Balance.Nodes {
				b.Shares = append(b.Shares, report.Share{Node: n.Node, URLs: float64(n.URLs), BusyS: n.BusyS})
			}
			d.Balance = append(d.Balance, b)
		}
	}
	for _, n := range r.Nodes {
		perPage := report.Unknown()
		if n.Pages > 0 {
			perPage = 1000 * n.CPUSeconds / float64(n.Pages)
		}
		d.Nodes = append(d.Nodes, report.Node{Name: n.Name, City: n.City, URLs: n.Pages, Bytes: n.Bytes, BusyS: n.BusyS, CPUS: n.CPUSeconds,
			CPUMSPage: perPage, PeakBytes: n.RSSBytes, CoordError: value(n.CoordError)})
	}
	r.pageTimelines(&d)
	return d
}

func value(v *float64) float64 {
	if v == nil {
		return report.Unknown()
	}
	return *v
}

func pageAssigner(a Assigner) report.Assigner {
	p := report.Assigner{Name: a.Name, URLs: a.URLs, Downloaded: a.Downloaded, Failed: a.Failed, Bytes: a.Bytes,
		P50MS: value(a.P50Ms), P90MS: value(a.P90Ms), P99MS: value(a.P99Ms), MeanMS: value(a.MeanMs),
		DiffMS: report.Unknown(), DiffLowMS: report.Unknown(), DiffHighMS: report.Unknown(),
		ChoiceRatio: value(a.ChoiceRatio), ChoiceRatioWithEstimates: value(a.ChoiceRatioWithEstimates),
		TotalRatio: value(a.TotalRatio), TotalRatioWithEstimates: value(a.TotalRatioWithEstimates), BestShare: value(a.BestShare),
		EstimatesP50: value(a.EstimatesP50), EstimatesP90: value(a.EstimatesP90), DecideP50S: value(a.SecondsP50),
		DecideError: value(a.AccuracyP50),
		Truncated:   max(a.Short, a.Forced), MakespanS: value(a.MakespanS), BalanceMin: report.Unknown(), BalanceMax: report.Unknown(),
		BalanceCV: value(a.BalanceCV), BusyMinS: report.Unknown(), BusyMaxS: report.Unknown(), BusyCV: report.Unknown()}
	if a.EstimatesP90 != nil && *a.EstimatesP90 == 0 {
		p.EstimatesP50, p.EstimatesP90 = report.Unknown(), report.Unknown()
	}
	if d := a.Difference; d != nil {
		p.DiffMS, p.DiffLowMS, p.DiffHighMS = d.Ms, d.LowMs, d.HighMs
	}
	if b := a.Balance; b != nil {
		p.BalanceMin, p.BalanceMax = float64(b.MinURLs), float64(b.MaxURLs)
		p.BusyMinS, p.BusyMaxS, p.BusyCV = b.MinBusyS, b.MaxBusyS, b.CVBusy
	}
	for _, s := range a.Seeds {
		p.Repeats = append(p.Repeats, report.Repeat{Seed: fmt.Sprint(s.Seed), ChoiceRatio: value(s.Choice), TotalRatio: value(s.Total),
			P50MS: value(s.P50Ms)})
	}
	return p
}

func (r *Result) pageTestbed() report.Testbed {
	t := r.Testbed
	if t.Trusted == nil {
		return report.Testbed{}
	}
	p := report.Testbed{Known: true, Trusted: *t.Trusted, Reasons: t.Why, Kind: t.Emulation, DelayErrorP50MS: value(t.DelayErrorP50Ms),
		DelayErrorP99MS: value(t.DelayErrorP99Ms), Dropped: t.Dropped, Busy: t.Busy, CoreWaitP99MS: t.WaitP99Ms,
		CalibrationError: report.Unknown()}
	if t.CalibrationP50 > 0 {
		p.CalibrationError = t.CalibrationP50 - 1
	}
	return p
}

func (r *Result) pageCrawl() report.Crawl {
	k := r.Crawl
	p := report.Crawl{Coverage: value(k.Coverage), CoverageGenerated: value(k.CoverageGenerated), Overlap: value(k.Overlap),
		URLsPerPage: value(k.URLsExchangedPerPage), MessagesPerPage: value(k.MessagesPerPage), BytesPerPage: value(k.BytesPerPage),
		Reassigned: k.Reassigned, Lost: -1, Withheld: k.Withheld}
	if k.Lost != nil {
		p.Lost = *k.Lost
	} else if p.Withheld == "" {
		p.Withheld = "losses only: " + k.LostWhy
	}
	return p
}

// distribution is the CDF of download times.
func distribution(name string, t *sketch) report.Series {
	var shares []float64
	for i := range 201 {
		shares = append(shares, float64(i)/200)
	}
	shares = slices.Insert(shares, 200, .999)
	s := report.Series{Label: name, Unit: "1"}
	for i, v := range t.quantiles(shares...) {
		s.Points = append(s.Points, report.Point{X: v, Y: shares[i]})
	}
	return s
}

// pageTimelines fills the plots over time, and the map.
func (r *Result) pageTimelines(d *report.Data) {
	main := r.runs[0]
	for _, run := range r.runs {
		if run.compared {
			main = run
			break
		}
	}
	for _, a := range r.Accuracy {
		if len(d.CoordError) == 0 {
			d.CoordError = []report.Series{{Label: "p50", Unit: "1"}, {Label: "p90", Unit: "1"}}
		}
		d.CoordError[0].Points = append(d.CoordError[0].Points, report.Point{X: a.AtS, Y: a.P50})
		d.CoordError[1].Points = append(d.CoordError[1].Points, report.Point{X: a.AtS, Y: a.P90})
	}
	for _, n := range main.nodes {
		if n.name == "" {
			continue
		}
		d.Speed = appendSeries(d.Speed, latest(n.name, "kB/s", n.speed))
		d.Load = appendSeries(d.Load, means(n.name, "1", n.load))
	}
	for i, name := range r.labels {
		if run := r.runOf(i); run != nil && run.plots.progress[i] != nil {
			d.Progress = append(d.Progress, cumulative(name, run.plots.progress[i]))
		}
	}
	if main.world != nil {
		d.Events = pageEvents(main.world)
	}
	for _, a := range main.plots.affected {
		d.Affected = append(d.Affected, r.pageAffected(main, a))
	}
	d.Map = r.pageMap(main)
}

// runOf is the first run that an assigner took part in, those of several assigners before those of one.
func (r *Result) runOf(label int) *run {
	var first *run
	for _, run := range r.runs {
		if run.tallies[label] == nil || first != nil && !run.compared {
			continue
		}
		if first = run; run.compared {
			break
		}
	}
	return first
}

func (r *Result) pageAffected(main *run, a *affected) report.Affected {
	p := report.Affected{Name: a.name, Kind: a.kind}
	for i, name := range r.labels {
		run := r.runOf(i)
		if run == nil {
			continue
		}
		for _, b := range run.plots.affected {
			if b.kind != a.kind || b.name != a.name {
				continue
			}
			end := run.last.Sub(run.started).Seconds()
			urls := upTo(b.urls[i], end)
			p.URLs = append(p.URLs, cumulative(name, urls))
			if b.kind == kindServer {
				p.Rate = append(p.Rate, rate(name, "URLs/min", urls))
			} else {
				p.Rate = append(p.Rate, rate(name, "hosts/min", upTo(b.rate[i], end)))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(main.space.far)) {
		if key == a.name {
			p.Distance = append(p.Distance, means("mean of servers", "ms", main.space.far[key]))
		} else if node, ok := strings.CutPrefix(key, a.name+" "); ok && a.kind == kindServer {
			p.Distance = append(p.Distance, means(node, "ms", main.space.far[key]))
		}
	}
	if t := main.space.wrong[a.name]; t != nil {
		p.Error = append(p.Error, means("mean", "1", t))
	}
	if a.kind == kindServer && len(a.requests.cells) > 0 {
		p.Spacing = append(p.Spacing, spacing(a.requests))
	}
	return p
}

func (r *Result) pageMap(main *run) report.Map {
	const shown = 400
	var m report.Map
	for _, n := range main.nodes {
		if at, ok := n.whereWas(1 << 30); ok && n.name != "" {
			p := report.Place{Name: n.name, Vector: at.Vec[:], HeightMS: at.Height}
			if n.world >= 0 {
				p.City = main.world.Nodes[n.world].City
			}
			m.Nodes = append(m.Nodes, p)
		}
	}
	for i, addr := range slices.Sorted(maps.Keys(main.space.servers)) {
		if i == shown {
			break
		}
		at := main.space.servers[addr].at
		p := report.Place{Name: addr, Vector: at.Vec[:], HeightMS: at.Height}
		if k, ok := main.servers[addr]; ok {
			p.City = main.world.Servers[k].City
		}
		if owners := main.plots.owners[addr]; owners != nil {
			for label, n := range owners {
				if n > 0 {
					p.Owners = append(p.Owners, report.Owner{Assigner: r.labels[label], Node: main.nodes[n-1].name})
				}
			}
		}
		m.Servers = append(m.Servers, p)
	}
	return m
}

// pageEvents words the events of a scenario. A state lasts until the event that ends it.
func pageEvents(w *rundir.World) []report.Event {
	var list []report.Event
	for i, e := range w.Events {
		p := report.Event{AtS: e.AtS, UntilS: e.AtS, Target: e.Node}
		ends := false // of a state that an earlier event began
		switch e.Kind {
		case rundir.EventBandwidth:
			ends = e.Factor == 1 || e.Factor == 0
			if p.Label = "bandwidth × " + fmt.Sprintf("%.2g", e.Factor); e.Factor > 0 && e.Factor < 1 {
				p.Label = "bandwidth ÷ " + fmt.Sprintf("%.3g", 1/e.Factor)
			}
		case rundir.EventCPU:
			p.Label, ends = "CPU burnt", e.Factor == 1 || e.Factor == 0 && e.AddMs == 0 && wasBurnt(w.Events[:i], e.Node)
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
		if until, ok := endOf(w.Events[i+1:], e); ok {
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
