package home

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/frontier"
	"proxima/node/wire"
)

// Frontier is where the URLs are.
type Frontier interface {
	Add(ctx context.Context, links []frontier.Link) ([]frontier.Verdict, error)
	SetHold(ctx context.Context, host string, h frontier.Hold) error
	HoldOf(ctx context.Context, host string) (h frontier.Hold, known bool, err error)
	Export(ctx context.Context, host string, at frontier.Cursor, maxURLs, maxBytes int) (c frontier.Chunk, next frontier.Cursor, end bool, err error)
	Import(ctx context.Context, host string, c frontier.Chunk, origin frontier.Origin) (added int, err error)
	Remove(ctx context.Context, host string) error
	DigestOf(ctx context.Context, host string) (frontier.Digest, error)
	StateOf(ctx context.Context, host string) (*frontier.HostState, error)
	Review()
}

// Peers are the other nodes. A call to one that cannot be reached is an error.
type Peers interface {
	Renew(ctx context.Context, to string, req *wire.RenewRequest) (*wire.RenewResponse, error)
	Claim(ctx context.Context, to string, req *wire.ClaimRequest) (*wire.ClaimResponse, error)
	Transfer(ctx context.Context, to string, req *wire.TransferRequest) (*wire.TransferResponse, error)
	Backup(ctx context.Context, to string, req *wire.BackupRequest) (*wire.BackupResponse, error)
}

// Outbox keeps links for other nodes until they are answered.
type Outbox interface {
	Add(ctx context.Context, to string, links []*wire.Link) error
}

// EventKind says what happened to a host.
type EventKind uint8

// Events.
const (
	Took      EventKind = iota // the owner is dead or has lost the host: it is crawled here now
	HandedOff                  // the host has a new owner
	Received                   // the host came here
	Obeyed                     // a record with a higher epoch came: the host was given up here
	NoCopy                     // a host was taken over of which there is no second copy
	Aborted                    // a hand-off did not succeed
)

// Event tells of a change of owner, for the log.
type Event struct {
	Kind   EventKind
	Record Record
	// Peer is the other node.
	Peer   string
	Reason string
}

// Deps are what Home works with.
type Deps struct {
	Frontier Frontier
	Peers    Peers
	Outbox   Outbox
	// Records keeps them.
	Records Shelf
	// Admit says why a link from elsewhere is not wanted, "" if it is: scope and blocklist.
	Admit func(l frontier.Link) string
	// Event is told of changes of owners. It must not block.
	Event func(Event)
	// Warn is told of what went wrong and is tried again.
	Warn func(error)
}

// Home is the ownership of hosts at one node. Run must be running for its methods to make progress. Safe for
// concurrent use.
type Home struct {
	cfg  Config
	deps Deps

	locks *hostLocks
	// gate is held for reading from when a link is routed until it is on disk, and for writing while a host is frozen:
	// so no link goes into a host that is being shipped. It is taken before mu.
	gate sync.RWMutex

	// mu guards what follows.
	mu      sync.Mutex
	horizon horizon
	changed time.Time // when the settled members changed last
	records *records
	leaving map[string]string // hosts that are being shipped, and where to
	fences  fences
	wishes  map[string]*wire.Move // by host: moves to better peers, to be granted by the hosts' homes
	arrive  map[string]*arrival   // hosts that come here
	counts  Counts
	backups *backups
	jobs    map[string]job // by host: what has to be done about it
	// compare are the nodes with which second copies are to be compared: those that are back. Nil: with all.
	compare map[string]bool

	ready chan struct{} // closed when what an earlier life left is known
	renew chan struct{} // something is to be confirmed at once
	sweep chan struct{} // all hosts are to be looked at
	mend  chan struct{} // jobs has something
	flush chan chan struct{}
}

// Counts are what this room did, for the status and for the end of a crawl.
type Counts struct {
	Hosts, HandedOff, Received, Taken, Obeyed uint64
	// LinksRouted went to other nodes, LinksDelivered came from them.
	LinksRouted, LinksDelivered uint64
}

// New makes a Home and reads what an earlier life has left undone. The first view comes by SetView.
func New(cfg Config, deps Deps) (*Home, error) {
	h := &Home{
		cfg: cfg, deps: deps, locks: newHostLocks(),
		records: newRecords(deps.Records, cfg.CachedRecords),
		leaving: make(map[string]string),
		fences:  newFences(),
		wishes:  make(map[string]*wire.Move),
		arrive:  make(map[string]*arrival),
		jobs:    make(map[string]job),
		ready:   make(chan struct{}),
		renew:   make(chan struct{}, 1),
		sweep:   make(chan struct{}, 1),
		mend:    make(chan struct{}, 1),
		flush:   make(chan chan struct{}),
	}
	h.backups = newBackups()
	return h, nil
}

