package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"strings"

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

// Figures writes the figures of 2009 beside ours. The first run of each comparison names its scenario. Errors are those of w.
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
