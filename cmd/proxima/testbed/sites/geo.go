package sites

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
)

// What a database says of a place.
const (
	StatedRight   = "right"
	StatedWrong   = "wrong"
	StatedMissing = "missing"
)

// farAway is how far a wrong place is from the right one at least, in km, if there is any.
const farAway = 1000

// Place is where an address is.
type Place struct {
	Addr          netip.Addr
	City, Country string
	// Lat and Lon are in degrees.
	Lat, Lon float64
}

// Geo is how good a database of locations is.
type Geo struct {
	Seed uint64
	// Wrong is the share of addresses that it places where another one is, at least 1,000 km away if there is one; Missing is the
	// share of those that it does not place: half of them it does not know, of the others only the country.
	Wrong, Missing float64
}

// Write makes the database, in the form of MaxMind's GeoLite2-City, and says for each place what it states: StatedRight, StatedWrong or
// StatedMissing. The shares are kept exactly, up to rounding; which addresses they hit is drawn.
func (g Geo) Write(path string, places []Place) (stated []string, err error) {
	if !(g.Wrong >= 0 && g.Missing >= 0 && g.Wrong+g.Missing <= 1) {
		return nil, fmt.Errorf("write locations: shares %v wrong and %v missing cannot be", g.Wrong, g.Missing)
	}
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
			if other.Lat == p.Lat && other.Lon == p.Lon { // there is no other place
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

// place is a record of the database.
func place(p Place) mmdbtype.Map {
	name := func(s string) mmdbtype.Map { return mmdbtype.Map{"names": mmdbtype.Map{"en": mmdbtype.String(s)}} }
	return mmdbtype.Map{
		"city":    name(p.City),
		"country": name(p.Country),
		"location": mmdbtype.Map{"latitude": mmdbtype.Float64(p.Lat), "longitude": mmdbtype.Float64(p.Lon),
			"accuracy_radius": mmdbtype.Uint16(20)},
	}
}

// elsewhere draws a place far from one of them; the farthest if none is.
func elsewhere(r *rand.Rand, places []Place, i int) Place {
	var far []int
	farthest, most := i, -1.0
	for k, p := range places {
		d := distance(p, places[i])
		if d >= farAway {
			far = append(far, k)
		}
		if d > most {
			farthest, most = k, d
		}
	}
	if len(far) == 0 {
		return places[farthest]
	}
	return places[far[r.IntN(len(far))]]
}

// distance is that on a great circle, in km.
func distance(a, b Place) float64 {
	const radius, degree = 6371, math.Pi / 180
	x := math.Pow(math.Sin((a.Lat-b.Lat)*degree/2), 2) +
		math.Cos(a.Lat*degree)*math.Cos(b.Lat*degree)*math.Pow(math.Sin((a.Lon-b.Lon)*degree/2), 2)
	return 2 * radius * math.Asin(math.Min(1, math.Sqrt(x)))
}
