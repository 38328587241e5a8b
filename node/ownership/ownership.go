package ownership

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// Ownership is the ownership of hosts at one node: parts that share its book, each of which uses those named before it. Run must be
// running for its methods to make progress. It is safe for concurrent use.
type Ownership struct {
	*book
	*census     // as a home: who owns what
	*replicator // the second copies
	*rights     // as an owner: what may be crawled
	*router     // links
	*reconciler // steps: hand-offs, take-overs, what becomes of data that is not this node's
	// recount is told when the homes have changed.
	recount chan struct{}
}

// New makes an Ownership. The first view comes by SetView.
func New(cfg Config, deps Deps) *Ownership {
	b := newBook(cfg, deps)
	o := &Ownership{book: b, recount: make(chan struct{}, 1)}
	o.census = newCensus(b)
	o.replicator = newReplicator(b)
	o.rights = newRights(b, o.census, o.replicator)
	o.router = newRouter(b, o.census, o.replicator)
	o.reconciler = newReconciler(b, o.census, o.replicator, o.rights)
	b.changed = []func(host string, r Record){o.census.changedLocked, o.replicator.changedLocked, o.rights.changedLocked, o.router.changedLocked, o.reconciler.changedLocked}
	return o
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
	moved := !old.Same(&v) // homes are drawn anew
	o.views.Set(v, time.Now())
	o.census.seen(old, v)
	maps.DeleteFunc(o.silent, func(id string, _ time.Time) bool { return !v.IsAlive(id) })
	for _, id := range v.Alive {
		if !old.IsAlive(id) {
			if o.compare != nil {
				o.compare[id] = true
			}
			o.due[id] = true
			signal(o.renew)
			signal(o.sweep)
		}
	}
	if moved {
		o.compare = nil
		clear(o.census.told)
		clear(o.due)
		for _, id := range v.Settled {
			o.due[id] = true
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
		o.due[id] = true
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

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
