package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/assign"
	"proxima/frontier"
	"proxima/node/bell"
	"proxima/node/crawl"
	"proxima/node/lease"
	"proxima/node/member"
	"proxima/node/ownership"
	"proxima/node/peer"
	"proxima/node/placement"
	"proxima/node/quota"
	"proxima/node/relay"
	"proxima/node/runlog"
	"proxima/node/termination"
	"proxima/node/view"
	"proxima/node/wire"
)

// The tables of the store that parts of the overlay use.
const (
	tableRecords = 'r'
	tableLeases  = 'k'
	tableOutbox  = 'o'
	tableMembers = 'm'
)

// joinPatience is how long a node waits for an answer from one of member.join before it begins alone.
const joinPatience = 15 * time.Second

// overlay is the node's part in the overlay. It connects the packages that the overlay consists of.
type overlay struct {
	node      *Node
	members   *member.Members
	server    *peer.Server
	relay     *relay.Relay
	client    *peer.Client
	outbox    *peer.Outbox
	owners    *ownership.Ownership
	clock     *lease.Clock
	grantor   *lease.Grantor
	holder    *lease.Holder
	remote    *placement.Remote
	placement *placement.Placement
	rounds    *termination.Rounds
	limits    *crawl.Limits
	shares    *quota.Shares
	handler   peer.Calls                  // carries out those of peers
	secret    atomic.Pointer[peer.Secret] // in use
	self      *performance
	memo      *memo
	seeded    atomic.Bool // the seeds are on disk, here or at their owners
	ending    ending      // only setView uses it
	reminded  time.Time   // when the operator was last told what the node waits for; only remind uses it
	gossip    bell.Hush   // of trouble with the gossip, one a minute
	sent      sentHosts

	// mu guards what follows.
	mu     sync.Mutex
	view   view.View
	assign assign.View
}

// newOverlay makes all but the placement, which needs the crawl loop.
func newOverlay(n *Node, deps Deps) (_ *overlay, err error) {
	o := &overlay{node: n, clock: lease.NewClock(deps.Jump), self: newPerformance(n.id.Node), sent: newSentHosts(),
		memo: newMemo(n.frontier.Shelf(tableMembers))}
	secret, err := peer.Load(n.cfg.Peer.Secret)
	if err != nil {
		return nil, err
	}
	listener, err := deps.Listen("tcp", n.cfg.Peer.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for peers: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, listener.Close())
		}
	}()
	address := n.cfg.Peer.Advertise
	if address == "" {
		address = listener.Addr().String()
	}
	voters, err := loadVoters(n.cfg.Node.Data, n.cfg.Node.Run)
	if err != nil {
		return nil, err
	}
	if o.relay, err = o.newRelay(address); err != nil {
		return nil, err
	}
	if o.members, err = member.New(n.cfg.Member, member.Deps{
		// A member of another version would be home and grantor all the same, and the others would wait for its answers.
		Label: fmt.Sprintf("%s v%d", n.cfg.Node.Run, peer.Version),
		ID:    n.id.Node, Boot: n.id.Boot, Secrets: secret.GossipKeys(), Transport: deps.Gossip, Event: o.memberEvent,
		Voters: voters, Keep: func(b []byte) error { return keepVoters(n.cfg.Node.Data, n.cfg.Node.Run, b) },
		Known: o.memo.known(), PeerAddr: address, Location: n.atlas.own(n.cfg.Geo, address), Links: o.relay,
	}); errors.Is(err, member.ErrVoters) {
		return nil, fmt.Errorf("file %s: %w: %w", votersFile, frontier.ErrDamaged, err)
	} else if err != nil {
		return nil, err
	}
	if o.client, err = peer.NewClient(n.cfg.Peer, peer.ClientDeps{
		ID: n.id.Node, Boot: n.id.Boot, Run: n.cfg.Node.Run, Secret: secret, Addr: o.members.Addr, Dial: deps.DialPeer, Local: &o.handler,
		Told: n.told, Through: o.through,
	}); err != nil {
		return nil, err
	}
	if o.server, err = peer.NewServer(n.cfg.Peer, peer.ServerDeps{
		ID: n.id.Node, Run: n.cfg.Node.Run, Secret: secret, Listener: listener, Carried: o.relay.Calls(), Handler: &o.handler, Refused: o.logRefused,
		Known: o.members.Knows, Told: n.told, Link: o.relay.Serve,
	}); err != nil {
		return nil, err
	}
	o.secret.Store(secret)
	// Requests to web servers are signed if the configuration wants that.
	if err := n.client.SetKey(secret.SiteKeys()[0]); err != nil {
		return nil, err
	}
	return o, o.newDeciders()
}

