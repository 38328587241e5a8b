package ncoord_test

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"proxima/ncoord"
	"proxima/scripts/measured"
)

// matrix holds round trips in ms; 0 where none was measured.
type matrix [][]float64

// open opens a file of measured data.
func open(t testing.TB, name string) io.Reader {
	t.Helper()
	f, err := os.Open(measured.File(t, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if !strings.HasSuffix(name, ".gz") {
		return f
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	return z
}

// numbers reads a square of numbers in text, or several one after the other, and scales them.
func numbers(t testing.TB, name string, scale float64) matrix {
	t.Helper()
	var all matrix
	lines := bufio.NewScanner(open(t, name))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		row := make([]float64, len(words))
		for i, w := range words {
			v, err := strconv.ParseFloat(w, 64)
			if err != nil {
				t.Fatalf("read %s: %v", name, err)
			}
			row[i] = v * scale
		}
		all = append(all, row)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return all
}

func records(t testing.TB, name string) [][]string {
	t.Helper()
	rows, err := csv.NewReader(open(t, name)).ReadAll()
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return rows[1:]
}

// between makes a symmetric matrix, and the names of its rows, of rows (from, to, ms): the median of what was measured
// both ways.
func between(rows [][]string, from, to, ms int) (matrix, []string) {
	got := map[[2]string][]float64{}
	var names []string
	for _, r := range rows {
		v, err := strconv.ParseFloat(r[ms], 64)
		if err != nil || v <= 0 {
			continue
		}
		a, b := min(r[from], r[to]), max(r[from], r[to])
		got[[2]string{a, b}] = append(got[[2]string{a, b}], v)
		names = append(names, a, b)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	m := make(matrix, len(names))
	for i := range m {
		m[i] = make([]float64, len(names))
	}
	for i := range names {
		for k := i + 1; k < len(names); k++ {
			if v := got[[2]string{names[i], names[k]}]; len(v) > 0 {
				slices.Sort(v)
				m[i][k], m[k][i] = v[len(v)/2], v[len(v)/2]
			}
		}
	}
	return m, names
}

func planetlab(t testing.TB) matrix { return numbers(t, "planetlab/PlanetLabData_1.gz", 1) }

func cities(t testing.TB) matrix {
	m, _ := between(records(t, "wondernetwork/rtt.csv.gz"), 0, 1, 3)
	return m
}

func clouds(t testing.TB) matrix {
	m, _ := between(records(t, "skyplane/latency.csv.gz"), 0, 3, 7)
	return m
}

// seattle gives 200 snapshots of a very noisy network of homes and phones.
func seattle(t testing.TB) []matrix {
	const nodes = 99
	return slices.Collect(slices.Chunk(numbers(t, "seattle/first200.txt.gz", 1000), nodes))
}

// cityLocations gives the locations of cities by their id.
func cityLocations(t testing.TB) map[string]ncoord.Location {
	at := map[string]ncoord.Location{}
	for _, r := range records(t, "wondernetwork/cities.csv") {
		lat, err1 := strconv.ParseFloat(r[3], 64)
		lon, err2 := strconv.ParseFloat(r[4], 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("read cities: %v", r)
		}
		at[r[0]] = ncoord.Location{Lat: lat, Lon: lon}
	}
	return at
}
