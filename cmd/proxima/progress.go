package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"proxima/cmd/proxima/terminal"
	"proxima/node"
	"proxima/node/bell"
	"proxima/node/crawl"
)

// showProgress renews the progress line every second.
func showProgress(ctx context.Context, n *node.Node, said terminal.Printer) {
	last, at := int64(0), time.Now()
	line := func() string {
		s, since := n.Status(), time.Since(at)
		rate := float64(s.Crawl.Pages-last) / since.Seconds()
		last, at = s.Crawl.Pages, at.Add(since)
		return progressLine(s, rate)
	}
	_ = bell.Every(ctx, time.Second, func() { said.Renew(line) })
	_, _ = said.Write(nil) // takes the line away
}

// progressLine is progressState with the speed of the crawl.
func progressLine(s node.Status, rate float64) string {
	return fmt.Sprintf("%.1f pages/s · ", rate) + progressState(s)
}

// progressState says what the crawl has done, how much is left, and why it does not go faster.
func progressState(s node.Status) string {
	hosts := 0
	for _, n := range s.Frontier.Hosts {
		hosts += n
	}
	line := fmt.Sprintf("%s pages · %s queued", humanize.Comma(s.Crawl.Pages), humanize.Comma(s.Frontier.Pending))
	if s.Frontier.Pages > 0 {
		line += fmt.Sprintf(" · %s due", humanize.Comma(s.Frontier.Due))
	}
	// A narrow terminal cuts off the end.
	return line + fmt.Sprintf(" · %s · %s hosts · %s errors", why(s), humanize.Comma(int64(hosts)), humanize.Comma(failures(s.Crawl)))
}

// why returns the main reason for not crawling faster.
func why(s node.Status) string {
	if k := s.Sink; k != nil && k.Flushing && k.Waiting > 0 {
		return strings.TrimSuffix(fmt.Sprintf("the crawl is over, packages to be delivered: %d; %s", k.Waiting, k.Trouble), "; ")
	}
	if paused := s.Frontier.Paused; strings.HasPrefix(paused, "paused ") {
		return paused
	} else if paused != "" {
		return "paused: " + paused
	}
	if s.Overlay != nil && !s.Overlay.Majority {
		return s.Overlay.Reason
	}
	if s.Overlay != nil && s.Overlay.Limits != "" && s.Frontier.InFlight == 0 {
		return "waiting for a share of the crawl's limits: " + s.Overlay.Limits
	}
	if s.Frontier.Ready > 0 {
		return "all fetchers are busy"
	}
	most, kind := 0, ""
	for k, n := range s.Frontier.Hosts {
		// Idle hosts have no URLs and wait for nothing.
		if k != "idle" && (n > most || n == most && k < kind) {
			most, kind = n, k
		}
	}
	words := map[string]string{
		"gap": "politeness", "backoff": "hosts that asked for rest or failed", "retry": "retries", "robots": "robots.txt",
		"fetching": "answers", "resolving": "DNS", "unresolved": "DNS", "server busy": "one request a server", "reading": "the disk",
		"suspended": "other nodes, before hosts may be crawled here (proxima top)", "hours": "the hours of sites", "lease": "leases of servers", "batch": "a batch to be decided",
		"budget": "the budget of visits", "ready": "a fetcher",
	}
	kind = cmp.Or(words[kind], kind)
	switch {
	case kind == "" && s.Frontier.Pages > 0:
		return "no page is due"
	case kind == "" && s.Frontier.Waiting && s.Overlay != nil:
		return "waiting to hear who owns the hosts"
	case kind == "" && s.Frontier.Waiting:
		return "waiting for the disk"
	case kind == "":
		return "nothing is waiting"
	case kind == words["lease"] && s.Overlay != nil && s.Overlay.Leases.Blind > 0:
		left := time.Duration(s.Overlay.Leases.Blind) * time.Millisecond
		return fmt.Sprintf("waiting for %s: what others hold is known in %v", kind, left.Round(time.Second))
	case s.Frontier.InFlight == 0 && s.Frontier.NextDue > 0:
		return fmt.Sprintf("waiting for %s, next in %v", kind, s.Frontier.NextDue.Round(100*time.Millisecond))
	}
	return "waiting for " + kind
}

// failures counts communication and DNS failures, and statuses from 400 on.
func failures(s crawl.Stats) int64 {
	var n int64
	for row, count := range s.Rows {
		if code, err := strconv.Atoi(row); err != nil || code >= 400 {
			n += count
		}
	}
	return n
}

// notCrawled counts the URLs that were not crawled, by reason.
func notCrawled(e node.End) map[string]int64 {
	drops := map[string]int64{}
	for r, n := range e.Frontier.Reasons {
		if !strings.HasPrefix(r, "status ") { // the table of answers has those
			drops[r] += int64(n)
		}
	}
	for r, n := range e.Drops {
		drops[r] += n
	}
	for r, n := range e.SeedsRefused {
		drops["seed refused: "+r] += int64(n)
	}
	return drops
}

