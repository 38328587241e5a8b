package frontier

import (
	"cmp"
	"errors"
	"math"
	"strings"
	"time"

	"proxima/frontier/coder"
	"proxima/frontier/revisit"
)

// PageRecord is what is remembered of a page, or a sitemap, so that it can be visited again. Times are whole seconds.
type PageRecord struct {
	Path    string // "/path?query", as in identity.URL
	Sitemap bool
	Depth   uint8
	// Seen is the time of the last visit that was answered, Due that of the next visit.
	Seen, Due time.Time
	// Changed is the last time at which a visit found the page changed; zero if none has.
	Changed time.Time
	// ETag and Modified are the validators that the server gave; "" and zero if it gave none.
	ETag     string
	Modified time.Time
	// Body is a checksum of the body. Digest and Simhash are fingerprints of its text. Digest is 0 if there was never a body.
	Body            uint32
	Digest, Simhash uint64
	// History sums up the visits that were answered.
	History revisit.History
	// Hinted means that the page is due early because its sitemap says that it was modified.
	Hinted bool
	// Gone counts the latest visits in a row that found no page, Failures those that got no answer.
	Gone, Failures uint8
	// Dropped means that the page is no longer remembered. It is set only on the way to another node.
	Dropped bool
}

// MaxETag is the longest ETag that is kept, in bytes. A longer one is not kept at all, because a part is useless.
const MaxETag = 128

// A page on disk and in messages is a version (1 byte), the fields in the order of code, and the path. Times are distances in seconds: due
// after a base, seen before due, changed and modified before seen. On disk the base is the due time, which is in the key. In a message it
// is the sender's time, so that the clocks of two nodes are never compared.
const (
	pageVersion = 1
	// maxPageAge bounds the distance between two times of a page, in seconds. A clock that was never set makes large distances.
	maxPageAge = 200 * 365 * 24 * 3600
	// maxPagePath bounds a path that comes from another node.
	maxPagePath = 16 << 10
)

// stamp is a point in time in seconds since 1970, as in keys. 0 means none.
type stamp = uint32

func stampOf(t time.Time) stamp {
	if t.IsZero() {
		return 0
	}
	return stamp(max(1, min(t.Unix(), 1<<32-1)))
}

func timeOf(s stamp) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), 0)
}

// code writes all fields but the path, or reads them. Writing does not change p, which other goroutines may read.
func (p *PageRecord) code(c *coder.Coder, base int64) {
	changed, modified := !p.Changed.IsZero(), !p.Modified.IsZero()
	c.Flags(&p.Sitemap, &changed, &modified, &p.Dropped, &p.Hinted)
	due, etag := int64(stampOf(p.Due)), p.ETag
	ahead := due - base
	c.Varint(&ahead, maxPageAge)
	due = base + ahead
	before := func(at int64, t *time.Time) int64 {
		d := at - t.Unix()
		if c.Varint(&d, maxPageAge); c.Reading() {
			*t = time.Unix(at-d, 0)
		}
		return at - d
	}
	seen := before(due, &p.Seen)
	if changed {
		before(seen, &p.Changed)
	}
	if modified {
		before(seen, &p.Modified)
	}
	c.Half(&p.Body)
	c.Word(&p.Digest)
	c.Word(&p.Simhash)
	if !c.Reading() {
		c.B, _ = p.History.AppendBinary(c.B)
	} else if err := p.History.UnmarshalBinary(c.Take(revisit.HistorySize)); err != nil {
		c.Fail(err)
	}
	c.Byte(&p.Gone, math.MaxUint8)
	c.Byte(&p.Failures, math.MaxUint8)
	c.Byte(&p.Depth, math.MaxUint8)
	if len(etag) > MaxETag {
		etag = ""
	}
	c.Text(&etag, MaxETag)
	if c.Reading() {
		p.Due, p.ETag = timeOf(stamp(max(1, min(due, 1<<32-1)))), etag
	}
}

// AppendPage writes a page. For another node the base is now.
func AppendPage(b []byte, p *PageRecord, base time.Time) []byte {
	c := coder.Writer(append(b, pageVersion))
	p.code(&c, base.Unix())
	return append(c.B, p.Path...)
}

var errPage = errors.New("damaged record of a page")

// ParsePage reads what AppendPage wrote. From another node the base is now.
func ParsePage(b []byte, base time.Time) (PageRecord, error) {
	if len(b) == 0 || b[0] != pageVersion {
		return PageRecord{}, errPage
	}
	var p PageRecord
	c := coder.Reader(b[1:])
	if p.code(&c, base.Unix()); c.Err() != nil || len(c.B) == 0 || len(c.B) > maxPagePath || c.B[0] != '/' {
		return PageRecord{}, errPage
	}
	if strings.ContainsFunc(p.ETag, func(r rune) bool { return r <= ' ' || r > '~' }) { // it goes into a header as it is
		return PageRecord{}, errPage
	}
	p.Path = string(c.B)
	return p, nil
}

// mark is what a page adds to the digest of its host. Copies of a page with the same visits have the same mark.
func (p *PageRecord) mark(hash uint64) uint64 {
	x := hash + uint64(p.History.Visits())*0x9e3779b97f4a7c15 + uint64(p.Gone)<<8 + uint64(p.Failures)<<16
	x ^= x >> 29
	return x * 0xbf58476d1ce4e5b9
}

func (p *PageRecord) memory() int { return 240 + len(p.Path) + len(p.ETag) }

// fresher says whether p is the better of two copies of a page. The later visit wins. If the times of two nodes are too close to tell, or a
// clock was ahead at one of the visits, the copy with more visits wins.
func (p *PageRecord) fresher(q *PageRecord, now time.Time) bool {
	const near = 10 * time.Second
	mine, other := p.History.Visits(), q.History.Visits()
	d := p.Seen.Sub(q.Seen)
	switch {
	case mine == other && p.Gone == q.Gone && p.Failures == q.Failures && !p.Dropped:
		return false // they are the same
	case d.Abs() > near && !later(p.Seen, q.Seen).After(now.Add(near)):
		return d > 0
	}
	order := cmp.Or(cmp.Compare(mine, other), cmp.Compare(p.Gone, q.Gone), cmp.Compare(p.Failures, q.Failures))
	return order > 0 || order == 0 && p.Dropped
}
