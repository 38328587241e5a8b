package ncoord_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"proxima/ncoord"
)

func TestRefusals(t *testing.T) {
	good := ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{10, 20, 30}, Height: 3, Error: 0.3}
	with := func(change func(*ncoord.Coordinate)) ncoord.Coordinate {
		c := good
		change(&c)
		return c
	}
	newYork, london := ncoord.Location{Lat: 40.71, Lon: -74.01}, ncoord.Location{Lat: 51.51, Lon: -0.13}
	// Both locations may be off by 50 km.
	km := ncoord.GreatCircleKm(newYork, london)
	least := duration(ncoord.LightMs(newYork, london) * (km - 100) / km)
	for _, c := range []struct {
		name   string
		peer   string
		remote ncoord.Coordinate
		at     *ncoord.Location
		rtt    time.Duration
		want   error
	}{
		{"good", "p", good, nil, 50 * time.Millisecond, nil},
		{"good across the Atlantic", "p", good, &london, 70 * time.Millisecond, nil},
		{"a location nowhere is unknown", "p", good, &ncoord.Location{Lat: math.NaN()}, time.Millisecond, nil},
		{"a location above the pole is unknown", "p", good, &ncoord.Location{Lat: 91}, time.Millisecond, nil},
		{"as long as is believed", "p", good, nil, 20 * time.Second, nil},
		{"no name", "", good, nil, time.Second, ncoord.ErrPeer},
		{"no time", "p", good, nil, 0, ncoord.ErrRTT},
		{"negative time", "p", good, nil, -time.Second, ncoord.ErrRTT},
		{"too long", "p", good, nil, 21 * time.Second, ncoord.ErrRTT},
		{"negative error", "p", with(func(c *ncoord.Coordinate) { c.Error = -0.5 }), nil, time.Second, ncoord.ErrCoordinate},
		{"no error", "p", with(func(c *ncoord.Coordinate) { c.Error = 0 }), nil, time.Second, ncoord.ErrCoordinate},
		{"large error", "p", with(func(c *ncoord.Coordinate) { c.Error = 1.6 }), nil, time.Second, ncoord.ErrCoordinate},
		{"NaN error", "p", with(func(c *ncoord.Coordinate) { c.Error = math.NaN() }), nil, time.Second, ncoord.ErrCoordinate},
		{"NaN", "p", with(func(c *ncoord.Coordinate) { c.Vec[1] = math.NaN() }), nil, time.Second, ncoord.ErrCoordinate},
		{"infinite", "p", with(func(c *ncoord.Coordinate) { c.Vec[2] = math.Inf(-1) }), nil, time.Second, ncoord.ErrCoordinate},
		{"far", "p", with(func(c *ncoord.Coordinate) { c.Vec[0] = 60_001 }), nil, time.Second, ncoord.ErrCoordinate},
		{"as far as can be", "p", with(func(c *ncoord.Coordinate) { c.Vec[3], c.Height, c.Error = -60_000, 60_000, 1.5 }), nil, time.Second, nil},
		{"no height", "p", with(func(c *ncoord.Coordinate) { c.Height = 0 }), nil, time.Second, nil},
		{"high", "p", with(func(c *ncoord.Coordinate) { c.Height = 60_001 }), nil, time.Second, ncoord.ErrCoordinate},
		{"negative height", "p", with(func(c *ncoord.Coordinate) { c.Height = -1 }), nil, time.Second, ncoord.ErrCoordinate},
		{"NaN height", "p", with(func(c *ncoord.Coordinate) { c.Height = math.NaN() }), nil, time.Second, ncoord.ErrCoordinate},
		{"just as fast as light", "p", good, &london, least + 10*time.Microsecond, nil},
		{"a little faster than light", "p", good, &london, least - 10*time.Microsecond, ncoord.ErrFasterThanLight},
		{"faster than light", "p", good, &london, 20 * time.Millisecond, ncoord.ErrFasterThanLight},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := ncoord.NewNode(rand.New(rand.NewPCG(1, 1)))
			n.SetLocation(&newYork)
			if bad := c.remote.Check() != nil; bad != (c.want == ncoord.ErrCoordinate) {
				t.Errorf("checked: %v", c.remote.Check())
			}
			for range 3 { // the first meets no link of the peer, the others may
				before := n.Coordinate()
				if err := n.Observe(c.peer, c.remote, c.at, c.rtt, start); !errors.Is(err, c.want) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
				if moved := n.Coordinate() != before; moved != (c.want == nil) {
					t.Fatalf("moved: %v, error: %v", moved, c.want)
				}
			}
			if c.want != nil && n.Links() != 0 {
				t.Fatal("a refused peer became a link")
			}
		})
	}
}

