package crawl

import (
	"errors"
	"syscall"
	"time"

	"proxima/fetch"
	"proxima/frontier"
)

// lately is how fresh an answer must be to show that a missing route is missing for one address only.
const lately = 10 * time.Second

// ownTrouble keeps what is this node's own trouble from counting against the host: the task ends as if it had not been
// begun, and the frontier waits.
func (l *Loop) ownTrouble(res *fetch.Result, out *frontier.Outcome) {
	if answered(res) {
		l.heard.Store(int64(time.Since(l.began)))
		l.deps.Frontier.Answered(false)
		return
	}
	if res.Class == fetch.Canceled || out.Trouble == frontier.Forbidden || out.Trouble == frontier.NoTrouble {
		return
	}
	why, own := fetch.OwnTrouble(res.Err)
	if own && unrouted(res.Err) {
		heard := time.Duration(l.heard.Load())
		own = heard == 0 || time.Since(l.began)-heard > lately
	}
	switch {
	case own:
		l.deps.Frontier.OwnTrouble(why, false)
		*out = frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Reason: why}
	case l.deps.Frontier.Troubled(): // silence is what is to be expected
		*out = frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Asked: true, Reason: out.Reason}
	}
}

// unrouted says that an address had no route. Those of one family may have none while others do.
func unrouted(err error) bool {
	return errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH)
}

// answered says that a download shows that servers are within reach: something came back, if only a refusal.
func answered(res *fetch.Result) bool {
	if res.Status != 0 {
		return true
	}
	switch res.Class {
	case fetch.Refused, fetch.TLS, fetch.EOF, fetch.Protocol, fetch.HeaderTooLarge:
		return true
	case fetch.Reset: // by the server, and not for want of answers to the packets of an open connection
		return !errors.Is(res.Err, syscall.ETIMEDOUT)
	}
	return false
}
