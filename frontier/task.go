package frontier

import (
	"context"
	"net/netip"
	"time"

	"proxima/frontier/identity"
)

// Origin names the queue of a URL.
type Origin uint8

// The queues.
const (
	Discovered Origin = iota // found by the first owner of the host, its home
	Estimate                 // a peer asked for it, to know the download time here
	Assigned                 // of a host that was handed to this node
	Revisit                  // a page that is visited again; links never have this origin
	origins
)

func (o Origin) String() string { return word(o, "discovered", "estimate", "assigned", "revisit") }

// word returns the word for a number, counted from 0.
func word[T ~uint8](n T, words ...string) string {
	if int(n) < len(words) {
		return words[n]
	}
	return "unknown"
}

// Verdict is the answer to a URL that was offered.
type Verdict uint8

// Every offered URL gets one of these.
const (
	Accepted  Verdict = iota // on disk now
	Duplicate                // known already
	HostFull                 // refused: the host has as many URLs as it may have
	NotOwned                 // refused: the host is known, but not owned
	GivenUp                  // refused: the host was given up, and its time is not over
)

func (v Verdict) String() string {
	return word(v, "accepted", "duplicate", "host full", "not own", "host given up")
}

// Link is a URL offered to the frontier.
type Link struct {
	URL identity.URL
	// Depth is the number of links from a seed, Hops the number of redirects that led here.
	Depth, Hops uint8
	Origin      Origin
	// Sitemap says that the URL is a sitemap, not a page.
	Sitemap bool
	// Modified is the lastmod in the sitemap that named the URL; zero if there is none.
	Modified time.Time
}

// Kind says what a task fetches.
type Kind uint8

// The robots.txt of a host comes before its pages.
const (
	Page Kind = iota
	Robots
	Sitemap
)

func (k Kind) String() string { return word(k, "page", "robots", "sitemap") }

// Task is one request that may be made now. It holds the right to its server until it is given to Finish.
type Task struct {
	Kind Kind
	URL  identity.URL
	// Host is the host that the task belongs to. For a robots.txt that was redirected it differs from URL.Host.
	Host   string
	Server netip.Addr
	Origin Origin
	// Depth, Hops and Attempt (0 is the first) are those of the URL.
	Depth, Hops, Attempt uint8
	// Waited is how long the server was ready before the task.
	Waited time.Duration
	// DNS is how long resolving the name took. It is set in the first task after that, else 0.
	DNS time.Duration
	// Page is the record of a page that is visited again, else nil. It must not be changed.
	Page *PageRecord
	// Tag is that of the remote fetch; nil for tasks of this node's own hosts.
	Tag any

	host    *host
	server  *server
	pending *pending
	remote  bool
	try     bool // its answer shows whether the outage is over
	// lease is nil without leases. expire ends it.
	lease  context.Context
	expire context.CancelFunc
}

// Ending says how a task ended.
type Ending uint8

// The ways in which a task can end.
const (
	Done    Ending = iota
	Failed         // it was asked for, and there is no page
	Dropped        // it must not be asked for: robots.txt, blocklist, scope
	Again          // it is tried again; Trouble says what went wrong
)

// Trouble is the kind of failure after which a task is tried again. It decides who waits, and how long.
type Trouble uint8

// Kinds of trouble.
const (
	NoTrouble   Trouble = iota
	Unreachable         // no connection: the host waits by RetryConnect, and is given up after the last wait
	Broken              // the page broke off or answered 5xx: the URL waits by RetryPage, and fails after the last wait
	Busy                // 429 or 503: the host waits, twice as long each time
	Forbidden           // the server must not be asked: the host is given up at once
	Interrupted         // this node stopped it: the URL goes back unchanged
)

// Outcome is what became of a task.
type Outcome struct {
	Ending  Ending
	Trouble Trouble
	// Reason says why in words. It is counted and logged.
	Reason string
	// Lasts says that an unreachable server refuses connections, so that waiting will hardly help.
	Lasts bool
	// Elapsed is the time of the download; 0 without a request.
	Elapsed time.Duration
	// Asked says that a request went to the server, so that its gap begins.
	Asked bool
	// RetryAfter is the wait that the server asked for; 0 for none.
	RetryAfter time.Duration
	// Lingers is how long a request may still go on if another node makes it and does not answer. The gap begins after that.
	Lingers time.Duration
	// Links are the URLs that were found. They are on disk before the end of the task is.
	Links []Link
	// Elsewhere, if set, is called with the links that got NotOwned, before the end of the URL is written. It must make them safe and
	// return. If it returns an error, the URL does not end: Finish returns the error, and the URL comes again later.
	Elsewhere func(context.Context, []Link) error
	// Known is the number of further links that the caller left out, because it knew that they were duplicates.
	Known int
	// Visit is what was found of a page or a sitemap that was answered. Without it a new page is not visited again, and a revisit counts
	// as one without an answer.
	Visit *Visit
	// Robots is the answer of a task for a robots.txt.
	Robots *RobotsOutcome
	// Receipt, if set, is put on its shelf in one transaction with the end of the task. After a crash it tells a sink whether the
	// download counts.
	Receipt *Receipt
}

// Receipt is a key of a shelf.
type Receipt struct {
	Shelf *Shelf
	Key   []byte
}

// RobotsOutcome is what is known of a host's robots.txt. With a Lifetime of 0 it is still unknown: the host waits by the Trouble of the
// outcome, or asks again at Redirect.
type RobotsOutcome struct {
	Body       []byte // kept on disk; opaque to the frontier
	Lifetime   time.Duration
	CrawlDelay time.Duration
	Redirect   *identity.URL
}

// Finished is what became of a task and of the links of its outcome.
type Finished struct {
	Accepted, Duplicate, Refused int
	// NotOwned are the links that were refused because their hosts are not owned. Refused counts them, too.
	NotOwned []Link
	// Refusing are the hosts of refused links, each once. They may take such links later.
	Refusing []string
	// Ending is how the task ended. It is Failed instead of Again if no attempt is left.
	Ending Ending
	// NextAttempt is when a URL that comes again is tried; zero if it does not come again.
	NextAttempt time.Time
	// GaveUp says that the host was given up after this failure.
	GaveUp bool
}
