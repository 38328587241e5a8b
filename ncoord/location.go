package ncoord

import "math"

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
