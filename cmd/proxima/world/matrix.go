// Package world has the cities of an emulated Internet and the round trips between them, built in or read from files. It knows nothing
// about nodes, servers or downloads.
package world

import (
	"math"
	"math/rand/v2"
	"slices"

	"proxima/ncoord"
)

// Matrix has cities and the round trips between them. It does not change, so it is safe for concurrent use.
type Matrix struct {
	// Cities are in the order of the rows.
	Cities []City
	// RTT is in ms, symmetric and complete. The diagonal has the round trips within cities.
	RTT [][]float64
	// Unused says what its files had that could not be used, for people; "" if all could.
	Unused string
}

// withinMs is the round trip within a city, that of a metropolitan fibre ring. Measured ones are not read.
const withinMs = 0.5

// square returns a matrix of zeros.
func square(n int) [][]float64 {
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, n)
	}
	return m
}

// The synthetic Internet. Light takes 1 ms for 100 km of fibre in both directions. Real routes are longer than the great circle. One
// factor is the same for all cities of two regions, since they share cables. Another is drawn for each pair. Some pairs are routed over
// a third place, as between networks that do not peer. These pairs cause the large violations of the triangle inequality.
const (
	fibreMsPerKm  = 0.01
	leastDetour   = 1.05
	detour        = 0.45 // median above leastDetour
	regionSD      = 0.20
	pairSD        = 0.14
	switchingMs   = 3.0
	regionKm      = 2500.0
	astrayShare   = 0.02
	astrayDetour  = 1.8
	astraySD      = 0.3
	astrayLeastKm = 500.0
)

// The share of violated triangles of a synthetic matrix, and the number of attempts. With few cities no attempt may succeed.
const leastViolations, mostViolations, draws = 0.12, 0.18, 20

// Synthetic draws round trips between cities, which must have locations: the great circle at two thirds of the speed of light, times a
// path inflation that depends on the seed. 12 to 18 % of the triangles violate the inequality, as in measurements between cities
// (WonderNetwork in 2020: 13 %) and between PlanetLab's nodes (18 %).
func Synthetic(cities []City, seed uint64) *Matrix {
	rnd := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	region := regions(cities)
	for try := 1; ; try++ {
		m := synthetic(cities, region, rnd)
		if v := m.Violations(); v >= leastViolations && v <= mostViolations || try == draws {
			return m
		}
	}
}

func synthetic(cities []City, region []int, rnd *rand.Rand) *Matrix {
	shared := square(len(cities))
	for a := range cities {
		for b := range a + 1 {
			shared[a][b] = math.Exp(regionSD * rnd.NormFloat64())
			shared[b][a] = shared[a][b]
		}
	}
	m := &Matrix{Cities: cities, RTT: square(len(cities))}
	for i := range cities {
		m.RTT[i][i] = withinMs
		for j := range i {
			km := ncoord.GreatCircleKm(*cities[i].At, *cities[j].At)
			factor := leastDetour + detour*shared[region[i]][region[j]]*math.Exp(pairSD*rnd.NormFloat64())
			if astray := rnd.Float64() < astrayShare; astray && km > astrayLeastKm {
				factor *= astrayDetour * math.Exp(astraySD*rnd.NormFloat64())
			}
			m.RTT[i][j] = switchingMs + km*fibreMsPerKm*max(factor, leastDetour)
			m.RTT[j][i] = m.RTT[i][j]
		}
	}
	return m
}

// regions returns, for each city, the first city in order that is within regionKm.
func regions(cities []City) []int {
	of := make([]int, len(cities))
	for i := range cities {
		of[i] = i
		for j := range i {
			if of[j] == j && ncoord.GreatCircleKm(*cities[i].At, *cities[j].At) < regionKm {
				of[i] = j
				break
			}
		}
	}
	return of
}

// Violations returns the share of triangles of three cities whose longest side is longer than the sum of the other two.
func (m *Matrix) Violations() float64 {
	all, bad := 0, 0
	for i := range m.RTT {
		for j := range i {
			for k := range j {
				a, b, c := m.RTT[i][j], m.RTT[j][k], m.RTT[i][k]
				all++
				if 2*max(a, b, c) > a+b+c {
					bad++
				}
			}
		}
	}
	if all == 0 {
		return 0
	}
	return float64(bad) / float64(all)
}

// Located reports whether all cities have a location.
func (m *Matrix) Located() bool {
	return len(m.Cities) > 0 && !slices.ContainsFunc(m.Cities, func(c City) bool { return c.At == nil })
}
