package simulate

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"proxima/cmd/proxima/world"
)

// The sizes of prefixes and organisations.
type density struct{ servers, prefixes [2]int } // from, to

var (
	// dense is the web of hosters.
	dense = density{servers: [2]int{4, 8}, prefixes: [2]int{1, 6}}
	// sparse is a sample of sites drawn from all of the web, as the experiments of the literature took: few are neighbours.
	sparse = density{servers: [2]int{1, 1}, prefixes: [2]int{1, 2}}
)

const (
	// together is the share of prefixes whose servers are in one city, and of those that are in their organisation's.
	together = 0.9
	// regions are parts of the world by longitude, regionNets the first bytes of addresses that each has from its registry.
	regions, regionNets = 5, 44
	streamPrefixes      = 1 << 8 // beside the other streams
)

// prefixes gives servers addresses that tell something of where they are: an organisation has a block of its country's (Delegations), or,
// where none are known, a /16 whose first byte registries give by region, and prefixes of 24 bits in it. Nine of ten prefixes are in one city, the organisation's in nine of ten cases; the
// servers of the tenth are anywhere. Servers share a city, but not its access.
type prefixes struct {
	density      density
	rnd          *rand.Rand
	cities       []world.City
	delegations  Delegations
	used         map[netip.Prefix]bool
	taken        map[netip.Addr]bool
	organisation netip.Prefix
	home         int    // the city of the organisation
	left         int    // prefixes that the organisation has still to come
	prefix       uint32 // in the organisation's block
	place        int    // the city of the prefix
	scattered    bool   // or each server has its own
	servers      int    // that the prefix has still to come
	last         byte
}

func newPrefixes(seed uint64, d density, cities []world.City, delegations Delegations) *prefixes {
	return &prefixes{density: d, rnd: stream(seed, streamPrefixes), cities: cities, delegations: delegations, used: map[netip.Prefix]bool{},
		taken: map[netip.Addr]bool{}}
}

// between draws one of a range.
func (p *prefixes) between(r [2]int) int { return r[0] + p.rnd.IntN(r[1]-r[0]+1) }

// next is the address and the city of one more server.
func (p *prefixes) next() (netip.Addr, int) {
	if p.servers == 0 {
		p.nextPrefix()
	}
	p.servers--
	city := p.place
	if p.scattered {
		city = p.rnd.IntN(len(p.cities))
	}
	for {
		p.last++
		a := p.organisation.Addr().As4()
		binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])+p.prefix%p.nets()<<8+uint32(p.last))
		if addr := netip.AddrFrom4(a); !p.taken[addr] { // blocks may lie in others
			p.taken[addr] = true
			return addr, city
		}
	}
}

// nets is how many prefixes of 24 bits the organisation's block holds.
func (p *prefixes) nets() uint32 { return 1 << (24 - p.organisation.Bits()) }

// block draws the block of an organisation in a city: one that was given to somebody in its country, or else an invented one.
func (p *prefixes) block(city world.City) netip.Prefix {
	if real := p.delegations.of(city.Country); len(real) > 0 {
		return real[p.rnd.IntN(len(real))]
	}
	region := 0
	if city.At != nil {
		region = min(regions-1, int((city.At.Lon+180)/360*regions))
	}
	first, second := byte(1+region*regionNets+p.rnd.IntN(regionNets)), byte(p.rnd.IntN(256))
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{first, second}), 16)
}

func (p *prefixes) nextPrefix() {
	if p.left == 0 {
		for ok := false; !ok; ok = !p.used[p.organisation] && !p.organisation.Addr().IsLoopback() {
			p.home = p.rnd.IntN(len(p.cities))
			p.organisation = p.block(p.cities[p.home])
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
