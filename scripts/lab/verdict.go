package lab

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"proxima/ncoord/quantile"
)

// maxShown bounds how many faults of one kind are printed.
const maxShown = 10

// Verdict is a criterion and its result.
type Verdict struct {
	Name, Found, Bound string
	OK                 bool
	Faults             []string // what broke it
}

// None is the verdict on things that must not happen.
func None(name string, faults []string) Verdict {
	return Verdict{name, fmt.Sprint(len(faults)), "0", len(faults) == 0, faults}
}

// Show prints verdicts as a table with their faults below it, and reports whether all are OK.
func Show(out io.Writer, list []Verdict) bool {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tcriterion\tfound\tmust be")
	word := map[bool]string{true: "PASS", false: "FAIL"}
	ok := true
	for _, v := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", word[v.OK], v.Name, v.Found, v.Bound)
		ok = ok && v.OK
	}
	table.Flush()
	for _, v := range list {
		for i, f := range v.Faults {
			if i == maxShown {
				fmt.Fprintf(out, "%s: and %d more\n", v.Name, len(v.Faults)-i)
				break
			}
			fmt.Fprintf(out, "%s: %s\n", v.Name, f)
		}
	}
	fmt.Fprintln(out, word[ok])
	return ok
}

// Spread formats the median of values with their extremes, such as "5 [1–9]"; one number if all are equal, 0 if there are none.
func Spread(values []float64, verb string) string {
	if len(values) == 0 {
		return fmt.Sprintf(verb, 0.0)
	}
	median, low, high := quantile.Median(values), slices.Min(values), slices.Max(values)
	if low == high {
		return fmt.Sprintf(verb, median)
	}
	return fmt.Sprintf(verb+" ["+verb+"–"+verb+"]", median, low, high)
}
