package crawl

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"

	"proxima/fetch"
	"proxima/fetch/page"
	"proxima/fetch/warc"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/runlog"
	"proxima/node/sink"
)

// keep hands a download to the sink before it counts as made, and puts its receipt into the outcome. What the sink cannot
// take now is downloaded again. The ticket, if there is one, is to be ended.
func (l *Loop) keep(ctx context.Context, task *frontier.Task, visit Visit, res *fetch.Result, out *frontier.Outcome, g *gather) *sink.Ticket {
	// A page that is downloaded by several nodes to be timed is kept by the one that reads its links.
	if l.deps.Sink == nil || visit.Quiet || out.Trouble == frontier.Interrupted || out.Ending == frontier.Dropped || res.Status == 0 ||
		res.Status == http.StatusNotModified || l.unindexed(task, res, g) {
		return nil
	}
	r := sink.Record{Time: res.Timing.Start, IsPage: task.Kind == frontier.Page}
	if l.deps.Sink.Wants(sink.WARC) && len(res.RawResponse) > 0 {
		ex, err := exchange(task, res)
		if err != nil {
			l.unkept(task, err)
			return nil
		}
		r.Exchange = ex
	}
	if l.deps.Sink.Wants(sink.Pages) && r.IsPage && (out.Ending == frontier.Done || out.Ending == frontier.Failed) {
		r.Page = l.pageOf(task, res, g)
	}
	if r.Exchange == nil && r.Page == nil {
		return nil
	}
	ticket, err := l.deps.Sink.Put(ctx, r)
	switch {
	case errors.Is(err, sink.ErrUnfit):
		l.unkept(task, err)
		return nil
	case err != nil:
		*out = frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Asked: true, Reason: err.Error()}
		return nil
	}
	out.Receipt = &frontier.Receipt{Shelf: l.deps.Receipts, Key: ticket.Key()}
	return ticket
}

// unkept tells of a download that cannot be kept. The crawl goes on.
func (l *Loop) unkept(task *frontier.Task, err error) {
	l.stats.update(func(s *Stats) { s.ArchiveFailures++ })
	l.deps.RunLog.Events().Warn(runlog.EventWarning, runlog.KeyURL, task.URL.String(), runlog.KeyReason, err.Error())
}

// unindexed says that a page asks not to be kept.
func (l *Loop) unindexed(task *frontier.Task, res *fetch.Result, g *gather) bool {
	noindex, _ := page.RobotsTag(res.Header.Values("X-Robots-Tag"), l.agent(task.Host))
	return noindex || g.noindex
}

// exchange is a download as an archive has it.
func exchange(task *frontier.Task, res *fetch.Result) (*warc.Exchange, error) {
	head, body, cut, err := splitResponse(res.RawResponse)
	if err != nil {
		return nil, err
	}
	truncated, protocol := res.Truncated, strings.ToLower(res.Protocol)
	if cut && truncated == "" {
		truncated = warc.TruncatedLength // the page is whole, its capture is not: chunks have bytes of their own
	}
	if protocol == "http/2.0" {
		protocol = "h2"
	}
	return &warc.Exchange{URL: task.URL.String(), Addr: task.Server, Time: res.Timing.Start, Request: res.RawRequest,
		ResponseHead: head, Body: body, Truncated: truncated, Protocol: protocol}, nil
}

// pageOf is the line of a page.
func (l *Loop) pageOf(task *frontier.Task, res *fetch.Result, g *gather) *sink.Page {
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	sum := sha256.Sum256(res.Body)
	p := &sink.Page{URL: task.URL.String(), Time: res.Timing.Start.UTC(), Status: res.Status, Type: strings.TrimSpace(kind), Links: []string{},
		Digest: "sha256:" + hex.EncodeToString(sum[:])}
	if g.charset == "" { // it was not read as HTML
		return p
	}
	doc := g.document(res.Body)
	p.Title, p.Text, p.Language = doc.Title, doc.Text, doc.Language
	seen := make(map[string]struct{}, len(g.page))
	for _, link := range g.page {
		u, reason := l.deps.Rules.Resolve(g.base, string(link.Ref))
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

// splitResponse takes a response apart as an archive needs it: the head with its blank line, and the body without
// transfer coding. A chunked body that breaks off is kept as far as it goes, and is cut.
func splitResponse(raw []byte) (head, body []byte, cut bool, err error) {
	i := bytes.Index(raw, []byte("\r\n\r\n"))
	if i < 0 {
		return nil, nil, false, fmt.Errorf("archive response: no end of the head in %d bytes", len(raw))
	}
	head, body = raw[:i+4], raw[i+4:]
	for line := range bytes.Lines(head) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Transfer-Encoding")) && bytes.Contains(bytes.ToLower(value), []byte("chunked")) {
			body, err = io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body)))
			return head, body, err != nil, nil
		}
	}
	return head, body, false, nil
}