// newDeciders makes the parts that decide about hosts, servers and the end of the crawl.
func (o *overlay) newDeciders() (err error) {
	n, f := o.node, o.node.frontier
	if o.outbox, err = peer.NewOutbox(n.cfg.Peer, peer.OutboxDeps{
		Shelf: f.Shelf(tableOutbox), Deliver: o.client.Deliver,
		Route: func(l *wire.Link) string { return o.owners.Destination(l) },
		Moved: func(r *wire.Record) {
			if err := o.owners.Moved(r); err != nil {
				n.warn(err)
			}
		},
		Gone:      func(id string) bool { return !slices.Contains(o.there().Alive, id) },
		Custodian: func(not ...string) string { v := o.there(); return v.Custodian(not...) },
		Refused:   func(_ string, _ *wire.Link, reason string) { n.loop.DropLinks("refused by a peer: "+reason, 1) },
		Aside: func(to string, links int, err error) {
			n.warn(fmt.Errorf("%d links for %s are set aside: %w", links, to, err))
		},
	}); err != nil {
		return err
	}
	o.owners = ownership.New(n.cfg.Ownership, ownership.Deps{
		Frontier: f, Peers: o.client.Calls, Outbox: o.outbox, Records: f.Shelf(tableRecords), Admit: n.policy.Refuse, Event: o.ownerEvent, Warn: n.warn,
	})
	// After a gap in time the views must end before the leases: grants after the gap must use only what is heard after it.
	o.clock.OnGap(o.members.Stopped)
	o.clock.OnGap(o.owners.Stopped)
	o.grantor = lease.NewGrantor(n.cfg.Lease, lease.GrantorDeps{
		Clock: o.clock, Boot: n.id.Boot, Rights: o.client.Rights, Shelf: f.Shelf(tableLeases).Impatient(),
		Trouble: func(err error) {
			if !errors.Is(err, frontier.ErrDiskFull) { // the holder tells what it knows of a server again
				n.warn(err)
			}
		},
	})
	o.holder = lease.NewHolder(n.cfg.Lease, lease.HolderDeps{
		Clock: o.clock, Boot: n.id.Boot, Lease: o.client.Lease, Frontier: f, Remote: func() []lease.Remote { return o.remote.UnderWay() },
		OnHeld: func(addr netip.Addr, holder string) { o.placement.LeasedTo(addr, holder) },
		Moved:  func(addr netip.Addr, m *assign.Memory) { o.logProxy("", addr, m) }, Seed: rand.Uint64(),
	})
	o.remote = placement.NewRemote(n.cfg.RemoteWait, placement.RemoteDeps{
		Self: n.id.Node, Clock: o.clock, Fetch: o.client.Fetch, FromLife: o.holder.FromLife, Enqueue: o.enqueue, Check: n.mayDial, Blocked: n.policy.BlockedAt,
		Coordinate: o.coordinate, LeasedUntil: o.holder.Until,
	})
	armed, err := o.memo.shelf.Get([]byte(keyArmed))
	if err != nil {
		return err
	}
	o.rounds = termination.New(n.cfg.Termination, termination.Deps{View: o.there, State: o.terminationState, Ask: o.client.Idle,
		Waits: func(why string) { n.runlog.Events().Info(runlog.EventWaits, runlog.KeyReason, why) },
		Ended: o.sayOver,
		Armed: string(armed) == n.cfg.Node.Run, Arm: func() { o.memo.put(keyArmed, n.cfg.Node.Run) }})
	o.limits = crawl.NewLimits(n.cfg.Crawl, func() bool {
		return f.Idle(n.operator.live.Load().Crawl.Patience)
	})
	if o.shares, err = quota.New(quota.Limits{MaxPages: n.cfg.Crawl.MaxPages, MaxBytes: n.cfg.Crawl.MaxBytes, MaxTime: n.cfg.Crawl.MaxTime}, quota.Deps{
		View: o.there, Ask: o.client.Quota, Expected: n.cfg.Termination.ExpectedNodes, Meter: meter{o.limits, o},
		Read: func(key string) ([]byte, error) { return readIfThere(quotaFile(n.cfg.Node.Data, key)) },
		Keep: func(key string, value []byte) error { return replaceFile(quotaFile(n.cfg.Node.Data, key), value) }, Warn: n.warn}); errors.Is(err, quota.ErrForm) {
		return fmt.Errorf("files %s: %w: %w", quotaFile("", "*"), frontier.ErrDamaged, err)
	} else if err != nil {
		return err
	}
	own := o.owners
	o.handler = peer.Calls{
		Deliver: ifWritable(n, own.Deliver), Store: ifWritable(n, own.Store), Claim: ifWritable(n, own.Claim), Commit: ifWritable(n, own.Commit),
		Load: trying(own.Load), Renew: own.Renew, Lease: o.grantor.Lease, Rights: o.holder.Rights, Fetch: o.remote.Fetch, Idle: o.rounds.Idle,
		Quota: o.shares.Quota, Ask: n.answerPeer,
	}
	for _, w := range n.cfg.Batch.Warnings(n.cfg.Assign.Config()) {
		n.early = append(n.early, errors.New(w))
	}
	return nil
}

