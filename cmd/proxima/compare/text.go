package compare

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"proxima/cmd/proxima/terminal"
)

// dash stands for what is unknown.
const dash = "–"

// Text returns the comparison for people.
func (r *Result) Text() string {
	var b bytes.Buffer
	r.head(&b)
	r.assignersText(&b)
	r.crawlText(&b)
	r.nodesText(&b)
	return b.String()
}

func (r *Result) head(b *bytes.Buffer) {
	const shown = 6
	for _, run := range r.Runs[:min(shown, len(r.Runs))] {
		name := run.Dir
		if run.Emulated {
			name = fmt.Sprintf("scenario %s, seed %d", run.Scenario, run.Seed)
		}
		fmt.Fprintf(b, "%s: %d nodes, %d servers, %.0f s, %s\n", name, run.Nodes, run.Servers, run.Seconds,
			cmp.Or(strings.Join(run.Assigners, ", "), "no assigner"))
	}
	if more := len(r.Runs) - shown; more > 0 {
		fmt.Fprintf(b, "… and %d more runs\n", more)
	}
	if t := r.Testbed; t.Trusted != nil {
		text := "testbed: may be trusted"
		if !*t.Trusted {
			text = "testbed: NOT TO BE TRUSTED"
		}
		if t.DelayErrorP99Ms != nil {
			text += fmt.Sprintf(" (%s; delay error p50 %.2f ms, p99 %.2f ms; %d packets dropped unplanned; processors %.0f %% busy)",
				t.Emulation, *t.DelayErrorP50Ms, *t.DelayErrorP99Ms, t.Dropped, 100*t.Busy)
		}
		terminal.Wrap(b, "", 2, text)
		if t.Calibrations > 0 {
			fmt.Fprintf(b, "truth: an ordinary client took %.2f × the expected time (p10 %.2f, p90 %.2f, %d downloads)\n", t.CalibrationP50,
				t.CalibrationP10, t.CalibrationP90, t.Calibrations)
		}
	}
	fmt.Fprintln(b)
	terminal.Wrap(b, "", 0, r.Headline())
	for _, s := range r.Explain() {
		terminal.Wrap(b, "", 2, s)
	}
	for _, s := range r.Notes() {
		terminal.Wrap(b, "", 2, "! "+s)
	}
	fmt.Fprintln(b)
}

func (r *Result) assignersText(b *bytes.Buffer) {
	if len(r.Assigners) == 0 {
		return
	}
	times := [][]string{{"assigner", "URLs", "downloaded", "failed", "MB", "p50 ms", "p90", "p99", "mean",
		"vs " + cmp.Or(r.Reference, "random") + ", 95 %"}}
	choices := [][]string{{"assigner", "choice", "total", "+estimates", "best node", "est p50", "p90", "decided s", "error", "makespan s", "balance"}}
	truncated := ""
	for _, a := range r.Assigners {
		name, diff := a.Name, dash
		if d := a.Difference; d != nil {
			diff = fmt.Sprintf("%s (%s)", percents("%+.*f", d.Rel), strings.TrimSuffix(span95(d), " %"))
		}
		times = append(times, []string{name, fmt.Sprint(a.URLs), fmt.Sprint(a.Downloaded), fmt.Sprint(a.Failed), megabytes(a.Bytes),
			number(a.P50Ms, 0), number(a.P90Ms, 0), number(a.P99Ms, 0), number(a.MeanMs, 0), diff})
		if a.Truncated {
			name += " *"
			truncated = "*: truncated, see above\n"
		}
		choices = append(choices, []string{name, number(a.ChoiceRatio, 3), number(a.TotalRatio, 3), number(a.TotalRatioWithEstimates, 3),
			percent(a.BestShare, 0), number(a.EstimatesP50, 0), number(a.EstimatesP90, 0), number(a.SecondsP50, 1),
			number(a.AccuracyP50, 2), number(a.MakespanS, 0), number(a.BalanceCV, 2)})
	}
	grid(b, times)
	grid(b, choices)
	terminal.Wrap(b, "", 0, "choice: expected time at the chosen nodes / at the best nodes; total: measured time / the same; 1 is the best possible. "+
		"balance: variation of URLs per node.")
	b.WriteString(truncated)
	for _, a := range r.Assigners {
		if l := a.Balance; l != nil {
			fmt.Fprintf(b, "%s alone: URLs per node %d to %d (cv %s), busy %.0f to %.0f s (cv %s)", a.Name, l.MinURLs, l.MaxURLs,
				number(a.BalanceCV, 2), l.MinBusyS, l.MaxBusyS, number(l.CVBusy, 2))
			if a.MakespanWhy != "" {
				fmt.Fprintf(b, "; makespan unknown: %s", a.MakespanWhy)
			}
			fmt.Fprintln(b)
		}
	}
	r.seedsText(b)
	fmt.Fprintln(b)
}

