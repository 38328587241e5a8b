package sites

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oschwald/geoip2-golang/v2"

	"proxima/cmd/proxima/rundir"
	"proxima/ncoord"
)

// scattered are servers all over the world, neighbours among them.
func scattered(n int) []*rundir.Server {
	var all []*rundir.Server
	for i := range n {
		lat, lon := 60-float64(i%12)*10, -170+float64(i%17)*20+float64(i)/100
		all = append(all, &rundir.Server{Addr: address(i), City: fmt.Sprintf("City %d", i), Country: fmt.Sprintf("Country %d", i/10), Lat: lat, Lon: lon})
	}
	return all
}

func TestLocationsAreReadBack(t *testing.T) {
	const n, wrong, missing = 200, 20, 50
	places := scattered(n)
	stated := func() (all []string) {
		for _, p := range places {
			all = append(all, p.Stated)
		}
		return all
	}
	file := filepath.Join(t.TempDir(), "city.mmdb")
	if err := WriteGeo(file, places, 4, 0.1, 0.25); err != nil {
		t.Fatal(err)
	}
	first := stated()
	db, err := geoip2.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	counts := map[string]int{}
	unknown := 0
	for _, p := range places {
		counts[p.Stated]++
		city, err := db.City(p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		there := city.Location.Latitude != nil && city.Location.Longitude != nil
		switch p.Stated {
		case StatedMissing:
			if there {
				t.Errorf("%v is placed", p.Addr)
			}
			if city.Country.Names.English == "" {
				unknown++
			} else if city.Country.Names.English != p.Country {
				t.Errorf("%v is in %s, want %s", p.Addr, city.Country.Names.English, p.Country)
			}
		case StatedRight:
			if !there || *city.Location.Latitude != p.Lat || *city.Location.Longitude != p.Lon || city.City.Names.English != p.City {
				t.Errorf("%v: %+v, want %+v", p.Addr, city.Location, p)
			}
		case StatedWrong:
			if !there || city.City.Names.English == p.City ||
				ncoord.GreatCircleKm(at(p), ncoord.Location{Lat: *city.Location.Latitude, Lon: *city.Location.Longitude}) < farAway {
				t.Errorf("%v: %+v, which is not far from %+v", p.Addr, city.Location, p)
			}
		}
	}
	if counts[StatedWrong] != wrong || counts[StatedMissing] != missing || unknown != missing/2 {
		t.Errorf("%v, of which %d are not known at all", counts, unknown)
	}
	if city, err := db.City(address(5000)); err != nil || city.Location.Latitude != nil {
		t.Errorf("an address of nobody: %+v, %v", city.Location, err)
	}
	if err := WriteGeo(file, places, 4, 0.1, 0.25); err != nil || !slices.Equal(first, stated()) {
		t.Errorf("the same seed states otherwise: %v", err)
	}
	if err := WriteGeo(file, places, 5, 0.1, 0.25); err != nil || slices.Equal(first, stated()) {
		t.Errorf("another seed states the same: %v", err)
	}
}

func TestLocationsOfFewPlaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "city.mmdb")
	for name, c := range map[string]struct {
		wrong, missing float64
		places         []*rundir.Server
		want           []string
	}{
		"alone":      {1, 0, scattered(1), []string{StatedRight}},
		"neighbours": {1, 0, []*rundir.Server{{Addr: address(1), Lat: 50}, {Addr: address(2), Lat: 51}}, []string{StatedWrong, StatedWrong}},
		"none":       {1, 0, nil, nil},
		"all":        {0, 1, scattered(2), []string{StatedMissing, StatedMissing}},
	} {
		err := WriteGeo(file, c.places, 0, c.wrong, c.missing)
		var got []string
		for _, p := range c.places {
			got = append(got, p.Stated)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
