package assign_test

import (
	"os"
	"slices"
	"testing"

	"proxima/assign/assigntest"
	"proxima/scripts/measured"
)

// cities are the real round trips among cities.
func cities(t testing.TB) *assigntest.Matrix {
	t.Helper()
	places, err := os.Open(measured.File(t, "wondernetwork/cities.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer places.Close()
	rtt, err := os.Open(measured.File(t, "wondernetwork/rtt.csv.gz"))
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

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
