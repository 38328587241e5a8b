package assigntest

import (
	"math"
	"math/rand/v2"

	"proxima/ncoord"
)

// Matrix has places and the round trips between them, in ms. RTT is symmetric and complete.
type Matrix struct {
	Places []ncoord.Location
	RTT    [][]float64
}

// grid returns a matrix of zeros.
func grid(rows, columns int) [][]float64 {
	m := make([][]float64, rows)
	for i := range m {
		m[i] = make([]float64, columns)
	}
	return m
}

// MadeUp returns a synthetic matrix. Its places are clusters on the globe. Round trips follow the ground, with detours that neighbours share.
func MadeUp(places int, seed uint64) *Matrix {
	rnd := rand.New(rand.NewPCG(seed, 17))
	centres := []ncoord.Location{{Lat: 50, Lon: 8}, {Lat: 40, Lon: -76}, {Lat: 36, Lon: -119}, {Lat: 35, Lon: 137},
		{Lat: 15, Lon: 80}, {Lat: -25, Lon: -48}, {Lat: -33, Lon: 148}, {Lat: 1, Lon: 104}}
	m := &Matrix{RTT: grid(places, places)}
	detour := grid(len(centres), len(centres))
	for i := range centres {
		for j := range i + 1 {
			detour[i][j] = math.Exp(0.25 * rnd.NormFloat64())
			detour[j][i] = detour[i][j]
		}
	}
	of := make([]int, places)
	for i := range places {
		of[i] = rnd.IntN(len(centres))
		c := centres[of[i]]
		m.Places = append(m.Places, ncoord.Location{Lat: c.Lat + 6*rnd.NormFloat64(), Lon: c.Lon + 9*rnd.NormFloat64()})
		for j := range i {
			km := ncoord.GreatCircleKm(m.Places[i], m.Places[j])
			v := 2 + km*0.0155*detour[of[i]][of[j]]*math.Exp(0.15*rnd.NormFloat64())
			m.RTT[i][j] = max(v, ncoord.LightMs(m.Places[i], m.Places[j])*1.05)
			m.RTT[j][i] = m.RTT[i][j]
		}
		m.RTT[i][i] = 0.1
	}
	return m
}
