package member

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/hashicorp/memberlist"

	"proxima/assign"
	"proxima/ncoord"
)

// Versions of what is sent. A reader refuses versions that it does not know.
const (
	metaVersion  = 4
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
}

// ack is what a node adds to its answer to a ping: fresher than its meta.
type ack struct {
	boot uint64
	// coord is where the node is this moment, without its load: what the one who measured the round trip moves by.
	coord ncoord.Coordinate
	// place is what choices are made by.
	place place
}

const (
	flagSettled = 1 << iota
	flagLocation
	flagPlaced
	flagOver
	metaFlags = 1<<iota - 1
)

// appendMeta encodes: version, flags, boot, stamp, location?, place?, address. At most memberlist.MetaMaxSize bytes
// if the address is at most maxAddr long.
func appendMeta(b []byte, m meta) []byte {
	var flags byte
	for _, f := range []struct {
		on  bool
		bit byte
	}{{m.settled, flagSettled}, {m.location != nil, flagLocation}, {m.placed, flagPlaced},
		{m.over, flagOver}} {
		if f.on {
			flags |= f.bit
		}
	}
	b = append(b, metaVersion, flags)
	b = binary.AppendUvarint(b, m.boot)
	b = binary.LittleEndian.AppendUint64(b, m.stamp)
	if m.location != nil {
		b = appendFloat(b, m.location.Lat)
		b = appendFloat(b, m.location.Lon)
	}
	if m.placed {
		b = appendPlace(b, m.place)
	}
	return appendBytes(b, []byte(m.addr))
}

// decodeMeta reads what appendMeta wrote, and nothing else.
func decodeMeta(b []byte) (meta, error) {
	m, err := readMeta(b)
	if err != nil {
		return meta{}, fmt.Errorf("decode meta: %w", err)
	}
	return m, nil
}

func readMeta(b []byte) (m meta, err error) {
	if len(b) > memberlist.MetaMaxSize {
		return m, fmt.Errorf("%d bytes are too many", len(b))
	}
	r := reader{b: b}
	if v := r.byte(); r.err == nil && v != metaVersion {
		return m, fmt.Errorf("unknown version %d", v)
	}
	flags := r.byte()
	if flags&^metaFlags != 0 {
		return m, fmt.Errorf("unknown flags %#x", flags)
	}
	m.settled, m.over = flags&flagSettled != 0, flags&flagOver != 0
	m.boot = r.uvarint()
	m.stamp = r.fixed()
	if flags&flagLocation != 0 {
		at := ncoord.Location{Lat: r.float(), Lon: r.float()}
		if r.err == nil && !onEarth(at) {
			return m, fmt.Errorf("location %v, %v is not on Earth", at.Lat, at.Lon)
		}
		m.location = &at
	}
	if flags&flagPlaced != 0 {
		m.placed, m.place = true, r.place()
	}
	addr := r.bytes(maxAddr)
	if err := r.end(); err != nil {
		return m, err
	}
	m.addr = string(addr)
	// Whether loopback can be meant is for the reader to say.
	return m, checkAddr(m.addr, true)
}

func appendAck(b []byte, a ack) []byte {
	b = append(b, ackVersion)
	b = binary.AppendUvarint(b, a.boot)
	b = appendBytes(b, a.coord.AppendBinary(nil))
	return appendPlace(b, a.place)
}

func decodeAck(b []byte) (ack, error) {
	r := reader{b: b}
	if v := r.byte(); r.err == nil && v != ackVersion {
		return ack{}, fmt.Errorf("decode ack: unknown version %d", v)
	}
	a := ack{boot: r.uvarint(), coord: r.coordinate(), place: r.place()}
	if err := r.end(); err != nil {
		return ack{}, fmt.Errorf("decode ack: %w", err)
	}
	return a, nil
}

func appendPlace(b []byte, p place) []byte {
	b = binary.AppendUvarint(b, p.rev)
	b = appendBytes(b, p.coord.AppendBinary(nil))
	return appendBytes(b, p.factors.AppendBinary(nil))
}

func (r *reader) place() place {
	p := place{rev: r.uvarint(), coord: r.coordinate()}
	if factors := r.bytes(64); r.err == nil {
		p.factors, r.err = assign.DecodeFactors(factors)
	}
	return p
}

func (r *reader) coordinate() (c ncoord.Coordinate) {
	if b := r.bytes(64); r.err == nil {
		c, r.err = ncoord.DecodeCoordinate(b)
	}
	return c
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

func appendID(b []byte, id string) []byte {
	raw, _ := hex.DecodeString(id) // ids were checked when they came in
	return append(b, raw...)
}

func appendBytes(b, part []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

func appendFloat(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
}

var errShort = errors.New("too short")

// reader takes values from the front of b. After the first error it gives zero values.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && n > len(r.b) {
		r.err = errShort
	}
	if r.err != nil {
		return nil
	}
	part := r.b[:n]
	r.b = r.b[n:]
	return part
}

func (r *reader) byte() byte {
	if part := r.take(1); part != nil {
		return part[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > 1 && r.b[n-1] == 0 { // one form a number
		r.err = errors.New("bad number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) fixed() uint64 {
	if part := r.take(8); part != nil {
		return binary.LittleEndian.Uint64(part)
	}
	return 0
}

func (r *reader) float() float64 {
	if part := r.take(4); part != nil {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(part)))
	}
	return 0
}

// bytes takes a length and as many bytes, at most limit.
func (r *reader) bytes(limit int) []byte {
	n := r.uvarint()
	if r.err == nil && n > uint64(limit) {
		r.err = fmt.Errorf("part of %d bytes, more than %d", n, limit)
	}
	return r.take(int(n))
}

func (r *reader) id() string {
	return hex.EncodeToString(r.take(IDLen / 2))
}

// end is the first error; bytes left over are one.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes too many", len(r.b))
	}
	return r.err
}