// lastWords is how long a node that stops waits for its replicas.
const lastWords = 3 * time.Second

// run runs the overlay. When the context ends, it waits until the loop has ended and the replicas have its last changes: the peers take over
// this node's hosts as soon as it leaves.
func (o *overlay) run(ctx context.Context, ended <-chan struct{}) error {
	stopped := ctx
	ctx, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	g, ctx := errgroup.WithContext(ctx)
	defer o.client.Close()
	g.Go(func() error {
		defer leave()
		select {
		case <-ended:
		case <-ctx.Done():
			return nil
		}
		last, cancel := context.WithTimeout(ctx, lastWords)
		defer cancel()
		o.owners.Flush(last)
		return nil
	})
	for _, part := range []func(context.Context) error{o.clock.Run, o.runMembers, o.server.Run, o.tell} {
		g.Go(func() error { return part(ctx) })
	}
	g.Go(func() error { return o.node.followFile(ctx, peer.SecretEvery, o.followSecret) })
	begin := func() {
		for _, part := range []func(context.Context) error{
			o.owners.Run, o.outbox.Run, o.grantor.Run, o.holder.Run, o.remote.Run, o.placement.Run, o.publish, o.fallSilent, o.evacuate, o.sendStranded, o.sendToFiles, o.shares.Run,
		} {
			g.Go(func() error {
				err := part(ctx)
				if stopped.Err() != nil && errors.Is(err, frontier.ErrDiskFull) {
					return nil // it waited for room until the node was stopped
				}
				return err
			})
		}
	}
	g.Go(func() error { return o.follow(ctx, begin) })
	err := g.Wait()
	if errors.Is(err, frontier.ErrClosed) {
		err = nil // the frontier reports why it is closed
	}
	return err
}

