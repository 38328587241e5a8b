package frontier

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// record is what the store remembers of a host besides its URLs. It is written with every URL that ends, and it is all that a
// host needs to go on after a crash: which URLs of half-done blocks are done, the hashes that are not yet in a run of the seen
// set, and its politeness.
type record struct {
	// lastRequest is when the last request to the host ended.
	lastRequest time.Time
	// notBefore is when the host may be asked again; zero when only the usual spacing applies.
	notBefore time.Time
	// endedUntil is set while the host is given up: new URLs are dropped for endReason.
	endedUntil time.Time
	endReason  string
	// crawlDelay is what robots.txt asks for.
	crawlDelay time.Duration
	// level is the backoff level, 0 without a backoff.
	level uint8
	// robotsUntil is when robots.txt must be fetched again; zero when it is unknown.
	robotsUntil time.Time
	// done, failed and dropped count URLs.
	done, failed, dropped uint64
	// partial are the blocks of which some URLs are done.
	partial []partialBlock
	// fresh are hashes of done URLs that are not yet in a run of the seen set.
	fresh []uint64
	// role is what the host is to this node.
	role Role
	// loose means that URLs in the seen set may still be in blocks, because another node reported them done. They are done.
	loose bool
	// tracked means that all of digest is kept. Without it, only its drops and pages are.
	tracked bool
	digest  Digest
	// next is no later than when the first page of the host is due; 0 without pages.
	next stamp
	// failures counts failed connections and lookups in a row.
	failures uint8
	// hints says how good the lastmod dates of the host's sitemaps are.
	hints hints
}

// partialBlock says which URLs of a block are done.
type partialBlock struct {
	seq  uint64
	done bitmap
}

// bitmap has a bit for each URL of a block.
type bitmap [maxBlockURLs / 64]uint64

func (b *bitmap) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b *bitmap) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b *bitmap) count() (n int) {
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// Bounds on a record.
const (
	// maxFresh bounds what each write of a record repeats, and keeps most records below the store's valueThreshold.
	maxFresh     = 16
	maxEndReason = 200
	// maxAge bounds how long ago anything was.
	maxAge = 10 * 365 * 24 * time.Hour
	// maxPause is the longest wait that Politeness allows, with its jitter.
	maxPause = 1250 * time.Hour
	// maxRobotsAge is how long a robots.txt may be believed (RFC 9309, section 2.4).
	maxRobotsAge = 24 * time.Hour
)

// at returns the place of a block in partial, or -1.
func (r *record) at(seq uint64) int {
	return slices.IndexFunc(r.partial, func(p partialBlock) bool { return p.seq == seq })
}

// pendingIn counts the pending URLs of a block that holds n.
func (r *record) pendingIn(seq uint64, n int) int {
	if i := r.at(seq); i >= 0 {
		n -= r.partial[i].done.count()
	}
	return n
}

// isDone says whether URL i of a block is done.
func (r *record) isDone(seq uint64, i int) bool {
	at := r.at(seq)
	return at >= 0 && r.partial[at].done.has(i)
}

// mark notes that URL i of a block of n is done. When all of them are, it forgets the block and returns true.
func (r *record) mark(seq uint64, i, n int) (complete bool) {
	if n == 1 {
		return true
	}
	at := r.at(seq)
	if at < 0 {
		at = len(r.partial)
		r.partial = append(r.partial, partialBlock{seq: seq})
	}
	p := &r.partial[at].done
	if p.set(i); p.count() < n {
		return false
	}
	r.partial = slices.Delete(r.partial, at, at+1)
	return true
}

// nextAt is when the host must come in for its pages; 0 for never.
func (r *record) nextAt() stamp {
	if r.role != Owned || r.digest.Pages == 0 {
		return 0
	}
	return r.next
}

// A record on disk is its version (1 byte), the time of writing, and the fields in the order of code. Times are distances from
// the writing: a wait written by a clock that was ahead or behind means the same wait to a clock that is right.
const (
	recordVersion = 8
	recordLoose   = 1 << 0
	recordTracked = 1 << 1
)

func (r *record) code(c *coder) {
	c.stamp()
	c.time(&r.lastRequest, 0)
	c.time(&r.notBefore, maxPause)
	c.time(&r.endedUntil, maxPause)
	c.text(&r.endReason, maxEndReason)
	c.millis(&r.crawlDelay, 1000*time.Hour)
	c.byte(&r.level, math.MaxUint8)
	c.time(&r.robotsUntil, maxRobotsAge)
	c.uvarint(&r.done)
	c.uvarint(&r.failed)
	c.uvarint(&r.dropped)
	list(c, &r.partial, func(p *partialBlock) {
		c.uvarint(&p.seq)
		for i := range p.done {
			c.word(&p.done[i])
		}
	})
	list(c, &r.fresh, c.word)
	c.byte((*uint8)(&r.role), byte(roles)-1)
	flags := bitIf(r.loose, recordLoose) | bitIf(r.tracked, recordTracked)
	c.byte(&flags, recordLoose|recordTracked)
	r.loose, r.tracked = flags&recordLoose != 0, flags&recordTracked != 0
	d := &r.digest
	if r.tracked {
		c.uvarint(&d.Accepted)
		c.uvarint(&d.Done)
		c.word(&d.AcceptedXor)
		c.word(&d.DoneXor)
	}
	c.byte(&r.failures, math.MaxUint8)
	c.uvarint(&d.Drops)
	if c.uvarint(&d.Pages); d.Pages > 0 {
		c.word(&d.PagesXor)
		small(c, &r.next, math.MaxUint32)
		c.byte(&r.hints.followed, math.MaxUint8)
		c.byte(&r.hints.right, math.MaxUint8)
	}
}

// bitIf is the bit if on, else 0.
func bitIf(on bool, bit uint8) uint8 {
	if on {
		return bit
	}
	return 0
}

func (r *record) append(b []byte) []byte { return r.appendAt(b, time.Now()) }

// appendAt writes the record as of now.
func (r *record) appendAt(b []byte, now time.Time) []byte {
	b = slices.Grow(b, 96+len(r.endReason)+len(r.partial)*(4+len(bitmap{})*8)+len(r.fresh)*8)
	c := coder{b: append(b, recordVersion), now: now}
	r.code(&c)
	return c.b
}

func decodeRecord(host string, b []byte) (record, error) { return decodeRecordAt(host, b, time.Now()) }

// decodeRecordAt reads a record as of now.
func decodeRecordAt(host string, b []byte, now time.Time) (record, error) {
	if len(b) == 0 || b[0] != recordVersion {
		return record{}, fmt.Errorf("read record of %s: unknown version", host)
	}
	var r record
	c := reader(b[1:])
	c.now = now
	if r.code(&c); c.broken || len(c.b) > 0 {
		return record{}, fmt.Errorf("read record of %s: damaged", host)
	}
	return r, nil
}
