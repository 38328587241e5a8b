package frontier

import (
	"context"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// ReadyHost is a host owned, with the number of its pending URLs on disk and of its pages that are due again: of these it
// counts as many as a host may take (Config.HostBudget).
type ReadyHost struct {
	Host    string
	Pending int
}

// Ready looks at up to most hosts with pending URLs on disk, or pages that are visited again, in the order of their keys after the host
// named, and returns those owned that have minURLs at least, may leave this node and are within their hours. next is where to go on, ""
// at the end of the round. Keys are read, and a record for each host, but no URLs.
func (f *Frontier) Ready(after string, minURLs, most int) (hosts []ReadyHost, next string, err error) {
	recrawl, by := f.cfg.Recrawl.On(), f.bench.recrawl.by(time.Now())
	err = f.store.view(context.Background(), func(txn *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Prefix, o.PrefetchValues = []byte{keyVersion}, false
		it := txn.NewIterator(o)
		defer it.Close()
		for next = after; most > 0; most-- {
			host, err := nextHost(it, kindPending, next)
			if err == nil && recrawl {
				var again string
				if again, err = nextHost(it, kindPage, next); again != "" && (host == "" || again < host) {
					host = again
				}
			}
			if err != nil {
				return err
			}
			if host == "" {
				next = ""
				return nil
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
			if at := rec.nextAt(); recrawl && at != 0 && at <= by {
				due, err := countDue(it, host, by, f.cfg.HostBudget)
				if err != nil {
					return err
				}
				n += due
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

// nextHost is the first host after another with keys of a kind, "" where there is none.
func nextHost(it *badger.Iterator, kind byte, after string) (string, error) {
	// Behind the last key of the host: 0x01 is more than the zero byte that ends its name.
	it.Seek(append(append(kindPrefix(kind), after...), 1))
	if !it.ValidForPrefix(kindPrefix(kind)) {
		return "", nil
	}
	host, _, err := splitKey(it.Item().Key())
	return host, err
}

// countDue counts the pages of a host that are due by a time, up to most.
func countDue(it *badger.Iterator, host string, by stamp, most int) (n int, err error) {
	prefix := hostKey(kindDue, host)
	for it.Seek(prefix); n < most && it.ValidForPrefix(prefix); it.Next() {
		due, _, err := splitDue(it.Item().Key()[len(prefix):])
		if err != nil || due > by {
			return n, err
		}
		n++
	}
	return n, nil
}

// countPending counts the pending URLs of a host.
func countPending(it *badger.Iterator, host string, rec *record) (n int, err error) {
	prefix := hostKey(kindPending, host)
	for it.Seek(prefix); it.ValidForPrefix(prefix); it.Next() {
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
