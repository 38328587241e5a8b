package crawl

import (
	"bytes"
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
	"time"

	"proxima/fetch"
	"proxima/fetch/warc"
	"proxima/frontier"
	"proxima/node/journal"
)

// record writes what became of a task into the log, the archive and the statistics.
func (l *Loop) record(task *frontier.Task, res *fetch.Result, out frontier.Outcome, fin frontier.Finished, found int) {
	t := res.Timing
	l.deps.Journal.Fetch(&journal.Fetch{
		URL: task.URL.String(), Host: task.Host, Server: task.Server.String(), Kind: task.Kind.String(),
		Status: res.Status, Error: string(res.Class), Reason: reasonFor(res, out),
		Bytes: res.WireBytes, BodyBytes: int64(len(res.Body)), Type: res.Header.Get("Content-Type"),
		DNSMs: journal.Ms(task.DNS), ConnectMs: journal.Ms(t.Connect), TLSMs: journal.Ms(t.TLS),
		RequestMs: journal.Ms(t.Request), FirstByteMs: journal.Ms(t.FirstByte), LastByteMs: journal.Ms(t.LastByte),
		TotalMs: journal.Ms(t.Total), Fresh: t.Fresh, Protocol: res.Protocol, WaitedMs: journal.Ms(task.Waited),
		Origin: task.Origin.String(), Home: l.deps.Home, Attempt: int(task.Attempt) + 1, Depth: int(task.Depth),
		Hops: int(task.Hops), Links: found, Accepted: fin.Accepted,
	})
	if wait := time.Until(fin.NextAttempt); wait > 0 && out.Trouble != frontier.NoTrouble {
		l.deps.Journal.Events().Info(journal.EventHostBackoff, journal.KeyHost, task.Host, journal.KeyURL, task.URL.String(),
			journal.KeyReason, out.Reason, journal.KeyForMs, journal.Ms(wait))
	}
	if l.deps.WARC != nil && len(res.RawResponse) > 0 {
		l.archive(task, res)
	}
	l.stats.update(func(s *Stats) {
		s.Requests++
		s.Bytes += res.WireBytes
		s.Links += int64(found)
		s.New += int64(fin.Accepted)
		if task.Kind == frontier.Page && out.Trouble != frontier.Interrupted {
			s.Pages++
			s.row(rowOf(res))
			if s.Pages == l.cfg.MaxPages {
				close(l.enough)
			}
		}
	})
}

// reasonFor puts what went wrong into words: the error where there was one, else what the answer meant.
func reasonFor(res *fetch.Result, out frontier.Outcome) string {
	if res.Err != nil {
		return res.Err.Error()
	}
	if res.Truncated != "" && out.Reason == "" {
		return "body cut: " + res.Truncated
	}
	return out.Reason
}

// archive writes an exchange into the WARC files. A failure of the disk is told and counted; the crawl goes on.
func (l *Loop) archive(task *frontier.Task, res *fetch.Result) {
	head, body, err := splitResponse(res.RawResponse)
	if err == nil {
		err = l.deps.WARC.Write(warc.Exchange{
			URL: task.URL.String(), Addr: task.Server, Time: res.Timing.Start, Request: res.RawRequest,
			ResponseHead: head, Body: body, Truncated: res.Truncated, Protocol: strings.ToLower(res.Protocol),
		})
	}
	if err != nil {
		l.stats.update(func(s *Stats) { s.ArchiveFailures++ })
		l.deps.Journal.Events().Warn(journal.EventWarning, journal.KeyURL, task.URL.String(), journal.KeyReason, err.Error())
	}
}

// splitResponse takes a response apart as an archive needs it: the head with its blank line, and the body without
// transfer coding. A body that breaks off is kept as far as it goes.
func splitResponse(raw []byte) (head, body []byte, err error) {
	i := bytes.Index(raw, []byte("\r\n\r\n"))
	if i < 0 {
		return nil, nil, fmt.Errorf("archive response: no end of the head in %d bytes", len(raw))
	}
	head, body = raw[:i+4], raw[i+4:]
	for line := range bytes.Lines(head) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Transfer-Encoding")) && bytes.Contains(bytes.ToLower(value), []byte("chunked")) {
			// What follows the last whole chunk is lost with the chunk: Truncated says so.
			body, _ = io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body)))
		}
	}
	return head, body, nil
}
