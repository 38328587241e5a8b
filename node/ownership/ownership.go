package ownership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/frontier"
	"proxima/node/view"
	"proxima/node/wire"
)

// Frontier is where the URLs are.
type Frontier interface {
	Add(ctx context.Context, links []frontier.Link) ([]frontier.Verdict, error)
	SetRole(ctx context.Context, host string, h frontier.Role) error
	RoleOf(ctx context.Context, host string) (h frontier.Role, known bool, err error)
	Export(ctx context.Context, host string, at frontier.Cursor, maxURLs, maxBytes int) (c frontier.Chunk, next frontier.Cursor, end bool, err error)
	Import(ctx context.Context, host string, c frontier.Chunk, origin frontier.Origin) (added int, err error)
	Remove(ctx context.Context, host string) error
	DigestOf(ctx context.Context, host string) (frontier.Digest, error)
	StateOf(ctx context.Context, host string) (*frontier.HostState, error)
	Sync(ctx context.Context) error
	Changes() map[string]*frontier.Change
	Unchecked(ctx context.Context) ([]string, error)
	Active() []string
	Suspend(reasons map[string]string)
}

// Peers are the other nodes. A call to one that cannot be reached is an error.
type Peers interface {
	Renew(ctx context.Context, to string, req *wire.RenewRequest) (*wire.RenewResponse, error)
	Claim(ctx context.Context, to string, req *wire.ClaimRequest) (*wire.ClaimResponse, error)
	Store(ctx context.Context, to string, req *wire.StoreRequest) (*wire.StoreResponse, error)
	Load(ctx context.Context, to string, req *wire.LoadRequest) (*wire.LoadResponse, error)
	Commit(ctx context.Context, to string, req *wire.CommitRequest) (*wire.CommitResponse, error)
}

// Outbox keeps links for other nodes until they are answered.
type Outbox interface {
	// Add keeps links, by the nodes that they are for.
	Add(ctx context.Context, links map[string][]*wire.Link) error
	// Keep does so for another node, whose pages wait for them.
	Keep(ctx context.Context, from string, links map[string][]*wire.Link) error
	// Settled says that all links that were added up to a time have been answered, or are in another node's outbox, too.
	Settled(until time.Time) bool
}

// EventKind says what happened to a host.
type EventKind uint8

// Events.
const (
	Took      EventKind = iota // the owner is gone or has lost the host: it is crawled here now
	HandedOff                  // the host has a new owner
	Received                   // the host came here
	Obeyed                     // a record with a higher epoch came: the host was given up here
	NoCopy                     // a host was taken over of which this node has no replica
	Aborted                    // a hand-off did not succeed
	Lost                       // nobody has a copy of a host whose owner is gone
)

// String is the word for the event in logs.
func (k EventKind) String() string {
	return [...]string{Took: "took", HandedOff: "handed over", Received: "received", Obeyed: "obeyed", NoCopy: "without copy",
		Aborted: "aborted", Lost: "lost"}[k]
}

// Event tells of a change of owner, for the log.
type Event struct {
	Kind   EventKind
	Record Record
	// Peer is the other node.
	Peer   string
	Reason string
}

// Deps are what an Ownership works with. Callbacks must not block.
type Deps struct {
	Frontier Frontier
	Peers    Peers
	Outbox   Outbox
	// Records keeps them.
	Records Shelf
	// Admit says why a link from elsewhere is not wanted, "" if it is: scope and blocklist.
	Admit func(l frontier.Link) string
	// Event is told of changes of owners.
	Event func(Event)
	// Warn is told of what went wrong and is tried again.
	Warn func(error)
}

// Ownership is the ownership of hosts at one node. Run must be running for its methods to make progress. It is safe for
// concurrent use.
type Ownership struct {
	cfg     Config
	deps    Deps
	locks   *hostLocks
	records *records
	queue   *queue
	stream  *stream
	// jitter draws a time below a bound, for retries.
	jitter func(time.Duration) time.Duration
	// startup is when this life began: the outbox may hold links of earlier ones.
	startup time.Time

	// checking lets one goroutine at a time tell the frontier who may be crawled: what is told last is what was found last.
	checking sync.Mutex

	// draining says that this node is to own nothing.
	draining atomic.Bool

	// mu guards what follows. It is never held across I/O, nor for work that grows with the number of hosts.
	mu         sync.Mutex
	views      *view.History
	tallies    tallies
	rights     rights
	census     census
	proposals  map[string]proposal  // hand-offs from here that are not settled
	settling   map[string]int       // how often that was tried
	wishes     map[string]wish      // hosts owned here that placement wants handed off
	rumours    map[string]Record    // who is said to own hosts of which there is no record: good to route by, and no more
	awaited    map[string]time.Time // hosts taken over whose replica has not come, and since when
	silent     map[string]time.Time // who has not answered what was to be stored, and since when
	counts     Counts
	complained time.Time // when a person last heard of links without a second copy
	// unwitnessed are hosts owned here whose witness is to be told, and the epochs of their records.
	unwitnessed map[string]uint64
	// compare are the nodes whose replicas are to be compared: those that are back. Nil: all.
	compare map[string]bool

	ready   chan struct{} // closed when what an earlier life left is known
	renew   chan struct{} // something is to be confirmed at once
	sweep   chan struct{} // all hosts are to be looked at
	recount chan struct{} // the homes have changed
	check   chan struct{} // who may be crawled has changed
}

