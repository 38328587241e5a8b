package frontier

import (
	"context"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// Listed is a host as it is on disk.
type Listed struct {
	Host string
	Role Role
	// Done, Failed and Dropped count the URLs that ended so on this node.
	Done, Failed, Dropped uint64
}

// List gives up to most hosts in the order of their keys, from the one after that which is named; none at the end.
func (f *Frontier) List(ctx context.Context, after string, most int) (hosts []Listed, err error) {
	err = f.store.view(ctx, func(txn *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Prefix, o.PrefetchValues = []byte{keyVersion}, false
		it := txn.NewIterator(o)
		defer it.Close()
		for len(hosts) < most {
			host, err := nextHost(it, kindHost, after)
			if err != nil {
				return err
			}
			pending, err := nextHost(it, kindPending, after) // one that is new may have no record yet
			if err != nil {
				return err
			}
			if after = host; host == "" || pending != "" && pending < host {
				after = pending
			}
			if after == "" {
				return nil
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
