package crawl

import (
	"context"
	"slices"
	"time"

	"proxima/fetch"
	"proxima/frontier"
	"proxima/node/bell"
	"proxima/node/runlog"
)

// Do carries out one task.
func (l *Loop) Do(ctx context.Context, task *frontier.Task) error {
	l.limits.join()
	return l.carryOut(ctx, task)
}

// Finish ends a task of this node that another node carried out. The outcome has the links that the other node found.
func (l *Loop) Finish(ctx context.Context, task *frontier.Task, out frontier.Outcome) error {
	g := l.reader.gather()
	for _, link := range out.Links {
		if link.Hops > task.Hops {
			l.reader.widen(task, link.URL.String())
		}
		g.keep(link)
	}
	out.Links = g.links
	l.stats.drop(g.drops...)
	l.reader.release(g)
	if out.Asked && out.Trouble != frontier.Interrupted {
		l.hosts.count(task, 1)
	}
	fin, err := l.finish(ctx, task, out)
	l.stats.update(func(s *Stats) { s.New += int64(fin.Accepted) })
	return err
}

// Refuse returns why another node must not carry out a task of this node, or "": because this node would not do it either.
func (l *Loop) Refuse(ctx context.Context, task *frontier.Task) (string, error) {
	reason, err := l.refuse(task)
	if reason == "" && err == nil {
		reason, err = l.hosts.admit(ctx, task, 0)
	}
	return reason, err
}

// refuse returns why a task must not be carried out, or "": because of the blocklist, the settings of its site, or its host's robots.txt.
func (l *Loop) refuse(task *frontier.Task) (string, error) {
	if rule := l.deps.Policy.BlockedAt(task.URL, task.Server); rule != "" {
		return "blocked: " + rule, nil
	}
	if task.Kind == frontier.Page { // the settings may have changed since its URL was accepted
		if reason := l.deps.Policy.Sites.For(task.URL).Refuse(task.URL); reason != "" {
			return reason, nil
		}
	}
	if task.Kind == frontier.Robots || task.IsRemoteFetch() {
		return "", nil // the node that asks for a remote fetch has read the robots.txt
	}
	rules, err := l.reader.rulesOf(task.URL.Host)
	if err != nil {
		return "", err
	}
	if !rules.Allowed(task.URL.Path) {
		return "robots.txt disallows", nil
	}
	return "", nil
}

// carryOut carries out a task that has a place, unless a limit is reached or the place was taken back.
func (l *Loop) carryOut(ctx context.Context, task *frontier.Task) (err error) {
	begun, page := l.limits.begin(), false
	defer func() { l.limits.giveBack(begun, page) }()
	if !begun {
		return l.putBack(ctx, task)
	}
	page, err = l.do(ctx, task)
	return err
}

// putBack ends a task that is not carried out now. Its URL stays pending.
func (l *Loop) putBack(ctx context.Context, task *frontier.Task) error {
	_, err := l.deps.Frontier.Finish(context.WithoutCancel(ctx), task, frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted})
	return err
}

// maxSitemaps is how many sitemaps are read at a time, until their URLs are on disk. A megabyte of gzip can hold 50,000 long ones.
const maxSitemaps = 8

// do carries out a task, and reports whether it counts as a page.
func (l *Loop) do(ctx context.Context, task *frontier.Task) (page bool, err error) {
	// The end of a task is written even while the crawl is being stopped: the next start goes on from it.
	lasting := context.WithoutCancel(ctx)
	visit, wanted := l.deps.Overlay.Begin(task)
	if !wanted {
		return false, l.putBack(ctx, task)
	}
	if done, err := l.leaveOut(lasting, task); done || err != nil {
		return false, err
	}
	defer func() {
		if !page {
			l.hosts.count(task, -1)
		}
	}()
	url := task.URL.String()
	res, again := l.get(ctx, task, url, visit)
	defer res.Release()
	now := res.Timing.End()
	out := judge(&res, now)
	if res.Class == fetch.NoRight && !res.Sent {
		return false, l.giveUp(ctx, task, url, &res, out)
	}
	l.limits.received(res.WireBytes)
	if !fromFiles(&res) {
		l.learn(task, &res, &out, now)
	}
	if again != "" {
		out.Ending, out.Trouble, out.Reason = frontier.Again, frontier.Broken, again
	}
	if l.reader.readsAsSitemap(task, &res) {
		l.sitemaps <- struct{}{}
		defer func() { <-l.sitemaps }()
	}
	found, links := 0, l.reader.gather()
	if !visit.Quiet || task.Kind == frontier.Robots {
		found = l.reader.read(task, &res, &out, links)
	}
	change := ""
	if l.deps.Recrawl && !visit.Quiet {
		out.Visit, change = l.visited(task, &res, &out, links, now)
	}
	written := false
	if ticket := l.keep(lasting, task, visit, &res, &out, links); ticket != nil {
		defer func() { ticket.End(written) }()
	}
	size, fresh := len(res.Body), slices.Clone(links.fresh)
	res.Release() // while the outcome is written, the next download can use this memory
	l.reader.release(links)
	fin, err := l.finish(lasting, task, out)
	if err != nil {
		return false, err
	}
	written = true
	if out.Ending == frontier.Done { // otherwise they are not on disk: the sink could not keep the page
		remember(fresh, fin.Refusing)
	}
	l.deps.Overlay.Ended(task, Download{Outcome: out, Status: res.Status, Timing: res.Timing, Bytes: res.WireBytes, HTML: !fromFiles(&res) && isHTML(&res)})
	page = l.record(task, url, visit, &res, out, fin, size, found)
	l.logChange(task, url, res.Status, out.Visit, change)
	return page, nil
}

