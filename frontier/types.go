package frontier

import (
	"context"
	"net/netip"
	"time"

	"proxima/frontier/identity"
)

// Origin says through which of the queues a URL came.
type Origin uint8

// The queues.
const (
	Discovered Origin = iota // found by a host's first owner, its home
	Estimate                 // asked for by a peer, to be timed here
	Assigned                 // of a host that was handed to this node
	Revisit                  // a page that is visited again; no origin of links
	origins
)

// String is the word for the origin in logs.
func (o Origin) String() string { return word(o, "discovered", "estimate", "assigned", "revisit") }

// word is that of a number.
func word[T ~uint8](n T, words ...string) string {
	if int(n) < len(words) {
		return words[n]
	}
	return "unknown"
}

// Verdict is the answer to a URL that was offered.
type Verdict uint8

// Every URL offered gets one of these.
const (
	Accepted  Verdict = iota // on disk now
	Duplicate                // known already
	HostFull                 // refused: the host has as many URLs as one host may have
	NotOwned                 // refused: the host is known and not owned
)

// String is the word for the verdict in logs.
func (v Verdict) String() string { return word(v, "accepted", "duplicate", "host full", "not own") }

// Link is a URL offered to the frontier.
type Link struct {
	URL identity.URL
	// Depth is the number of links from a seed; hops the number of redirects that led here.
	Depth, Hops uint8
	Origin      Origin
	// Sitemap says that the URL is a sitemap, not a page.
	Sitemap bool
	// Modified is the lastmod of the sitemap that named it, zero where there is none.
	Modified time.Time
}

// Kind says what a task fetches.
type Kind uint8

// A host's robots.txt comes before its pages.
const (
	Page Kind = iota
	Robots
	Sitemap
)

// String is the word for the kind in logs.
func (k Kind) String() string { return word(k, "page", "robots", "sitemap") }

// Task is one request that may be made now. It holds the right to its server until it is given to Finish.
type Task struct {
	Kind Kind
	URL  identity.URL
	// Host is whose URL, or whose robots.txt, this is: for a robots.txt that was redirected it is not URL.Host.
	Host   string
	Server netip.Addr
	Origin Origin
	// Depth, Hops and Attempt (0 is the first) are those of the URL.
	Depth, Hops, Attempt uint8
	// Waited is how long the server was ready before the task.
	Waited time.Duration
	// DNS is how long resolving the name took, for the first task after it; else 0.
	DNS time.Duration
	// Page is what is known of a page that is visited again; nil for all others. It is not to be changed.
	Page *PageRecord
	// Tag is that of the remote fetch, nil for the tasks of this node's own.
	Tag any

	host    *host
	server  *server
	pending *pending
	remote  bool
	try     bool    // by its answer the node sees that its outage is over
	expiry  *expiry // nil without leases
}

// Ending is how a task ended.
type Ending uint8

// A page is done, has failed, is dropped without a request, or comes again.
const (
	Done    Ending = iota
	Failed         // asked for and not to be had
	Dropped        // not to be asked for: robots, blocklist, scope
	Again          // to be tried again: what went wrong is in Trouble
)

// Trouble says what kind of failure asks for another try, and so how long the wait is and who waits.
type Trouble uint8

// Kinds of trouble.
const (
	NoTrouble   Trouble = iota
	Unreachable         // no connection: the host waits by RetryConnect, and is given up at its end
	Broken              // the page broke off or answered 5xx: the URL waits by RetryPage, and fails at its end
	Busy                // 429 or 503: the host waits, doubling
	Forbidden           // the server must not be asked: the host is given up at once
	Interrupted         // this node stopped it: the URL goes back as it was
)

// Outcome is what became of a task.
type Outcome struct {
	Ending  Ending
	Trouble Trouble
	// Reason says why, in words: it is counted and logged.
	Reason string
	// Lasts says of a server that is unreachable that waiting hardly mends it: it refuses.
	Lasts bool
	// Elapsed is the time of the download, 0 where no request was made.
	Elapsed time.Duration
	// Asked says that a request went to the server, so that its clock starts.
	Asked bool
	// RetryAfter is what the server asked for, 0 for nothing.
	RetryAfter time.Duration
	// Lingers is how long the request may still go on where another node makes it and cannot be heard: the gap to the next
	// begins then.
	Lingers time.Duration
	// Links are the URLs found; they are on disk before the task is.
	Links []Link
	// Elsewhere, if set, is given the links that got NotOwned, before the end of the URL is written: what it returns in time
	// without an error is as safe as what is on disk. With an error the URL is not ended: Finish returns it,
	// and the URL comes again after a while.
	Elsewhere func(context.Context, []Link) error
	// Known is the number of further links that the caller knew to be duplicates and left out.
	Known int
	// Visit is what was found of a page or a sitemap that was answered for. Without it a new page is not visited again, and
	// a visit counts as one without an answer.
	Visit *Visit
	// Robots is the answer of a task of that kind.
	Robots *RobotsOutcome
	// Receipt, if set, is put on its shelf in one transaction with the end of the task: whoever keeps what was downloaded
	// learns from it after a crash whether the download counts.
	Receipt *Receipt
}

// Receipt is a key of a shelf.
type Receipt struct {
	Shelf *Shelf
	Key   []byte
}

// RobotsOutcome says what is known of a host's robots.txt now. Zero Lifetime means that it is still unknown: the host
// waits by the Trouble of the outcome, or asks again at Redirect.
type RobotsOutcome struct {
	Body       []byte // kept for the next start, opaque
	Lifetime   time.Duration
	CrawlDelay time.Duration
	Redirect   *identity.URL
}

// Finished counts the answers to the links of an outcome.
type Finished struct {
	Accepted, Duplicate, Refused int
	// NotOwned are the links that were not stored because their hosts are not owned; they are counted in Refused.
	NotOwned []Link
	// Ending is how the task ended at last: Failed instead of Again where no attempt is left.
	Ending Ending
	// NextAttempt is when a URL that comes again is tried; zero when it does not.
	NextAttempt time.Time
	// GaveUp is true when this failure was the last that the host was granted; its pending URLs were dropped.
	GaveUp  bool
	Dropped int
}
