package frontier

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// short is a host or URL without its scheme.
func short(url string) string { return strings.TrimPrefix(url, "http://") }

// said is a subject and what is to be said of it: pairs of a format and its argument, without those whose argument is zero or empty.
func said(subject string, pairs ...any) string {
	for pair := range slices.Chunk(pairs, 2) {
		format, v := pair[0].(string), reflect.ValueOf(pair[1])
		switch {
		case !v.IsValid() || v.IsZero() || (v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.Len() == 0:
		case v.Kind() == reflect.Bool:
			subject += ", " + format
		default:
			subject += ", " + fmt.Sprintf(format, pair[1])
		}
	}
	return subject
}

// at is a time as it is printed: since the scenario began. It is "" for none.
func (h *house) at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Sub(h.begun).Round(time.Second).String()
}

// named gives hashes the paths that the scenario knows.
func (h *house) named(hashes []uint64) (paths []string) {
	for _, hash := range hashes {
		paths = append(paths, h.paths[hash])
	}
	return paths
}

// urls writes pending URLs as the steps do.
func urls(entries []PendingURL) (words []string) {
	for _, e := range entries {
		w := e.Path
		if e.Depth > 0 {
			w += fmt.Sprint("@", e.Depth)
		}
		if e.Hops > 0 {
			w += fmt.Sprint("^", e.Hops)
		}
		if e.Sitemap {
			w += "!"
		}
		words = append(words, w)
	}
	return words
}

// page is what is known of a page, in words.
func (h *house) page(p *PageRecord) string {
	if p == nil {
		return ""
	}
	return said(p.Path, "seen %s", h.at(p.Seen), "due %s", h.at(p.Due), "changed %s", h.at(p.Changed), "modified %s", h.at(p.Modified),
		"etag %s", p.ETag, "digest %d", p.Digest, "%d visits", p.History.Visits(), "gone %d", p.Gone, "failures %d", p.Failures, "depth %d", p.Depth,
		"sitemap", p.Sitemap, "hinted", p.Hinted, "dropped", p.Dropped)
}

// told is a change in words. Only of a host that is tracked its digest is compared with its URLs (dump).
func (h *house) told(subject string, c *Change) string {
	s := said(subject, "pending %v", urls(c.Added), "done %v", h.named(c.Done))
	for i := range c.Pages {
		s += "; page " + h.page(&c.Pages[i])
	}
	s = said(s, "its state", c.State, "given up", c.Dropped, "too much", c.Lost)
	if c.Tracked {
		s = said(s+"; tracked", "%d accepted", c.Digest.Accepted, "%d done", c.Digest.Done, "%d drops", c.Digest.Drops)
	}
	return s
}

// dump says what is on disk.
func (h *house) dump() {
	for r, err := range h.store.rows(nil, []byte{keyVersion}, nil, ahead) {
		if err == nil {
			err = h.value(slices.Clone(r.key), slices.Clone(r.value))
		}
		must(h.t, err)
	}
}

func (h *house) value(key, v []byte) error {
	switch key[1] {
	case kindMeta, kindSample:
		return nil
	case kindNext:
		due, host, err := splitNext(key)
		h.say("disk: %s is next at %s", short(host), h.at(timeOf(due)))
		return err
	}
	host, rest, err := splitKey(key)
	if err != nil {
		return err
	}
	name := short(host)
	switch key[1] {
	case kindHost:
		rec, err := decodeRecord(host, v, time.Now())
		h.say("disk: %s", h.record(name, &rec))
		if rec.tracked {
			if d := h.scanned(host); d != rec.digest {
				h.say("its digest is %+v, and that of its URLs %+v", rec.digest, d)
			}
		}
		return err
	case kindPending:
		entries, err := h.store.codec.open(host, v)
		var some []PendingURL
		for _, e := range entries {
			some = append(some, e.PendingURL)
		}
		h.say("disk: %s %v block %d: %v", name, Origin(rest[0]), row{key: key}.seq(), urls(some))
		return err
	case kindSeen:
		var hashes []uint64
		for ; len(v) >= 8; v = v[8:] {
			hashes = append(hashes, binary.LittleEndian.Uint64(v))
		}
		h.say("disk: %s run %d: %v", name, binary.BigEndian.Uint64(rest), h.named(hashes))
	case kindDepth:
		h.say("disk: %s depth of %s: %v", name, h.paths[binary.BigEndian.Uint64(rest)], v)
	case kindRobots:
		h.say("disk: %s robots.txt: %s", name, v)
	case kindPage:
		h.say("disk: %s page %s is due at %s", name, h.paths[binary.BigEndian.Uint64(rest)], h.at(timeOf(binary.BigEndian.Uint32(v))))
	case kindDue:
		due, hash, err := splitDue(rest)
		if err != nil {
			return err
		}
		p, err := ParsePage(v, time.Unix(int64(due), 0))
		h.say("disk: %s at %s %s: %s", name, h.at(timeOf(due)), h.paths[hash], h.page(&p))
		return err
	default:
		h.say("disk: key %q", key)
	}
	return nil
}

