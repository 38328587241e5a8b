package assign_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"proxima/assign/assigntest"
)

// cities are the real round trips among cities, nil where the data is not beside the project.
func cities(t testing.TB) *assigntest.Matrix {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		folder := filepath.Join(dir, "shared", "data", "wondernetwork")
		places, err := os.Open(filepath.Join(folder, "cities.csv"))
		if err != nil {
			continue
		}
		defer places.Close()
		rtt, err := os.Open(filepath.Join(folder, "rtt.csv.gz"))
		if err != nil {
			t.Fatal(err)
		}
		defer rtt.Close()
		m, err := assigntest.ReadCities(places, rtt)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	t.Skip("there is no shared/data/wondernetwork beside the project: real round trips are not tested")
	return nil
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
