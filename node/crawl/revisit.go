package crawl

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"proxima/fetch"
	"proxima/fetch/text"
	"proxima/frontier"
	"proxima/node/runlog"
)

// conditions are the validators with which a page is asked for again: none where its body was never seen, for then "not
// modified" says nothing.
func conditions(task *frontier.Task) (etag string, modified time.Time) {
	p := task.Page
	if p == nil || p.Digest == 0 || p.Gone > 0 {
		return "", time.Time{}
	}
	return p.ETag, p.Modified
}

// visit says what was found of a page or sitemap, and takes out what a revisit cannot mean. It is nil where nothing was. The kind
// is what the log of changes calls it, "" for what does not stand there.
func (l *Loop) visit(task *frontier.Task, res *fetch.Result, out *frontier.Outcome, g *gather, now time.Time) (v *frontier.Visit, change string) {
	if task.Kind == frontier.Robots || res.Class != "" || out.Ending == frontier.Again {
		return nil, ""
	}
	was := task.Page
	switch res.Status {
	case http.StatusNotModified:
		if etag, modified := conditions(task); etag == "" && modified.IsZero() {
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
	case http.StatusOK:
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
	if g.charset != "" {
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
	case was.Digest == 0: // nothing to compare it with
		v.Found = frontier.Unchanged
	case f.Changed(text.Fingerprint{Digest: was.Digest, Simhash: was.Simhash}):
		change = runlog.ChangeChanged
	default:
		v.Found, change = frontier.Trivial, runlog.ChangeTrivial
	}
	return v, change
}

// gone is a visit that found no page.
func gone(was *frontier.PageRecord) (*frontier.Visit, string) {
	v := &frontier.Visit{Found: frontier.Gone}
	if was == nil || was.Gone > 0 {
		return v, ""
	}
	return v, runlog.ChangeGone
}

// logChange writes what a visit found into the log of changes.
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

// notFound are the titles of pages that are none, though the status says otherwise.
var notFound = []string{"404", "not found", "page not found", "404 not found", "error 404", "404 error", "file not found", "410 gone",
	"nicht gefunden", "seite nicht gefunden", "page introuvable", "página no encontrada", "pagina non trovata"}

// maxGoneWords is how much a page can say that says that it is none.
const maxGoneWords = 120

// saysGone says that a page tells in its title, and in few words, that there is none.
func saysGone(doc *text.Document) bool {
	if doc.Words > maxGoneWords {
		return false
	}
	// The site's name often stands behind or before it.
	for part := range strings.FieldsFuncSeq(strings.ToLower(doc.Title), func(r rune) bool { return strings.ContainsRune("|–—-:·»«", r) }) {
		part = strings.Trim(part, " .!")
		for _, say := range notFound {
			if part == say {
				return true
			}
		}
	}
	return false
}

// etagOf is the ETag of an answer as it may go into a request, "" where it has none that is well formed and short.
func etagOf(h http.Header) string {
	tag := h.Get("ETag")
	opaque := strings.TrimPrefix(tag, "W/")
	if len(tag) > frontier.MaxETag || len(opaque) < 2 || opaque[0] != '"' || opaque[len(opaque)-1] != '"' {
		return ""
	}
	for _, c := range []byte(opaque[1 : len(opaque)-1]) {
		if c <= ' ' || c > '~' || c == '"' {
			return ""
		}
	}
	return tag
}

// modifiedOf is the Last-Modified of an answer. One that is to come, or before there were dates, is none.
func modifiedOf(h http.Header, now time.Time) time.Time {
	t, err := http.ParseTime(h.Get("Last-Modified"))
	if err != nil || t.After(now) || t.Unix() <= 0 {
		return time.Time{}
	}
	return t
}

// maxFresh bounds what a max-age is believed.
const maxFresh = 24 * time.Hour

// freshFor is the max-age of Cache-Control.
func freshFor(h http.Header) time.Duration {
	for _, line := range h.Values("Cache-Control") {
		for part := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			if !strings.EqualFold(name, "max-age") {
				continue
			}
			if n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
				return min(time.Duration(n)*time.Second, maxFresh)
			}
		}
	}
	return 0
}
