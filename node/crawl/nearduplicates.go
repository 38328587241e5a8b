package crawl

import (
	"sync"

	"github.com/cespare/xxhash/v2"

	"proxima/fetch/text"
)

// nearWords is how many words a page must have to be compared. Shorter pages are often frames that scripts fill, and look alike.
const nearWords = 50

// near finds pages whose text is nearly that of another recent page.
type near struct {
	mu    sync.Mutex
	pages *text.Near
}

// newNear remembers that many pages. It returns nil for 0.
func newNear(size int) *near {
	if size < 1 {
		return nil
	}
	return &near{pages: text.NewNear(size)}
}

// duplicate reports whether a page of another URL says nearly the same. If there is none, it remembers this page.
func (n *near) duplicate(url string, doc *text.Document) bool {
	if doc.Words < nearWords {
		return false
	}
	key := xxhash.Sum64String(url)
	n.mu.Lock()
	defer n.mu.Unlock()
	first, found := n.pages.Find(doc.Fingerprint.Simhash)
	if !found {
		n.pages.Put(doc.Fingerprint.Simhash, key)
	}
	return found && first != key
}
