package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sync/errgroup"

	"proxima/assign"
	"proxima/fetch/sign"
	"proxima/frontier"
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

// Tables of the store that the rooms of the overlay use.
const (
	tableRecords = 'r'
	tableLeases  = 'k'
	tableOutbox  = 'o'
	tableMembers = 'm'
	tableQuota   = 'q'
)

// joinPatience is how long a node that is told whom to join waits for one of them before it begins alone.
const joinPatience = 15 * time.Second

// overlay is the node's part in the overlay: its rooms, and what connects them.
type overlay struct {
	node      *Node
	cfg       Config
	atlas     *atlas
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
	handler   handler
	secret    atomic.Pointer[peer.Secret]
	stopped   chan struct{} // closed when the node is stopped: who waits for room in the outbox goes on

	reminded time.Time // when a person was last told what the node waits for; of follow
	ending   bool      // members have said that the crawl is over; of setView

	// mu guards what follows.
	mu     sync.Mutex
	view   member.View
	assign assign.View
	own    *assign.Own
	seeded bool
	// grumbled is when a person heard of trouble with the gossip last.
	grumbled time.Time
	learnt   time.Time     // when own learnt last, or was made to doubt
	mean     time.Duration // moving average of a download
}

// overlayDeps are what an overlay takes from the world.
type overlayDeps struct {
	// Listen accepts peers; nil listens on the machine's network.
	Listen func(network, address string) (net.Listener, error)
	// DialPeer connects to peers; nil is the machine's network.
	DialPeer func(ctx context.Context, network, address string) (net.Conn, error)
	// Gossip carries the membership; nil is UDP and TCP of the machine.
	Gossip memberlist.Transport
}

// newOverlay makes the rooms. The frontier is open, the loop is not made yet.
func newOverlay(n *Node, deps overlayDeps) (_ *overlay, err error) {
	o := &overlay{node: n, cfg: n.cfg, stopped: make(chan struct{}), clock: lease.NewClock(nil),
		own: assign.NewOwn(assign.Factors{})}
	secret, err := peer.Load(n.cfg.Peer.Secret)
	if err != nil {
		return nil, err
	}
	o.secret.Store(secret)
	keys, err := secret.GossipKeys()
	if err != nil {
		return nil, err
	}
	if err := o.signWith(secret); err != nil {
		return nil, err
	}
	if o.atlas, err = openAtlas(n.cfg.Geo.Database); err != nil {
		return nil, err
	}
	listen := deps.Listen
	if listen == nil {
		listen = net.Listen
	}
	listener, err := listen("tcp", n.cfg.Peer.Listen)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for peers: %w", err), o.atlas.close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, listener.Close(), o.atlas.close())
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
		ID: n.id.Node, Boot: n.id.Boot, Run: n.cfg.Node.Run, Secrets: keys, Transport: deps.Gossip, Event: o.memberEvent,
		Voters: voters, Keep: func(b []byte) error { return keepVoters(n.cfg.Node.Data, n.cfg.Node.Run, b) },
		Known: known(n.frontier.Shelf(tableMembers)), PeerAddr: address, Location: o.atlas.own(n.cfg.Geo, address), Links: o.relay,
	}); err != nil {
		return nil, err
	}
	if o.client, err = peer.NewClient(n.cfg.Peer, peer.ClientDeps{
		ID: n.id.Node, Boot: n.id.Boot, Run: n.cfg.Node.Run, Secret: secret, Addr: o.members.Addr, Dial: deps.DialPeer, Local: &o.handler,
		Told: n.told, Through: o.through,
	}); err != nil {
		return nil, err
	}
	if o.server, err = peer.NewServer(n.cfg.Peer, peer.ServerDeps{
		ID: n.id.Node, Run: n.cfg.Node.Run, Secret: secret, Listener: o.relay.Listener(listener), Handler: &o.handler, Refused: o.refused,
		Known: o.members.Knows, Told: n.told, Link: o.relay.Serve,
	}); err != nil {
		return nil, err
	}
	return o, o.newRooms()
}

