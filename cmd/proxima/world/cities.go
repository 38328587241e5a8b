package world

import (
	_ "embed"
	"fmt"
	"strings"

	"proxima/ncoord"
)

//go:embed cities.csv
var builtIn string

// City is a place with a name.
type City struct {
	Name, Country string
	// At is its location; nil if unknown, as in a matrix without names.
	At *ncoord.Location
}

// Cities returns 64 real cities on all continents, most of them in regions with many servers. The caller may change the slice.
func Cities() []City {
	cities, _, err := readCities(strings.NewReader(builtIn))
	if err != nil {
		panic(fmt.Sprintf("read the built-in cities: %v", err)) // a test reads them
	}
	return cities
}
