package report

import (
	"strings"
	"testing"
)

func TestHeadline(t *testing.T) {
	full := sample(3, 3, 3)
	two := func(change func(best, second *Assigner)) Data {
		d := Data{Assigners: []Assigner{full.Assigners[3], full.Assigners[0]}}
		change(&d.Assigners[1], &d.Assigners[0])
		return d
	}
	for _, c := range []struct {
		name, want string
		d          Data
	}{
		{"by the truth", "nearest was better: its total download time was 18 % less than geographic’s, 29 % less than vivaldi’s and 47 % less " +
			"than random’s, because it gave 81 % of the servers to the node that is truly fastest for them (geographic: 52 %).", full},
		{"without truth", "nearest was better: its mean download time was 47 % less than random’s.", two(func(a, b *Assigner) {
			a.TotalRatio, a.ChoiceRatio, a.BestShare, b.BestShare = 0, 0, Unknown(), Unknown()
		})},
		{"cheaper mistakes", "nearest was better: its total download time was 47 % less than random’s, because its wrong choices cost less " +
			"(choice ratio 1.08 ×, random: 2.04 ×).", two(func(a, _ *Assigner) { a.BestShare = 0 })},
		{"close", "No assigner was clearly better: nearest leads random by 0.46 % of total download time, which is within the uncertainty.",
			two(func(a, b *Assigner) { a.TotalRatio = b.TotalRatio * 0.9954 })},
		{"interval over zero", "No assigner was clearly better: nearest leads random by 46.5 % of total download time, which is within " +
			"the uncertainty.",
			two(func(a, _ *Assigner) { a.DiffHighMS = 12 })},
		{"one", "Only random was run, so there is nothing to compare it with: half of its downloads took less than 588 ms, " +
			"nine tenths less than 1.99 s.",
			two(func(a, _ *Assigner) { a.Downloaded = 0 })},
		{"none", "Nothing was downloaded for any assigner, so there is nothing to compare.", Data{}},
		{"no times", "The logs do not have the times by which the assigners could be ranked.", two(func(a, _ *Assigner) {
			a.TotalRatio, a.MeanMS, a.P50MS = 0, 0, 0
		})},
		{"given", "As the caller says.", Data{Headline: "As the caller says."}},
		{"not trusted", "Not to be trusted: as the caller says.", Data{Headline: "as the caller says.", Testbed: Testbed{Known: true}}},
	} {
		if got := strings.ReplaceAll(headline(c.d), gap, " "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestBestOfARow(t *testing.T) {
	all := sample(3, 3, 3).Assigners
	best := map[string][]string{}
	cells := map[string][]string{}
	for _, g := range assignerRows(all, "random") {
		for _, r := range g.Rows {
			for i, c := range r.Cells {
				cells[r.Name] = append(cells[r.Name], c.Text)
				if c.Best {
					best[r.Name] = append(best[r.Name], all[i].Name)
				}
			}
		}
	}
	for row, want := range map[string]string{"p50": "nearest", "servers at the truly best node": "nearest", "URLs per node, CV": "random",
		"URLs assigned": "", "bytes": ""} {
		if got := strings.Join(best[row], " "); got != want {
			t.Errorf("best of %s: %q, want %q", row, got, want)
		}
	}
	if got := cells["truncated"]; strings.Join(got, " ") != "no 3 no no" {
		t.Errorf("truncated: %v", got)
	}
	if got := cells["difference to random"]; got[0] != "−391" || got[3] != "reference" {
		t.Errorf("differences: %v", got)
	}
	for i := range all {
		all[i].ChoiceRatio = 0
	}
	for _, g := range assignerRows(all, "random") {
		for _, r := range g.Rows {
			if r.Name == "choice ratio" {
				t.Error("a row without any figure is shown")
			}
		}
	}
}
