package sites

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"proxima/ncoord"
)

// What the database says about a place.
const (
	StatedRight   = "right"
	StatedWrong   = "wrong"
	StatedMissing = "missing"
)

// farAway is the least distance in km between a wrong place and the right one, if any place is that far away.
const farAway = 1000

// Place is the true location of an address.
type Place struct {
	Addr          netip.Addr
	City, Country string
	// Lat and Lon are in degrees.
	Lat, Lon float64
}

func (p Place) at() ncoord.Location { return ncoord.Location{Lat: p.Lat, Lon: p.Lon} }

// Geo is the quality of a location database.
type Geo struct {
	Seed uint64
	// Wrong is the share of addresses that the database puts at another address's place, at least 1,000 km away if there is one.
	// Missing is the share that it does not locate: for half of them it knows nothing, for the others only the country.
	Wrong, Missing float64
}

// Write writes the database in the format of MaxMind's GeoLite2-City. It returns what the database says about each place: StatedRight,
// StatedWrong or StatedMissing. The shares are exact up to rounding; the seed draws the addresses.
func (g Geo) Write(path string, places []Place) (stated []string, err error) {
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "GeoLite2-City", RecordSize: 24, IncludeReservedNetworks: true,
		Languages: []string{"en"}, Description: map[string]string{"en": "Places of an emulated Internet"}})
	if err != nil {
		return nil, fmt.Errorf("write locations: %w", err)
	}
	r := rand.New(rand.NewPCG(g.Seed, 2))
	n := float64(len(places))
	wrong, missing := int(math.Round(g.Wrong*n)), int(math.Round(g.Missing*n))
	stated = make([]string, len(places))
	for k, i := range r.Perm(len(places)) {
		p, known := places[i], true
		record := place(p)
		switch {
		case k < wrong:
			other := elsewhere(r, places, i)
			if other.at() == p.at() { // there is no other place
				stated[i] = StatedRight
				break
			}
			stated[i], record = StatedWrong, place(other)
		case k >= wrong && k < wrong+missing:
			stated[i] = StatedMissing
			delete(record, "location")
			delete(record, "city")
			known = k%2 == 0
		default:
			stated[i] = StatedRight
		}
		if !known {
			continue
		}
		bits := p.Addr.BitLen()
		if err := tree.Insert(&net.IPNet{IP: p.Addr.AsSlice(), Mask: net.CIDRMask(bits, bits)}, record); err != nil {
			return nil, fmt.Errorf("write location of %v: %w", p.Addr, err)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write locations: %w", err)
	}
	_, err = tree.WriteTo(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("write locations: %w", err)
	}
	return stated, nil
}

// place returns the database record of a place.
func place(p Place) mmdbtype.Map {
	name := func(s string) mmdbtype.Map { return mmdbtype.Map{"names": mmdbtype.Map{"en": mmdbtype.String(s)}} }
	return mmdbtype.Map{
		"city":    name(p.City),
		"country": name(p.Country),
		"location": mmdbtype.Map{"latitude": mmdbtype.Float64(p.Lat), "longitude": mmdbtype.Float64(p.Lon),
			"accuracy_radius": mmdbtype.Uint16(20)},
	}
}

// elsewhere draws a place that is far from places[i], or returns the farthest one if none is far.
func elsewhere(r *rand.Rand, places []Place, i int) Place {
	km := func(p Place) float64 { return ncoord.GreatCircleKm(p.at(), places[i].at()) }
	var far []Place
	for _, p := range places {
		if km(p) >= farAway {
			far = append(far, p)
		}
	}
	if len(far) > 0 {
		return far[r.IntN(len(far))]
	}
	return slices.MaxFunc(places, func(a, b Place) int { return cmp.Compare(km(a), km(b)) })
}
