package compare

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// tableWidth is how many columns the text needs at most.
const tableWidth = 100

// dash stands for what is not known.
const dash = "–"

// Text writes the comparison for people.
func (r *Result) Text(w io.Writer) error {
	var b bytes.Buffer
	r.head(&b)
	r.assignersText(&b)
	r.crawlText(&b)
	r.nodesText(&b)
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

func (r *Result) head(b *bytes.Buffer) {
	const shown = 6
	for i, run := range r.Runs {
		if i == shown {
			fmt.Fprintf(b, "… and %d more runs\n", len(r.Runs)-shown)
			break
		}
		if run.Emulated {
			fmt.Fprintf(b, "scenario %s, seed %d: ", run.Scenario, run.Seed)
		} else {
			fmt.Fprintf(b, "%s: ", run.Dir)
		}
		fmt.Fprintf(b, "%d nodes, %d servers, %.0f s, %s\n", run.Nodes, run.Servers, run.Seconds, cmp.Or(strings.Join(run.Assigners, ", "),
			"no assigner"))
	}
	if t := r.Testbed; t.Trusted != nil {
		word := "may be trusted"
		if !*t.Trusted {
			word = "NOT TO BE TRUSTED"
		}
		text := "testbed: " + word
		if t.DelayErrorP99Ms != nil {
			text += fmt.Sprintf(" (%s; delay error p50 %.2f ms, p99 %.2f ms; %d packets dropped unplanned; processors %.0f %% busy)",
				t.Emulation, *t.DelayErrorP50Ms, *t.DelayErrorP99Ms, t.Dropped, 100*t.Busy)
		}
		wrap(b, text, "  ")
		if t.Calibrations > 0 {
			fmt.Fprintf(b, "truth: an ordinary client took %.2f × the expected time (p10 %.2f, p90 %.2f, %d downloads)\n", t.CalibrationP50,
				t.CalibrationP10, t.CalibrationP90, t.Calibrations)
		}
	}
	fmt.Fprintln(b)
	wrap(b, r.Headline(), "")
	for _, s := range r.Explain() {
		wrap(b, s, "  ")
	}
	for _, s := range r.Notes() {
		wrap(b, "! "+s, "  ")
	}
	fmt.Fprintln(b)
}

// wrap writes text in lines that fit, those after the first indented.
func wrap(b *bytes.Buffer, text, indent string) {
	width := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		if width > 0 && width+1+n > tableWidth {
			b.WriteString("\n" + indent)
			width = len(indent)
		} else if width > 0 {
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += n
	}
	b.WriteByte('\n')
}

func (r *Result) assignersText(b *bytes.Buffer) {
	if len(r.Assigners) == 0 {
		return
	}
	rows := [][]string{{"assigner", "URLs", "downloaded", "failed", "MB", "p50 ms", "p90", "p99", "mean", "vs " + cmp.Or(r.Reference,
		"random") + ", 95 %"}}
	for _, a := range r.Assigners {
		diff := dash
		if d := a.Difference; d != nil {
			diff = fmt.Sprintf("%+.0f %% (%+.0f to %+.0f)", 100*d.Rel, 100*d.Low, 100*d.High)
		}
		rows = append(rows, []string{a.Name, fmt.Sprint(a.URLs), fmt.Sprint(a.Downloaded), fmt.Sprint(a.Failed), fmt.Sprintf("%.1f",
			float64(a.Bytes)/1e6),
			number(a.P50Ms, 0), number(a.P90Ms, 0), number(a.P99Ms, 0), number(a.MeanMs, 0), diff})
	}
	grid(b, rows)
	rows = [][]string{{"assigner", "choice", "total", "+estimates", "best node", "est p50", "p90", "decided s", "error", "makespan s",
		"balance"}}
	truncated := false
	for _, a := range r.Assigners {
		name := a.Name
		if a.Truncated {
			name += " *"
			truncated = true
		}
		rows = append(rows, []string{name, number(a.ChoiceRatio, 3), number(a.TotalRatio, 3), number(a.TotalRatioWithEstimates, 3),
			percent(a.BestShare),
			number(a.EstimatesP50, 0), number(a.EstimatesP90, 0), number(a.SecondsP50, 1), number(a.AccuracyP50, 2), number(a.MakespanS,
				0), number(a.BalanceCV, 2)})
	}
	grid(b, rows)
	wrap(b, "choice: expected time at the chosen nodes / at the best; total: measured / the same; 1 is the best possible. "+
		"balance: variation of URLs per node.", "")
	if truncated {
		fmt.Fprintln(b, "*: truncated, see above")
	}
	r.balanceText(b)
	r.seedsText(b)
	fmt.Fprintln(b)
}

func (r *Result) balanceText(b *bytes.Buffer) {
	for _, a := range r.Assigners {
		if l := a.Balance; l != nil {
			fmt.Fprintf(b, "%s alone: URLs per node %d to %d (cv %.2f), busy %.0f to %.0f s (cv %.2f)", a.Name, l.MinURLs, l.MaxURLs, l.CVURLs,
				l.MinBusyS, l.MaxBusyS, l.CVBusy)
			if a.MakespanWhy != "" {
				fmt.Fprintf(b, "; makespan not known: %s", a.MakespanWhy)
			}
			fmt.Fprintln(b)
		}
	}
}

func (r *Result) seedsText(b *bytes.Buffer) {
	if !slices.ContainsFunc(r.Assigners, func(a Assigner) bool { return len(a.Seeds) > 1 }) {
		return
	}
	fmt.Fprintln(b, "\nby seed: choice ratio / total ratio / p50 ms")
	for _, a := range r.Assigners {
		line := fmt.Sprintf("%-12s", a.Name)
		for _, s := range a.Seeds {
			line += fmt.Sprintf("  %d: %s / %s / %s", s.Seed, number(s.Choice, 3), number(s.Total, 3), number(s.P50Ms, 0))
		}
		wrap(b, line, "    ")
	}
}

func (r *Result) crawlText(b *bytes.Buffer) {
	k := r.Crawl
	generated := ""
	if k.CoverageGenerated != nil {
		generated = fmt.Sprintf(" (%d of the generator's %d pages found, %.4f)", k.Found, k.Listed, *k.CoverageGenerated)
	}
	lost := "withheld"
	if k.Lost != nil {
		lost = fmt.Sprint(*k.Lost)
	}
	fmt.Fprintf(b, "crawl: %d URLs attempted, coverage %s%s\n", k.Attempted, cmp.Or(strings.ReplaceAll(number(k.Coverage, 4), dash, ""),
		"withheld"), generated)
	fmt.Fprintf(b, "  lost %s, overlap %s, %d re-assignments of hosts\n", lost, percent2(k.Overlap), k.Reassigned)
	fmt.Fprintf(b, "  between nodes a page: %s URLs, %s messages, %s bytes\n", number(k.URLsExchangedPerPage, 2), number(k.MessagesPerPage,
		2),
		number(k.BytesPerPage, 0))
	if p := r.CoordError[0].Points; len(p) > 0 {
		at := func(i int) string { return fmt.Sprintf("%.2f after %.0f s", p[i][1], p[i][0]) }
		fmt.Fprintf(b, "  coordinate error (median): %s, %s, %s\n", at(0), at(len(p)/2), at(len(p)-1))
	}
	rows := [][]string{{"answer", "pages"}}
	for _, s := range r.Statuses {
		rows = append(rows, []string{s.Label, fmt.Sprint(s.Count)})
	}
	grid(b, rows)
	fmt.Fprintln(b)
}

func (r *Result) nodesText(b *bytes.Buffer) {
	const shown = 40
	rows := [][]string{{"node", "city", "pages", "MB", "busy s", "CPU s", "CPU ms/page", "RSS MiB", "coord error"}}
	for _, n := range r.Nodes[:min(shown, len(r.Nodes))] {
		perPage := dash
		if n.Pages > 0 {
			perPage = fmt.Sprintf("%.1f", 1000*n.CPUSeconds/float64(n.Pages))
		}
		rows = append(rows, []string{clip(n.Name, 24), clip(n.City, 16), fmt.Sprint(n.Pages), fmt.Sprintf("%.1f", float64(n.Bytes)/1e6),
			fmt.Sprintf("%.0f", n.BusyS),
			fmt.Sprintf("%.1f", n.CPUSeconds), perPage, fmt.Sprintf("%.0f", float64(n.RSSBytes)/(1<<20)), number(n.CoordError, 2)})
	}
	grid(b, rows)
	if more := len(r.Nodes) - shown; more > 0 {
		fmt.Fprintf(b, "… and %d more nodes\n", more)
	}
}

// grid writes rows in columns; the first is on the left, the others are on the right.
func grid(b *bytes.Buffer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, s := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(s))
		}
	}
	for _, row := range rows {
		for i, s := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(s))
			switch {
			case i == 0 && len(row) == 1:
				b.WriteString(s)
			case i == 0:
				b.WriteString(s + pad)
			default:
				b.WriteString("  " + pad + s)
			}
		}
		b.WriteByte('\n')
	}
}

func number(v *float64, decimals int) string {
	if v == nil {
		return dash
	}
	return fmt.Sprintf("%.*f", decimals, *v)
}

func percent(v *float64) string {
	if v == nil {
		return dash
	}
	return fmt.Sprintf("%.0f %%", 100**v)
}

func percent2(v *float64) string {
	if v == nil {
		return dash
	}
	return fmt.Sprintf("%.2f %%", 100**v)
}

// clip is the beginning of a text of at most n characters.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
