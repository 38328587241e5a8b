package ncoord

import (
	"encoding/binary"
	"fmt"
	"math"
)

const (
	// MaxDims is the number of components of a coordinate. 4 find the nearest node more often than 3, but need more samples.
	MaxDims = 4
	// MaxComponent limits each component and the height, in ms: a minute of round trip, as in Vuze.
	MaxComponent = 60_000
	// MaxError is the error of a node that knows nothing of its place.
	MaxError = 1.5

	codecVersion = 1
	// EncodedSize is the length of an encoded coordinate, in bytes.
	EncodedSize = 1 + 4*(MaxDims+2)
)

// Coordinate is a place. All lengths are milliseconds of round trip.
type Coordinate struct {
	// Vec is the place in the core of the network, in ms.
	Vec [MaxDims]float64
	// Height is the way between the node and the core, in ms: the access link and, where published, the load.
	Height float64
	// Error is how wrong predictions from this coordinate are expected to be, relative to the round trip, in (0, 1.5].
	Error float64
}

// Distance returns the expected round trip between two places, in ms: the way through the core plus both heights. The distance of a node
// to itself is twice its height, as for two processes on one access link.
func Distance(a, b Coordinate) float64 {
	return planar(&a, &b) + (a.Height + b.Height)
}

// planar is the distance through the core, in ms.
func planar(a, b *Coordinate) float64 {
	d0, d1, d2, d3 := a.Vec[0]-b.Vec[0], a.Vec[1]-b.Vec[1], a.Vec[2]-b.Vec[2], a.Vec[3]-b.Vec[3]
	return math.Sqrt(d0*d0 + d1*d1 + d2*d2 + d3*d3)
}

// Check reports why a coordinate is impossible, nil if it is possible: every number finite and within bounds, the error positive.
func (c Coordinate) Check() error {
	if !c.valid() {
		return fmt.Errorf("check coordinate: %v, height %v or error %v is out of range", c.Vec, c.Height, c.Error)
	}
	return nil
}

// valid reports whether Check passes. It allocates nothing, since liars may send many bad coordinates.
func (c *Coordinate) valid() bool {
	for _, v := range c.Vec {
		if !(math.Abs(v) <= MaxComponent) {
			return false
		}
	}
	return c.Height >= 0 && c.Height <= MaxComponent && c.Error > 0 && c.Error <= MaxError
}

// AppendBinary appends the form for wire and disk to b: a version and six float32, EncodedSize bytes in all. It does not check the
// coordinate; DecodeCoordinate does.
func (c Coordinate) AppendBinary(b []byte) []byte {
	b = append(b, codecVersion)
	for _, v := range c.Vec {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
	}
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(c.Height)))
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(c.Error)))
}

// DecodeCoordinate reads what AppendBinary wrote. It fails on an unknown version, on any other length, and on a coordinate that Check
// refuses.
func DecodeCoordinate(b []byte) (Coordinate, error) {
	var c Coordinate
	if len(b) > 0 && b[0] != codecVersion {
		return c, fmt.Errorf("decode coordinate: unknown version %d", b[0])
	}
	if len(b) != EncodedSize {
		return c, fmt.Errorf("decode coordinate: %d bytes, not %d", len(b), EncodedSize)
	}
	next := func(i int) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[1+4*i:]))) }
	for i := range c.Vec {
		c.Vec[i] = next(i)
	}
	c.Height, c.Error = next(MaxDims), next(MaxDims+1)
	if err := c.Check(); err != nil {
		return Coordinate{}, fmt.Errorf("decode coordinate: %w", err)
	}
	return c, nil
}

const (
	earthRadiusKm = 6371.0088
	// vacuumKmPerMs is the speed of light. In glass it is two thirds of that, but locations are inexact, and a sample must be refused
	// only if it is impossible, not if it is unlikely.
	vacuumKmPerMs = 299.792458
)

// Location is a place on Earth, in degrees: latitude north, longitude east.
type Location struct{ Lat, Lon float64 }

// Valid reports whether the location is on Earth.
func (l Location) Valid() bool {
	return l.Lat >= -90 && l.Lat <= 90 && l.Lon >= -180 && l.Lon <= 180
}

// GreatCircleKm returns the shortest way over the ground, in km (haversine, on a sphere: up to 0.5 % off).
func GreatCircleKm(a, b Location) float64 {
	const rad = math.Pi / 180
	sinLat := math.Sin((b.Lat - a.Lat) * rad / 2)
	sinLon := math.Sin((b.Lon - a.Lon) * rad / 2)
	h := sinLat*sinLat + math.Cos(a.Lat*rad)*math.Cos(b.Lat*rad)*sinLon*sinLon
	return 2 * earthRadiusKm * math.Asin(math.Min(1, math.Sqrt(h)))
}

// LightMs returns the least possible round trip between two places, in ms: there and back over the ground at the speed of light in
// vacuum. A shorter one proves that a location or the sample is wrong, or that the address answers at several places.
func LightMs(a, b Location) float64 {
	return 2 * GreatCircleKm(a, b) / vacuumKmPerMs
}

// lightMsWithin is LightMs for locations that may each be off by locationKm. It is negative if they may be one.
func lightMsWithin(a, b Location) float64 {
	return 2 * (GreatCircleKm(a, b) - 2*locationKm) / vacuumKmPerMs
}
