package frontier

import (
	"encoding/binary"
	"errors"
	"time"

	"proxima/frontier/revisit"
)

// PageRecord is what is remembered of a page, or a sitemap, so that it can be visited again. Times are whole seconds.
type PageRecord struct {
	Path    string // "/path?query", as in identity.URL
	Sitemap bool
	Depth   uint8
	// Seen is the last visit that was answered, Due is when the next one is to be.
	Seen, Due time.Time
	// Changed is when the page was last found changed; zero: never.
	Changed time.Time
	// ETag and Modified are the validators that the server gave; "" and zero where it gave none.
	ETag     string
	Modified time.Time
	// Body is a checksum of the body, Digest and Simhash are those of its text; Digest is 0 where no body was ever seen.
	Body            uint32
	Digest, Simhash uint64
	// History is what the visits that were answered have told.
	History revisit.History
	// Hinted says that the page is due because its sitemap says that it was modified.
	Hinted bool
	// Gone counts the last visits in a row that found no page, Failures those that got no answer.
	Gone, Failures uint8
	// Dropped says that the page is no longer remembered. It is so on its way to another node only.
	Dropped bool
}

// MaxETag is the longest ETag that is kept, in bytes. Part of one is worth nothing.
const MaxETag = 128

// A page on disk and in messages:
//
//	version (1 byte, 1) | flags (1 byte) | times | body (4 bytes), digest, simhash (8 bytes each), little-endian
//	| history (13 bytes) | gone | failures | depth (1 byte each) | length of ETag (uvarint) | ETag | path
//
// Times are seconds, zigzag: due after a base, seen before due, and, where the flags say that they are there, changed
// and modified before seen. The base is the due time itself on disk, where it stands in the key, and the sender's time
// in a message: no two nodes' clocks are compared.
const (
	pageVersion  = 1
	pageSitemap  = 1 << 0
	pageChanged  = 1 << 1
	pageModified = 1 << 2
	pageDropped  = 1 << 3
	pageHinted   = 1 << 4
	pageFlags    = pageSitemap | pageChanged | pageModified | pageDropped | pageHinted
	// maxPageAge bounds the distance of two times of a page: what a clock that was never set makes of them.
	maxPageAge = 200 * 365 * 24 * 3600
	// maxPagePath bounds a path that comes from another node.
	maxPagePath = 16 << 10
)

// stamp is a point in time in seconds, as it stands in keys: 0 is none.
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

// appendSeconds writes a number of seconds.
func appendSeconds(b []byte, s int64) []byte {
	return binary.AppendVarint(b, max(-maxPageAge, min(s, maxPageAge)))
}

// AppendPage writes a page for another node, as of now.
func AppendPage(b []byte, p *PageRecord, now time.Time) []byte { return p.append(b, now.Unix()) }

// ParsePage reads what AppendPage wrote, as of now.
func ParsePage(b []byte, now time.Time) (PageRecord, error) { return decodePage(b, now.Unix()) }

func (p *PageRecord) append(b []byte, base int64) []byte {
	flags := byte(0)
	for _, f := range []struct {
		on  bool
		bit byte
	}{{p.Sitemap, pageSitemap}, {!p.Changed.IsZero(), pageChanged}, {!p.Modified.IsZero(), pageModified}, {p.Dropped, pageDropped}, {p.Hinted, pageHinted}} {
		if f.on {
			flags |= f.bit
		}
	}
	due, seen := int64(stampOf(p.Due)), p.Seen.Unix()
	b = append(b, pageVersion, flags)
	b = appendSeconds(b, due-base)
	b = appendSeconds(b, due-seen)
	if flags&pageChanged != 0 {
		b = appendSeconds(b, seen-p.Changed.Unix())
	}
	if flags&pageModified != 0 {
		b = appendSeconds(b, seen-p.Modified.Unix())
	}
	b = binary.LittleEndian.AppendUint32(b, p.Body)
	b = binary.LittleEndian.AppendUint64(b, p.Digest)
	b = binary.LittleEndian.AppendUint64(b, p.Simhash)
	b, _ = p.History.AppendBinary(b)
	b = append(b, p.Gone, p.Failures, p.Depth)
	etag := p.ETag
	if len(etag) > MaxETag {
		etag = ""
	}
	b = binary.AppendUvarint(b, uint64(len(etag)))
	b = append(b, etag...)
	return append(b, p.Path...)
}

