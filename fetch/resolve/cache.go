package resolve

import (
	"container/list"
	"net/netip"
	"slices"
	"time"
)

// entry is what is known of a name: addresses, or why there are none. It is never changed.
type entry struct {
	name    string
	addrs   []netip.Addr
	err     *Error
	expires time.Time
}

// answer returns the entry as a caller sees it at now.
func (e *entry) answer(now time.Time, cached bool, elapsed time.Duration) (Answer, error) {
	a := Answer{Addrs: slices.Clone(e.addrs), TTL: max(e.expires.Sub(now), 0), Cached: cached, Elapsed: elapsed}
	if e.err != nil {
		return a, e.err
	}
	return a, nil
}

// cache keeps the size entries used last. It is not safe for concurrent use.
type cache struct {
	size   int
	byName map[string]*list.Element // of *entry
	used   *list.List               // last used in front
}

func newCache(size int) *cache {
	return &cache{size: size, byName: map[string]*list.Element{}, used: list.New()}
}

// get returns the entry of name that has not expired at now, or nil.
func (c *cache) get(name string, now time.Time) *entry {
	el := c.byName[name]
	if el == nil {
		return nil
	}
	e := el.Value.(*entry)
	if !now.Before(e.expires) {
		delete(c.byName, name)
		c.used.Remove(el)
		return nil
	}
	c.used.MoveToFront(el)
	return e
}

func (c *cache) put(e *entry) {
	if el := c.byName[e.name]; el != nil {
		el.Value = e
		c.used.MoveToFront(el)
		return
	}
	c.byName[e.name] = c.used.PushFront(e)
	if c.used.Len() > c.size {
		oldest := c.used.Back()
		delete(c.byName, oldest.Value.(*entry).name)
		c.used.Remove(oldest)
	}
}
