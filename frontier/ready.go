package frontier

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// ReadyHost is an owned host with work to do.
type ReadyHost struct {
	Host string
	// Pending counts the pending URLs on disk, and up to Config.HostBudget pages that are due again.
	Pending int
}

// Ready looks at up to most hosts with pending URLs or pages to visit again, in the order of their keys, after a host. It returns the
// owned ones that have at least minURLs, may leave this node and are within their hours. next is the host to go on after, or "" at the end.
// Ready reads keys and one record for each host, but no URLs.
func (f *Frontier) Ready(after string, minURLs, most int) (hosts []ReadyHost, next string, err error) {
	recrawl, by := f.cfg.Recrawl.On(), f.bench.recrawl.by(time.Now())
	err = f.store.hosts(context.Background(), func(txn *tx, it *badger.Iterator) error {
		kinds := []byte{kindPending, kindPage}
		if !recrawl {
			kinds = kinds[:1]
		}
		for next = after; most > 0; most-- {
			if next, err = nextOfKinds(it, kinds, next); err != nil || next == "" {
				return err
			}
			rec, _, err := readRecord(txn, next)
			if err != nil {
				return err
			}
			if site := f.deps.Site(next); rec.role != Owned || site != nil && site.Stays || site.closed(time.Now()) {
				continue
			}
			n := int(rec.digest.Pending())
			if !rec.tracked {
				n = countPending(it, next, &rec)
			}
			if at := rec.nextAt(); recrawl && at != 0 && at <= by {
				n += countDue(it, next, by, f.cfg.HostBudget)
			}
			if n >= minURLs {
				hosts = append(hosts, ReadyHost{Host: next, Pending: n})
			}
		}
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("look for hosts that are ready: %w", err)
	}
	return hosts, next, nil
}

// nextOfKinds returns the first host after another with keys of any of some kinds, or "".
func nextOfKinds(it *badger.Iterator, kinds []byte, after string) (next string, err error) {
	for _, kind := range kinds {
		host, err := nextHost(it, kind, after)
		if err != nil {
			return "", err
		}
		if next == "" || host != "" && host < next {
			next = host
		}
	}
	return next, nil
}

// countDue counts the pages of a host that are due by a time, up to most.
func countDue(it *badger.Iterator, host string, by stamp, most int) (n int) {
	prefix, end := hostKey(kindDue, host), dueKey(host, by, 1<<64-1)
	for it.Seek(prefix); n < most && it.ValidForPrefix(prefix) && bytes.Compare(it.Item().Key(), end) <= 0; it.Next() {
		n++
	}
	return n
}

// countPending counts the pending URLs of a host.
func countPending(it *badger.Iterator, host string, rec *record) (n int) {
	prefix := hostKey(kindPending, host)
	for it.Seek(prefix); it.ValidForPrefix(prefix); it.Next() {
		r := row{key: it.Item().Key(), meta: it.Item().UserMeta()}
		n += rec.pendingIn(r.seq(), int(r.meta))
	}
	return n
}

// Listed is a host as it is on disk.
type Listed struct {
	Host string
	Role Role
	// Done, Failed and Dropped count the URLs that ended that way on this node.
	Done, Failed, Dropped uint64
}

// List returns up to most hosts in the order of their keys, after a host. It returns none at the end.
func (f *Frontier) List(ctx context.Context, after string, most int) (hosts []Listed, err error) {
	err = f.store.hosts(ctx, func(txn *tx, it *badger.Iterator) error {
		for len(hosts) < most {
			// A new host may have URLs but no record yet.
			if after, err = nextOfKinds(it, []byte{kindHost, kindPending}, after); err != nil || after == "" {
				return err
			}
			rec, _, err := readRecord(txn, after)
			if err != nil {
				return err
			}
			hosts = append(hosts, Listed{Host: after, Role: rec.role, Done: rec.done, Failed: rec.failed, Dropped: rec.dropped})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	return hosts, nil
}
