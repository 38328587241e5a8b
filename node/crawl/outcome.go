package crawl

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"proxima/fetch"
	"proxima/frontier"
	"proxima/node/runlog"
)

// judge decides what an answer, or the lack of one, means for the URL and for its host. No other function judges statuses and failures
// of pages.
func judge(res *fetch.Result, now time.Time) frontier.Outcome {
	out := frontier.Outcome{Asked: true, Elapsed: res.Timing.Total, RetryAfter: retryAfter(res.Header, now)}
	begun := res.Sent || res.Status != 0
	switch c := res.Class; {
	case c == "":
	case c == fetch.Canceled:
		return frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Asked: true, Reason: "interrupted"}
	case c == fetch.NoRight: // if Sent, the first try was sent on a connection that broke
		return frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Asked: res.Sent, Reason: "no right to ask the server"}
	case c == fetch.ForbiddenAddress || c == fetch.ForbiddenPort || c == fetch.NoIdentity:
		return frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Forbidden, Reason: words(string(c))}
	case noBodyNeeded(res):
	case c == fetch.Unwanted:
		out.Ending, out.Reason = frontier.Dropped, runlog.Innermost(res.Err)
		return out
	case slices.Contains([]fetch.Class{fetch.TimeoutHeader, fetch.TimeoutTotal, fetch.TooSlow}, c),
		begun && slices.Contains([]fetch.Class{fetch.Reset, fetch.EOF, fetch.TLS}, c):
		// It broke off in the middle of an exchange: another try may succeed. A server that wants a certificate of ours may want it for
		// this page only.
		out.Ending, out.Trouble, out.Reason = frontier.Again, frontier.Broken, words(string(c))
		return out
	case c.Network():
		out.Ending, out.Trouble, out.Reason, out.Lasts = frontier.Again, frontier.Unreachable, words(string(c)), c == fetch.Refused
		return out
	default:
		out.Ending, out.Reason = frontier.Failed, words(string(c))
		return out
	}
	switch status := res.Status; {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		out.Ending, out.Trouble = frontier.Again, frontier.Busy
	case status >= 500 || status == http.StatusRequestTimeout: // the server did not wait for what was already on its way
		out.Ending, out.Trouble = frontier.Again, frontier.Broken
	case status >= 400 || status < 200:
		out.Ending = frontier.Failed
	}
	if out.Ending != frontier.Done {
		out.Reason = fmt.Sprintf("status %d", res.Status)
	}
	return out
}

// noBodyNeeded reports whether the head of an answer says all. What is wrong with its body then does not matter.
func noBodyNeeded(res *fetch.Result) bool { return res.Status >= 300 }

// words returns a class as it is read in reasons: "too slow".
func words(class string) string { return strings.ReplaceAll(class, "_", " ") }

// retryAfter reads the header of that name (RFC 9110, section 10.2.3), which has seconds or a date. It returns 0 if there is none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if n, err := strconv.ParseInt(v, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) { // out of range, n is the greatest value
		return max(0, time.Duration(n)*time.Second)
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}

// lately is how recent the last answer must be to show that other addresses have a route.
const lately = 10 * time.Second

// ownTrouble tells the frontier whether a download shows that this node has trouble of its own, or that it has none any more. A download that failed
// for that does not count against the host: its outcome becomes that of a task that was interrupted, and the frontier waits.
func (l *Loop) ownTrouble(res *fetch.Result, out *frontier.Outcome, now time.Time) {
	if answered(res) {
		l.heard.Store(int64(now.Sub(l.began)))
		l.deps.Frontier.Answered(false)
		return
	}
	if res.Class == fetch.Canceled || out.Trouble == frontier.Forbidden || out.Trouble == frontier.NoTrouble {
		return
	}
	why, own := fetch.OwnTrouble(res.Err)
	if own && (errors.Is(res.Err, syscall.ENETUNREACH) || errors.Is(res.Err, syscall.EHOSTUNREACH)) {
		// One family of addresses may have no route while the other has one.
		heard := time.Duration(l.heard.Load())
		own = heard == 0 || now.Sub(l.began)-heard > lately
	}
	switch {
	case own:
		l.deps.Frontier.OwnTrouble(why, false)
		*out = frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Reason: why}
	case l.deps.Frontier.Troubled(): // no answer is expected while the node has trouble
		*out = frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Asked: true, Reason: out.Reason}
	}
}

// answered reports whether a server answered, even if only by refusing.
func answered(res *fetch.Result) bool {
	if res.Status != 0 {
		return true
	}
	switch res.Class {
	case fetch.Refused, fetch.TLS, fetch.EOF, fetch.Protocol, fetch.HeaderTooLarge:
		return true
	case fetch.Reset: // the server reset the connection; it did not just stop answering
		return !errors.Is(res.Err, syscall.ETIMEDOUT)
	}
	return false
}