// fromFiles reports whether an answer was read from this node's disk. Then it says nothing about the network.
func fromFiles(res *fetch.Result) bool { return res.Protocol == fetch.ProtocolFile }

// learn notes what the answer of a server, or the lack of one, tells of this node's network, and of where the pages of the host are.
func (l *Loop) learn(task *frontier.Task, res *fetch.Result, out *frontier.Outcome, now time.Time) {
	l.ownTrouble(res, out, now)
	if task.Kind == frontier.Page && !task.IsRemoteFetch() {
		l.moved.learn(task.URL, res, l.deps.Policy.Rules, now)
	}
}

// leaveOut ends a task that must not be carried out, or whose page is found elsewhere, and reports whether it did.
func (l *Loop) leaveOut(ctx context.Context, task *frontier.Task) (done bool, err error) {
	reason, err := l.refuse(task)
	if err != nil {
		return false, err
	}
	out := frontier.Outcome{Ending: frontier.Dropped, Reason: reason}
	if out.Reason == "" {
		out.Links, out.Reason = l.instead(task)
	}
	if out.Reason == "" {
		if out.Reason, err = l.hosts.admit(ctx, task, 1); err != nil {
			return false, err
		}
	}
	if out.Reason == "" {
		return false, nil
	}
	if task.Kind == frontier.Robots {
		// Without its robots.txt a host gives out no pages. If this task were dropped, the frontier would make it again for ever.
		out.Ending, out.Trouble = frontier.Again, frontier.Forbidden
	}
	_, err = l.finish(ctx, task, out)
	l.deps.Overlay.Ended(task, Download{Outcome: out})
	return true, err
}

// instead returns the URL to use in place of a task whose host redirects all its pages, and why.
func (l *Loop) instead(task *frontier.Task) (links []frontier.Link, reason string) {
	if task.Kind != frontier.Page || task.IsRemoteFetch() {
		return nil, ""
	}
	u, ok := l.moved.spare(task.URL)
	link := frontier.Link{URL: u, Depth: task.Depth, Hops: next(task.Hops)}
	if !ok || l.deps.Policy.Refuse(link) != "" {
		return nil, ""
	}
	return []frontier.Link{link}, "its host redirects all to " + u.Scheme()
}

// noRightPause is how long a fetcher waits with a task that it had no right to carry out. The frontier hears of the end of a lease
// a little later than the request does, and would give out the same task again at once.
const noRightPause = 100 * time.Millisecond

// giveUp gives back a task whose server was not asked, because this node had no right to. No download is logged.
func (l *Loop) giveUp(ctx context.Context, task *frontier.Task, url string, res *fetch.Result, out frontier.Outcome) error {
	l.deps.RunLog.Events().Info(runlog.EventWarning, runlog.KeyHost, task.Host, runlog.KeyURL, url, runlog.KeyReason, res.Err.Error())
	_ = bell.Sleep(ctx, noRightPause)
	_, err := l.deps.Frontier.Finish(context.WithoutCancel(ctx), task, out)
	l.deps.Overlay.Ended(task, Download{Outcome: out})
	return err
}

// finish writes what became of a task. The links of a remote fetch are not written here: they go to the node that asked for it, which
// writes them before the page counts as done.
func (l *Loop) finish(ctx context.Context, task *frontier.Task, out frontier.Outcome) (fin frontier.Finished, err error) {
	if !task.IsRemoteFetch() {
		if task.Kind != frontier.Robots && (out.Ending == frontier.Done || out.Ending == frontier.Failed) {
			page := frontier.Link{URL: task.URL, Depth: task.Depth, Hops: task.Hops, Sitemap: task.Kind == frontier.Sitemap}
			if err := l.deps.Overlay.Ending(ctx, page); err != nil {
				return fin, err
			}
		}
		if out.Links, err = l.deps.Overlay.Route(ctx, out.Links); err != nil {
			return fin, err
		}
		out.Elsewhere = l.deps.Overlay.PassOn
	}
	return l.deps.Frontier.Finish(ctx, task, out)
}

// record writes what became of a task to the log and the statistics, and reports whether it counts as a page.
func (l *Loop) record(task *frontier.Task, url string, visit Visit, res *fetch.Result, out frontier.Outcome, fin frontier.Finished, size, found int) (page bool) {
	t := res.Timing
	l.deps.RunLog.Fetch(&runlog.Fetch{
		URL: url, Host: task.URL.Host, Server: task.Server.String(), Kind: task.Kind.String(),
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
