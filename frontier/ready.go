package frontier

import (
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// ReadyHost is a host owned, with the number of its pending URLs on disk.
type ReadyHost struct {
	Host    string
	Pending int
}

// Ready looks at up to most hosts with pending URLs on disk, in the order of their keys after the host named, and returns
// those owned that have minURLs at least, may leave this node and are within their hours. next is where to go on, "" at the end of the round. Keys are read, and a
// record for each host, but no URLs.
func (f *Frontier) Ready(after string, minURLs, most int) (hosts []ReadyHost, next string, err error) {
	if !f.store.enter() {
		return nil, "", ErrClosed
	}
	defer f.store.exit()
	err = f.store.db.View(func(txn *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Prefix, o.PrefetchValues = kindPrefix(kindPending), false
		it := txn.NewIterator(o)
		defer it.Close()
		for next = after; most > 0; most-- {
			// Behind the last key of the host: 0x01 is more than the zero byte that ends its name.
			it.Seek(append(append(kindPrefix(kindPending), next...), 1))
			if !it.ValidForPrefix(o.Prefix) {
				next = ""
				return nil
			}
			host, _, err := splitKey(it.Item().Key())
			if err != nil {
				return err
			}
			next = host
			rec, _, err := readRecord(txn, host)
			if err != nil {
				return err
			}
			if site := f.deps.siteOf(host); rec.role != Owned || site != nil && site.Stays || site.closed(time.Now()) {
				continue
			}
			n := int(rec.digest.Pending())
			if !rec.tracked {
				if n, err = countPending(it, host, &rec); err != nil {
					return err
				}
			}
			if n >= minURLs {
				hosts = append(hosts, ReadyHost{Host: host, Pending: n})
			}
		}
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("look for hosts that are ready: %w", err)
	}
	return hosts, next, nil
}

// countPending counts the pending URLs of the host whose first block the iterator is at.
func countPending(it *badger.Iterator, host string, rec *record) (n int, err error) {
	for prefix := hostKey(kindPending, host); it.ValidForPrefix(prefix); it.Next() {
		_, seq, err := splitPending(it.Item().Key()[len(prefix):])
		if err != nil {
			return 0, err
		}
		n += int(it.Item().UserMeta())
		if done := rec.find(seq); done != nil {
			n -= done.count()
		}
	}
	return n, nil
}
