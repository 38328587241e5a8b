package world

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
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

func readCities(r io.Reader) ([]City, map[string]int, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, nil, err
	}
	if len(rows) < 2 {
		return nil, nil, errors.New("there are none")
	}
	at, err := columns(rows[0], "id", "city", "country", "latitude", "longitude")
	if err != nil {
		return nil, nil, err
	}
	if len(rows)-1 > maxSide {
		return nil, nil, fmt.Errorf("%d are more than %d", len(rows)-1, maxSide)
	}
	var cities []City
	index := map[string]int{}
	for i, row := range rows[1:] {
		lat, err1 := strconv.ParseFloat(row[at[3]], 64)
		lon, err2 := strconv.ParseFloat(row[at[4]], 64)
		where := ncoord.Location{Lat: lat, Lon: lon}
		if err := errors.Join(err1, err2); err != nil || !where.Valid() {
			return nil, nil, fmt.Errorf("row %d: %q, %q is no place on Earth", i+2, row[at[3]], row[at[4]])
		}
		if _, ok := index[row[at[0]]]; ok {
			return nil, nil, fmt.Errorf("row %d: the id %q is there twice", i+2, row[at[0]])
		}
		index[row[at[0]]] = len(cities)
		cities = append(cities, City{Name: row[at[1]], Country: row[at[2]], At: &where})
	}
	return cities, index, nil
}