// answered reports whether any server answered with a page or a status.
func answered(e node.End) bool {
	for row := range e.Rows {
		if _, err := strconv.Atoi(row); err == nil {
			return true
		}
	}
	return e.Pages > 0 || e.Frontier.Done > 0
}

// whyNothing says why nothing was crawled, and what to do about it.
func whyNothing(e node.End) string {
	reasons := notCrawled(e)
	for row, n := range e.Rows {
		reasons[row] += n
	}
	for why, f := range e.Frontier.Failing { // these reasons are more exact than the rows of the table
		delete(reasons, crawl.RowFailure)
		delete(reasons, crawl.RowDNS)
		where := f.First
		if f.Hosts > 1 {
			where = fmt.Sprintf("%s and %d more", f.First, f.Hosts-1)
		}
		reasons[fmt.Sprintf("%s (%s)", why, where)] = int64(f.Hosts)
	}
	switch {
	case len(reasons) == 0 && e.Unfinished > 0 && strings.HasPrefix(e.Reason, "max_"):
		return fmt.Sprintf("%s ended the crawl before the first page%s; run the same command to go on", e.Reason,
			strings.TrimSuffix(" ("+e.Frontier.Paused+")", " ()"))
	case len(reasons) == 0 && e.Unfinished > 0:
		return "no server of the seeds answered, and they are left alone for now; run the same command to try again"
	case len(reasons) == 0:
		return "no seed was in scope and reachable (proxima node -h)"
	}
	hint := ""
	if e.Rows[crawl.RowFailure] > 0 { // "tls" alone does not say what is wrong with a certificate
		hint = "; fetch.jsonl among the logs says more of each failure"
	}
	list := slices.Sorted(maps.Keys(reasons))
	for _, r := range list {
		switch {
		case r == "forbidden port":
			hint = "; no port that browsers block is asked, whatever the configuration says"
		case strings.HasPrefix(r, "forbidden address"):
			hint = "; addresses that are not public must be allowed: -allow " + allowed(r) + " (fetch.allow_prefixes)"
		}
	}
	return strings.Join(list[:min(3, len(list))], "; ") + hint
}

// allowed returns the prefix that would allow a forbidden address.
func allowed(reason string) string {
	_, rest, _ := strings.Cut(reason, "dial ")
	text, _, _ := strings.Cut(rest, ": ")
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.IsLoopback() && addr.Is4() {
		return "127.0.0.0/8"
	}
	return netip.PrefixFrom(addr, addr.BitLen()).String()
}

// summarise prints the tables at the end of a crawl.
func summarise(w io.Writer, e node.End) {
	fmt.Fprintf(w, "\n%s pages in %v, %.1f pages/s, %s; ended: %s\n", humanize.Comma(e.Pages), e.Elapsed.Round(time.Millisecond),
		float64(e.Pages)/max(e.Elapsed.Seconds(), 1e-3), humanize.IBytes(uint64(e.Bytes)), e.Reason)
	table(w, "answer", "pages", e.Rows)
	table(w, "not crawled because", "URLs", notCrawled(e))
	if k := e.Sink; k != nil && k.Packages+k.Waiting > 0 {
		fmt.Fprintf(w, "%s with %s %s (%s) delivered to %s", english.Plural(k.Packages, "package", ""), humanize.Comma(k.Pages),
			english.PluralWord(int(k.Pages), "page", ""), humanize.IBytes(uint64(k.Bytes)), k.To)
		if k.Waiting > 0 {
			fmt.Fprintf(w, "; %d wait for the next start: %s", k.Waiting, k.Trouble)
		}
		fmt.Fprintln(w)
	}
	if e.Unfinished > 0 {
		next := "run the same command again to go on"
		if e.Shared && strings.HasPrefix(e.Reason, "max_") {
			next = fmt.Sprintf("with a higher crawl.%s at all nodes the crawl goes on", e.Reason)
		}
		fmt.Fprintf(w, "unfinished URLs: %s; %s\n", humanize.Comma(e.Unfinished), next)
	}
}

// table prints rows by number, the largest first. It sums up all rows after the first 20. It prints nothing if there are none.
func table(w io.Writer, head, unit string, rows map[string]int64) {
	if len(rows) == 0 {
		return
	}
	names := largestFirst(rows)
	shown, rest := names[:min(mostTop, len(names))], int64(0)
	for _, name := range names[len(shown):] {
		rest += rows[name]
	}
	width := len(head)
	for _, name := range shown {
		width = max(width, utf8.RuneCountInString(name))
	}
	row := func(name, n string) { fmt.Fprintf(w, "  %-*s %*s\n", width, name, max(8, 52-width), n) } // the same column in all tables, if the names let them
	row(head, unit)
	for _, name := range shown {
		row(name, humanize.Comma(rows[name]))
	}
	if rest > 0 {
		row("other", humanize.Comma(rest))
	}
}
