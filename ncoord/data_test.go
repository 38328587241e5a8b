package ncoord_test

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"proxima/cmd/proxima/world"
	"proxima/scripts/measured"
)

// matrix holds round trips in ms; 0 where none was measured.
type matrix [][]float64

// open reads a file of measured data.
func open(t testing.TB, name string, read func(io.Reader) error) {
	t.Helper()
	if err := world.Open(measured.File(t, name), read); err != nil {
		t.Fatalf("read %v", err)
	}
}

// numbers reads a square of numbers in text, or several one after the other, and scales them.
func numbers(t testing.TB, name string, scale float64) (all matrix) {
	t.Helper()
	open(t, name, func(r io.Reader) error {
		text, err := io.ReadAll(r)
		for line := range strings.Lines(string(text)) {
			var row []float64
			for _, w := range strings.Fields(line) {
				v, err := strconv.ParseFloat(w, 64)
				if err != nil {
					return err
				}
				row = append(row, v*scale)
			}
			if len(row) > 0 {
				all = append(all, row)
			}
		}
		return err
	})
	return all
}

// between makes a symmetric matrix of a table with columns from, to and ms: the median of what was measured both ways.
func between(t testing.TB, name string, from, to, ms int) matrix {
	t.Helper()
	got := map[[2]string][]float64{}
	var names []string
	open(t, name, func(r io.Reader) error {
		rows, err := csv.NewReader(r).ReadAll()
		for _, row := range rows {
			v, err := strconv.ParseFloat(row[ms], 64)
			if err != nil || v <= 0 {
				continue // the header, or a gap
			}
			a, b := min(row[from], row[to]), max(row[from], row[to])
			got[[2]string{a, b}] = append(got[[2]string{a, b}], v)
			names = append(names, a, b)
		}
		return err
	})
	slices.Sort(names)
	names = slices.Compact(names)
	return topology(len(names), func(a, b int) float64 {
		v := got[[2]string{names[min(a, b)], names[max(a, b)]}]
		if slices.Sort(v); len(v) == 0 {
			return 0
		}
		return v[len(v)/2]
	})
}

func planetlab(t testing.TB) matrix { return numbers(t, "planetlab/PlanetLabData_1.gz", 1) }

func cities(t testing.TB) matrix { return between(t, "wondernetwork/rtt.csv.gz", 0, 1, 3) }

func clouds(t testing.TB) matrix { return between(t, "skyplane/latency.csv.gz", 0, 3, 7) }

// seattle gives 200 snapshots of a very noisy network of homes and phones.
func seattle(t testing.TB) []matrix {
	const nodes = 99
	return slices.Collect(slices.Chunk(numbers(t, "seattle/first200.txt.gz", 1000), nodes))
}
