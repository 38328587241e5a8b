package member

import (
	"errors"
	"fmt"

	"github.com/hashicorp/memberlist"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/view"
)

// Versions of what is sent. A reader refuses versions that it does not know.
const (
	metaVersion  = 5
	ackVersion   = 1
	stateVersion = 2
)

// place is where a node is and how fast it downloads, as it publishes it.
type place struct {
	// rev grows with every change in a life: the higher one is the newer.
	rev     uint64
	coord   ncoord.Coordinate
	factors assign.Factors
}

// meta is what a node publishes about itself by gossip.
type meta struct {
	boot    uint64
	settled bool
	// over says that the crawl is, as this node has found: it gives its vote up and will leave.
	over     bool
	addr     string
	location *ncoord.Location
	placed   bool
	place    place
	// stamp is which voters it holds.
	stamp uint64
	// way is how it is reached.
	way view.Way
}

// ack is what a node adds to its answer to a ping: fresher than its meta.
type ack struct {
	boot uint64
	// coord is where the node is this moment, without its load: what the one who measured the round trip moves by.
	coord ncoord.Coordinate
	// place is what choices are made by.
	place place
}

// code: the version, flags, boot, stamp, location?, place?, relays?, address. At most memberlist.MetaMaxSize bytes if the address
// is at most maxAddr long.
func (m *meta) code(c *coder) {
	c.version(metaVersion)
	located := m.location != nil
	streams, outbound := m.way.Reach == view.Streams, m.way.Reach == view.Outbound
	c.flags(&m.settled, &located, &m.placed, &m.over, &streams, &outbound)
	c.uvarint(&m.boot)
	c.fixed(&m.stamp)
	if located {
		if !c.writing {
			m.location = &ncoord.Location{}
		}
		c.float(&m.location.Lat)
		c.float(&m.location.Lon)
		if !onEarth(*m.location) {
			c.fail(fmt.Errorf("location %v, %v is not on Earth", m.location.Lat, m.location.Lon))
		}
	}
	if m.placed {
		m.place.code(c)
	}
	switch {
	case streams && outbound:
		c.fail(errors.New("a node both with a way in and without"))
	case streams:
		m.way.Reach = view.Streams
	case outbound:
		m.way.Reach = view.Outbound
		if c.ids(&m.way.Relays); len(m.way.Relays) > view.MaxRelays {
			c.fail(fmt.Errorf("%d relays are too many", len(m.way.Relays)))
		}
	}
	c.text(&m.addr, maxAddr)
	c.fail(checkAddr(m.addr, true)) // whether loopback can be meant is for the reader to say
}

func appendMeta(b []byte, m meta) []byte { return encode(b, &m) }

func decodeMeta(b []byte) (meta, error) {
	if len(b) > memberlist.MetaMaxSize {
		return meta{}, fmt.Errorf("decode meta: %d bytes are too many", len(b))
	}
	return decode[meta](b, "meta")
}

func (a *ack) code(c *coder) {
	c.version(ackVersion)
	c.uvarint(&a.boot)
	part(c, &a.coord, ncoord.DecodeCoordinate)
	a.place.code(c)
}

func appendAck(b []byte, a ack) []byte { return encode(b, &a) }

func decodeAck(b []byte) (ack, error) { return decode[ack](b, "ack") }

func (p *place) code(c *coder) {
	c.uvarint(&p.rev)
	part(c, &p.coord, ncoord.DecodeCoordinate)
	part(c, &p.factors, assign.DecodeFactors)
}

// onEarth says whether a location can be; NaN is not.
func onEarth(l ncoord.Location) bool {
	return l.Lat >= -90 && l.Lat <= 90 && l.Lon >= -180 && l.Lon <= 180
}

// validID says whether a name is 128 bits in lower-case hex.
func validID(id string) bool {
	if len(id) != IDLen {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
