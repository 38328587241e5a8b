package report

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"proxima/cmd/proxima/compare"
)

//go:embed figures.html
var figuresText string

// published is one figure of the thesis of 2009: what it showed, and how ours is made from a run of a scenario.
type published struct {
	ID, Title string
	Scenario  string
	Then, Why string // what was published, and why ours differs
	make      func(f *published, r *compare.Result)

	Ours  string // in words
	Made  string // from which run, "" for none
	Plots []plot
	Table [][]string

	result  *compare.Result
	colours map[string]int
}

// Figures writes the figures of 2009 beside ours. The first run of each comparison names its scenario, of which one must have
// figures.
func Figures(w io.Writer, results []*compare.Result, version, command string) error {
	list := figures()
	for _, r := range results {
		for i := range list {
			if f := &list[i]; len(r.Runs) > 0 && f.Scenario == r.Runs[0].Scenario {
				f.result, f.colours, f.Made = r, coloursOf(r), madeOf(r)
				f.make(f, r)
			}
		}
	}
	if !slices.ContainsFunc(list, func(f published) bool { return f.result != nil }) {
		return errors.New("no run is one of a scenario with figures (proxima figures -h)")
	}
	return fill(w, figuresText, struct {
		frame
		Figures []published
		Command string
	}{newFrame("the figures of 2009", version), list, command})
}

// madeOf names the runs of a comparison, and says whether to trust them.
func madeOf(r *compare.Result) string {
	text := fmt.Sprintf("%s: seed %s, %d nodes, %d servers, %s", cmp.Or(r.Runs[0].MadeBy, "a run"), strings.Join(seeds(r), ", "), r.Runs[0].Nodes, r.Runs[0].Servers,
		clock(r.Runs[0].Seconds))
	switch t := r.Testbed; {
	case t.Trusted == nil:
	case *t.Trusted:
		text += fmt.Sprintf("; to be trusted, processors %s busy", percent(&t.Busy))
	default:
		text += "; not to be trusted: " + strings.Join(t.Why, "; ")
	}
	return text
}

func (f *published) plot(kind, title, unit string, series []compare.Series) {
	f.Plots = appendPlot(f.Plots, f.result, f.colours, plot{Title: title, Kind: kind, Unit: unit, Run: f.Scenario}, series)
}

// hit is whom the first event hits, empty without events.
func hit(r *compare.Result) compare.Affected {
	if len(r.Affected) == 0 {
		return compare.Affected{}
	}
	return r.Affected[0]
}

// during describes the means of series before, during and after the first event.
func during(r *compare.Result, list []compare.Series, unit string) string {
	if len(r.Events) == 0 {
		return ""
	}
	var parts []string
	for _, s := range list {
		var sum, n [3]float64
		for _, p := range s.Points {
			k := 0
			if p[0] >= r.Events[0].UntilS {
				k = 2
			} else if p[0] >= r.Events[0].AtS {
				k = 1
			}
			sum[k] += p[1]
			n[k]++
		}
		parts = append(parts, fmt.Sprintf("%s %.3g, %.3g and %.3g", s.Label, sum[0]/n[0], sum[1]/n[1], sum[2]/n[2]))
	}
	return strings.ReplaceAll(fmt.Sprintf("%s before, during and after: %s", unit, strings.Join(parts, "; ")), "NaN", "none")
}

// of describes the values of a distribution at some shares.
func of(points []compare.Point, unit string, shares ...float64) string {
	var parts []string
	for _, share := range shares {
		for _, p := range points {
			if p[1] >= share {
				parts = append(parts, fmt.Sprintf("%.0f %% within %.0f%s", 100*share, p[0], unit))
				break
			}
		}
	}
	return strings.Join(parts, ", ")
}

// scaled is common to all runs that adapt an experiment with events.
const scaled = "Our ticks are a fifth of a second instead of ten, and the event lasts 45 to 60 s instead of 18 to 47 minutes."

