package simulate

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"proxima/cmd/proxima/world"
)

// address returns the i-th address of a world without prefixes. Each has a /16 to itself while there are enough, and then a /24, so that it
// says nothing about the place: a /16 is an organisation to ipmicra.
func address(i int) netip.Addr {
	const networks = 96 << 8 // from 24.0.0.0 on
	return addr4(24<<24 + uint32(i%networks)<<16 + uint32(i/networks)<<8 + 1)
}

func addr4(a uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, a)))
}

// Delegations are the IPv4 blocks that registries have delegated to each country, by its English name.
type Delegations map[string][]netip.Prefix

// ReadDelegations reads a JSON table of blocks by the country's two-letter code, which may be gzipped:
//
//	{"byCountry": {"DE": ["2.160.0.0/12", …], …}}
func ReadDelegations(path string) (Delegations, error) {
	var table struct {
		ByCountry map[string][]netip.Prefix `json:"byCountry"`
	}
	if err := world.Open(path, func(in io.Reader) error { return json.NewDecoder(in).Decode(&table) }); err != nil {
		return nil, fmt.Errorf("read delegations: %w", err)
	}
	d := Delegations{}
	for code, blocks := range table.ByCountry {
		region, err := language.ParseRegion(code)
		if err != nil || !region.IsCountry() {
			continue // the codes EU and AP are no countries
		}
		name := display.English.Regions().Name(region)
		for _, b := range blocks {
			if b.Addr().Is4() && b.Bits() <= 24 {
				d[name] = append(d[name], b.Masked())
			}
		}
	}
	if len(d) == 0 {
		return nil, errors.New("read delegations: no country has an IPv4 block of a /24 or more")
	}
	return d, nil
}

// of returns the blocks of a country, whichever usual name it has in a list of cities.
func (d Delegations) of(country string) []netip.Prefix {
	switch country {
	case "USA", "United States of America":
		country = "United States"
	case "UK":
		country = "United Kingdom"
	case "Turkey":
		if d[country] == nil {
			country = "Türkiye"
		}
	case "Czech Republic":
		country = "Czechia"
	}
	return d[country]
}

const (
	// together is the share of prefixes whose servers are in one city, and the share of those that are in their organisation's city.
	together = 0.9
	// Where no blocks are known, each of the regions, by longitude, has regionNets first bytes of its own.
	regions, regionNets = 5, 44
	// After so many draws of blocks that are in use, none counts as left in these cities.
	blockDraws = 1000
)

// prefixed draws addresses that hint at the places of servers, and the cities of these. An organisation in a city has a block of its
// country, or an invented /16, and some /24 prefixes in it. Most prefixes stand in one city, mostly the organisation's; the servers of the
// others are scattered. They are drawn as hosting companies have them, or sparse as in a sample of all sites, which the experiments of the
// literature took.
func prefixed(cfg Config, seed uint64, cities []world.City) (addrs []netip.Addr, at []int) {
	rnd := stream(seed, streamPrefixes)
	between := func(least, most int) int { return least + rnd.IntN(most-least+1) }
	perPrefix, perOrganisation := [2]int{4, 8}, [2]int{1, 6}
	if cfg.sparse {
		perPrefix, perOrganisation = [2]int{1, 1}, [2]int{1, 2}
	}
	used, taken := map[netip.Prefix]bool{}, map[netip.Addr]bool{}
	for len(addrs) < cfg.Servers {
		var home int // city of the organisation
		var block netip.Prefix
		for draws := 0; !block.IsValid() || used[block] || block.Addr().IsLoopback(); draws++ {
			home = rnd.IntN(len(cities))
			block = cfg.Delegations.draw(rnd, cities[home], draws < blockDraws)
		}
		used[block] = true
		first, nets := binary.BigEndian.Uint32(block.Addr().AsSlice()), 1<<(24-block.Bits())
		for prefix := range min(between(perOrganisation[0], perOrganisation[1]), nets) {
			servers, city := between(perPrefix[0], perPrefix[1]), home
			scattered := rnd.Float64() >= together
			if rnd.Float64() >= together {
				city = rnd.IntN(len(cities))
			}
			network := first + uint32((prefix+1)%nets)<<8
			for last := uint32(1); servers > 0 && len(addrs) < cfg.Servers; last++ {
				addr := addr4(network + last)
				if taken[addr] { // a block may lie within another one
					continue
				}
				taken[addr] = true
				servers--
				if scattered {
					city = rnd.IntN(len(cities))
				}
				addrs, at = append(addrs, addr), append(at, city)
			}
		}
	}
	return addrs, at
}

// draw draws the block of an organisation in a city. Once none is left there, it invents one anywhere.
func (d Delegations) draw(rnd *rand.Rand, city world.City, left bool) netip.Prefix {
	if real := d.of(city.Country); left && len(real) > 0 {
		return real[rnd.IntN(len(real))]
	}
	region := 0
	if !left {
		region = rnd.IntN(regions)
	} else if city.At != nil {
		region = min(regions-1, int((city.At.Lon+180)/360*regions))
	}
	first, second := byte(1+region*regionNets+rnd.IntN(regionNets)), byte(rnd.IntN(256))
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{first, second}), 16)
}
