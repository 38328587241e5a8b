package crawl

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
