package ownership

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"proxima/node/bell"
	"proxima/node/peer"
	"proxima/node/view"
)

// book is what all parts share: the records, the members, and unfinished business of hosts.
type book struct {
	cfg     Config
	deps    Deps
	locks   *hostLocks
	records *records
	queue   *queue
	// jitter draws a time below a bound, for retries.
	jitter func(time.Duration) time.Duration
	ready  chan struct{} // closed once the state of an earlier life is recovered
	renew  bell.Bell     // wakes runRenewals
	check  bell.Bell     // wakes runChecks
	// changedLocked is called when the record of a host has changed; a record without owner stands for none.
	changedLocked func(host string, old, r Record)

	// mu guards the fields below, and those that the parts put under it. It is never held across I/O, nor for work that grows with
	// the number of hosts.
	mu        sync.Mutex
	views     *view.History
	tallies   *tallies
	proposals map[string]proposal  // hand-offs from here that are not settled
	awaited   map[string]time.Time // hosts taken over without a replica, and since when
	due       map[string]bool      // members to renew with soon, even if this node owns nothing there
	counts    Counts
}

// proposal is a hand-off that the next owner may have committed.
type proposal struct {
	next   Record
	reason string
	tries  int // attempts to settle it
}

// Counts are totals since the start, for the status and for termination.
type Counts struct {
	HandedOff, Received, Taken, Obeyed uint64 // hosts
	LinksRouted, LinksDelivered        uint64 // to and from other nodes
}

func newBook(cfg Config, deps Deps) *book {
	return &book{cfg: cfg, deps: deps, locks: newHostLocks(), records: newRecords(deps.Records, cfg.CachedRecords), queue: newQueue(),
		jitter: rand.N[time.Duration],
		ready:  make(chan struct{}), renew: bell.New(), check: bell.New(),
		views: view.NewHistory(max(cfg.Collect, cfg.SuspendAfter)), tallies: newTallies(),
		proposals: make(map[string]proposal), awaited: make(map[string]time.Time), due: make(map[string]bool)}
}

// begun returns an error until the state of an earlier life is recovered. Until then peers get no answers.
func (b *book) begun() error {
	select {
	case <-b.ready:
		return nil
	default:
		return peer.Later("the node is starting")
	}
}

// Counts returns the counts so far.
func (b *book) Counts() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts
}

// Record returns the record of a host, if this node has one.
func (b *book) Record(host string) (r Record, known bool, err error) {
	r, err = b.records.get(host)
	return r, r.Owner != "", err
}

// HomeOf returns the home of a host in the present view.
func (b *book) HomeOf(host string) string {
	v := b.view()
	return v.Home(host)
}

func (b *book) view() view.View {
	b.mu.Lock()
	defer b.mu.Unlock()
	return *b.views.Now()
}

func (b *book) self() string { return b.view().Self }

// edit changes the record of a host atomically. next gets the record and returns the one that is to be in force, which may be the
// same; it is called under mu. edit returns it, too, and whether the record has changed.
func (b *book) edit(host string, next func(Record) Record) (r Record, changed bool, err error) {
	for {
		b.mu.Lock()
		old, loaded := b.records.peek(host)
		if !loaded {
			b.mu.Unlock()
			if _, err := b.records.get(host); err != nil {
				return Record{}, false, err
			}
			continue // try again, as it may have dropped out of the cache meanwhile
		}
		if r = next(old); r != old {
			b.records.put(host, r)
			b.changedLocked(host, old, r)
		}
		b.mu.Unlock()
		return r, r != old, nil
	}
}

// concerned reports whether a node must keep a record: as owner, home, replica or witness.
func concerned(v *view.View, r Record) bool {
	return slices.Contains([]string{r.Owner, v.Home(r.Host), v.Replica(r.Host, r.Owner), v.Witness(r.Host, r.Owner)}, v.Self)
}

// forget removes the record of a host if it names an owner and does not concern this node.
func (b *book) forget(host, owner string) error {
	_, _, err := b.edit(host, func(r Record) Record {
		if r.Owner == owner && !concerned(b.views.Now(), r) {
			return Record{}
		}
		return r
	})
	return err
}

// found notes that data of a host has arrived, which may have been awaited.
func (b *book) found(host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.awaited[host]; ok {
		delete(b.awaited, host)
		b.check.Ring()
	}
}

// persist makes all records survive a power cut. It is called before other nodes hear of them.
func (b *book) persist(ctx context.Context) error {
	if err := b.records.flush(); err != nil {
		return err
	}
	return b.deps.Frontier.Sync(ctx)
}