// newRooms makes the rooms that decide.
func (o *overlay) newRooms() (err error) {
	n, f := o.node, o.node.frontier
	if o.outbox, err = peer.NewOutbox(n.cfg.Peer, peer.OutboxDeps{
		Shelf: f.Shelf(tableOutbox), Deliver: o.client.Deliver,
		Route: func(l *wire.Link) string { return o.owners.Destination(l) },
		Moved: func(r *wire.Record) {
			if err := o.owners.Moved(r); err != nil {
				n.warn(err)
			}
		},
		Gone: func(id string) bool {
			v := o.there()
			return !v.IsAlive(id)
		},
		Custodian: o.custodian,
		Refused:   func(_ string, _ *wire.Link, reason string) { n.loop.DropLinks("refused by a peer: "+reason, 1) },
		Aside: func(to string, links int, err error) {
			n.warn(fmt.Errorf("%d links for %s are set aside: %w", links, to, err))
		},
	}); err != nil {
		return err
	}
	o.owners = ownership.New(n.cfg.Ownership, ownership.Deps{
		Frontier: f, Peers: o.client, Outbox: o.outbox, Records: f.Shelf(tableRecords), Admit: n.policy.Refuse, Event: o.ownerEvent, Warn: n.warn,
	})
	// After a gap in time the views end before the leases: what is granted from then on is by what is heard from then on.
	o.clock.OnGap(o.members.Stopped)
	o.clock.OnGap(o.owners.Stopped)
	o.grantor = lease.NewGrantor(n.cfg.Lease, lease.GrantorDeps{
		Clock: o.clock, Boot: n.id.Boot, Peers: o.client, Shelf: f.Shelf(tableLeases), Trouble: n.warn,
	})
	o.holder = lease.NewHolder(n.cfg.Lease, lease.HolderDeps{
		Clock: o.clock, Boot: n.id.Boot, Peers: o.client, Frontier: f, Remote: func() []lease.Remote { return o.remote.UnderWay() },
		OnHeld: func(addr netip.Addr, holder string) { o.placement.LeasedTo(addr, holder) },
		Moved:  func(addr netip.Addr, m *assign.Memory) { o.proxyMoved("", addr, m) }, Seed: rand.Uint64(),
	})
	o.remote = placement.NewRemote(n.cfg.Remote, placement.RemoteDeps{
		Self: n.id.Node, Clock: o.clock, Peers: o.client, FromLife: o.holder.FromLife, Enqueue: o.enqueue, Check: o.check, Blocked: n.policy.BlockedAt,
		Coordinate: o.coordinate, LeasedUntil: o.holder.Until,
	})
	members := f.Shelf(tableMembers)
	armed, err := members.Get([]byte(keyArmed))
	if err != nil {
		return err
	}
	o.rounds = termination.New(n.cfg.Termination, termination.Deps{View: o.there, State: o.terminationState, Ask: o.client.Idle,
		Waits: func(why string) { n.runlog.Events().Info(runlog.EventWaits, runlog.KeyReason, why) },
		Ended: func(why string) {
			n.runlog.Events().Info(runlog.EventOver, runlog.KeyReason, why)
			if err := o.members.Over(); err != nil {
				n.warn(err)
			}
		},
		Armed: string(armed) == n.cfg.Node.Run, Arm: func() {
			if err := members.Put([]byte(keyArmed), []byte(n.cfg.Node.Run)); err != nil {
				n.warn(fmt.Errorf("remember that all nodes were there: %w", err))
			}
		}})
	quotas := f.Shelf(tableQuota)
	o.limits = crawl.NewLimits(n.cfg.Crawl, func() bool {
		idle, _ := f.Idle(n.live.Load().Crawl.Patience)
		return idle
	})
	if o.shares, err = quota.New(limitsOf(n.cfg), quota.Deps{View: o.there, Ask: o.client.Quota, Expected: n.cfg.Termination.ExpectedNodes, Meter: meter{o.limits, o},
		Read: func(key string) ([]byte, error) { return quotas.Get([]byte(key)) },
		Keep: func(ctx context.Context, key string, value []byte) error {
			return errors.Join(quotas.Put([]byte(key), value), f.Sync(ctx))
		}}); err != nil {
		return err
	}
	o.handler = handler{o.owners, o.grantor, o.holder, o.remote, o.rounds, o.shares, asked{n}}
	for _, w := range n.cfg.Batch.Warnings(n.cfg.Assign.Config()) {
		n.warn(errors.New(w))
	}
	return nil
}

// lastWords is how long the changes of a node that stops may take to their second copies.
const lastWords = 3 * time.Second

// run runs all rooms, beyond the end of the context until the loop has ended and what it did last has been told to the
// second copies: the peers take this node's hosts as soon as it leaves.
func (o *overlay) run(ctx context.Context, ended <-chan struct{}) error {
	context.AfterFunc(ctx, func() { close(o.stopped) })
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
	first := make(chan struct{})
	for _, part := range []func(context.Context) error{o.clock.Run, o.runMembers, o.server.Run} {
		g.Go(func() error { return part(ctx) })
	}
	g.Go(func() error { return o.follow(ctx, first) })
	g.Go(func() error { return o.watchSecret(ctx) })
	g.Go(func() error { return o.tell(ctx) })
	g.Go(func() error {
		select {
		case <-first:
		case <-ctx.Done():
			return nil
		}
		for _, part := range []func(context.Context) error{
			o.owners.Run, o.outbox.Run, o.grantor.Run, o.holder.Run, o.remote.Run, o.placement.Run, o.publish, o.sendToFiles, o.shareLimits,
		} {
			g.Go(func() error { return part(ctx) })
		}
		return nil
	})
	err := g.Wait()
	if errors.Is(err, frontier.ErrClosed) {
		err = nil // why it is closed is the frontier's to say
	}
	return errors.Join(err, o.atlas.close())
}

