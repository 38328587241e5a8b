package frontier

import (
	"bytes"
	"context"
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
	kinds := []byte{kindPending}
	if recrawl {
		kinds = append(kinds, kindPage)
	}
	end, err := f.store.eachHost(context.Background(), kinds, after, func(txn *tx, it *badger.Iterator, host string) (more bool, err error) {
		rec, _, err := readRecord(txn, host)
		if err != nil {
			return false, err
		}
		next = host
		most--
		if site := f.deps.Site(host); rec.role != Owned || site != nil && site.Stays || site.closed(time.Now()) {
			return most > 0, nil
		}
		n := int(rec.digest.Pending())
		if !rec.tracked {
			n = countPending(it, host, &rec)
		}
		if at := rec.nextAt(); recrawl && at != 0 && at <= by {
			n += countDue(it, host, by, f.cfg.HostBudget)
		}
		if n >= minURLs {
			hosts = append(hosts, ReadyHost{Host: host, Pending: n})
		}
		return most > 0, nil
	})
	if end {
		next = ""
	}
	return hosts, next, wrap(err, "look for hosts that are ready")
}

// countDue counts the pages of a host that are due by a time, up to most.
func countDue(it *badger.Iterator, host string, by stamp, most int) (n int) {
	prefix, end := hostKey(kindDue, host), dueKey(host, by, 1<<64-1)
	for it.Seek(prefix); n < most && it.ValidForPrefix(prefix) && bytes.Compare(it.Item().Key(), end) <= 0; it.Next() {
		n++
	}
	return n
}

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
	// A new host may have URLs but no record yet.
	kinds := []byte{kindHost, kindPending}
	_, err = f.store.eachHost(ctx, kinds, after, func(txn *tx, _ *badger.Iterator, host string) (more bool, err error) {
		rec, _, err := readRecord(txn, host)
		hosts = append(hosts, Listed{Host: host, Role: rec.role, Done: rec.done, Failed: rec.failed, Dropped: rec.dropped})
		return len(hosts) < most, err
	})
	return hosts, wrap(err, "list hosts")
}
