package crawl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"proxima/fetch"
	"proxima/fetch/page"
	"proxima/fetch/warc"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/sink"
)

// keep gives a download to the sink, and puts the sink's receipt into the outcome. It is called before the outcome is written: a
// download that the sink cannot take now is repeated. The caller ends the ticket, if there is one.
func (l *Loop) keep(ctx context.Context, task *frontier.Task, visit Visit, res *fetch.Result, out *frontier.Outcome, g *gather) *sink.Ticket {
	// Several nodes may download a page to time it. The one that reads its links keeps it.
	if l.deps.Sink == nil || visit.Quiet || out.Trouble == frontier.Interrupted || out.Ending == frontier.Dropped || res.Status == 0 ||
		res.Status == http.StatusNotModified || l.mustNotKeep(task, res, g) {
		return nil
	}
	r := sink.Record{Time: res.Timing.Start, IsPage: task.Kind == frontier.Page}
	if l.deps.Sink.Wants(sink.WARC) {
		if len(res.RawHead) == 0 {
			l.warnUnkept(task, errNoHead)
		} else {
			r.Exchange = exchange(task, res)
		}
	}
	ends := out.Ending != frontier.Again || l.deps.Frontier.UsedUp(task, out.Trouble)
	if l.deps.Sink.Wants(sink.Pages) && r.IsPage && ends {
		if err := fetch.Safely(func() { r.Page = l.pageOf(task, res, g) }); err != nil {
			l.warnUnkept(task, err)
		}
	}
	if r.Exchange == nil && r.Page == nil {
		return nil
	}
	ticket, err := l.deps.Sink.Put(ctx, r)
	if errors.Is(err, warc.ErrInvalid) && r.Page != nil { // nothing is wrong with its text
		l.warnUnkept(task, err)
		r.Exchange = nil
		ticket, err = l.deps.Sink.Put(ctx, r)
	}
	switch {
	case errors.Is(err, sink.ErrUnfit):
		l.warnUnkept(task, err)
		return nil
	case err != nil && out.Trouble == frontier.Busy && !ends: // it is repeated anyway, once the host has waited
		return nil
	case err != nil:
		*out = frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Asked: true, Elapsed: out.Elapsed,
			RetryAfter: out.RetryAfter, Reason: err.Error()}
		return nil
	}
	out.Receipt = &frontier.Receipt{Shelf: l.deps.Receipts, Key: ticket.Key()}
	return ticket
}

// errNoHead says that informational heads have filled the capture before the head of the answer.
var errNoHead = errors.New("archive response: no end of its head was recorded")

// warnUnkept logs that a download cannot be kept. The crawl goes on.
func (l *Loop) warnUnkept(task *frontier.Task, err error) {
	l.stats.update(func(s *Stats) { s.ArchiveFailures++ })
	l.reader.warn(task, err)
}

// mustNotKeep reports whether a page asks not to be kept.
func (l *Loop) mustNotKeep(task *frontier.Task, res *fetch.Result, g *gather) bool {
	noindex, _ := page.RobotsTag(res.Header.Values("X-Robots-Tag"), l.deps.Policy.agent(task.Host))
	return noindex || g.page.NoIndex
}

// exchange returns a download in the form of an archive.
func exchange(task *frontier.Task, res *fetch.Result) *warc.Exchange {
	protocol, server := strings.ToLower(res.Protocol), task.Server
	switch protocol {
	case "http/2.0":
		protocol = "h2"
	case fetch.ProtocolFile: // no server was asked
		protocol, server = "", netip.Addr{}
	}
	return &warc.Exchange{URL: task.URL.String(), Addr: server, Time: res.Timing.Start, Request: res.RawRequest,
		ResponseHead: res.RawHead, Body: res.RawBody, Truncated: res.Truncated, Protocol: protocol}
}

// pageOf returns what the sink writes about a page.
func (l *Loop) pageOf(task *frontier.Task, res *fetch.Result, g *gather) *sink.Page {
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	sum := sha256.Sum256(res.Body)
	p := &sink.Page{URL: task.URL.String(), Time: res.Timing.Start.UTC(), Status: res.Status, Type: strings.TrimSpace(kind), Links: []string{},
		Digest: "sha256:" + hex.EncodeToString(sum[:])}
	if g.page.Charset == "" { // it was not read as HTML
		return p
	}
	doc := g.document(res.Body)
	p.Title, p.Text, p.Language = doc.Title, doc.Text, doc.Language
	seen := make(map[string]struct{}, len(g.page.Links))
	for _, link := range g.page.Links {
		u, reason := l.deps.Policy.Rules.Resolve(g.base, string(link.Ref))
		if reason != identity.Accepted {
			continue
		}
		target := u.String()
		if _, again := seen[target]; !again {
			seen[target] = struct{}{}
			p.Links = append(p.Links, target)
		}
	}
	return p
}
