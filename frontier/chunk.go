package frontier

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// HostState is what goes with a host besides its URLs. It holds ages and remaining times, never points in time: no two
// nodes' clocks are compared.
type HostState struct {
	// SinceRequest is the time since the last request to the host ended; below 0 if there never was one.
	SinceRequest time.Duration
	// Wait is how long the host is not to be asked, 0 where politeness alone decides.
	Wait time.Duration
	// CrawlDelay is what its robots.txt asks for, and Level that of the backoff.
	CrawlDelay time.Duration
	Level      uint8
	Robots     *RobotsFile // nil: it is not known
	// Done, Failed and Dropped count the URLs that ended so.
	Done, Failed, Dropped uint64
}

// RobotsFile is a robots.txt that is known.
type RobotsFile struct {
	Body []byte
	// Valid is how long it needs not be asked for again.
	Valid time.Duration
}

// PendingURL is a URL to be downloaded, of a host that is known from elsewhere.
type PendingURL struct {
	Path        string // "/path?query", as in identity.URL
	Sitemap     bool
	Depth, Hops uint8
}

// Chunk is a part of a host on its way to another node.
type Chunk struct {
	// State is in the first chunk only.
	State   *HostState
	Pending []PendingURL
	// Done are the hashes (identity.URL.Hash) of URLs that are done, have failed or were dropped.
	Done []uint64
	// Drops says how often the host was given up before: Pending is what was found since.
	Drops uint64
	// Pages are those that are visited again. They are among Done of this chunk or of another.
	Pages []PageRecord
}

// Cursor is a position in the export of a host. The zero value is its beginning.
type Cursor struct {
	seen   bool // the pending URLs are through
	pages  bool // and the hashes of those that are done
	origin Origin
	// seq is the block or run to go on with, or the hash of the last page, index the URL in it; of is how many it had, for blocks are written anew.
	seq       uint64
	index, of int
	// fresh is how many of the hashes in the record are through, as long as no run is added.
	fresh int
}

// Digest sums up the URLs of a host: two nodes with the same digest hold the same URLs, but for a chance of 2^-64.
type Digest struct {
	// Accepted counts all URLs of the host, pending or done, and Done those done, failed or dropped one by one. URLs that
	// were dropped with their host are forgotten and in neither.
	Accepted, Done uint64
	// AcceptedXor and DoneXor are the hashes of the same, combined by exclusive or.
	AcceptedXor, DoneXor uint64
	// Drops counts how often the host was given up. Of two copies the one with more of them is right about what is pending.
	Drops uint64
	// Pages counts the pages that are visited again, and PagesXor combines what is known of them.
	Pages, PagesXor uint64
}

// Pending is the number of URLs that are not done.
func (d Digest) Pending() uint64 { return d.Accepted - min(d.Done, d.Accepted) }

// accept notes a URL, and end that one that was noted has ended.
func (d *Digest) accept(hash uint64) {
	d.Accepted++
	d.AcceptedXor ^= hash
}

func (d *Digest) end(hash uint64) {
	d.Done++
	d.DoneXor ^= hash
}

// drop forgets what is pending.
func (d *Digest) drop() { d.Accepted, d.AcceptedXor, d.Drops = d.Done, d.DoneXor, d.Drops+1 }

// Append writes a position for another node, which gives it back with the next question: version (1 byte, 2), then the
// fields as uvarints.
func (c Cursor) Append(b []byte) []byte {
	seen := uint64(0)
	switch {
	case c.pages:
		seen = 2
	case c.seen:
		seen = 1
	}
	b = append(b, 2)
	for _, v := range []uint64{seen, uint64(c.origin), c.seq, uint64(c.index), uint64(c.of), uint64(c.fresh)} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// ParseCursor reads what Append wrote; nothing is the beginning.
func ParseCursor(b []byte) (Cursor, error) {
	if len(b) == 0 {
		return Cursor{}, nil
	}
	f := fields{b: b[1:], broken: b[0] != 2}
	seen, origin, seq, index, of, fresh := f.uvarint(), f.uvarint(), f.uvarint(), f.uvarint(), f.uvarint(), f.uvarint()
	if f.broken || len(f.b) > 0 || seen > 2 || origin >= uint64(origins) || max(index, of, fresh) > math.MaxInt32 {
		return Cursor{}, errors.New("read position in a host: malformed")
	}
	return Cursor{seen: seen > 0, pages: seen == 2, origin: Origin(origin), seq: seq, index: int(index), of: int(of), fresh: int(fresh)}, nil
}