// figures returns those of chapter 5, with what was published.
func figures() []published {
	return []published{
		{ID: "5.1", Title: "Distance and error of the servers' places, bandwidth ÷ 5", Scenario: "bandwidth",
			Then: "The median distance of the affected node to 17 servers rises from minute 40 to 400–450 at 55; the servers' median error goes from .2 to .43 and back to .2. Mirrored when it ends.",
			Why:  scaled + " Both limit the link and not pings, so the node's own coordinate stays.",
			make: func(f *published, r *compare.Result) {
				a := hit(r)
				f.plot("time", "Distance of the node that is hit to the servers, median", "ms", a.Distance)
				f.plot("time", "Error of the servers' places, median", "relative error", a.Error)
				f.Ours = during(r, a.Distance, "distance in ms") + ". " + during(r, a.Error, "error")
			}},
		{ID: "5.2", Title: "URLs assigned to the affected node, bandwidth ÷ 5", Scenario: "bandwidth",
			Then: "With proxy coordinates flat from minute 40, a slight rise at 85, a sharp one at 115; geographic goes on unchanged.",
			Why:  scaled + " Ours counts what the node downloaded.",
			make: func(f *published, r *compare.Result) {
				f.plot("time", "URLs downloaded by the node that is hit", "URLs", hit(r).URLs)
				f.plot("time", "Hosts given to the node that is hit, per minute", "per minute", hit(r).Rate)
				f.Ours = during(r, hit(r).Rate, "hosts per minute")
			}},
		{ID: "5.3", Title: "Download speed, bandwidth ÷ 5", Scenario: "bandwidth",
			Then: "The median of the last 120 URLs of all nodes drops for both at minute 35; proxy coordinates are above geographic from 45 on; mirrored at 87.",
			Why:  "Each line is a run of its own, and the pages of all our servers have the same distribution.", make: bySpeed},
		{ID: "5.4", Title: "Rate of assignments to the affected node, processor", Scenario: "load",
			Then: "150 busy threads from minute 36 to 76: falls at 38, rises a little at 50, is back at 85; geographic is constant.",
			Why:  scaled + " The node is stopped four fifths of the time, instead of sharing its processor.",
			make: func(f *published, r *compare.Result) {
				f.plot("time", "Hosts given to the node that is hit, per minute", "per minute", hit(r).Rate)
				f.plot("time", "Distance of the node that is hit to the servers, median", "ms", hit(r).Distance)
				f.Ours = during(r, hit(r).Rate, "hosts per minute")
			}},
		{ID: "5.5", Title: "Download speed, processor", Scenario: "load",
			Then: "Both are lower under load, proxy coordinates better and noisier.",
			Why:  "As in 5.3.", make: bySpeed},
		{ID: "5.6", Title: "Distance and error of a server that is slow", Scenario: "server",
			Then: "+ 5 s from minute 58 to 76: its distance to all nodes and its error rise at 62, the error falls again, then both return.",
			Why:  scaled + " As in 2009, the place moves in steps of a quarter of the difference, but with fewer steps in the time.",
			make: func(f *published, r *compare.Result) {
				f.plot("time", "Distance of the server to the nodes, median", "ms", hit(r).Distance)
				f.plot("time", "Error of its place", "relative error", hit(r).Error)
				f.plot("time", "Time between two requests to it", "s", hit(r).Spacing)
				f.Ours = during(r, hit(r).Distance, "distance in ms") + ". " + during(r, hit(r).Error, "error")
			}},
		{ID: "5.7, 5.8", Title: "Download times by θ", Scenario: "single",
			Then: "Seven sets of 10 nodes, ms at the median and the 90th percentile: θ .15 445 and 3,825; θ .25 559 and 4,287; random 761 and 5,477; geographic 776 and 6,146.",
			Why:  "PlanetLab's nodes differed in quality, which hit geographic more than random; ours differ in bandwidth only, and their locations are known but for a tenth. Ours downloads each page once per choice.",
			make: func(f *published, r *compare.Result) {
				var times []compare.Series
				f.Table = [][]string{{"", "p50 ms", "p90 ms", "downloaded", "failed", "MB", "choice ratio"}}
				for _, a := range r.Assigners {
					times = append(times, compare.Series{Label: a.Name, Points: a.Times})
					f.Table = append(f.Table, []string{a.Name, figure(a.P50Ms), figure(a.P90Ms), humanize.Comma(a.Downloaded), humanize.Comma(a.Failed),
						fmt.Sprintf("%.0f", float64(a.Bytes)/1e6), figure(a.ChoiceRatio)})
				}
				f.plot("times", "Distribution of download times", "share of downloads", times)
			}},
		{ID: "5.9", Title: "Updates until a batch was decided", Scenario: "single",
			Then: "θ .25: half of the sets within 64, 90 % within 108; θ .15: 193 at the median, 26 % never within 300.",
			Why:  "Ours counts the estimates of each server. Two candidates wait for the same servers, and the batch waits five minutes: a candidate that is not ready by then is cut off.",
			make: func(f *published, r *compare.Result) {
				var updates []compare.Series
				var words []string
				for _, a := range r.Assigners {
					if n := len(a.Updates); n > 0 && a.Updates[n-1][0] > 0 {
						updates = append(updates, compare.Series{Label: a.Name, Points: a.Updates})
						words = append(words, a.Name+": "+of(a.Updates, "", .5, .9)+fmt.Sprintf(", %d of %d servers cut off", a.Forced, a.Decisions))
					}
				}
				f.plot("counts", "Estimates of a server", "share of servers", updates)
				f.Ours = strings.Join(words, "; ")
			}},
		{ID: "5.10", Title: "Each home's batches", Scenario: "fourteen",
			Then: "Seven crawlers: 770 to 1,374 s per batch (mean 1,081); median error .22 to .25; 81 to 94 servers; 45 to 101 updates (mean 67).",
			Why:  "Our ticks are of one second instead of ten, and batches smaller: 112 servers for 14 homes.",
			make: func(f *published, r *compare.Result) {
				f.Table = [][]string{{"home", "batches", "servers", "s per batch", "updates", "error"}}
				for _, h := range r.Homes {
					f.Table = append(f.Table, []string{h.Node, fmt.Sprint(h.Batches), fmt.Sprint(h.Servers), figure(h.SecondsP50),
						figure(h.UpdatesP50), figure(h.AccuracyP50)})
				}
			}},
		{ID: "5.11", Title: "Load", Scenario: "fourteen",
			Then: "The median load average of seven crawlers is 1.5 to 4 for 25 minutes, then below 1.5.",
			Why:  "A load average is of a machine, and 14 of our nodes share one: ours is the share of a processor that each process uses, and the URLs that wait in it.",
			make: func(f *published, r *compare.Result) {
				f.plot("time", "Processors used by each node", "processors", r.CPU)
				f.plot("time", "URLs waiting at each node", "URLs", r.Queue)
			}},
		{ID: "5.12", Title: "Totals of a long run", Scenario: "fourteen",
			Then: "14 crawlers, 184 minutes: 836 hosts, 183,456 attempts, 164,282 pages, 13,465 MB, 50.3 million links (306 per page), coverage .65, overlap unknown, 2,125 to 28,374 URLs per node.",
			Why:  "Ten minutes (-set length=3h makes it three hours) of a smaller web. Links that a node finds go to their homes, where 2009 kept them at the node that found them; coverage counts what still waits at the end.",
			make: func(f *published, r *compare.Result) {
				var pages, bytes, most int64
				least := int64(1 << 62)
				for _, n := range r.Nodes {
					pages, bytes, least, most = pages+n.Pages, bytes+n.Bytes, min(least, n.Pages), max(most, n.Pages)
				}
				k := r.Crawl
				f.Table = [][]string{{"", "ours"}, {"URLs attempted", humanize.Comma(k.Attempted)}, {"pages answered", humanize.Comma(pages)},
					{"MB", fmt.Sprintf("%.0f", float64(bytes)/1e6)}, {"links", humanize.Comma(k.Links)}, {"coverage", percent(k.Coverage)}, {"overlap", percent(k.Overlap)},
					{"pages of a node", humanize.Comma(least) + " to " + humanize.Comma(most)}, {"messages per page", figure(k.MessagesPerPage)}}
			}},
		{ID: "5.13", Title: "Statuses", Scenario: "fourteen",
			Then: "200: 164,282; 404: 8,353; 500: 1,154; 400: 757; 403: 594; communication failures 9,405; DNS errors 463.",
			Why:  "The errors of our sites are drawn in the proportions of 2009's; no server is away, and no name unknown.",
			make: func(f *published, r *compare.Result) {
				f.Table = [][]string{{"status", "downloads"}}
				for _, s := range r.Statuses {
					f.Table = append(f.Table, []string{s.Label, humanize.Comma(s.Count)})
				}
			}},
	}
}

func bySpeed(f *published, r *compare.Result) {
	f.plot("time", "Median speed of the 120 latest pages of all nodes", "kB/s", r.SpeedBy)
	f.Ours = during(r, r.SpeedBy, "kB/s")
}
