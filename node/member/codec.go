package member

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"proxima/assign"
	"proxima/frontier/coder"
	"proxima/ncoord"
	"proxima/node/view"
)

// Versions of the formats. A reader refuses versions that it does not know.
const (
	metaVersion  = 5
	ackVersion   = 1
	stateVersion = 2
)

// place is a node's published position in the network, and how fast it downloads.
type place struct {
	// rev grows with every change within a life; the place with the higher rev is newer.
	rev     uint64
	coord   ncoord.Coordinate
	factors assign.Factors
}

// meta is what a node publishes about itself by gossip.
type meta struct {
	boot    uint64
	settled bool
	// over says that this node has found the crawl to be over. It gives up its vote and is about to leave.
	over     bool
	addr     string
	location *ncoord.Location
	placed   bool
	place    place
	// stamp identifies the voters that it knows.
	stamp uint64
	// way is how to reach it.
	way view.Way
}

// saysSame reports whether two of this node's metas say the same, wherever it is.
func (m meta) saysSame(o meta) bool {
	return m.settled == o.settled && m.over == o.over && m.stamp == o.stamp && m.way.Reach == o.way.Reach &&
		slices.Equal(m.way.Relays, o.way.Relays)
}

// ack is what a node adds to its answer to a ping; it is fresher than the meta.
type ack struct {
	boot uint64
	// coord is the node's current coordinate without its load. Whoever measured the round trip moves by it.
	coord ncoord.Coordinate
	// place is what others make choices by.
	place place
}

// code writes a meta, or reads one: version, flags, boot, stamp, location?, place?, relays?, address. With an address of at most
// maxAddr bytes, that is at most memberlist.MetaMaxSize bytes.
func (m *meta) code(c *coder.Coder) {
	c.Version(metaVersion)
	located := m.location != nil
	streams, outbound := m.way.Reach == view.Streams, m.way.Reach == view.Outbound
	c.Flags(&m.settled, &located, &m.placed, &m.over, &streams, &outbound)
	c.Uvarint(&m.boot)
	c.Word(&m.stamp)
	if located {
		if c.Reading() {
			m.location = &ncoord.Location{}
		}
		c.Float(&m.location.Lat)
		c.Float(&m.location.Lon)
		if !m.location.Valid() {
			c.Fail(fmt.Errorf("location %v, %v is not on Earth", m.location.Lat, m.location.Lon))
		}
	}
	if m.placed {
		m.place.code(c)
	}
	switch {
	case streams && outbound:
		c.Fail(errors.New("a node that is both outbound only and reached by streams"))
	case streams:
		m.way.Reach = view.Streams
	case outbound:
		m.way.Reach = view.Outbound
		if ids(c, &m.way.Relays); len(m.way.Relays) > view.MaxRelays {
			c.Fail(fmt.Errorf("%d relays are too many", len(m.way.Relays)))
		}
	}
	c.Text(&m.addr, maxAddr)
}

// readMeta reads what a node publishes. local says whether its address may be on loopback.
func readMeta(b []byte, local bool) (meta, error) {
	m, err := decode[meta](b, "meta")
	if err != nil {
		return meta{}, err
	}
	if err := checkAddr(m.addr, local); err != nil {
		return meta{}, fmt.Errorf("decode meta: %w", err)
	}
	return m, nil
}

// code writes an ack, or reads one.
func (a *ack) code(c *coder.Coder) {
	c.Version(ackVersion)
	c.Uvarint(&a.boot)
	part(c, &a.coord, ncoord.DecodeCoordinate)
	a.place.code(c)
}

// code writes a place, or reads one.
func (p *place) code(c *coder.Coder) {
	c.Uvarint(&p.rev)
	part(c, &p.coord, ncoord.DecodeCoordinate)
	part(c, &p.factors, assign.DecodeFactors)
}

// validID reports whether a name is 128 bits in lower-case hex.
func validID(id string) bool {
	return len(id) == idLen && strings.Trim(id, "0123456789abcdef") == ""
}

// coded is a pointer to a value whose method code writes and reads its form.
type coded[T any] interface {
	*T
	code(*coder.Coder)
}

// encode appends the form of a value.
func encode[T any, P coded[T]](b []byte, v T) []byte {
	c := coder.Writer(b)
	P(&v).code(&c)
	return c.B
}

// decode reads what encode wrote, and nothing after it.
func decode[T any, P coded[T]](b []byte, what string) (v T, err error) {
	c := coder.Reader(b)
	P(&v).code(&c)
	if err := c.End(); err != nil {
		return *new(T), fmt.Errorf("decode %s: %w", what, err)
	}
	return v, nil
}

// part codes a value that encodes itself, with its length.
func part[T interface{ AppendBinary([]byte) []byte }](c *coder.Coder, v *T, read func([]byte) (T, error)) {
	var b []byte
	if !c.Reading() {
		b = (*v).AppendBinary(nil)
	}
	if c.Bytes(&b, 64); !c.Reading() || c.Err() != nil {
		return
	}
	var err error
	if *v, err = read(b); err != nil {
		c.Fail(err)
	}
}

// id codes a node's id in 16 bytes. Ids to be written are valid: they were checked when they came in.
func id(c *coder.Coder, v *string) {
	if c.Reading() {
		*v = hex.EncodeToString(c.Take(idLen / 2))
	} else {
		raw, _ := hex.DecodeString(*v) //nolint:errcheck // see above
		c.B = append(c.B, raw...)
	}
}

// list codes a list that has to do with members, each by form. It must be sorted by their ids, without duplicates.
func list[T any](c *coder.Coder, v *[]T, form func(*T), id func(T) string) {
	k := 0
	coder.List(c, v, maxEntries, func(e *T) {
		if form(e); k > 0 && id((*v)[k-1]) >= id(*e) {
			c.Fail(errors.New("members are not in order"))
		}
		k++
	})
}

// ids codes a sorted list of ids.
func ids(c *coder.Coder, v *[]string) {
	list(c, v, func(s *string) { id(c, s) }, func(s string) string { return s })
}
