package crawl

import (
	"time"

	"proxima/fetch"
	"proxima/frontier"
	"proxima/node/runlog"
)

// record writes what became of a task to the log and the statistics, and reports whether it counts as a page.
func (l *Loop) record(task *frontier.Task, url string, visit Visit, res *fetch.Result, out frontier.Outcome, fin frontier.Finished, size, found int) (page bool) {
	t := res.Timing
	l.deps.RunLog.Fetch(&runlog.Fetch{
		URL: url, Host: task.Host, Server: task.Server.String(), Kind: task.Kind.String(),
		Status: res.Status, Error: string(res.Class), Reason: reasonFor(res, out),
		Bytes: res.WireBytes, BodyBytes: int64(size), Type: res.Header.Get("Content-Type"),
		DNSMs: runlog.Ms(task.DNS), ConnectMs: runlog.Ms(t.Connect), TLSMs: runlog.Ms(t.TLS),
		RequestMs: runlog.Ms(t.Request), FirstByteMs: runlog.Ms(t.FirstByte), LastByteMs: runlog.Ms(t.LastByte),
		TotalMs: runlog.Ms(t.Total), Fresh: t.Fresh, Protocol: res.Protocol, WaitedMs: runlog.Ms(task.Waited),
		Origin: task.Origin.String(), Label: visit.Label, Batch: visit.Batch, Home: visit.Home, Epoch: visit.Epoch, Attempt: int(task.Attempt) + 1, Depth: int(task.Depth),
		Hops: int(task.Hops), Links: found, Accepted: fin.Accepted,
	})
	if out.Trouble != frontier.NoTrouble {
		if wait := time.Until(fin.NextAttempt); wait > 0 {
			l.deps.RunLog.Events().Info(runlog.EventHostBackoff, runlog.KeyHost, task.Host, runlog.KeyURL, url,
				runlog.KeyReason, out.Reason, runlog.KeyForMs, runlog.Ms(wait))
		}
	}
	page = task.Kind == frontier.Page && out.Trouble != frontier.Interrupted
	l.stats.update(func(s *Stats) {
		s.Requests++
		s.Bytes += res.WireBytes
		s.Links += int64(found)
		s.New += int64(fin.Accepted)
		if page {
			s.Pages++
			s.row(rowOf(res))
		} else if task.Kind == frontier.Robots && out.Trouble == frontier.Unreachable {
			s.row(RowFailure) // the pages of its host are not requested
		}
	})
	return page
}

// reasonFor returns what went wrong: the error, or else what the answer meant.
func reasonFor(res *fetch.Result, out frontier.Outcome) string {
	if res.Err != nil {
		return res.Err.Error()
	}
	if res.Truncated != "" && out.Reason == "" {
		return "body cut: " + res.Truncated
	}
	return out.Reason
}
