package crawl

import (
	"container/list"
	"sync"

	"proxima/fetch/robots"
)

// robotsCache keeps parsed robots.txt files, by host, within a bound of their text's size. What falls out is read
// from the frontier's disk again. Safe for concurrent use.
type robotsCache struct {
	limit int

	// mu guards what follows.
	mu     sync.Mutex
	bytes  int
	byHost map[string]*list.Element
	lru    list.List // of *cachedRobots, latest first
}

type cachedRobots struct {
	host  string
	rules *robots.Rules
	size  int
}

// robotsOverhead is what a parsed file costs beside its text, in bytes.
const robotsOverhead = 512

func newRobotsCache(limit int) *robotsCache {
	return &robotsCache{limit: limit, byHost: make(map[string]*list.Element)}
}

func (c *robotsCache) get(host string) *robots.Rules {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.byHost[host]
	if el == nil {
		return nil
	}
	c.lru.MoveToFront(el)
	return el.Value.(*cachedRobots).rules
}

func (c *robotsCache) put(host string, rules *robots.Rules, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.byHost[host]; el != nil {
		c.remove(el)
	}
	c.byHost[host] = c.lru.PushFront(&cachedRobots{host, rules, size + robotsOverhead})
	c.bytes += size + robotsOverhead
	for c.bytes > c.limit && c.lru.Len() > 1 {
		c.remove(c.lru.Back())
	}
}

// drop takes out the file of a host.
func (c *robotsCache) drop(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.byHost[host]; el != nil {
		c.remove(el)
	}
}

// remove needs mu held.
func (c *robotsCache) remove(el *list.Element) {
	r := c.lru.Remove(el).(*cachedRobots)
	delete(c.byHost, r.host)
	c.bytes -= r.size
}
