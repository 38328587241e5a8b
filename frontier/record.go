package frontier

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"proxima/frontier/coder"
)

// record is what the store keeps of a host besides its URLs. It is written with every URL that ends, and is all that a host needs to go on
// after a crash: the done URLs of half-done blocks, the hashes that are not yet in a run of the seen set, and its politeness.
type record struct {
	hostState
	// endedUntil is set while the host is given up: links to it are refused, for endReason.
	endedUntil time.Time
	endReason  string
	// done, failed and dropped count the URLs that ended in these ways.
	done, failed, dropped uint64
	// retries counts the calls of Retry.
	retries uint64
	// partial are the blocks of which some URLs are done.
	partial []partialBlock
	// fresh are hashes of done URLs that are not yet in a run of the seen set.
	fresh []uint64
	// role is what the host is to this node.
	role Role
	// loose means that blocks may hold URLs that another node has reported done. They count as done (decideReconcile).
	loose bool
	// tracked means that the whole digest is kept. Otherwise only its drops and pages are.
	tracked bool
	digest  Digest
	// next is the time when the first page of the host is due, or earlier; 0 without pages.
	next stamp
	// hints says how often the lastmod dates of the host's sitemaps were right.
	hints hints
}

// hostState is what politeness needs to know of a host. The workbench changes it, and the ledger writes it down when a task ends.
type hostState struct {
	// lastRequest is when the last request to the host ended.
	lastRequest time.Time
	// notBefore is when the host may be asked again; zero when only the usual spacing applies.
	notBefore time.Time
	// crawlDelay is the Crawl-delay in its robots.txt.
	crawlDelay time.Duration
	// level counts the answers 429 and 503 in a row.
	level uint8
	// robotsUntil is when its robots.txt must be fetched again; zero when it is unknown.
	robotsUntil time.Time
	// failures counts in a row how often all addresses of the host failed, or the lookup of its name. The disk keeps at most 255.
	failures int
	// triedBy is the node that could not reach the host when it last tried, and left it to another one, or others. reachedSince says that a node
	// has reached it since.
	triedBy      string
	reachedSince bool
}

// MaxID is the longest id of a node, in bytes.
const MaxID = 63

// others stands for all other nodes, if none of them takes the host.
const others = "*"

// triedElsewhere says that another node could not reach the host, and none has since, so that this one decides.
func (s *hostState) triedElsewhere(self string) bool {
	return s.triedBy != "" && s.triedBy != self && !s.reachedSince
}

// reachedBy notes that a node has reached the host.
func (s *hostState) reachedBy(node string) {
	if s.triedBy == node || s.triedBy == others {
		s.triedBy = ""
	}
	s.reachedSince = s.triedBy != ""
}

// answered says that the host has ever answered: its robots.txt is known.
func (s *hostState) answered() bool { return !s.robotsUntil.IsZero() }

// alike says that two states differ at most in the time of the last request and in failures.
func (s *hostState) alike(other *hostState) bool {
	return near(s.notBefore, other.notBefore) && s.crawlDelay == other.crawlDelay && s.level == other.level &&
		s.triedBy == other.triedBy && s.reachedSince == other.reachedSince && near(s.robotsUntil, other.robotsUntil)
}

// near says that two times are the same. Times on disk are distances from the time of writing, and lose some of their exactness.
func near(a, b time.Time) bool { return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < time.Second }

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
	// maxFresh bounds the hashes that each write of a record repeats. It keeps most records below the store's valueThreshold.
	maxFresh     = 16
	maxEndReason = 200
	// maxAge bounds how long ago a time may be.
	maxAge = 10 * 365 * 24 * time.Hour
	// maxPause is the longest wait that Politeness allows, with its jitter.
	maxPause = 1250 * time.Hour
	// maxRobotsAge is how long a robots.txt may be used (RFC 9309, section 2.4).
	maxRobotsAge = 24 * time.Hour
)

// blockAt returns the index of a block, or -1.
func blockAt(blocks []partialBlock, seq uint64) int {
	return slices.IndexFunc(blocks, func(p partialBlock) bool { return p.seq == seq })
}

// pendingIn counts the pending URLs of a block that holds n.
func (r *record) pendingIn(seq uint64, n int) int {
	if i := blockAt(r.partial, seq); i >= 0 {
		n -= r.partial[i].done.count()
	}
	return n
}

func (r *record) isDone(seq uint64, i int) bool {
	at := blockAt(r.partial, seq)
	return at >= 0 && r.partial[at].done.has(i)
}

