package ownership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/bell"
	"proxima/node/peer"
	"proxima/node/view"
	"proxima/node/wire"
)

// Config holds the times of ownership. They depend on one another, so no config key sets one alone; member.faster divides them
// all. In proportion: an owner stops before its home gives the host away, a lost message does not stop it, and a new home hears
// from all owners before it decides.
type Config struct {
	// RenewEvery is how often an owner renews at each home. A shorter time detects deaths sooner and costs more messages.
	RenewEvery time.Duration
	// SuspendAfter is how long an owner goes on without an answer from a host's home, by its own clock. A shorter time is safer when
	// the network is cut, and suspends more hosts when it is slow.
	SuspendAfter time.Duration
	// TakeAfter is how long a home waits for a silent owner before it takes the hosts back; longer than SuspendAfter.
	TakeAfter time.Duration
	// SilentAfter is how long an owner goes on while the node with a host's replica does not answer. If the owner is the one cut
	// off, the pages of that time are downloaded again. If it is shorter than it takes to detect a death, a death suspends hosts.
	SilentAfter time.Duration
	// Collect is how long a home that is new or has just started waits for the owners' claims before it treats a host as unknown;
	// longer than RenewEvery. Links to unknown hosts wait that long.
	Collect time.Duration
	// ReplicateEvery is how long changes of a host gather before they go to its replica. Pages of that time are downloaded again if
	// a disk is lost. Links that a peer delivered wait for a quarter of it at most.
	ReplicateEvery time.Duration
	// SweepEvery is how often all replicas are compared with their hosts: one small message for a few hundred hosts.
	SweepEvery time.Duration
	// ChunkURLs is about how many URLs one message of a hand-off holds, fewer if they are long. More save round trips and take memory at
	// both ends.
	ChunkURLs int
	// CachedRecords is how many records are kept in memory, about 300 bytes each. The others are read from disk.
	CachedRecords int
}

// Default returns the values of the design.
func Default() Config {
	return Config{
		RenewEvery: 15 * time.Second, SuspendAfter: 60 * time.Second, TakeAfter: 90 * time.Second, SilentAfter: 5 * time.Second,
		Collect: 30 * time.Second, ReplicateEvery: time.Second, SweepEvery: 10 * time.Minute, ChunkURLs: 5000, CachedRecords: 65536,
	}
}

// Frontier stores the URLs.
type Frontier interface {
	Add(ctx context.Context, links []frontier.Link) ([]frontier.Verdict, error)
	SetRole(ctx context.Context, host string, h frontier.Role) error
	RoleOf(ctx context.Context, host string) (h frontier.Role, known bool, err error)
	List(ctx context.Context, after string, most int) ([]frontier.Listed, error)
	Export(ctx context.Context, host string, at frontier.Cursor, maxURLs, maxBytes int) (frontier.Chunk, frontier.Cursor, bool, error)
	Import(ctx context.Context, host string, c frontier.Chunk, origin frontier.Origin) (added int, err error)
	Remove(ctx context.Context, host string) error
	DigestOf(ctx context.Context, host string) (frontier.Digest, error)
	StateOf(ctx context.Context, host string) (*frontier.HostState, error)
	Sync(ctx context.Context) error
	Changes() map[string]*frontier.Change
	Untold(u identity.URL) bool
	Unchecked(ctx context.Context) ([]string, error)
	Active() []string
	Suspend(reasons map[string]string)
}

// Outbox keeps links for other nodes until those acknowledge them. Links are grouped by the node they are for.
type Outbox interface {
	// Add stores links.
	Add(ctx context.Context, links map[string][]*wire.Link) error
	// Keep stores links on behalf of another node, whose pages wait for that.
	Keep(ctx context.Context, from string, links map[string][]*wire.Link) error
	// Settled reports whether all links added up to a time are acknowledged, or in another node's outbox as well.
	Settled(until time.Time) bool
	// Hurry has the links that are not settled yet copied to another node's outbox at once.
	Hurry()
}

// EventKind says what happened to a host.
type EventKind string

// Events, by their words for logs.
const (
	Took      EventKind = "took"         // this node took a host over, because its owner is gone or has lost it
	HandedOff EventKind = "handed over"  // this node handed a host over
	Received  EventKind = "received"     // this node received a host
	Obeyed    EventKind = "obeyed"       // this node gave a host up, because a record with a higher epoch names another owner
	NoCopy    EventKind = "without copy" // this node took over a host of which it has no replica
	Aborted   EventKind = "aborted"      // a hand-off failed
	Lost      EventKind = "lost"         // the owner is gone, and nobody has a copy
)

// Event describes a change of owner, for the log.
type Event struct {
	Kind   EventKind
	Record Record
	Peer   string // the other node; may be empty
	Reason string
}

