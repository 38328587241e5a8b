package crawl

import (
	"container/list"
	"sync"

	"proxima/fetch/robots"
	"proxima/frontier/identity"
)

// robotsCache keeps parsed robots.txt files, by origin, within a bound of their text's size. What falls out is read
// from the frontier's disk again. Safe for concurrent use.
type robotsCache struct {
	limit int

	// mu guards what follows.
	mu       sync.Mutex
	bytes    int
	byOrigin map[string]*list.Element
	lru      list.List // of *cachedRobots, latest first
}

type cachedRobots struct {
	origin string
	rules  *robots.Rules
	size   int
}

// robotsOverhead is what a parsed file costs beside its text, in bytes.
const robotsOverhead = 512

func newRobotsCache(limit int) *robotsCache {
	return &robotsCache{limit: limit, byOrigin: make(map[string]*list.Element)}
}

func (c *robotsCache) get(origin string) *robots.Rules {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.byOrigin[origin]
	if el == nil {
		return nil
	}
	c.lru.MoveToFront(el)
	return el.Value.(*cachedRobots).rules
}

func (c *robotsCache) put(origin string, rules *robots.Rules, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.byOrigin[origin]; el != nil {
		c.remove(el)
	}
	c.byOrigin[origin] = c.lru.PushFront(&cachedRobots{origin, rules, size + robotsOverhead})
	c.bytes += size + robotsOverhead
	for c.bytes > c.limit && c.lru.Len() > 1 {
		c.remove(c.lru.Back())
	}
}

// drop takes out the files of a host.
func (c *robotsCache) drop(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, scheme := range []string{"http", "https"} {
		if el := c.byOrigin[originOf(identity.URL{Scheme: scheme, Host: host})]; el != nil {
			c.remove(el)
		}
	}
}

// remove needs mu held.
func (c *robotsCache) remove(el *list.Element) {
	r := c.lru.Remove(el).(*cachedRobots)
	delete(c.byOrigin, r.origin)
	c.bytes -= r.size
}
