package crawl

import (
	"errors"
	"syscall"
	"time"

	"proxima/fetch"
	"proxima/frontier"
)

// lately is how recent the last answer must be to show that other addresses have a route.
const lately = 10 * time.Second

// ownTrouble finds downloads that failed because of this node's own trouble. They do not count against the host: the task ends as if it had
// not begun, and the frontier waits.
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
