package assigntest

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"

	"proxima/ncoord"
)

// Matrix is a set of places and the round trips among them, in ms. RTT is symmetric and has no gaps.
type Matrix struct {
	Places []ncoord.Location
	RTT    [][]float64
}

// ReadCities reads places from a CSV file with the columns id, city, country, latitude, longitude, and round trips from a
// gzipped one with source, destination, min, avg (in ms). It averages both directions and leaves out places until no round trip is
// missing.
func ReadCities(cities, rtt io.Reader) (*Matrix, error) {
	rows, err := csv.NewReader(cities).ReadAll()
	if err != nil || len(rows) < 2 {
		return nil, fmt.Errorf("read cities: %d rows: %w", len(rows), err)
	}
	index := map[string]int{}
	var places []ncoord.Location
	for _, r := range rows[1:] {
		lat, err1 := strconv.ParseFloat(r[3], 64)
		lon, err2 := strconv.ParseFloat(r[4], 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("read cities: row %q", r)
		}
		index[r[0]] = len(places)
		places = append(places, ncoord.Location{Lat: lat, Lon: lon})
	}
	plain, err := gzip.NewReader(rtt)
	if err != nil {
		return nil, fmt.Errorf("read round trips: %w", err)
	}
	if rows, err = csv.NewReader(plain).ReadAll(); err != nil || len(rows) < 2 {
		return nil, fmt.Errorf("read round trips: %d rows: %w", len(rows), err)
	}
	n := len(places)
	sum, count := grid(n, n), grid(n, n)
	for _, r := range rows[1:] {
		a, okA := index[r[0]]
		b, okB := index[r[1]]
		v, err := strconv.ParseFloat(r[3], 64)
		if !okA || !okB || err != nil || !(v > 0) {
			continue
		}
		sum[a][b], count[a][b] = sum[a][b]+v, count[a][b]+1
		sum[b][a], count[b][a] = sum[b][a]+v, count[b][a]+1
	}
	return complete(places, sum, count), nil
}

func grid(rows, columns int) [][]float64 {
	m := make([][]float64, rows)
	for i := range m {
		m[i] = make([]float64, columns)
	}
	return m
}

// complete leaves out the place with the most gaps until there are none.
func complete(places []ncoord.Location, sum, count [][]float64) *Matrix {
	var keep []int
	for i := range places {
		keep = append(keep, i)
	}
	for {
		worst, gaps := -1, 0
		for k, i := range keep {
			g := 0
			for _, j := range keep {
				if i != j && count[i][j] == 0 {
					g++
				}
			}
			if g > gaps {
				worst, gaps = k, g
			}
		}
		if worst < 0 {
			break
		}
		keep = append(keep[:worst], keep[worst+1:]...)
	}
	m := &Matrix{RTT: grid(len(keep), len(keep))}
	for a, i := range keep {
		m.Places = append(m.Places, places[i])
		for b, j := range keep {
			if i != j {
				m.RTT[a][b] = sum[i][j] / count[i][j]
			} else {
				m.RTT[a][b] = 0.1
			}
		}
	}
	return m
}

// MadeUp makes a matrix without any data: places in clusters on the globe, and round trips along the ground with detours that neighbours
// share.
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
