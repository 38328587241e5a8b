package world_test

import (
	"testing"

	"proxima/cmd/proxima/world"
	"proxima/ncoord"
)

func TestSyntheticLikeTheInternet(t *testing.T) {
	cities := world.Cities()
	if n := len(cities); n < 55 || n > 70 {
		t.Fatalf("%d cities, want some 60", n)
	}
	for seed := range uint64(200) {
		m := world.Synthetic(cities, seed)
		if v := m.Violations(); v < 0.12 || v > 0.18 {
			t.Errorf("seed %d: %.1f %% of the triangles violate the inequality, want 12 to 18 %%", seed, 100*v)
		}
		for i := range m.RTT {
			for j := range i {
				least := ncoord.GreatCircleKm(*cities[i].At, *cities[j].At) / 100
				if m.RTT[i][j] != m.RTT[j][i] || m.RTT[i][j] < least || m.RTT[i][j] > 12*least+20 {
					t.Fatalf("seed %d: %s to %s is %.1f ms, %.1f back; light in fibre takes %.1f", seed, cities[i].Name, cities[j].Name,
						m.RTT[i][j], m.RTT[j][i], least)
				}
			}
		}
	}
}

func TestSyntheticDependsOnTheSeedAlone(t *testing.T) {
	a, b, c := world.Synthetic(world.Cities(), 3), world.Synthetic(world.Cities(), 3), world.Synthetic(world.Cities(), 4)
	same, other := true, false
	for i := range a.RTT {
		for j := range a.RTT {
			same = same && a.RTT[i][j] == b.RTT[i][j]
			other = other || a.RTT[i][j] != c.RTT[i][j]
		}
	}
	if !same || !other {
		t.Errorf("the same seed gives the same: %v; another seed another: %v", same, other)
	}
}

func TestCitiesAreWhereTheyAre(t *testing.T) {
	at := map[string]ncoord.Location{}
	for _, c := range world.Cities() {
		if _, twice := at[c.Name]; twice || c.Country == "" || !c.At.Valid() {
			t.Errorf("%+v: there twice, or incomplete", c)
		}
		at[c.Name] = *c.At
	}
	// Distances over the ground, in km, as atlases have them.
	for _, d := range []struct {
		a, b string
		km   float64
	}{{"London", "New York", 5570}, {"Tokyo", "Sydney", 7820}, {"Madrid", "Buenos Aires", 10050}, {"Mumbai", "Singapore", 3910},
		{"Frankfurt", "Vienna", 600}} {
		if km := ncoord.GreatCircleKm(at[d.a], at[d.b]); km < d.km*0.98 || km > d.km*1.02 {
			t.Errorf("%s to %s: %.0f km, want some %.0f", d.a, d.b, km, d.km)
		}
	}
}