func (r *Result) seedsText(b *bytes.Buffer) {
	if !slices.ContainsFunc(r.Assigners, func(a Assigner) bool { return len(a.Seeds) > 1 }) {
		return
	}
	fmt.Fprintln(b, "\nby seed: choice ratio / total ratio / p50 ms")
	for _, a := range r.Assigners {
		var shares []string
		for _, s := range a.Seeds {
			shares = append(shares, fmt.Sprintf("seed %d %s / %s / %s", s.Seed, number(s.Choice, 3), number(s.Total, 3), number(s.P50Ms, 0)))
		}
		terminal.Wrap(b, "", 4, a.Name+": "+strings.Join(shares, ", "))
	}
}

func (r *Result) crawlText(b *bytes.Buffer) {
	k := r.Crawl
	coverage, generated, lost := "withheld", "", "withheld"
	if k.Coverage != nil {
		coverage = number(k.Coverage, 4)
	}
	if k.CoverageGenerated != nil {
		generated = fmt.Sprintf(" (%d of the generator's %d pages found, %.4f)", k.Found, k.Listed, *k.CoverageGenerated)
	}
	if k.Lost != nil {
		lost = fmt.Sprint(*k.Lost)
	}
	fmt.Fprintf(b, "crawl: %d URLs attempted, coverage %s%s\n", k.Attempted, coverage, generated)
	fmt.Fprintf(b, "  lost %s, overlap %s, %d re-assignments of hosts\n", lost, percent(k.Overlap, 2), k.Reassigned)
	fmt.Fprintf(b, "  between nodes per page: %s URLs, %s messages, %s bytes\n", number(k.URLsExchangedPerPage, 2), number(k.MessagesPerPage, 2),
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
		perPage := ratio(1000*n.CPUSeconds, float64(n.Pages))
		rows = append(rows, []string{clip(n.Name, 24), clip(n.City, 16), fmt.Sprint(n.Pages), megabytes(n.Bytes), fmt.Sprintf("%.0f", n.BusyS),
			fmt.Sprintf("%.1f", n.CPUSeconds), number(perPage, 1), fmt.Sprintf("%.0f", float64(n.RSSBytes)/(1<<20)), number(n.CoordError, 2)})
	}
	grid(b, rows)
	if more := len(r.Nodes) - shown; more > 0 {
		fmt.Fprintf(b, "… and %d more nodes\n", more)
	}
}

// grid writes rows in columns. The first is aligned to the left, the others to the right.
func grid(b *bytes.Buffer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, s := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(s))
		}
	}
	for _, row := range rows {
		fmt.Fprintf(b, "%-*s", widths[0], row[0])
		for i, s := range row[1:] {
			fmt.Fprintf(b, "  %*s", widths[i+1], s)
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

func percent(v *float64, decimals int) string {
	if v == nil {
		return dash
	}
	return fmt.Sprintf("%.*f %%", decimals, 100**v)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }

func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
