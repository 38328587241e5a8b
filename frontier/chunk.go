package frontier

import "time"

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
}

// Cursor is a position in the export of a host. The zero value is its beginning.
type Cursor struct {
	seen   bool // the pending URLs are through
	origin Origin
	// seq is the block or run to go on with, index the URL in it; of is how many it had, for blocks are written anew.
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
func (d *Digest) drop() { d.Accepted, d.AcceptedXor = d.Done, d.DoneXor }

// Change is what a commit changed at a host.
type Change struct {
	Host string
	// Added are the URLs accepted, and pending URLs that were found less deep than before.
	Added []PendingURL
	// Done are the hashes of URLs that ended. A URL in both is done.
	Done []uint64
	// State says that politeness or robots.txt changed by more than the time of the last request: StateOf reads them.
	State bool
	// Dropped says that all pending URLs up to this change were given up and forgotten.
	Dropped bool
}
