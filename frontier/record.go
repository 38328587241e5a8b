package frontier

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// record is what the store remembers of a host besides its URLs. It is written with every URL that is done, and it is
// all that a host needs to go on after a crash: which URLs of half-done blocks are done, the hashes not yet in a run
// of the seen set, and its politeness. On disk: version (1 byte, 8), the time of writing (Unix milliseconds), then
// the fields in order as uvarints. Points in time are milliseconds before or after the writing, zigzag plus 1, 0 for
// never: what was written by a clock that was ahead or behind means the same waits to a clock that is right.
type record struct {
	// lastRequest is the end of the last request to the host.
	lastRequest time.Time
	// notBefore is when the host may be asked again; zero when its politeness alone decides.
	notBefore time.Time
	// endedUntil is set while the host is given up: URLs that arrive are dropped with the reason.
	endedUntil time.Time
	// endReason is why, in words.
	endReason string
	// crawlDelay is what robots.txt asks for.
	crawlDelay time.Duration
	// level is the level of the backoff, 0 when there is none.
	level uint8
	// robotsUntil is when the robots.txt has to be asked for again; zero when unknown.
	robotsUntil time.Time
	// done, failed and dropped count URLs.
	done, failed, dropped uint64
	// partial are the blocks of which some URLs are done.
	partial []partialBlock
	// fresh are hashes of done URLs that are not in a run of the seen set yet.
	fresh []uint64
	// role is what the host is to this node.
	role Role
	// loose says that hashes in the seen set may be pending in blocks, too: they came from another node. They are done.
	loose bool
	// tracked says that digest is kept. Its drops and pages are always.
	tracked bool
	digest  Digest
	// next is when the first page of the host is due, or earlier; 0 where it has none.
	next stamp
	// failures counts failed connections and names in a row.
	failures uint8
	// hints says how good those of the host's sitemaps are.
	hints hints
}

// partialBlock says which URLs of a block are done.
type partialBlock struct {
	seq  uint64
	done bitmap
}

// bitmap has a bit for each URL of a block.
type bitmap [maxBlockURLs / 64]uint64

func (b *bitmap) set(i int) { b[i/64] |= 1 << (i % 64) }
func (b *bitmap) count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}
func (b *bitmap) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

const (
	recordVersion = 8
	// Flags of a record.
	recordLoose   = 1 << 0
	recordTracked = 1 << 1
	// maxFresh bounds what each write of a record repeats, and keeps most records below the store's valueThreshold.
	maxFresh     = 16
	maxEndReason = 200
)

// find returns the bitmap of a block, or nil.
func (r *record) find(seq uint64) *bitmap {
	for i := range r.partial {
		if r.partial[i].seq == seq {
			return &r.partial[i].done
		}
	}
	return nil
}

// mark notes that URL i of a block of n is done; it reports whether all of them are, and then forgets the block.
func (r *record) mark(seq uint64, i, n int) (complete bool) {
	at := -1
	for j := range r.partial {
		if r.partial[j].seq == seq {
			at = j
		}
	}
	if at < 0 {
		if n == 1 {
			return true
		}
		r.partial = append(r.partial, partialBlock{seq: seq})
		at = len(r.partial) - 1
	}
	p := &r.partial[at].done
	p.set(i)
	for k := range n {
		if !p.has(k) {
			return false
		}
	}
	r.partial = append(r.partial[:at], r.partial[at+1:]...)
	return true
}

// unmark forgets which URLs of a block are done.
func (r *record) unmark(seq uint64) {
	r.partial = slices.DeleteFunc(r.partial, func(p partialBlock) bool { return p.seq == seq })
}

// clone returns a record that shares nothing with r.
func (r *record) clone() record {
	c := *r
	c.partial, c.fresh = slices.Clone(r.partial), slices.Clone(r.fresh)
	return c
}

// Bounds on what a record says of the time around its writing.
const (
	// maxAge bounds how long ago anything was.
	maxAge = 10 * 365 * 24 * time.Hour
	// maxPause is the longest wait that Politeness allows, with its jitter.
	maxPause = 1250 * time.Hour
	// maxRobotsAge is for how long a robots.txt may be believed (RFC 9309, section 2.4).
	maxRobotsAge = 24 * time.Hour
)

// appendTime writes a point in time as its distance from now.
func appendTime(b []byte, t, now time.Time) []byte {
	if t.IsZero() {
		return append(b, 0)
	}
	d := max(-maxAge, min(t.Sub(now), maxAge)).Milliseconds()
	return binary.AppendUvarint(b, uint64(d<<1^d>>63)+1)
}

func (r *record) append(b []byte) []byte { return r.appendAt(b, time.Now()) }