// follow tells all parts who is there. It calls begin when they have their first view.
func (o *overlay) follow(ctx context.Context, begin func()) error {
	began := false
	patience := time.NewTimer(joinPatience)
	defer patience.Stop()
	refresh := time.NewTicker(time.Second)
	defer refresh.Stop()
	late := len(o.node.cfg.Member.Join) == 0
	for {
		changed := o.members.Changed()
		v := o.members.View()
		// One that has only its own address to join, as where all nodes have one configuration, is like one that has none.
		late = late || v.Majority && slices.Equal(o.node.cfg.Member.Join, []string{o.members.Gossip()})
		if began || late || len(v.Alive) > 1 {
			o.setView(v)
			if !began {
				began = true
				begin()
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-patience.C:
			late = true // nobody answers: it begins alone, and goes on looking
			if !began {
				o.node.warn(errors.New("none of member.join has answered: this node goes on looking. Are they running, with the same version, secret, node.run and member.faster?"))
			}
		case <-refresh.C: // coordinates change all the time
			o.remind(v, time.Now())
		}
	}
}

// setView tells the parts who is there.
func (o *overlay) setView(v member.View) {
	nodes := make([]assign.Node, 0, len(v.Alive))
	for _, p := range v.Members {
		if p.Phase != "alive" || p.Addr == "" { // what it publishes cannot be read
			continue
		}
		node := assign.Node{ID: p.ID, Location: p.Location}
		if p.Placed {
			node.Coord, node.Factors = p.Coord, p.Factors
		}
		nodes = append(nodes, node)
	}
	o.mu.Lock()
	before, fresh := o.view, o.view.Version != v.Version
	o.view, o.assign = v.View, assign.View{Nodes: nodes}
	o.mu.Unlock()
	o.placement.SetView(assign.View{Nodes: nodes}, v.Reason)
	if fresh {
		// Leases come first, so that nothing delays them: they are safe only if all nodes see a change within lease.skew.
		o.grantor.SetView(v.View)
		o.holder.SetView(v.View)
	}
	if o.ending.tells(fresh, slices.ContainsFunc(before.Alive, func(id string) bool { return slices.Contains(v.Over, id) }), time.Now()) {
		o.owners.SetView(v.View)
	}
	if !fresh {
		return
	}
	o.remote.SetAlive(v.Alive)
	for _, id := range v.GoneSince(before) {
		o.client.Forget(id)
	}
	o.outbox.Review()
	o.memo.put(keyKnown, strings.Join(o.members.Known(), "\n"))
}

// goesOnAfter is how long a node waits after the last news that the crawl is over. If it still runs then, it has work left, and goes on.
const goesOnAfter = 5 * time.Minute

// ending keeps new views from the owners while the crawl ends: the nodes leave one after the other, and their hosts stay on their disks.
type ending struct {
	heard   time.Time // when a member that was there last said that the crawl is over
	waiting bool      // the owners do not have the present view
}

// tells reports whether the owners are to be told the view now. fresh means that it is a new one, over that a member in it, or in the one
// before, has said that the crawl is over.
func (e *ending) tells(fresh, over bool, now time.Time) bool {
	if over {
		e.heard = now
	}
	e.waiting = e.waiting || fresh
	if !e.waiting || now.Sub(e.heard) < goesOnAfter {
		return false
	}
	e.waiting = false
	return true
}

// there returns the current view.
func (o *overlay) there() view.View {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.view
}

// peers returns the current view for assigners.
func (o *overlay) peers() assign.View {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.assign
}

// ifWritable is a call that writes, and is not made if nothing can be written now. A call that waited for room would keep the place of another
// one of its peer, and soon all places: this node is still asked for leases and rights.
func ifWritable[Q, R any](n *Node, call peer.Call[Q, R]) peer.Call[Q, R] {
	return trying(func(ctx context.Context, from string, req *Q) (*R, error) {
		if !n.frontier.Writable() {
			return nil, frontier.ErrDiskFull
		}
		return call(ctx, from, req)
	})
}

// trying is a call that a peer makes again if the store is full, or closed since the node ends.
func trying[Q, R any](call peer.Call[Q, R]) peer.Call[Q, R] {
	return func(ctx context.Context, from string, req *Q) (*R, error) {
		a, err := call(ctx, from, req)
		if errors.Is(err, frontier.ErrDiskFull) || errors.Is(err, frontier.ErrClosed) {
			err = fmt.Errorf("%w: %w", peer.ErrUnavailable, err)
		}
		return a, err
	}
}

// runMembers runs the members, and the relay a little longer: the members say farewell through it.
func (o *overlay) runMembers(ctx context.Context) error {
	links, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var g errgroup.Group
	g.Go(func() error { return o.relay.Run(links) })
	g.Go(func() error {
		defer end()
		return o.members.Run(ctx)
	})
	return g.Wait()
}