// proposal is a hand-off of which the other node may have been told to commit it.
type proposal struct {
	next   Record
	reason string
}

// wish is a hand-off that placement asks for.
type wish struct {
	to, reason string
}

// Counts are what this room did, for the status and for the end of a crawl.
type Counts struct {
	HandedOff, Received, Taken, Obeyed uint64
	// LinksRouted went to other nodes, LinksDelivered came from them.
	LinksRouted, LinksDelivered uint64
}

// New makes an Ownership. The first view comes by SetView.
func New(cfg Config, deps Deps) *Ownership {
	return &Ownership{
		cfg: cfg, deps: deps, locks: newHostLocks(), queue: newQueue(), stream: newStream(), startup: time.Now(), jitter: rand.N[time.Duration],
		records:     newRecords(deps.Records, cfg.CachedRecords),
		tallies:     newTallies(),
		views:       view.NewHistory(max(cfg.Collect, cfg.FenceAfter)),
		rights:      newRights(),
		census:      newCensus(),
		proposals:   make(map[string]proposal),
		settling:    make(map[string]int),
		wishes:      make(map[string]wish),
		rumours:     make(map[string]Record),
		awaited:     make(map[string]time.Time),
		silent:      make(map[string]time.Time),
		unwitnessed: make(map[string]uint64),
		ready:       make(chan struct{}),
		renew:       make(chan struct{}, 1),
		sweep:       make(chan struct{}, 1),
		recount:     make(chan struct{}, 1),
		check:       make(chan struct{}, 1),
	}
}

// Run works until the context ends.
func (o *Ownership) Run(ctx context.Context) error {
	if err := o.recover(ctx); err != nil {
		return ended(ctx, fmt.Errorf("take up hosts of an earlier life: %w", err))
	}
	close(o.ready)
	g, ctx := errgroup.WithContext(ctx)
	for _, part := range []func(context.Context) error{
		o.runRecounts, o.runRenewals, o.runChecks, o.runUnchecked, o.runCensus, o.runStream, o.runSweeps, o.runQueue,
	} {
		g.Go(func() error { return ended(ctx, part(ctx)) })
	}
	err := g.Wait()
	return errors.Join(err, ended(ctx, o.records.flush()))
}

// again does something when it is woken, and every so often, until the context ends. timed says that it is only time.
func again(ctx context.Context, wake <-chan struct{}, every time.Duration, do func(timed bool) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		timed := false
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-tick.C:
			timed = true
		}
		if err := do(timed); err != nil {
			return err
		}
	}
}

// begun is an error until it is known what an earlier life left: until then nothing is answered.
func (o *Ownership) begun() error {
	select {
	case <-o.ready:
		return nil
	default:
		return errors.New("the node is starting")
	}
}

// ended turns errors that only mean that the node stops into none.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// SetView tells of a new view. It does not block.
func (o *Ownership) SetView(v view.View) {
	o.mu.Lock()
	defer o.mu.Unlock()
	old := *o.views.Now()
	moved := !slices.Equal(old.Settled, v.Settled) // homes are drawn from the settled
	o.views.Set(v, time.Now())
	o.census.seen(old, v)
	maps.DeleteFunc(o.silent, func(id string, _ time.Time) bool { return !v.IsAlive(id) })
	for _, id := range v.Alive {
		if !old.IsAlive(id) {
			if o.compare != nil {
				o.compare[id] = true
			}
			o.rights.due[id] = true
			signal(o.renew)
			signal(o.sweep)
		}
	}
	if moved {
		o.compare = nil
		clear(o.census.told)
		clear(o.rights.due)
		for _, id := range v.Settled {
			o.rights.due[id] = true
		}
		o.tallies.begin()
		for host := range o.rights.unconfirmed {
			if v.Home(host) == v.Self {
				delete(o.rights.unconfirmed, host)
			}
		}
		signal(o.recount)
		signal(o.sweep)
	}
	if v.Majority && !old.Majority {
		signal(o.sweep) // nothing could be done about what has come up
	}
	signal(o.check)
}

