package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"proxima/fetch"
	"proxima/frontier"
)

// judge says what an answer, or the lack of one, means for the URL and for its host. It is the one place that decides
// about statuses and failures of pages.
func judge(res *fetch.Result, now time.Time) frontier.Outcome {
	out := frontier.Outcome{Asked: true, Elapsed: res.Timing.Total}
	switch c := res.Class; {
	case c == "":
	case c == fetch.Canceled:
		return frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Asked: true, Reason: "interrupted"}
	case c == fetch.NoRight: // it may have been asked on a connection that broke
		return frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Asked: res.Sent, Reason: "no right to ask the server"}
	case c == fetch.ForbiddenAddress || c == fetch.ForbiddenPort || c == fetch.NoIdentity:
		return frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Forbidden, Reason: words(string(c))}
	case c == fetch.Unwanted:
		out.Ending, out.Reason = frontier.Dropped, unwanted(res.Err)
		return out
	case brokeOff(c):
		out.Ending, out.Trouble, out.Reason = frontier.Again, frontier.Broken, words(string(c))
		return out
	case c.Network():
		out.Ending, out.Trouble, out.Reason, out.Lasts = frontier.Again, frontier.Unreachable, words(string(c)), c == fetch.Refused
		return out
	default:
		out.Ending, out.Reason = frontier.Failed, words(string(c))
		return out
	}
	out.RetryAfter = retryAfter(res.Header, now)
	switch status := res.Status; {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		out.Ending, out.Trouble = frontier.Again, frontier.Busy
	case status >= 500:
		out.Ending, out.Trouble = frontier.Again, frontier.Broken
	case status >= 400 || status < 200:
		out.Ending = frontier.Failed
	}
	if out.Ending != frontier.Done {
		out.Reason = fmt.Sprintf("status %d", res.Status)
	}
	return out
}

// finish writes down what became of a task. The links of a remote fetch go with its answer: they are safe at who asked first.
func (l *Loop) finish(ctx context.Context, task *frontier.Task, out frontier.Outcome) (fin frontier.Finished, err error) {
	if !task.IsRemoteFetch() {
		if out.Links, err = l.deps.Overlay.Route(ctx, out.Links); err != nil {
			return fin, err
		}
		out.Elsewhere = l.deps.Overlay.PassOn
	}
	return l.deps.Frontier.Finish(ctx, task, out)
}

// Finish ends a task of this node that another one carried out, with the links that this one found.
func (l *Loop) Finish(ctx context.Context, task *frontier.Task, out frontier.Outcome) error {
	g := l.gather()
	for _, link := range out.Links {
		g.keep(link)
	}
	out.Links = g.links
	l.dropLinks(g.drops)
	l.release(g)
	if out.Asked {
		l.limits.fetched(task)
	}
	fin, err := l.finish(ctx, task, out)
	l.stats.update(func(s *Stats) { s.New += int64(fin.Accepted) })
	return err
}

// brokeOff are the failures in the middle of an exchange, which another try may not meet.
func brokeOff(c fetch.Class) bool {
	switch c {
	case fetch.TimeoutHeader, fetch.TimeoutTotal, fetch.TooSlow, fetch.Reset, fetch.EOF:
		return true
	}
	return false
}

// unwanted is the reason why the body of an answer was not read, without the URL.
func unwanted(err error) string {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err.Error()
}

// words makes a class readable.
func words(class string) string { return strings.ReplaceAll(class, "_", " ") }

// retryAfter reads the header of that name (RFC 9110, section 10.2.3): seconds or a date; 0 where there is none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if n, err := strconv.ParseInt(v, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) { // then n is the most there is
		return max(0, time.Duration(n)*time.Second)
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}
