package frontier

import (
	"errors"
	"time"
)

// HostState is what another node gets of a host besides its URLs. It holds ages and remaining times instead of points in time, so that the
// clocks of two nodes are never compared.
type HostState struct {
	// SinceRequest is the time since the last request to the host ended; negative if there never was one.
	SinceRequest time.Duration
	// Wait is the time until the host may be asked; 0 if only the usual spacing applies, or if the host cannot be reached from here: another
	// node tries it at once.
	Wait time.Duration
	// CrawlDelay is the one in its robots.txt, Level the level of its backoff.
	CrawlDelay time.Duration
	Level      uint8
	// TriedBy is the node that could not reach the host when it last tried, this one or another, and left it to another one. ReachedSince says
	// that a node has reached it since. A replica is told with the waits of the host, so that a hand-off to it need not send that.
	TriedBy      string
	ReachedSince bool
	// Retries counts the calls of Retry. Of two copies, the one with more is right about Wait, Level and GivenUp.
	Retries uint64
	// GivenUp is how long links to the host are refused, because it was given up; 0 if they are not. WhyGivenUp is the reason. Who owns the host
	// decides that, and other copies follow.
	GivenUp    time.Duration
	WhyGivenUp string
	Robots     *RobotsFile // nil if unknown
	// Done, Failed and Dropped count the URLs that ended that way.
	Done, Failed, Dropped uint64
}

// RobotsFile is a robots.txt.
type RobotsFile struct {
	Body []byte
	// Valid is how long it need not be fetched again.
	Valid time.Duration
}

// PendingURL is a URL to be downloaded. The context says which host it belongs to.
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
	// Drops is how often the host was given up before. The URLs in Pending were found since.
	Drops uint64
	// Pages are those that are visited again. Their hashes are in Done, of this chunk or another.
	Pages []PageRecord
}

// Cursor is a position in the export of a host. The zero value is the beginning.
type Cursor struct {
	stage uint8  // what is being exported
	after string // the end of the last key that was read, behind the host
}

// The stages of an export, in order.
const (
	exportPending uint8 = iota // URLs of blocks
	exportDone                 // hashes of URLs that are done
	exportPages                // pages that are visited again
)

// Digest sums up the URLs of a host. Two nodes with the same digest hold the same URLs, with a chance of 2^-64 to err.
type Digest struct {
	// Accepted counts all URLs of the host. Done counts those that are done, have failed or were dropped one by one. URLs that were
	// dropped with their host are forgotten, and neither counts them.
	Accepted, Done uint64
	// AcceptedXor and DoneXor are the exclusive or of the hashes of the same URLs.
	AcceptedXor, DoneXor uint64
	// Drops counts how often the host was given up. Of two copies, the one with more drops is right about the pending URLs.
	Drops uint64
	// Pages counts the pages that are visited again. PagesXor is the exclusive or of their marks (PageRecord.mark).
	Pages, PagesXor uint64
}

// Pending returns the number of URLs that are not done.
func (d Digest) Pending() uint64 { return d.Accepted - min(d.Done, d.Accepted) }

func (d *Digest) accept(hash uint64) {
	d.Accepted++
	d.AcceptedXor ^= hash
}

func (d *Digest) end(hash uint64) {
	d.Done++
	d.DoneXor ^= hash
}

func (d *Digest) drop() { d.Accepted, d.AcceptedXor, d.Drops = d.Done, d.DoneXor, d.Drops+1 }

// cursorVersion is the first byte of a cursor in a message.
const cursorVersion = 3

// Append writes a position for another node, which sends it back with its next request.
func (c Cursor) Append(b []byte) []byte { return append(append(b, cursorVersion, c.stage), c.after...) }

// ParseCursor reads what Append wrote. Without bytes it returns the beginning.
func ParseCursor(b []byte) (Cursor, error) {
	if len(b) == 0 {
		return Cursor{}, nil
	}
	if len(b) < 2 || b[0] != cursorVersion || b[1] > exportPages {
		return Cursor{}, errors.New("read position in a host: malformed")
	}
	return Cursor{stage: b[1], after: string(b[2:])}, nil
}