// mark notes that URL i of a block of n is done. When all of them are, it forgets the block and returns true.
func (r *record) mark(seq uint64, i, n int) (complete bool) {
	at := blockAt(r.partial, seq)
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

// giveUp has links to the host refused until a time, for a reason. With a zero time they are not.
func (r *record) giveUp(until time.Time, reason string) {
	r.endedUntil, r.endReason = until, strings.ToValidUTF8(reason[:min(len(reason), maxEndReason)], "")
}

// nextAt returns when the host must come in for its pages; 0 for never.
func (r *record) nextAt() stamp {
	if r.role != Owned || r.digest.Pages == 0 {
		return 0
	}
	return r.next
}

// A record on disk is its version (1 byte), the time of writing, and the fields in the order of code. Times are distances from the time of
// writing. If the clock was wrong then and is right now, a wait keeps its length.
const recordVersion = 8

// code writes all fields, or reads them.
func (r *record) code(c *timed) {
	c.Version(recordVersion)
	c.stamp()
	c.time(&r.lastRequest, 0)
	c.time(&r.notBefore, maxPause)
	c.time(&r.endedUntil, maxPause)
	c.Text(&r.endReason, maxEndReason)
	c.Millis(&r.crawlDelay, 1000*time.Hour)
	c.Byte(&r.level, math.MaxUint8)
	c.time(&r.robotsUntil, maxRobotsAge)
	c.Uvarint(&r.done)
	c.Uvarint(&r.failed)
	c.Uvarint(&r.dropped)
	coder.List(&c.Coder, &r.partial, math.MaxUint64, func(p *partialBlock) {
		c.Uvarint(&p.seq)
		for i := range p.done {
			c.Word(&p.done[i])
		}
	})
	coder.List(&c.Coder, &r.fresh, math.MaxUint64, c.Word)
	c.Byte((*uint8)(&r.role), byte(roles)-1)
	retried := r.retries > 0
	tried := r.triedBy != ""
	if c.Flags(&r.loose, &r.tracked, &retried, &tried, &r.reachedSince); retried {
		c.Uvarint(&r.retries)
	}
	if tried {
		c.Text(&r.triedBy, MaxID)
	}
	d := &r.digest
	if r.tracked {
		c.Uvarint(&d.Accepted)
		c.Uvarint(&d.Done)
		c.Word(&d.AcceptedXor)
		c.Word(&d.DoneXor)
	}
	failures := uint8(min(r.failures, math.MaxUint8))
	c.Byte(&failures, math.MaxUint8)
	r.failures = int(failures)
	c.Uvarint(&d.Drops)
	if c.Uvarint(&d.Pages); d.Pages > 0 {
		c.Word(&d.PagesXor)
		coder.Small(&c.Coder, &r.next, math.MaxUint32)
		c.Byte(&r.hints.followed, math.MaxUint8)
		c.Byte(&r.hints.right, math.MaxUint8)
	}
}

// bytes writes the record, with its times as of now.
func (r *record) bytes(now time.Time) []byte {
	room := 96 + len(r.endReason) + len(r.partial)*(4+len(bitmap{})*8) + len(r.fresh)*8
	c := timed{Coder: coder.Writer(make([]byte, 0, room)), now: now}
	r.code(&c)
	return c.B
}

// decodeRecord reads what bytes wrote. The times in it are as of now.
func decodeRecord(host string, b []byte, now time.Time) (record, error) {
	var r record
	c := timed{Coder: coder.Reader(b), now: now}
	r.code(&c)
	err := c.End()
	if errors.Is(err, coder.ErrUnknown) {
		err = ErrOldLayout
	}
	return r, wrap(err, "read record of %s", host)
}

// timed is a coder of a format with points in time.
type timed struct {
	coder.Coder
	// now is when the fields are written or read. age is how long before the reading they were written.
	now time.Time
	age time.Duration
}

// stamp codes the time of writing in Unix milliseconds. It must come before the first time. If it lies in the future, one of the two clocks
// was wrong. Then the age counts as 0, so that no wait gets shorter.
func (c *timed) stamp() {
	ms := uint64(max(0, c.now.UnixMilli())) // a clock that was never set may be before 1970
	if c.Uvarint(&ms); c.Reading() {
		c.age = max(0, min(c.now.Sub(time.UnixMilli(int64(ms))), maxAge))
	}
}

// time codes a point in time as its distance from the time of writing: milliseconds, zigzag plus 1, and 0 for the zero time. A time that
// is read is at most ahead later than the writing. It has the monotonic clock of now, so it stays right when the wall clock is set.
func (c *timed) time(v *time.Time, ahead time.Duration) {
	var n uint64
	if !c.Reading() && !v.IsZero() {
		d := max(-maxAge, min(v.Sub(c.now), maxAge)).Milliseconds()
		n = uint64(d<<1^d>>63) + 1
	}
	if c.Uvarint(&n); !c.Reading() || n == 0 {
		return
	}
	n--
	ms := int64(n>>1) ^ -int64(n&1)
	if most := maxAge.Milliseconds(); ms > most || ms < -most {
		c.Fail(errors.New("a time out of range"))
		return
	}
	*v = c.now.Add(min(time.Duration(ms)*time.Millisecond, ahead) - c.age)
}