// Deps are the dependencies of an Ownership. The callbacks must not block.
type Deps struct {
	Frontier Frontier
	Peers    peer.Calls // Renew, Claim, Store, Load and Commit
	Outbox   Outbox
	Records  Shelf // stores the records
	// Admit returns why scope or blocklist rejects a link from another node, "" if they do not.
	Admit func(l frontier.Link) string
	// Event hears of changes of owners.
	Event func(Event)
	// Warn hears of failures that are retried.
	Warn func(error)
}

// Ownership manages the hosts of one node. Its parts share the book, and each uses only the parts before it. Its methods make
// progress only while Run is running. It is safe for concurrent use.
type Ownership struct {
	*book
	*census
	*replicator
	*rights
	*router
	*reconciler
	recount bell.Bell // wakes runRecounts
}

// New makes an Ownership. It needs a first view (SetView).
func New(cfg Config, deps Deps) *Ownership {
	b := newBook(cfg, deps)
	o := &Ownership{book: b, recount: bell.New()}
	o.census = newCensus(b)
	o.replicator = newReplicator(b, o.census)
	o.rights = newRights(b, o.census, o.replicator)
	o.router = newRouter(b, o.census, o.replicator)
	o.reconciler = newReconciler(b, o.census, o.replicator, o.rights)
	b.changedLocked = o.changedLocked
	return o
}

// changedLocked makes all parts agree with a record that has changed.
func (o *Ownership) changedLocked(host string, old, r Record) {
	v, now := o.views.Now(), time.Now()
	o.tallies.replace(host, v, old, r)
	delete(o.rumours, host)
	delete(o.missing, host)
	if r.Owner != "" {
		o.recent[host] = now
		o.expectLocked(r.Owner, now)
	}
	if r.Owner == v.Self {
		o.untold[host] = r.Epoch
		if u, ok := o.unconfirmed[host]; ok {
			o.unconfirmed[host] = claimed{r, u.handed}
		}
		return
	}
	// Whatever this node was doing as the owner is over.
	delete(o.proposals, host)
	delete(o.awaited, host)
	delete(o.unconfirmed, host)
	delete(o.wishes, host)
	if old.Owner != "" && r.Owner != old.Owner && r.Owner != "" {
		o.queue.addLater(host, now.Add(o.cfg.TakeAfter)) // a copy here may not be needed any more
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

// ended drops errors that come from the end of the context.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// SetView installs a new view. It does not block.
func (o *Ownership) SetView(v view.View) {
	o.mu.Lock()
	defer o.mu.Unlock()
	old := *o.views.Now()
	moved := !old.Same(&v) // hosts have new homes
	o.views.Set(v, time.Now())
	o.census.noteLeftLocked(old, v)
	maps.DeleteFunc(o.silent, func(id string, _ *silence) bool { return !v.IsAlive(id) })
	maps.DeleteFunc(o.due, func(id string, _ bool) bool { return !v.IsAlive(id) })
	for _, id := range v.Alive {
		if !old.IsAlive(id) {
			if o.compare != nil {
				o.compare[id] = true
			}
			o.due[id] = true
			o.renew.Ring()
			o.sweep.Ring()
		}
	}
	if moved {
		o.compare = nil
		clear(o.census.told) // so this node renews with all
		o.tallies = newTallies()
		maps.DeleteFunc(o.rights.unconfirmed, func(host string, _ claimed) bool { return v.Home(host) == v.Self })
		o.recount.Ring()
		o.sweep.Ring()
	}
	if v.Majority && !old.Majority {
		o.stream.stopped(time.Now())      // no replica could answer
		o.sweep.Ring()                    // sweeps without a majority did nothing
		o.census.excuseLocked(time.Now()) // this node has heard of nobody, and others were the homes of its hosts
	}
	o.check.Ring()
}

// Stopped tells that this node was frozen, or that its clock jumped. Others may have decided about its hosts meanwhile, so it
// crawls nothing, and decides nothing as a home, until it has heard from them.
func (o *Ownership) Stopped() {
	now := time.Now()
	o.stream.stopped(now)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.silent {
		q.since = now
	}
	o.views.Begin(now) // earlier answers of homes no longer count
	clear(o.census.told)
	o.census.excuseLocked(now.Add(o.cfg.Collect - o.cfg.TakeAfter)) // no owner could renew here meanwhile
	o.renew.Ring()
	o.check.Ring()
}

// Busy reports whether hosts are changing owners, or must.
func (o *Ownership) Busy() bool {
	if o.queue.anyUrgent() {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.proposals)+len(o.rights.unconfirmed) > 0 || o.tallies.counting {
		return true
	}
	for owner, has := range o.tallies.byOwner {
		if !o.views.Now().IsAlive(owner) || o.census.said[owner] != has {
			return true // its hosts must be taken over, or it may have lost some
		}
	}
	return false
}

// Mine reports whether this node may assign a host: it is the home, owns the host without an assignment, and may crawl it now.
func (o *Ownership) Mine(host string) bool {
	r, err := o.records.get(host)
	if err != nil || r.Assigned {
		return false
	}
	v := o.view()
	return r.Owner == v.Self && v.Home(host) == v.Self && o.suspended(host, r, time.Now()) == ""
}