var errPage = errors.New("damaged record of a page")

// seconds reads what appendSeconds wrote.
func (f *fields) seconds() int64 {
	v := f.uvarint()
	s := int64(v>>1) ^ -int64(v&1)
	if s > maxPageAge || s < -maxPageAge {
		f.broken = true
		return 0
	}
	return s
}

func decodePage(b []byte, base int64) (PageRecord, error) {
	if len(b) < 2 || b[0] != pageVersion || b[1]&^pageFlags != 0 {
		return PageRecord{}, errPage
	}
	flags := b[1]
	f := fields{b: b[2:]}
	due := base + f.seconds()
	seen := due - f.seconds()
	p := PageRecord{Sitemap: flags&pageSitemap != 0, Dropped: flags&pageDropped != 0, Hinted: flags&pageHinted != 0,
		Due: timeOf(stamp(max(1, min(due, 1<<32-1)))), Seen: time.Unix(seen, 0)}
	if flags&pageChanged != 0 {
		p.Changed = time.Unix(seen-f.seconds(), 0)
	}
	if flags&pageModified != 0 {
		p.Modified = time.Unix(seen-f.seconds(), 0)
	}
	if body := f.bytes(4); body != nil {
		p.Body = binary.LittleEndian.Uint32(body)
	}
	p.Digest, p.Simhash = f.word(), f.word()
	if h := f.bytes(revisit.HistorySize); h == nil || p.History.UnmarshalBinary(h) != nil {
		f.broken = true
	}
	if tail := f.bytes(3); tail != nil {
		p.Gone, p.Failures, p.Depth = tail[0], tail[1], tail[2]
	}
	etag := f.uvarint()
	if etag > MaxETag {
		f.broken = true
	}
	tag := f.bytes(min(etag, MaxETag))
	for _, c := range tag {
		f.broken = f.broken || c <= ' ' || c > '~' // it goes into a header as it is
	}
	if f.broken || len(f.b) == 0 || len(f.b) > maxPagePath || f.b[0] != '/' {
		return PageRecord{}, errPage
	}
	p.ETag, p.Path = string(tag), string(f.b)
	return p, nil
}

// mark is what a page adds to the digest of its host: two copies of a host with the same visits have the same.
func (p *PageRecord) mark(hash uint64) uint64 {
	x := hash + uint64(p.History.Visits())*0x9e3779b97f4a7c15 + uint64(p.Gone)<<8 + uint64(p.Failures)<<16
	x ^= x >> 29
	return x * 0xbf58476d1ce4e5b9
}

// memory is about how much a page takes, in bytes.
func (p *PageRecord) memory() int { return 240 + len(p.Path) + len(p.ETag) }

// fresher says that of two copies of a page p knows more: the later visit wins, and where the times of two nodes say too little, the
// one with more visits.
func (p *PageRecord) fresher(q *PageRecord) bool {
	const near = 10 * time.Second
	mine, other := p.History.Visits(), q.History.Visits()
	switch d := p.Seen.Sub(q.Seen); {
	case mine == other && p.Gone == q.Gone && p.Failures == q.Failures && !p.Dropped:
		return false // they are one
	case d > near || d < -near:
		return d > 0
	case mine != other:
		return mine > other
	case p.Gone != q.Gone:
		return p.Gone > q.Gone
	case p.Failures != q.Failures:
		return p.Failures > q.Failures
	}
	return p.Dropped
}
