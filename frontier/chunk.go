package frontier

import (
	"errors"
	"math"
	"time"
)

// HostState is what travels with a host besides its URLs. It holds ages and remaining times, never points in time, so that no two
// nodes' clocks are compared.
type HostState struct {
	// SinceRequest is the time since the last request to the host ended; negative if there never was one.
	SinceRequest time.Duration
	// Wait is how long the host must not be asked; 0 if only the usual spacing applies.
	Wait time.Duration
	// CrawlDelay is what its robots.txt asks for, Level the level of its backoff.
	CrawlDelay time.Duration
	Level      uint8
	Robots     *RobotsFile // nil if unknown
	// Done, Failed and Dropped count the URLs that ended that way.
	Done, Failed, Dropped uint64
}

// RobotsFile is a robots.txt that is known.
type RobotsFile struct {
	Body []byte
	// Valid is how long it need not be fetched again.
	Valid time.Duration
}

// PendingURL is a URL to be downloaded. Its host is known from the context.
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
	// Drops is how often the host was given up before. Pending is what was found since.
	Drops uint64
	// Pages are those that are visited again. Their hashes are in Done, of this chunk or of another.
	Pages []PageRecord
}

// Cursor is a position in the export of a host. The zero value is the beginning.
type Cursor struct {
	stage  uint8 // what is being exported
	origin Origin
	// seq is the block or run to go on with, or the hash of the last page, and index the URL in it. of is how many URLs the block
	// had: blocks can be rewritten.
	seq       uint64
	index, of int
	// fresh is how many hashes in the record are exported. It holds until a run is added.
	fresh int
}

// The stages of an export, in order.
const (
	exportPending uint8 = iota // URLs of blocks
	exportDone                 // hashes of URLs that are done
	exportPages                // pages that are visited again
)

// Digest sums up the URLs of a host. Two nodes with the same digest hold the same URLs, but for a chance of 2^-64.
type Digest struct {
	// Accepted counts all URLs of the host, Done those that are done, have failed or were dropped one by one. URLs that were
	// dropped with their host are forgotten: neither counts them.
	Accepted, Done uint64
	// AcceptedXor and DoneXor are the hashes of the same URLs, combined by exclusive or.
	AcceptedXor, DoneXor uint64
	// Drops counts how often the host was given up. Of two copies, the one with more drops is right about what is pending.
	Drops uint64
	// Pages counts the pages that are visited again, PagesXor combines what is known of them.
	Pages, PagesXor uint64
}

// Pending is the number of URLs that are not done.
func (d Digest) Pending() uint64 { return d.Accepted - min(d.Done, d.Accepted) }

// accept adds a URL.
func (d *Digest) accept(hash uint64) {
	d.Accepted++
	d.AcceptedXor ^= hash
}

// end notes that an accepted URL has ended.
func (d *Digest) end(hash uint64) {
	d.Done++
	d.DoneXor ^= hash
}

// drop forgets what is pending.
func (d *Digest) drop() { d.Accepted, d.AcceptedXor, d.Drops = d.Done, d.DoneXor, d.Drops+1 }

// cursorVersion is the first byte of a cursor in a message.
const cursorVersion = 2

func (c *Cursor) code(f *coder) {
	small(f, &c.stage, uint64(exportPages))
	small(f, &c.origin, uint64(origins)-1)
	f.uvarint(&c.seq)
	small(f, &c.index, math.MaxInt32)
	small(f, &c.of, math.MaxInt32)
	small(f, &c.fresh, math.MaxInt32)
}

// Append writes a position for another node, which returns it with its next question.
func (c Cursor) Append(b []byte) []byte {
	f := coder{b: append(b, cursorVersion)}
	c.code(&f)
	return f.b
}

// ParseCursor reads what Append wrote. No bytes are the beginning.
func ParseCursor(b []byte) (Cursor, error) {
	if len(b) == 0 {
		return Cursor{}, nil
	}
	var c Cursor
	f := reader(b[1:])
	if c.code(&f); b[0] != cursorVersion || f.broken || len(f.b) > 0 {
		return Cursor{}, errors.New("read position in a host: malformed")
	}
	return c, nil
}