// follow tells the rooms who is there. first is closed when they have their first view.
func (o *overlay) follow(ctx context.Context, first chan struct{}) error {
	began := false
	patience := time.NewTimer(joinPatience)
	defer patience.Stop()
	refresh := time.NewTicker(time.Second)
	defer refresh.Stop()
	late := len(o.cfg.Member.Join) == 0
	for {
		changed := o.members.Changed()
		v := o.members.View()
		if began || late || len(v.Peers) > 1 {
			if err := o.setView(v); err != nil {
				return err
			}
			if !began {
				began = true
				close(first)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-patience.C:
			late = true // nobody answers: it begins alone, and they come when they come
			if !began {
				o.node.warn(errors.New("none of member.join has answered: this node goes on looking. Are they running, and is the secret theirs?"))
			}
		case <-refresh.C: // coordinates move all the time
			o.remind(v, time.Now())
		}
	}
}

// setView hands a view to all rooms.
func (o *overlay) setView(v member.View) error {
	nodes := make([]assign.Node, 0, len(v.Peers))
	for _, p := range v.Peers {
		if p.Addr == "" {
			continue // it publishes nothing that can be read
		}
		node := assign.Node{ID: p.ID, Location: p.Location, Self: p.ID == v.Self}
		if p.Placed {
			node.Coord, node.Factors = p.Coord, p.Factors
		}
		nodes = append(nodes, node)
	}
	o.mu.Lock()
	fresh := o.view.Version != v.Version || o.view.Self == ""
	was := o.view.Alive
	o.view, o.assign = v, assign.View{Nodes: nodes}
	o.mu.Unlock()
	paused := ""
	if !v.Majority {
		paused = v.Reason
	}
	o.placement.SetView(assign.View{Nodes: slices.Clone(nodes)}, paused)
	if !fresh {
		return nil
	}
	// Leases first, as no other room may hold them up: they are safe while all nodes see a change within lease.skew.
	o.grantor.SetView(v.View)
	o.holder.SetView(v.View)
	// When the crawl is over all leave, one after the other, and their hosts stay on their disks.
	o.ending = o.ending || slices.ContainsFunc(was, func(id string) bool { return slices.Contains(v.Over, id) })
	if !o.ending {
		o.owners.SetView(v.View)
	}
	o.remote.SetAlive(v.Alive)
	for _, id := range was {
		if !v.IsAlive(id) {
			o.client.Forget(id)
		}
	}
	o.outbox.Review()
	return remember(o.node.frontier.Shelf(tableMembers), o.members.Known())
}

// keyKnown is where the gossip addresses of the members are kept for the next life, one a line.
const keyKnown = "known"

// keyArmed is where it is kept that all expected nodes of a run were there.
const keyArmed = "armed"

func known(s *frontier.Shelf) []string {
	b, err := s.Get([]byte(keyKnown))
	if err != nil || len(b) == 0 {
		return nil // then Config.Join must do
	}
	return strings.Split(string(b), "\n")
}

func remember(s *frontier.Shelf, addrs []string) error {
	return s.Put([]byte(keyKnown), []byte(strings.Join(addrs, "\n")))
}

// custodian is a peer that is there, and none of those: the next one after the first of them.
func (o *overlay) custodian(not ...string) (id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.Index(o.view.Alive, not[0])
	for range o.view.Alive {
		i = (i + 1) % len(o.view.Alive)
		if id := o.view.Alive[i]; id != o.node.id.Node && !slices.Contains(not, id) {
			return id
		}
	}
	return ""
}

// there is who is there.
func (o *overlay) there() view.View {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.view.View
}

func (o *overlay) peers() assign.View {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.assign
}

// handler answers peers: each call goes to the room that has it.
type handler struct {
	*ownership.Ownership
	*lease.Grantor
	*lease.Holder
	*placement.Remote
	*termination.Rounds
	*quota.Shares
	asked
}

// Keygen writes a new cluster secret to a file that only its owner can read.
func Keygen(path string) error { return peer.Keygen(path) }

// Directory is the directory of the keys that sign an overlay's requests, by the secret in a file.
func Directory(path string) ([]byte, error) {
	secret, err := peer.Load(path)
	if err != nil {
		return nil, err
	}
	keys, err := secret.SiteKeys()
	if err != nil {
		return nil, err
	}
	return sign.Directory(keys)
}

// Rotate takes a secret file one step further on the way to a new secret, and says what is to be done next.
func Rotate(path string) (next string, err error) { return peer.Rotate(path) }
