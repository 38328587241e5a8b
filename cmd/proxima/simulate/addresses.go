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

// address returns the i-th address of a world without prefixes. Each has a /24 to itself while there are enough, so that it says
// nothing about the place.
func address(i int) netip.Addr {
	const networks = 1 << 20
	return addr4(16<<24 + uint32(i%networks)<<8 + uint32(i/networks) + 1)
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

// prefixes draws addresses that hint at the place of a server. An organisation in a city has a block of its country, or an invented
// /16, and some /24 prefixes in it. Most prefixes stand in one city, mostly the organisation's; the servers of the others are
// scattered.
type prefixes struct {
	// density says how many servers share a prefix, and how many prefixes an organisation has, each from and to.
	density      struct{ servers, prefixes [2]int }
	rnd          *rand.Rand
	cities       []world.City
	delegations  Delegations
	used         map[netip.Prefix]bool
	taken        map[netip.Addr]bool
	organisation netip.Prefix
	home         int    // city of the organisation
	left         int    // prefixes that the organisation still gets
	prefix       uint32 // number of the present one in the organisation's block
	place        int    // city of the prefix
	scattered    bool   // each server of the prefix has its own city instead
	servers      int    // servers that the prefix still gets
	last         byte
}

// newPrefixes draws them as hosting companies have them, or as a sparse sample of all sites, which the experiments of the literature took.
func newPrefixes(seed uint64, sparse bool, cities []world.City, delegations Delegations) *prefixes {
	p := &prefixes{rnd: stream(seed, streamPrefixes), cities: cities, delegations: delegations, used: map[netip.Prefix]bool{},
		taken: map[netip.Addr]bool{}}
	p.density.servers, p.density.prefixes = [2]int{4, 8}, [2]int{1, 6}
	if sparse {
		p.density.servers, p.density.prefixes = [2]int{1, 1}, [2]int{1, 2}
	}
	return p
}

func (p *prefixes) between(r [2]int) int { return r[0] + p.rnd.IntN(r[1]-r[0]+1) }

// next returns the address and the city of one more server.
func (p *prefixes) next() (netip.Addr, int) {
	if p.servers == 0 {
		p.nextPrefix()
	}
	p.servers--
	city := p.place
	if p.scattered {
		city = p.rnd.IntN(len(p.cities))
	}
	block := p.organisation.Addr().As4()
	for {
		p.last++
		addr := addr4(binary.BigEndian.Uint32(block[:]) + p.prefix%p.nets()<<8 + uint32(p.last))
		if !p.taken[addr] { // a block may lie within another one
			p.taken[addr] = true
			return addr, city
		}
	}
}

// nets is how many /24 prefixes the organisation's block holds.
func (p *prefixes) nets() uint32 { return 1 << (24 - p.organisation.Bits()) }

// block draws the block of an organisation in a city. Once none is left there, it invents one anywhere.
func (p *prefixes) block(city world.City, left bool) netip.Prefix {
	if real := p.delegations.of(city.Country); left && len(real) > 0 {
		return real[p.rnd.IntN(len(real))]
	}
	region := 0
	if !left {
		region = p.rnd.IntN(regions)
	} else if city.At != nil {
		region = min(regions-1, int((city.At.Lon+180)/360*regions))
	}
	first, second := byte(1+region*regionNets+p.rnd.IntN(regionNets)), byte(p.rnd.IntN(256))
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{first, second}), 16)
}

// nextPrefix begins the next prefix, of a new organisation where the last one has all of its own.
func (p *prefixes) nextPrefix() {
	if p.left == 0 {
		draws := 0
		for ok := false; !ok; ok = !p.used[p.organisation] && !p.organisation.Addr().IsLoopback() {
			p.home = p.rnd.IntN(len(p.cities))
			p.organisation = p.block(p.cities[p.home], draws < blockDraws)
			draws++
		}
		p.used[p.organisation] = true
		p.left, p.prefix = min(p.between(p.density.prefixes), int(p.nets())), 0
	}
	p.left--
	p.prefix++
	p.servers, p.last = p.between(p.density.servers), 0
	p.place, p.scattered = p.home, p.rnd.Float64() >= together
	if p.rnd.Float64() >= together {
		p.place = p.rnd.IntN(len(p.cities))
	}
}
