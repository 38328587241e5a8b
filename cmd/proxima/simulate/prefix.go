package simulate

import (
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

// prefixes gives servers addresses that tell something of where they are: registries give the first byte by region, organisations
// have a /16 and prefixes of 24 bits in it. Nine of ten prefixes are in one city, the organisation's in nine of ten cases; the
// servers of the tenth are anywhere. Servers share a city, but not its access.
type prefixes struct {
	density      density
	rnd          *rand.Rand
	cities       []world.City
	used         map[[2]byte]bool
	organisation [2]byte
	home         int // the city of the organisation
	left         int // prefixes that the organisation has still to come
	prefix       byte
	place        int  // the city of the prefix
	scattered    bool // or each server has its own
	servers      int  // that the prefix has still to come
	last         byte
}

func newPrefixes(seed uint64, d density, cities []world.City) *prefixes {
	return &prefixes{density: d, rnd: stream(seed, streamPrefixes), cities: cities, used: map[[2]byte]bool{}}
}

// between draws one of a range.
func (p *prefixes) between(r [2]int) int { return r[0] + p.rnd.IntN(r[1]-r[0]+1) }

// next is the address and the city of one more server.
func (p *prefixes) next() (netip.Addr, int) {
	if p.servers == 0 {
		p.nextPrefix()
	}
	p.servers--
	p.last++
	city := p.place
	if p.scattered {
		city = p.rnd.IntN(len(p.cities))
	}
	return netip.AddrFrom4([4]byte{p.organisation[0], p.organisation[1], p.prefix, p.last}), city
}

func (p *prefixes) nextPrefix() {
	if p.left == 0 {
		for ok := false; !ok; ok = !p.used[p.organisation] && p.organisation[0] != 127 {
			p.home = p.rnd.IntN(len(p.cities))
			region := 0
			if at := p.cities[p.home].At; at != nil {
				region = min(regions-1, int((at.Lon+180)/360*regions))
			}
			p.organisation = [2]byte{byte(1 + region*regionNets + p.rnd.IntN(regionNets)), byte(p.rnd.IntN(256))}
		}
		p.used[p.organisation] = true
		p.left, p.prefix = p.between(p.density.prefixes), 0
	}
	p.left--
	p.prefix++
	p.servers, p.last = p.between(p.density.servers), 0
	p.place, p.scattered = p.home, p.rnd.Float64() >= together
	if p.rnd.Float64() >= together {
		p.place = p.rnd.IntN(len(p.cities))
	}
}
