package ownership

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"proxima/node/view"
)

// book is what all parts share: the records of hosts, the members, and what is open about a host.
type book struct {
	cfg     Config
	deps    Deps
	locks   *hostLocks
	records *records
	queue   *queue
	// jitter draws a time below a bound, for retries.
	jitter func(time.Duration) time.Duration
	// startup is when this life began: the outbox may hold links of earlier ones.
	startup time.Time
	ready   chan struct{} // closed when what an earlier life left is known
	renew   chan struct{} // something is to be confirmed at once
	check   chan struct{} // who may be crawled has changed
	// changed tell the parts that a host has another record, or, where that has no owner, none. They are called under mu.
	changed []func(host string, r Record)

	// mu guards what follows, and what the parts say that it guards. It is never held across I/O, nor for work that grows with the
	// number of hosts.
	mu        sync.Mutex
	views     *view.History
	tallies   tallies
	proposals map[string]proposal  // hand-offs from here that are not settled
	awaited   map[string]time.Time // hosts taken over whose replica has not come, and since when
	due       map[string]bool      // members that must hear soon what this node owns, if it is only that it owns nothing
	counts    Counts
}

// proposal is a hand-off of which the other node may have been told to commit it.
type proposal struct {
	next   Record
	reason string
}

// Counts are what this room did, for the status and for the end of a crawl.
type Counts struct {
	HandedOff, Received, Taken, Obeyed uint64
	// LinksRouted went to other nodes, LinksDelivered came from them.
	LinksRouted, LinksDelivered uint64
}

func newBook(cfg Config, deps Deps) *book {
	return &book{cfg: cfg, deps: deps, locks: newHostLocks(), records: newRecords(deps.Records, cfg.CachedRecords), queue: newQueue(),
		jitter: rand.N[time.Duration], startup: time.Now(),
		ready: make(chan struct{}), renew: make(chan struct{}, 1), check: make(chan struct{}, 1),
		views: view.NewHistory(max(cfg.Collect, cfg.FenceAfter)), tallies: newTallies(),
		proposals: make(map[string]proposal), awaited: make(map[string]time.Time), due: make(map[string]bool)}
}

// begun is an error until it is known what an earlier life left: until then nothing is answered.
func (b *book) begun() error {
	select {
	case <-b.ready:
		return nil
	default:
		return errors.New("the node is starting")
	}
}

// Counts are the counts so far.
func (b *book) Counts() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts
}

// Record returns the record of a host, if this node has one.
func (b *book) Record(host string) (Record, bool, error) { return b.records.get(host) }

// HomeOf is the home of a host in the present view.
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

// edit changes the record of a host to what next makes of it, in one step, and returns it as it is then. next says
// whether there is a change; it is called under mu.
func (b *book) edit(host string, next func(r Record, ok bool) (Record, bool)) (r Record, changed bool, err error) {
	for {
		b.mu.Lock()
		old, ok, loaded := b.records.peek(host)
		if !loaded {
			b.mu.Unlock()
			if _, _, err := b.records.get(host); err != nil {
				return Record{}, false, err
			}
			continue // it may have fallen out of the cache again
		}
		r, changed = next(old, ok)
		if changed = changed && (!ok || old != r); changed {
			b.putLocked(host, old, r)
		} else {
			r = old
		}
		b.mu.Unlock()
		return r, changed, nil
	}
}

// putLocked writes a record, and keeps what is counted of records. An empty Owner removes it.
func (b *book) putLocked(host string, old, r Record) {
	v := b.views.Now()
	b.records.put(host, r)
	b.tallies.replace(host, v, old, r)
	if r.Owner != v.Self { // what this node was about as its owner is over
		delete(b.proposals, host)
		delete(b.awaited, host)
	}
	if old.Owner != "" && r.Owner != old.Owner && r.Owner != v.Self && r.Owner != "" {
		b.queue.addLater(host, time.Now().Add(b.cfg.TakeAfter)) // what is here of it may be nobody's copy now
	}
	for _, tell := range b.changed {
		tell(host, r)
	}
}

// concerned says that a node has to know the record of a host: as its owner, its home, or by its replica or its witness.
func concerned(v *view.View, r Record) bool {
	return slices.Contains([]string{r.Owner, v.Home(r.Host), v.Replica(r.Host, r.Owner), v.Witness(r.Host, r.Owner)}, v.Self)
}

// forget removes the record of a host with which this node has nothing more to do.
func (b *book) forget(r Record) error {
	_, _, err := b.edit(r.Host, func(now Record, ok bool) (Record, bool) {
		v := b.views.Now()
		return Record{}, ok && now == r && !concerned(v, r)
	})
	return err
}

// obey takes a newer record over. If the host was owned here it is suspended at once, and what is here goes to its owner.
func (b *book) obey(newer Record) error {
	lost := false
	_, changed, err := b.edit(newer.Host, func(r Record, ok bool) (Record, bool) {
		if ok && !newer.Newer(r) {
			return r, false
		}
		if lost = ok && r.Owner == b.views.Now().Self && newer.Owner != r.Owner; lost {
			b.counts.Obeyed++
		}
		return newer, true
	})
	if err != nil || !changed {
		return err
	}
	if lost {
		b.deps.Event(Event{Kind: Obeyed, Record: newer, Peer: newer.Owner})
		signal(b.check)
	}
	b.queue.add(newer.Host, lost)
	return nil
}

// found notes that something of a host has come here.
func (b *book) found(host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.awaited[host]; ok {
		delete(b.awaited, host)
		signal(b.check)
	}
}

// persist makes records survive the death of the machine: others are told of them afterwards.
func (b *book) persist(ctx context.Context) error {
	if err := b.records.flush(); err != nil {
		return err
	}
	return b.deps.Frontier.Sync(ctx)
}

func (b *book) warn(err error) { b.deps.Warn(err) }
