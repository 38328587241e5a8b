package crawl

import (
	"sync"

	"github.com/cespare/xxhash/v2"

	"proxima/fetch/text"
)

// nearWords is how many words a page must have to be told from others by what it says: of many pages only the frame is
// sent, and scripts do the rest.
const nearWords = 50

// near knows what the newest pages say.
type near struct {
	mu    sync.Mutex
	pages *text.Near
}

// newNear remembers a number of pages; of none it is nil.
func newNear(size int) *near {
	if size < 1 {
		return nil
	}
	return &near{pages: text.NewNear(size)}
}

// duplicate says whether a page says nearly the same as one of another URL. If there is none, the page is remembered.
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
