package crawl

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"proxima/fetch/robots"
)

// robotsCache keeps parsed robots.txt files, by host, within a bound of their text's size. What falls out is read
// from the frontier's disk again. Safe for concurrent use.
type robotsCache struct {
	limit int

	// mu guards what follows.
	mu    sync.Mutex
	bytes int
	lru   *simplelru.LRU[string, cachedRobots]
}

type cachedRobots struct {
	rules *robots.Rules
	size  int
}

// robotsOverhead is what a parsed file costs beside its text, in bytes.
const robotsOverhead = 512

func newRobotsCache(limit int) *robotsCache {
	c := &robotsCache{limit: limit}
	// The bound is in bytes, not in entries; a size above zero is no error.
	c.lru, _ = simplelru.NewLRU(math.MaxInt, func(_ string, r cachedRobots) { c.bytes -= r.size })
	return c
}

func (c *robotsCache) get(host string) *robots.Rules {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, _ := c.lru.Get(host)
	return r.rules
}

func (c *robotsCache) put(host string, rules *robots.Rules, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(host)
	c.lru.Add(host, cachedRobots{rules, size + robotsOverhead})
	for c.bytes += size + robotsOverhead; c.bytes > c.limit && c.lru.Len() > 1; {
		c.lru.RemoveOldest()
	}
}

// drop takes out the file of a host.
func (c *robotsCache) drop(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(host)
}
