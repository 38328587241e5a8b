package sites

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"slices"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"proxima/cmd/proxima/rundir"
	"proxima/ncoord"
)

// What the database says about the place of a server.
const (
	StatedRight   = "right"
	StatedWrong   = "wrong"
	StatedMissing = "missing"
)

// farAway is the least distance in km between a wrong place and the right one, if any place is that far away.
const farAway = 1000

// WriteGeo writes a location database in the format of MaxMind's GeoLite2-City, and notes what it says about each server (Stated). It puts a
// share of them, wrong, at another server's place, at least 1,000 km away if there is one, and does not locate another, missing: of half of
// these it knows nothing, of the others only the country. The shares are exact up to rounding; the seed draws the servers.
func WriteGeo(path string, servers []*rundir.Server, seed uint64, wrong, missing float64) error {
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "GeoLite2-City", RecordSize: 24, IncludeReservedNetworks: true,
		Languages: []string{"en"}, Description: map[string]string{"en": "Places of an emulated Internet"}})
	if err != nil {
		return fmt.Errorf("write locations: %w", err)
	}
	r := rand.New(rand.NewPCG(seed, 2))
	share := func(of float64) int { return int(math.Round(of * float64(len(servers)))) }
	for k, i := range r.Perm(len(servers)) {
		s := servers[i]
		record := place(s)
		s.Stated = StatedRight
		switch {
		case k < share(wrong):
			if other := elsewhere(r, servers, s); at(other) != at(s) { // otherwise there is no other place
				s.Stated, record = StatedWrong, place(other)
			}
		case k < share(wrong)+share(missing):
			s.Stated = StatedMissing
			delete(record, "location")
			delete(record, "city")
			if k%2 != 0 {
				continue
			}
		}
		bits := s.Addr.BitLen()
		if err := tree.Insert(&net.IPNet{IP: s.Addr.AsSlice(), Mask: net.CIDRMask(bits, bits)}, record); err != nil {
			return fmt.Errorf("write location of %v: %w", s.Addr, err)
		}
	}
	f, err := os.Create(path)
	if err == nil {
		_, err = tree.WriteTo(f)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("write locations: %w", err)
	}
	return nil
}

func at(s *rundir.Server) ncoord.Location { return ncoord.Location{Lat: s.Lat, Lon: s.Lon} }

// place returns the database record of a server's place.
func place(p *rundir.Server) mmdbtype.Map {
	name := func(s string) mmdbtype.Map { return mmdbtype.Map{"names": mmdbtype.Map{"en": mmdbtype.String(s)}} }
	return mmdbtype.Map{
		"city":    name(p.City),
		"country": name(p.Country),
		"location": mmdbtype.Map{"latitude": mmdbtype.Float64(p.Lat), "longitude": mmdbtype.Float64(p.Lon),
			"accuracy_radius": mmdbtype.Uint16(20)},
	}
}

// elsewhere draws a server that is far from another one, or returns the farthest one if none is far.
func elsewhere(r *rand.Rand, servers []*rundir.Server, from *rundir.Server) *rundir.Server {
	km := func(s *rundir.Server) float64 { return ncoord.GreatCircleKm(at(s), at(from)) }
	far := slices.DeleteFunc(slices.Clone(servers), func(s *rundir.Server) bool { return km(s) < farAway })
	if len(far) > 0 {
		return far[r.IntN(len(far))]
	}
	return slices.MaxFunc(servers, func(a, b *rundir.Server) int { return cmp.Compare(km(a), km(b)) })
}
