package crawl

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"proxima/fetch"
	"proxima/fetch/text"
	"proxima/frontier"
	"proxima/node/runlog"
)

// conditions returns the validators for a repeated request. There are none if the node has never seen the body, or saw it before the scope was
// changed: "not modified" would tell it nothing.
func (l *Loop) conditions(task *frontier.Task) (etag string, modified time.Time) {
	p := task.Page
	if p == nil || p.Digest == 0 || p.Gone > 0 || p.Seen.Before(l.deps.ScopeSince) {
		return "", time.Time{}
	}
	return p.ETag, p.Modified
}

// visited returns what a visit of a page or sitemap found, and how the log of changes calls it ("" for what is not logged). The visit is
// nil if it found nothing. An answer that makes no sense for a revisit becomes a failure in the outcome.
func (l *Loop) visited(task *frontier.Task, res *fetch.Result, out *frontier.Outcome, g *gather, now time.Time) (v *frontier.Visit, change string) {
	if task.Kind == frontier.Robots || res.Class != "" && !noBodyNeeded(res) || out.Ending == frontier.Again {
		return nil, ""
	}
	was := task.Page
	switch res.Status {
	case http.StatusNotModified:
		if etag, modified := l.conditions(task); etag == "" && modified.IsZero() {
			out.Ending, out.Reason = frontier.Failed, "not modified, though the request had no condition"
			return nil, ""
		}
		v = &frontier.Visit{Found: frontier.Unchanged, ETag: was.ETag, Modified: was.Modified, FreshFor: freshFor(res.Header)}
		if etag := etagOf(res.Header); etag != "" {
			v.ETag = etag
		}
		return v, ""
	case http.StatusNotFound, http.StatusGone:
		return gone(was)
	case http.StatusMovedPermanently, http.StatusPermanentRedirect:
		if res.Location == "" {
			return nil, ""
		}
		return &frontier.Visit{Found: frontier.Moved}, runlog.ChangeMoved
	case http.StatusOK, http.StatusNonAuthoritativeInfo: // the latter from a proxy
	default:
		return nil, ""
	}
	v = &frontier.Visit{Found: frontier.Altered, ETag: etagOf(res.Header), Modified: modifiedOf(res.Header, now), FreshFor: freshFor(res.Header),
		Body: uint32(xxhash.Sum64(res.Body))}
	if was != nil && was.Digest != 0 && was.Body == v.Body && was.Gone == 0 {
		v.Found = frontier.Unchanged
		return v, ""
	}
	f := text.OfBytes(res.Body)
	if g.page.Charset != "" {
		doc := g.document(res.Body)
		if f = doc.Fingerprint; saysGone(doc) {
			return gone(was)
		}
	}
	v.Digest, v.Simhash = f.Digest, f.Simhash
	switch {
	case was == nil:
	case was.Gone > 0:
		change = runlog.ChangeBack
	case was.Digest == 0: // there is nothing to compare it with
		v.Found = frontier.Unchanged
	case f.Changed(text.Fingerprint{Digest: was.Digest, Simhash: was.Simhash}):
		change = runlog.ChangeChanged
	default:
		v.Found, change = frontier.Trivial, runlog.ChangeTrivial
	}
	return v, change
}

// gone returns a visit that found no page.
func gone(was *frontier.PageRecord) (*frontier.Visit, string) {
	v := &frontier.Visit{Found: frontier.Gone}
	if was == nil || was.Gone > 0 {
		return v, ""
	}
	return v, runlog.ChangeGone
}

// logChange writes to the log of changes what a visit found.
func (l *Loop) logChange(task *frontier.Task, url string, status int, v *frontier.Visit, change string) {
	if task.Page == nil || change == "" || v == nil {
		return
	}
	c := runlog.Change{URL: url, Host: task.Host, What: change, Status: status, SeenBefore: task.Page.Seen.UTC(),
		Visits: task.Page.History.Visits() + 1}
	if v.Digest != 0 && task.Page.Digest != 0 {
		before := text.Fingerprint{Digest: task.Page.Digest, Simhash: task.Page.Simhash}
		c.Distance = text.Fingerprint{Digest: v.Digest, Simhash: v.Simhash}.Distance(before)
	}
	l.deps.RunLog.Change(c)
}

// notFound are titles of error pages whose status is 200.
var notFound = []string{"404", "not found", "page not found", "404 not found", "error 404", "404 error", "file not found", "410 gone",
	"nicht gefunden", "seite nicht gefunden", "page introuvable", "página no encontrada", "pagina non trovata"}

// maxGoneWords is how many words an error page has at most.
const maxGoneWords = 120

// saysGone reports whether a page is an error page by its title. It must also be short.
func saysGone(doc *text.Document) bool {
	if doc.Words > maxGoneWords {
		return false
	}
	// The title often has the name of the site, too.
	for part := range strings.FieldsFuncSeq(strings.ToLower(doc.Title), func(r rune) bool { return strings.ContainsRune("|–—-:·»«", r) }) {
		if slices.Contains(notFound, strings.Trim(part, " .!")) {
			return true
		}
	}
	return false
}

// etagOf returns the ETag of an answer. It returns "" if there is none, or if it is malformed or too long for a request.
func etagOf(h http.Header) string {
	tag := h.Get("ETag")
	opaque := strings.TrimPrefix(tag, "W/")
	if len(tag) > frontier.MaxETag || len(opaque) < 2 || opaque[0] != '"' || opaque[len(opaque)-1] != '"' ||
		strings.ContainsFunc(opaque[1:len(opaque)-1], func(c rune) bool { return c <= ' ' || c > '~' || c == '"' }) {
		return ""
	}
	return tag
}

// modifiedOf returns the Last-Modified of an answer. It ignores times in the future, and those up to 1970.
func modifiedOf(h http.Header, now time.Time) time.Time {
	t, err := http.ParseTime(h.Get("Last-Modified"))
	if err != nil || t.After(now) || t.Unix() <= 0 {
		return time.Time{}
	}
	return t
}

// freshFor returns the max-age of Cache-Control, however long.
func freshFor(h http.Header) time.Duration {
	for _, line := range h.Values("Cache-Control") {
		for part := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			if !strings.EqualFold(name, "max-age") {
				continue
			}
			if n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil || errors.Is(err, strconv.ErrRange) { // out of range, n is the greatest value
				return time.Duration(n) * time.Second
			}
		}
	}
	return 0
}
