package report

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"slices"
	"strings"
)

// pageMaker has what all plots of a page share.
type pageMaker struct {
	origin   string // scenario and seed
	names    []string
	colours  colours
	events   []Event
	hit      []string // nodes and servers that events hit
	until    float64
	nameRoom float64
}

// pageView is what the template shows.
type pageView struct {
	Themes template.CSS
	Style  template.CSS
	Script template.JS
	Policy string

	Title, Origin, Headline, Description string
	Facts                                []pairView
	Notes                                []string

	Badge     badgeView
	Names     []legendView
	Assigners []rowGroup

	CDF, Ratios                       figureView
	Events                            []eventView
	Affected                          []affectedView
	Progress, Speed, Load, CoordError figureView
	Map, BalanceURLs, BalanceBusy     figureView
	Crawl                             []pairView
	Withheld                          string
	Statuses                          []statusView
	Nodes                             *tableView
	Sources                           []string
}

// badgeView says how far the testbed may be believed.
type badgeView struct {
	Class, Title string // Class: "good", "bad", "none"
	Reasons      []string
	Pairs        []pairView
}

// origin names scenario and seed; every plot carries it.
func origin(d Data) string {
	var parts []string
	if s := clean(strings.TrimSpace(d.Scenario)); s != "" {
		parts = append(parts, "scenario "+s)
	}
	if s := clean(strings.TrimSpace(d.Seed)); s != "" {
		word := "seed "
		if strings.ContainsAny(s, ", ") {
			word = "seeds "
		}
		parts = append(parts, word+s)
	}
	if len(parts) == 0 {
		return "no scenario"
	}
	return strings.Join(parts, ", ")
}

// newPage makes all parts of the page.
func newPage(d Data, style, script string) pageView {
	events := sortedEvents(d.Events)
	p := &pageMaker{origin: origin(d), colours: newColours(d), events: events, until: lastSecond(d, events), nameRoom: roomForNames(d)}
	for _, a := range d.Assigners {
		p.names = append(p.names, a.Name)
	}
	for _, a := range d.Affected {
		p.hit = append(p.hit, clean(a.Name))
	}
	for _, e := range events {
		if e.Target != "" && !slices.Contains(p.hit, e.Target) {
			p.hit = append(p.hit, e.Target)
		}
	}
	reference := d.Reference
	if reference == "" {
		reference = "random"
	}
	sum := sha256.Sum256([]byte(script))
	v := pageView{
		Themes: themes(), Style: template.CSS(style), Script: template.JS(script),
		// Even if foreign text got into the page, it would neither run nor send anything anywhere.
		Policy: "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; script-src 'sha256-" +
			base64.StdEncoding.EncodeToString(sum[:]) + "'",
		Title: "Assigners compared", Origin: p.origin, Headline: headline(d), Description: clean(d.Description),
		Facts: facts(d), Notes: cleaned(d.Notes), Sources: cleaned(d.Sources),
		Badge: badge(d.Testbed), Assigners: assignerRows(d.Assigners, reference),
		CDF: cdfView(p, d.CDF), Ratios: ratiosView(p, d.Assigners), Events: eventViews(events),
		Crawl: crawlPairs(d.Crawl), Withheld: clean(d.Crawl.Withheld), Statuses: statusRows(d.Statuses), Nodes: nodeTable(d.Nodes, p.origin),
		Map: spaceView(p, d.Map),
		BalanceURLs: balanceView(p, "balance-urls", "URLs per node", "URLs",
			func(s Share) float64 { return s.URLs }, d.Balance),
		BalanceBusy: balanceView(p, "balance-busy", "Busy time per node", "s in downloads",
			func(s Share) float64 { return s.BusyS }, d.Balance),
	}
	for i, slot := range p.colours.of(p.names) {
		v.Names = append(v.Names, legendView{swatch(slot), p.names[i]})
	}
	for i, a := range d.Affected {
		if one := p.affected(i, a); len(one.Figures) > 0 {
			v.Affected = append(v.Affected, one)
		}
	}
	v.Progress = p.timeline("progress", "URLs downloaded, cumulative", unitOf(d.Progress, "URLs"),
		"A steeper line is a faster crawl; a flat stretch is a pause.", "lines", d.Progress)
	v.Speed = p.timeline("speed", "Download speed, median of the 120 latest pages", unitOf(d.Speed, "kB/s"),
		"Higher is faster; a cut of bandwidth shows here first.", "nodes", d.Speed)
	v.Load = p.timeline("load", "Load of the nodes", loadName(d.Load),
		"How much work waits for a node's processor; an overloaded node stands out from the others.", "nodes", d.Load)
	v.CoordError = p.timeline("coords", "Error of the nodes' coordinates", "relative error",
		"The difference of predicted and measured round trips between nodes, relative to the measured one; lower is better.",
		"nodes", d.CoordError)
	return v
}

func loadName(series []Series) string {
	unit := unitOf(series, "")
	if unit == "" || unit == "load" {
		return "load"
	}
	return "load (" + unit + ")"
}

func cleaned(all []string) []string {
	var out []string
	for _, s := range all {
		if s = clean(strings.TrimSpace(s)); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// facts are the figures of the whole run, at the top.
func facts(d Data) []pairView {
	var out []pairView
	add := func(name, value string) {
		if value != "" && value != dash {
			out = append(out, pairView{Name: name, Value: value})
		}
	}
	add("scenario", clean(d.Scenario))
	add("seed", clean(d.Seed))
	if known(d.LengthS) {
		add("length", clock(d.LengthS)+" min")
	}
	if n := len(d.Nodes); n > 0 {
		add("nodes", whole(int64(n)))
	}
	if n := len(d.Map.Servers); n > 0 {
		add("servers", whole(int64(n)))
	}
	add("begun", clean(d.Made))
	add("version", clean(d.Version))
	return out
}

// badge says whether the run may be believed.
func badge(t Testbed) badgeView {
	if !t.Known {
		return badgeView{Class: "none", Title: "No emulation, no truth",
			Reasons: []string{"These logs carry no figures of a testbed: times are what the nodes measured."}}
	}
	v := badgeView{Class: "good", Title: "Testbed: to be trusted", Reasons: cleaned(t.Reasons)}
	if !t.Trusted {
		v.Class, v.Title = "bad", "Testbed: not to be trusted"
		if len(v.Reasons) == 0 {
			v.Reasons = []string{"The testbed did not keep the delays that it promised, or dropped packets of its own."}
		}
	}
	v.Pairs = []pairView{
		{Name: "delay error p50", Value: exactMillis(t.DelayErrorP50MS)},
		{Name: "delay error p99", Value: exactMillis(t.DelayErrorP99MS), Bad: t.DelayErrorP99MS > 1},
		{Name: "packets dropped", Value: whole(t.Dropped), Bad: t.Dropped > 0},
	}
	more := func(name, value string) {
		if value != dash {
			v.Pairs = append(v.Pairs, pairView{Name: name, Value: value})
		}
	}
	if known(t.Busy) {
		more("machine busy", percent(t.Busy))
	}
	if known(t.CoreWaitP99MS) {
		more("wait for a core p99", millis(t.CoreWaitP99MS))
	}
	if known(t.CalibrationError) {
		more("truth off by", percent(t.CalibrationError))
	}
	more("emulation", dashed(clean(t.Kind)))
	return v
}

func exactMillis(v float64) string {
	if !finite(v) {
		return dash
	}
	return number(v) + gap + "ms"
}

func dashed(s string) string {
	if s == "" {
		return dash
	}
	return s
}