// appendAt writes the record as of now.
func (r *record) appendAt(b []byte, now time.Time) []byte {
	b = slices.Grow(b, 96+len(r.endReason)+len(r.partial)*(4+len(bitmap{})*8)+len(r.fresh)*8)
	b = append(b, recordVersion)
	b = binary.AppendUvarint(b, uint64(max(0, now.UnixMilli()))) // a clock that was never set may stand before 1970
	b = appendTime(b, r.lastRequest, now)
	b = appendTime(b, r.notBefore, now)
	b = appendTime(b, r.endedUntil, now)
	b = binary.AppendUvarint(b, uint64(len(r.endReason)))
	b = append(b, r.endReason...)
	b = binary.AppendUvarint(b, uint64(r.crawlDelay/time.Millisecond))
	b = append(b, r.level)
	b = appendTime(b, r.robotsUntil, now)
	b = binary.AppendUvarint(b, r.done)
	b = binary.AppendUvarint(b, r.failed)
	b = binary.AppendUvarint(b, r.dropped)
	b = binary.AppendUvarint(b, uint64(len(r.partial)))
	for _, p := range r.partial {
		b = binary.AppendUvarint(b, p.seq)
		for _, w := range p.done {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(r.fresh)))
	for _, h := range r.fresh {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	flags := byte(0)
	if r.loose {
		flags |= recordLoose
	}
	if r.tracked {
		flags |= recordTracked
	}
	b = append(b, byte(r.role), flags)
	if r.tracked {
		b = binary.AppendUvarint(b, r.digest.Accepted)
		b = binary.AppendUvarint(b, r.digest.Done)
		b = binary.LittleEndian.AppendUint64(b, r.digest.AcceptedXor)
		b = binary.LittleEndian.AppendUint64(b, r.digest.DoneXor)
	}
	b = append(b, r.failures)
	b = binary.AppendUvarint(b, r.digest.Drops)
	b = binary.AppendUvarint(b, r.digest.Pages)
	if r.digest.Pages > 0 {
		b = binary.LittleEndian.AppendUint64(b, r.digest.PagesXor)
		b = binary.AppendUvarint(b, uint64(r.next))
		b = append(b, r.hints.followed, r.hints.right)
	}
	return b
}

// fields reads the numbers of a record one after the other; the first thing missing spoils the rest.
type fields struct {
	b      []byte
	broken bool
}

func (f *fields) uvarint() uint64 {
	v, n := binary.Uvarint(f.b)
	if n <= 0 {
		f.broken, f.b = true, nil
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) bytes(n uint64) []byte {
	if n > uint64(len(f.b)) {
		f.broken, f.b = true, nil
		return nil
	}
	out := f.b[:n]
	f.b = f.b[n:]
	return out
}

func (f *fields) word() uint64 {
	if b := f.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// time reads a point in time, which was written some time ago, and is ahead by a bound at most.
func (f *fields) time(now time.Time, since, ahead time.Duration) time.Time {
	v := f.uvarint()
	if v == 0 {
		return time.Time{}
	}
	v--
	ms := int64(v>>1) ^ -int64(v&1)
	if abs := max(ms, -ms); abs < 0 || abs > maxAge.Milliseconds() {
		f.broken = true
		return time.Time{}
	}
	return now.Add(min(time.Duration(ms)*time.Millisecond, ahead) - since)
}

// since reads when a record was written, and says how long ago that is. A time to come was written by a clock that ran
// ahead, or this one has been set back: nobody knows how long ago, and no wait gets shorter.
func (f *fields) since(now time.Time) time.Duration {
	v := f.uvarint()
	if v > 253402300799000 { // the year 9999
		f.broken = true
		return 0
	}
	return max(0, min(now.Sub(time.UnixMilli(int64(v))), maxAge))
}

// nextAt is when the host is to be taken up for its pages; 0: not at all.
func (r *record) nextAt() stamp {
	if r.role != Owned || r.digest.Pages == 0 {
		return 0
	}
	return r.next
}

// overlay reads the role of the host.
func (f *fields) overlay(r *record) {
	head := f.bytes(2)
	if head == nil || head[0] >= byte(roles) || head[1]&^(recordLoose|recordTracked) != 0 {
		f.broken = true
		return
	}
	r.role, r.loose, r.tracked = Role(head[0]), head[1]&recordLoose != 0, head[1]&recordTracked != 0
	if r.tracked {
		r.digest = Digest{Accepted: f.uvarint(), Done: f.uvarint(), AcceptedXor: f.word(), DoneXor: f.word()}
	}
}

func decodeRecord(host string, b []byte) (record, error) { return decodeRecordAt(host, b, time.Now()) }

// decodeRecordAt reads a record for a clock that says now. Its times follow that clock's monotonic reading, so that they
// stay right when the clock is set.
func decodeRecordAt(host string, b []byte, now time.Time) (record, error) {
	var r record
	if len(b) == 0 || b[0] != recordVersion {
		return r, fmt.Errorf("read record of %s: unknown version", host)
	}
	f := fields{b: b[1:]}
	since := f.since(now)
	r.lastRequest, r.notBefore, r.endedUntil = f.time(now, since, 0), f.time(now, since, maxPause), f.time(now, since, maxPause)
	r.endReason = string(f.bytes(min(f.uvarint(), maxEndReason+1)))
	r.crawlDelay = time.Duration(min(f.uvarint(), uint64(1000*time.Hour/time.Millisecond))) * time.Millisecond
	if level := f.bytes(1); level != nil {
		r.level = level[0]
	}
	r.robotsUntil = f.time(now, since, maxRobotsAge)
	r.done, r.failed, r.dropped = f.uvarint(), f.uvarint(), f.uvarint()
	for range f.uvarint() {
		p := partialBlock{seq: f.uvarint()}
		for i := range p.done {
			p.done[i] = f.word()
		}
		if f.broken {
			break
		}
		r.partial = append(r.partial, p)
	}
	for range f.uvarint() {
		h := f.word()
		if f.broken {
			break
		}
		r.fresh = append(r.fresh, h)
	}
	f.overlay(&r)
	if failures := f.bytes(1); failures != nil {
		r.failures = failures[0]
	}
	r.digest.Drops = f.uvarint()
	if r.digest.Pages = f.uvarint(); r.digest.Pages > 0 {
		r.digest.PagesXor = f.word()
		next := f.uvarint()
		f.broken = f.broken || next > math.MaxUint32
		r.next = stamp(next)
		if h := f.bytes(2); h != nil {
			r.hints = hints{followed: h[0], right: h[1]}
		}
	}
	if f.broken || len(f.b) > 0 {
		return record{}, fmt.Errorf("read record of %s: damaged", host)
	}
	return r, nil
}