// Run works until the context ends.
func (h *Home) Run(ctx context.Context) error {
	if err := h.recover(ctx); err != nil {
		return ended(ctx, fmt.Errorf("take up hosts of an earlier life: %w", err))
	}
	close(h.ready)
	g, ctx := errgroup.WithContext(ctx)
	for _, part := range []func(context.Context) error{h.runRenewals, h.runReviews, h.runTakeovers, h.runBackups, h.runSweeps, h.runJobs} {
		g.Go(func() error { return ended(ctx, part(ctx)) })
	}
	return g.Wait()
}

// begun is an error until it is known what an earlier life left: until then nothing is answered.
func (h *Home) begun() error {
	select {
	case <-h.ready:
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

// SetView tells of a new view.
func (h *Home) SetView(v View) error {
	now := time.Now()
	h.mu.Lock()
	old := h.horizon.now
	moved := !h.horizon.known || !slices.Equal(old.Settled, v.Settled) // homes are drawn from the settled
	h.horizon.set(v, now, max(h.cfg.Collect, h.cfg.FenceAfter))
	h.fences.seen(old, v, now)
	sweep := moved
	for _, id := range v.Alive {
		if !old.alive(id) {
			sweep = true
			if h.compare != nil {
				h.compare[id] = true
			}
		}
	}
	var err error
	if moved {
		h.changed, h.compare = now, nil
		err = h.recount()
		h.relieve()
	}
	h.mu.Unlock()
	h.deps.Frontier.Review()
	if moved {
		signal(h.renew)
	}
	if sweep {
		signal(h.sweep)
	}
	return err
}

// relieve ends what waits for the word of a home that this node itself is now. It needs mu held.
func (h *Home) relieve() {
	v := &h.horizon.now
	for host := range h.fences.pending {
		if v.homeOf(host) == v.Self {
			delete(h.fences.pending, host)
		}
	}
	for host, m := range h.wishes {
		if v.homeOf(host) == v.Self {
			delete(h.wishes, host)
			h.list(host, job{kind: move, to: m.GetTo(), reason: m.GetReason()})
		}
	}
}

// String is the word for the event in logs.
func (k EventKind) String() string {
	return [...]string{Took: "took", HandedOff: "handed over", Received: "received", Obeyed: "obeyed", NoCopy: "without copy",
		Aborted: "aborted"}[k]
}

// Busy says that hosts are changing their owners, or must.
func (h *Home) Busy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.leaving)+len(h.arrive)+len(h.wishes)+len(h.fences.pending) > 0 {
		return true
	}
	for owner := range h.fences.lent {
		if !h.horizon.now.alive(owner) {
			return true // its hosts are to be taken over
		}
	}
	for _, j := range h.jobs {
		if j.kind != resync { // a second copy is worth nothing where the crawl ends
			return true
		}
	}
	return false
}

// Counts are the counts so far.
func (h *Home) Counts() Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts
}

// Record returns the record of a host, if this node has one.
func (h *Home) Record(host string) (Record, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.records.get(host)
}

// HomeOf is the home of a host in the present view.
func (h *Home) HomeOf(host string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.horizon.now.homeOf(host)
}

// Mine says whether this node is the home of a host and its first owner, and may crawl it now: then it is the one to
// assign it.
func (h *Home) Mine(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := &h.horizon.now
	r, ok, err := h.records.get(host)
	_, leaving := h.leaving[host]
	return err == nil && ok && r.Owner == v.Self && !r.Assigned && !leaving && v.homeOf(host) == v.Self && h.wait(host, time.Now()) == ""
}

// put writes a record and keeps the counts of the fence. It needs mu held.
func (h *Home) put(r Record) error {
	old, had, err := h.records.get(r.Host)
	if err != nil {
		return err
	}
	if had && old == r {
		return nil
	}
	if err := h.records.put(r); err != nil {
		return err
	}
	v := &h.horizon.now
	home := v.homeOf(r.Host)
	if had {
		h.fences.count(v.Self, home, old, -1)
	}
	if _, ok := h.fences.lent[r.Owner]; !ok {
		h.fences.heard[r.Owner] = time.Now() // from now on it is expected to renew here
	}
	h.fences.count(v.Self, home, r, 1)
	h.fences.changed(r, time.Now())
	if _, ok := h.fences.pending[r.Host]; ok && r.Owner == v.Self {
		h.fences.pending[r.Host] = r // this is what the home has to confirm from now on
	}
	return nil
}

// drop forgets a record. It needs mu held.
func (h *Home) drop(r Record) error {
	if err := h.deps.Records.Delete([]byte(r.Host)); err != nil {
		return fmt.Errorf("drop record of %s: %w", r.Host, err)
	}
	delete(h.records.cache, r.Host)
	h.fences.count(h.horizon.now.Self, h.horizon.now.homeOf(r.Host), r, -1)
	return nil
}

// recount counts all records anew, for other homes. It needs mu held.
func (h *Home) recount() error {
	before := h.fences.reset()
	v := &h.horizon.now
	err := h.records.each(func(r Record) error {
		h.fences.count(v.Self, v.homeOf(r.Host), r, 1)
		return nil
	})
	for owner := range h.fences.lent {
		if _, ok := before[owner]; !ok {
			h.fences.heard[owner] = time.Now() // it has not been asked to renew here before
		}
	}
	return err
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