// A node that is told where it is, or told otherwise, judges round trips to peers that it knows by that.
func TestLocationThatChanges(t *testing.T) {
	peer := ncoord.Coordinate{Height: 3, Error: 0.3}
	newYork, london, paris := ncoord.Location{Lat: 40.71, Lon: -74.01}, ncoord.Location{Lat: 51.51, Lon: -0.13}, ncoord.Location{Lat: 48.86, Lon: 2.35}
	n := ncoord.NewNode(rand.New(rand.NewPCG(1, 1)))
	nowhere := ncoord.Location{Lat: -200}
	for _, c := range []struct {
		at, remote *ncoord.Location
		want       error
	}{
		{&paris, &london, nil}, {&newYork, &london, ncoord.ErrFasterThanLight}, {nil, &london, nil}, {&newYork, &london, ncoord.ErrFasterThanLight},
		{&nowhere, &newYork, nil}, {&paris, &london, nil},
		{&paris, &newYork, ncoord.ErrFasterThanLight}, {&paris, &london, nil}, {&paris, &newYork, ncoord.ErrFasterThanLight}, // the peer moves
	} {
		at := c.at
		if at != nil {
			at = new(*at)
		}
		if n.SetLocation(at); at != nil {
			*at = london // the node has its own
		}
		if err := n.Observe("p", peer, c.remote, 20*time.Millisecond, start); !errors.Is(err, c.want) {
			t.Errorf("at %v, 20 ms from %v: %v, want %v", c.at, c.remote, err, c.want)
		}
	}
}

// TestLiarsChangeNoChoices puts liars among nodes that have found their places: those who keep up their lies from one
// in ten neighbours must not make the others choose worse.
func TestLiarsChangeNoChoices(t *testing.T) {
	const n, liars = 60, 6
	m := topology(n, func(a, b int) float64 { return 5 + 25*onGrid(a, b, 8) })
	wild := rand.New(rand.NewPCG(7, 7))
	for _, lie := range []struct {
		name  string
		coord func(i int) ncoord.Coordinate
		delay float64 // ms
	}{
		{"far out and sure", func(int) ncoord.Coordinate {
			return ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{60_000, 60_000}, Height: 60_000, Error: 1e-9}
		}, 0},
		{"anywhere", func(int) ncoord.Coordinate {
			var c ncoord.Coordinate
			for i := range c.Vec {
				c.Vec[i] = wild.Float64()*4000 - 2000
			}
			c.Height, c.Error = wild.Float64()*100, 0.01
			return c
		}, 0},
		{"all at one place far away", func(int) ncoord.Coordinate {
			return ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{300}, Height: 1, Error: 0.01}
		}, 0},
		{"at the origin, slow to answer", func(int) ncoord.Coordinate { return ncoord.Coordinate{Error: 0.01} }, 3000},
	} {
		t.Run(lie.name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(5, 9))
			s := newOurs(n, 5)
			peers := neighbours(m, 32, rnd)
			run(m, s, peers, 1000, rnd)
			honest := make(matrix, n-liars) // the choices among honest nodes
			for i := range honest {
				honest[i] = m[i][:n-liars]
			}
			_, before := nearest(honest, s, 14, rand.New(rand.NewPCG(1, 1)))
			furthest := 0.0
			for r := range 600 {
				now := start.Add(time.Duration(1000+r) * time.Second)
				for i := range honest {
					k := peers[i][rnd.IntN(len(peers[i]))]
					if k < len(honest) {
						s.observe(i, k, m[i][k], now)
						continue
					}
					old := s.nodes[i].Coordinate()
					_ = s.nodes[i].Observe(s.names[k], lie.coord(k), nil, duration(m[i][k]+lie.delay), now)
					moved := s.nodes[i].Coordinate()
					furthest = max(furthest, distanceMoved(old, moved))
				}
			}
			_, after := nearest(honest, s, 14, rand.New(rand.NewPCG(1, 1)))
			t.Logf("loss %.2f ms before, %.2f with the liars; furthest throw %.1f ms", before, after, furthest)
			if furthest > 50 {
				t.Errorf("one lie threw a node by %.1f ms", furthest)
			}
			if after > before+4 {
				t.Errorf("choices lose %.2f ms, %.2f before the liars", after, before)
			}
		})
	}
}

func distanceMoved(a, b ncoord.Coordinate) float64 {
	sum := (a.Height - b.Height) * (a.Height - b.Height)
	for i := range a.Vec {
		sum += (a.Vec[i] - b.Vec[i]) * (a.Vec[i] - b.Vec[i])
	}
	return math.Sqrt(sum)
}