// record is a record in words.
func (h *house) record(name string, r *record) string {
	s := said(fmt.Sprintf("%s is %v", name, r.role), "loose", r.loose)
	if d := r.digest; r.tracked {
		s += fmt.Sprintf(", tracked: %v", [3]uint64{d.Accepted, d.Done, d.Drops})
	} else {
		s = said(s, "%d drops", d.Drops)
	}
	s = said(s, "%d pages", r.digest.Pages, "done %d", r.done, "failed %d", r.failed, "dropped %d", r.dropped, "asked at %s", h.at(r.lastRequest),
		"not before %s", h.at(r.notBefore), "ended until %s", h.at(r.endedUntil), "because %q", r.endReason, "delay %v", r.crawlDelay,
		"level %d", r.level, "failures %d", r.failures, "robots until %s", h.at(r.robotsUntil), "next %s", h.at(timeOf(r.next)),
		"hints %+v", r.hints, "fresh %v", h.named(r.fresh))
	for _, p := range r.partial {
		s += fmt.Sprintf(", of block %d are done %b", p.seq, p.done[0])
	}
	return s
}

// export reads a host chunk by chunk, and each goes on where the one before it says in a message.
func (h *house) export(host, name string, urls, bytes int) {
	h.chunks[name] = nil
	for at := (Cursor{}); ; {
		c, next, end, err := h.Export(context.Background(), host, at, urls, bytes)
		must(h.t, err)
		h.chunks[name] = append(h.chunks[name], c)
		h.say("%s", h.told("chunk", &Change{Added: c.Pending, Done: c.Done, Pages: c.Pages}))
		if s := c.State; s != nil {
			h.say("%s", said(fmt.Sprintf("state: asked %v ago", s.SinceRequest), "wait %v", s.Wait, "delay %v", s.CrawlDelay, "level %d", s.Level,
				"done %d", s.Done, "failed %d", s.Failed, "dropped %d", s.Dropped, "drops %d", c.Drops, "robots", s.Robots != nil))
		}
		if end {
			return
		}
		if at, err = ParseCursor(next.Append(nil)); err != nil || at != next {
			h.t.Fatalf("%+v is read as %+v, %v", next, at, err)
		}
	}
}

// chunk makes a chunk of a host as another node may send it.
func (h *house) chunk(words []string) {
	host, name, words := words[0], words[1], words[2:]
	var c Chunk
	next := func() (word string) { word, words = words[0], words[1:]; return word }
	count := func() uint64 { return uint64(number(h.t, next())) }
	length := func() time.Duration { return duration(h.t, next()) }
	state := func() *HostState {
		c.State = cmp.Or(c.State, &HostState{SinceRequest: -1})
		return c.State
	}
	add := func(Link) {}
	keys := map[string]func(){
		"drops":  func() { c.Drops = count() },
		"asked":  func() { state().SinceRequest = length() },
		"wait":   func() { state().Wait = length() },
		"delay":  func() { state().CrawlDelay = length() },
		"level":  func() { state().Level = uint8(count()) },
		"counts": func() { s := state(); s.Done, s.Failed, s.Dropped = count(), count(), count() },
		"robots": func() { state().Robots = &RobotsFile{Body: []byte("theirs"), Valid: length()} },
		"pending": func() {
			add = func(l Link) {
				c.Pending = append(c.Pending, PendingURL{Path: l.URL.Path, Sitemap: l.Sitemap, Depth: l.Depth, Hops: l.Hops})
			}
		},
		"done": func() { add = func(l Link) { c.Done = append(c.Done, l.URL.Hash()) } },
		"page": func() { // "~": when it was seen; "!": forgotten; hops: failures
			add = func(l Link) {
				p := PageRecord{Path: l.URL.Path, Depth: l.Depth, Failures: l.Hops, Dropped: l.Sitemap, Seen: l.Modified, Due: l.Modified.Add(time.Hour)}
				c.Pages = append(c.Pages, p)
			}
		},
	}
	for len(words) > 0 {
		if word := next(); keys[word] != nil {
			keys[word]()
		} else {
			add(h.link(host + word))
		}
	}
	h.chunks[name] = append(h.chunks[name], c)
}
