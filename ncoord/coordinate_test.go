package ncoord_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"proxima/cmd/proxima/world"
	"proxima/ncoord"
	"proxima/scripts/measured"
)

func drawCoordinate(t *rapid.T) ncoord.Coordinate {
	c := ncoord.Coordinate{
		Height: rapid.Float64Range(0, ncoord.MaxComponent).Draw(t, "height"),
		Error:  rapid.Float64Range(0.001, ncoord.MaxError).Draw(t, "error"),
	}
	for i := range c.Vec {
		c.Vec[i] = rapid.Float64Range(-ncoord.MaxComponent, ncoord.MaxComponent).Draw(t, "component")
	}
	return c
}

func TestEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCoordinate(t)
		b := c.AppendBinary([]byte("before"))
		if len(b) != len("before")+ncoord.EncodedSize || !bytes.HasPrefix(b, []byte("before")) {
			t.Fatalf("%d bytes", len(b))
		}
		got, err := ncoord.DecodeCoordinate(b[len("before"):])
		if err != nil {
			t.Fatal(err)
		}
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(a)+1e-30 }
		same := near(c.Height, got.Height) && near(c.Error, got.Error)
		for i := range c.Vec {
			same = same && near(c.Vec[i], got.Vec[i])
		}
		if !same {
			t.Fatalf("%v became %v", c, got)
		}
		if _, err := ncoord.DecodeCoordinate(b[len("before") : len(b)-1]); err == nil {
			t.Fatal("a short one was accepted")
		}
		if _, err := ncoord.DecodeCoordinate(append(b[len("before"):], 0)); err == nil {
			t.Fatal("a long one was accepted")
		}
	})
	for version, want := range map[byte]bool{0: false, 1: true, 2: false} {
		b := ncoord.Coordinate{Error: 1}.AppendBinary(nil)
		b[0] = version
		if _, err := ncoord.DecodeCoordinate(b); (err == nil) != want {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// Who reads that a coordinate is impossible sees which of its numbers it is.
func TestImpossibleCoordinates(t *testing.T) {
	c := ncoord.Coordinate{Height: 70_000, Error: 0.5}
	c.Vec[1] = -2
	want := fmt.Sprintf("check coordinate: %v, height 70000 or error 0.5 is out of range", c.Vec)
	if err := c.Check(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func FuzzDecodeCoordinate(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{1, -2, 3}, Height: 4, Error: 0.5}.AppendBinary(nil))
	f.Add(ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{math.NaN()}, Height: math.Inf(1), Error: -1}.AppendBinary(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ncoord.DecodeCoordinate(b)
		if err != nil {
			if c != (ncoord.Coordinate{}) {
				t.Fatalf("refused, and %v all the same", c)
			}
			return
		}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		if again := c.AppendBinary(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x became %x", b, again)
		}
	})
}

func TestDistance(t *testing.T) {
	a := ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{3, 0, 0, 1}, Height: 2}
	b := ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{0, 4, 0, 1}, Height: 7}
	if d := ncoord.Distance(a, b); d != 14 {
		t.Errorf("distance %v, not 5 through the core and 9 of heights", d)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawCoordinate(t), drawCoordinate(t)
		if ncoord.Distance(a, b) != ncoord.Distance(b, a) {
			t.Fatal("not the same both ways")
		}
	})
}

func TestLocations(t *testing.T) {
	newYork, london := ncoord.Location{Lat: 40.7128, Lon: -74.0060}, ncoord.Location{Lat: 51.5074, Lon: -0.1278}
	if km := ncoord.GreatCircleKm(newYork, london); math.Abs(km-5570) > 10 {
		t.Errorf("New York to London: %.0f km", km)
	}
	if km := ncoord.GreatCircleKm(ncoord.Location{Lon: 179}, ncoord.Location{Lon: -179}); math.Abs(km-222.4) > 0.5 {
		t.Errorf("across the date line: %.1f km", km)
	}
	far := ncoord.Location{Lat: 48.53087121361105, Lon: 143.71507319682482} // by rounding, its antipode is more than half way around
	if km := ncoord.GreatCircleKm(far, ncoord.Location{Lat: -far.Lat, Lon: far.Lon - 180}); !(math.Abs(km-20015) <= 1) {
		t.Errorf("antipodes: %.0f km", km)
	}
	if km := ncoord.GreatCircleKm(ncoord.Location{Lat: 90}, ncoord.Location{Lat: -90}); math.Abs(km-20015) > 1 {
		t.Errorf("pole to pole: %.0f km", km)
	}
	if ms := ncoord.LightMs(newYork, london); math.Abs(ms-37.2) > 0.2 {
		t.Errorf("light to London and back: %.1f ms", ms)
	}
	for _, edge := range []ncoord.Location{{Lat: 90}, {Lat: -90}, {Lon: 180}, {Lon: -180}} {
		if beyond := (ncoord.Location{Lat: edge.Lat * 1.01, Lon: edge.Lon * 1.01}); !edge.Valid() || beyond.Valid() {
			t.Errorf("%v is valid: %v, %v: %v", edge, edge.Valid(), beyond, beyond.Valid())
		}
	}
	for _, l := range []ncoord.Location{{Lat: math.NaN()}, {Lon: math.Inf(1)}} {
		if l.Valid() {
			t.Errorf("%v is valid", l)
		}
	}
}

// TestLightRefusesNoCity holds every measured round trip between cities against the light between them.
func TestLightRefusesNoCity(t *testing.T) {
	all, err := world.Read(measured.File(t, "wondernetwork/cities.csv"), measured.File(t, "wondernetwork/rtt.csv.gz"), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	pairs, faster := 0, 0
	for i, a := range all[0].Cities {
		for k, b := range all[0].Cities[:i] {
			pairs++
			if all[0].RTT[i][k] < ncoord.LightMs(*a.At, *b.At) {
				faster++
			}
		}
	}
	t.Logf("%d of %d pairs are faster than light", faster, pairs)
	if pairs < 5000 || faster > pairs/200 {
		t.Errorf("%d of %d pairs of cities are faster than light", faster, pairs)
	}
}