// Stopped says that this node stood still, or that its clock jumped: others may have decided about its hosts since, as
// owners and as homes. It crawls nothing, and decides nothing as a home, until it has heard of them.
func (o *Ownership) Stopped() {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.views.Begin(now) // what the homes agreed to before counts no more
	clear(o.census.told)
	for _, id := range o.views.Now().Settled {
		o.rights.due[id] = true
	}
	signal(o.renew)
	signal(o.check)
}

// Busy says that hosts are changing their owners, or must.
func (o *Ownership) Busy() bool {
	if o.queue.urgent() {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.proposals)+len(o.rights.unconfirmed) > 0 || o.tallies.counting {
		return true
	}
	for owner := range o.tallies.lent {
		if !o.views.Now().IsAlive(owner) {
			return true // its hosts are to be taken over
		}
	}
	return false
}

// Counts are the counts so far.
func (o *Ownership) Counts() Counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts
}

// Record returns the record of a host, if this node has one.
func (o *Ownership) Record(host string) (Record, bool, error) { return o.records.get(host) }

// HomeOf is the home of a host in the present view.
func (o *Ownership) HomeOf(host string) string {
	v := o.view()
	return v.Home(host)
}

// Mine says whether this node is the home of a host and its first owner, and may crawl it now: then it is the one to
// assign it.
func (o *Ownership) Mine(host string) bool {
	r, ok, err := o.records.get(host)
	if err != nil || !ok || r.Assigned {
		return false
	}
	v := o.view()
	return r.Owner == v.Self && v.Home(host) == v.Self && o.suspended(host, r, ok, time.Now()) == ""
}

// Wish asks for a host to be handed to a better peer, soon.
func (o *Ownership) Wish(host, to, reason string) {
	r, ok, err := o.records.get(host)
	if v := o.view(); err != nil || !ok || r.Owner != v.Self || !v.IsAlive(to) {
		return
	}
	o.mu.Lock()
	o.wishes[host] = wish{to, reason}
	o.mu.Unlock()
	o.queue.add(host, false)
}

func (o *Ownership) view() view.View {
	o.mu.Lock()
	defer o.mu.Unlock()
	return *o.views.Now()
}

func (o *Ownership) self() string { return o.view().Self }

// edit changes the record of a host to what next makes of it, in one step, and returns it as it is then. next says
// whether there is a change; it is called under mu.
func (o *Ownership) edit(host string, next func(r Record, ok bool) (Record, bool)) (r Record, changed bool, err error) {
	for {
		o.mu.Lock()
		old, ok, loaded := o.records.peek(host)
		if !loaded {
			o.mu.Unlock()
			if _, _, err := o.records.get(host); err != nil {
				return Record{}, false, err
			}
			continue // it may have fallen out of the cache again
		}
		r, changed = next(old, ok)
		if changed = changed && (!ok || old != r); changed {
			o.putLocked(host, old, r)
		} else {
			r = old
		}
		o.mu.Unlock()
		return r, changed, nil
	}
}

// putLocked writes a record, and keeps what is counted of records. An empty Owner removes it.
func (o *Ownership) putLocked(host string, old, r Record) {
	now, v := time.Now(), o.views.Now()
	o.records.put(host, r)
	delete(o.rumours, host)
	o.tallies.replace(host, v, old, r)
	if r.Owner == v.Self {
		o.unwitnessed[host] = r.Epoch
	}
	if r.Owner != v.Self { // what this node was about as its owner is over
		delete(o.proposals, host)
		delete(o.settling, host)
		delete(o.awaited, host)
		delete(o.wishes, host)
		delete(o.rights.unconfirmed, host)
	}
	if r.Owner != "" {
		o.census.changed(r, now)
	}
	if old.Owner != "" && r.Owner != old.Owner && r.Owner != v.Self && r.Owner != "" {
		o.queue.addLater(host, now.Add(o.cfg.TakeAfter)) // what is here of it may be nobody's copy now
	}
	if u, ok := o.rights.unconfirmed[host]; ok {
		u.record = r // this is what the home has to confirm from now on
		o.rights.unconfirmed[host] = u
	}
}

// concerned says that a node has to know the record of a host: as its owner, its home, or by its replica or its witness.
func concerned(v *view.View, r Record) bool {
	return slices.Contains([]string{r.Owner, v.Home(r.Host), v.Replica(r.Host, r.Owner), v.Witness(r.Host, r.Owner)}, v.Self)
}

// forget removes the record of a host with which this node has nothing more to do.
func (o *Ownership) forget(r Record) error {
	_, _, err := o.edit(r.Host, func(now Record, ok bool) (Record, bool) {
		v := o.views.Now()
		return Record{}, ok && now == r && !concerned(v, r)
	})
	return err
}

func (o *Ownership) warn(err error) { o.deps.Warn(err) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
