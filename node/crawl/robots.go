package crawl

import (
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"proxima/fetch"
	"proxima/fetch/robots"
	"proxima/frontier"
	"proxima/frontier/identity"
)

const (
	// maxRobotsHops is how many redirects of a robots.txt are followed (RFC 9309, section 2.3.1.2).
	maxRobotsHops = 5
	// robotsTTL is how long a robots.txt is believed; RFC 9309 allows a day.
	robotsTTL = 24 * time.Hour
	// robotsCached bounds the parsed robots.txt kept in memory, in bytes of their text. Others are read from disk.
	robotsCached = 16 << 20
)

// robotsTxt says what the answer to a request for robots.txt means for its host.
func (r *reader) robotsTxt(task *frontier.Task, res *fetch.Result, out *frontier.Outcome, g *gather) {
	if out.Trouble == frontier.Interrupted || out.Trouble == frontier.Unreachable || out.Trouble == frontier.Forbidden {
		return
	}
	if res.Class == fetch.TLS && res.Status == 0 { // it wants a certificate of ours
		out.Trouble = frontier.Unreachable
		return
	}
	if res.Class != "" && !noBodyNeeded(res) {
		*out = brokenRobots(out, words(string(res.Class)))
		return
	}
	switch robots.Judge(res.Status) {
	case robots.Wait:
		out.Ending, out.Trouble = frontier.Again, frontier.Busy
		out.Reason = "robots.txt: " + out.Reason
	case robots.Unavailable:
		*out = frontier.Outcome{Ending: frontier.Done, Asked: true, Elapsed: out.Elapsed, RetryAfter: out.RetryAfter}
		r.allowAll(out, task.Host)
	case robots.Redirect:
		target, reason := r.deps.Policy.Rules.Resolve(task.URL, res.Location)
		if res.Location == "" || reason != identity.Accepted || task.Hops >= maxRobotsHops {
			r.allowAll(out, task.Host)
			return
		}
		out.Robots = &frontier.RobotsOutcome{Redirect: &target}
	case robots.Usable:
		// The byte beyond the limit tells Parse whether the last line is whole.
		body := append([]byte(nil), res.Body[:min(len(res.Body), robots.MaxBytes+1)]...)
		rules := robots.Parse(body, r.deps.Policy.agent(task.Host))
		r.robots.put(task.Host, rules, len(body))
		out.Robots = &frontier.RobotsOutcome{Body: body, Lifetime: robotsTTL, CrawlDelay: rules.CrawlDelay()}
		if r.cfg.Sitemaps {
			for _, ref := range rules.Sitemaps() {
				g.add(task.URL, ref, 0, 0, true)
			}
		}
	}
}

// allowAll records that a host has no robots.txt: its status is 4xx, or it redirects too often (RFC 9309, section 2.3.1).
func (r *reader) allowAll(out *frontier.Outcome, host string) {
	r.robots.put(host, robots.AllowAll(), 0)
	out.Robots = &frontier.RobotsOutcome{Lifetime: robotsTTL}
}

// rulesOf returns the rules of a host: from memory, or else from the frontier's disk.
func (r *reader) rulesOf(host string) (*robots.Rules, error) {
	if rules := r.robots.get(host); rules != nil {
		return rules, nil
	}
	body, err := r.deps.Frontier.RobotsBody(host)
	if err != nil {
		return nil, err
	}
	// An empty body means a file without rules or no file. Both allow everything.
	rules := robots.Parse(body, r.deps.Policy.agent(host))
	r.robots.put(host, rules, len(body))
	return rules, nil
}

// robotsCache keeps the parsed robots.txt files of the hosts used last, within a bound of their size. The others are read from the
// frontier's disk again. It is safe for concurrent use.
type robotsCache struct {
	// mu guards what follows.
	mu    sync.Mutex
	bytes int
	lru   *simplelru.LRU[string, cachedRobots]
}

// cachedRobots is a parsed robots.txt, and what it takes of the cache in bytes.
type cachedRobots struct {
	rules *robots.Rules
	size  int
}

// robotsOverhead is what a parsed file costs beside its text, in bytes.
const robotsOverhead = 512

func newRobotsCache() *robotsCache {
	c := new(robotsCache)
	// The bound is in bytes, so the number of entries is not bounded. NewLRU fails only for a number below one.
	c.lru, _ = simplelru.NewLRU(math.MaxInt, func(_ string, r cachedRobots) { c.bytes -= r.size })
	return c
}

// get returns the rules of a host, nil if they are not here.
func (c *robotsCache) get(host string) *robots.Rules {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, _ := c.lru.Get(host)
	return r.rules
}

// put keeps a parsed file whose text has size bytes, in the place of those used longest ago.
func (c *robotsCache) put(host string, rules *robots.Rules, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(host)
	c.lru.Add(host, cachedRobots{rules, size + robotsOverhead})
	for c.bytes += size + robotsOverhead; c.bytes > robotsCached && c.lru.Len() > 1; {
		c.lru.RemoveOldest()
	}
}

// drop removes the file of a host.
func (c *robotsCache) drop(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(host)
}

// brokenRobots is the outcome of a robots.txt that breaks off. It is unreachable (RFC 9309, section 2.3.1.4): the host waits.
func brokenRobots(out *frontier.Outcome, reason string) frontier.Outcome {
	return frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Busy, Asked: true, Elapsed: out.Elapsed, RetryAfter: out.RetryAfter,
		Reason: "robots.txt: " + reason}
}
