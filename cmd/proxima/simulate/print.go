package simulate

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes a report as a table for people.
func (r *Report) Print(out io.Writer) error {
	r.World.print(out)
	t := newTable(out)
	fmt.Fprintln(t, "assigner\t"+columns)
	for _, a := range r.Assigners {
		fmt.Fprintf(t, "%s\t%s\n", a.Name, a.cells())
	}
	return t.Flush()
}

// Print writes a sweep as a table for people, and draws it.
func (s *Sweep) Print(out io.Writer) error {
	fmt.Fprintf(out, "Sweep over %s, from ", s.Parameter)
	s.Reports[0].World.print(out)
	t := newTable(out)
	fmt.Fprintln(t, s.Parameter+"\tassigner\t"+columns)
	for k := range s.Reports[0].Assigners {
		for i, r := range s.Reports {
			fmt.Fprintf(t, "%s\t%s\t%s\n", s.Values[i], r.Assigners[k].Name, r.Assigners[k].cells())
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nchoice ratio\n%s", s.text())
	return err
}

func newTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
}

const columns = "choice ratio\tp10–p90\ttotal\twith estimates\t% best\tloss ms\tp50 ms\tp90 ms\testimates\tmax\tmakespan\tof same sum\t" +
	"balance cv\t"

func (a *Assigner) cells() string {
	c := a.ChoiceRatio
	return fmt.Sprintf("%.3f\t%.3f–%.3f\t%.3f\t%.3f\t%.0f\t%.1f\t%.0f\t%.0f\t%.1f\t%d\t%.2f\t%.2f\t%.2f\t", c.Median, c.P10, c.P90, a.TotalRatio,
		a.TotalWith, 100*a.BestShare, a.LossMs, a.P50Ms, a.P90Ms, a.EstimatesMean, a.EstimatesMax, a.MakespanRatio, a.MakespanSameSum,
		a.BalanceCV)
}

func (d Described) print(out io.Writer) {
	budget := "their own"
	if d.Estimates != nil {
		budget = fmt.Sprint(*d.Estimates)
	}
	fmt.Fprintf(out, "%d nodes, %d servers, %d homes over %d cities (%s round trips, %.0f %% triangle violations); %d seeds from %d;\n"+
		"estimates: %s; locations wrong %.0f %%, missing %.0f %%; noise × %g; %d pages a server\n\n", d.Nodes, d.Servers, d.Homes, d.Cities,
		d.Matrices, 100*d.Violations, d.Seeds, d.First, budget, 100*d.LocationWrong, 100*d.LocationMissing, d.Noise, d.Pages)
}
