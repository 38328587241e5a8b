package relay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"proxima/node/bell"
	"proxima/node/view"
)

const (
	// Idle is how long an unused link is kept, Silence how long one without a sign of life. There are three pings in
	// Silence.
	Idle, Silence = 2 * time.Minute, 12 * time.Second
	// Backoff is how long a member is not dialled again after a failure.
	Backoff = 3 * time.Second
	// dialTime bounds a dial, and the other end's first message.
	dialTime = 5 * time.Second

	// queued bounds the frames that wait for one link. A member may have rate packets a second carried by this node,
	// and burst at once; an overlay of a hundred nodes needs ten.
	queued      = 64
	rate, burst = 500.0, 1000.0
	// mostLinks bounds the links, mostCalls the connections carried at once, mostOf those of one member.
	mostLinks, mostCalls, mostOf = 512, 256, 64
	// mostAnswers bounds the connections that this node makes at once at the request of relays.
	mostAnswers = 64
)

// Deps is what a relay needs from its node.
type Deps struct {
	ID string
	// Connect dials a member's port for peers, and returns once both ends have proved who they are.
	Connect func(ctx context.Context, id string) (net.Conn, error)
	// Way returns how to reach a member, by what it publishes, and whether it is alive.
	Way func(id string) (way view.Way, alive bool)
	// Near returns the other live members, nearest first.
	Near func() []Neighbour
	// Publish tells the members how to reach this node. It does not block.
	Publish func(view.Way)
	// Knock sends a packet to a member's gossip port, bypassing links.
	Knock func(id string, packet []byte)
	// First is how this node is reached until others have been asked. With Forced, nobody is asked.
	First  view.Reach
	Forced bool
}

// Neighbour is a live member, how it is reached, and the expected round trip to it in ms.
type Neighbour struct {
	ID    string
	Reach view.Reach
	Ms    float64
}

func (n Neighbour) outbound() bool { return n.Reach == view.Outbound }

// Relay is a node's part in reaching other nodes and being reached. New makes it, Run runs it. It is safe for
// concurrent use.
type Relay struct {
	deps    Deps
	self    id
	packets chan *memberlist.Packet
	streams chan net.Conn   // of the gossip
	calls   chan net.Conn   // of peers
	poked   bell.Bell       // a link came or went, or found has changed
	ctx     context.Context // ends under mu, so that nothing begins after it
	stop    context.CancelFunc
	work    sync.WaitGroup
	answers chan struct{}
	turn    atomic.Uint32
	way     atomic.Pointer[view.Way]
	found   atomic.Int32 // the view.Reach that was found out, or unknown
	count   struct{ packets, dropped, calls, refused atomic.Uint64 }

	// mu guards what follows.
	mu      sync.Mutex
	links   map[string]*link
	waiting map[id]chan net.Conn // for the answers to calls, by token
	carried map[string]int       // carried connections by member
	all     int                  // carried connections
	checks  *round
	detours map[string]time.Time // when one was last tried, by member
}

// Status is the state of a relay.
type Status struct {
	// Reach is how the node is reached: "direct", "streams" or "outbound". Relays are its relays if it is outbound.
	Reach  string   `json:"reach"`
	Relays []string `json:"relays,omitempty"`
	// Links counts open links. Packets and Calls were carried for others, Dropped and Refused were not.
	Links   int    `json:"links"`
	Packets uint64 `json:"packets_carried"`
	Dropped uint64 `json:"packets_dropped"`
	Calls   uint64 `json:"calls_carried"`
	Refused uint64 `json:"calls_refused"`
}

// New makes a relay without links.
func New(deps Deps) (*Relay, error) {
	self, err := parseID(deps.ID)
	if err != nil {
		return nil, err
	}
	r := &Relay{deps: deps, self: self, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), calls: make(chan net.Conn),
		poked: bell.New(), answers: make(chan struct{}, mostAnswers), links: map[string]*link{},
		waiting: map[id]chan net.Conn{}, carried: map[string]int{}, detours: map[string]time.Time{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.way.Store(&view.Way{Reach: deps.First})
	r.found.Store(int32(deps.First))
	if !deps.Forced {
		r.found.Store(unknown)
	}
	return r, nil
}

// Run keeps the links that this node needs until ctx ends, then closes all.
func (r *Relay) Run(ctx context.Context) error {
	defer r.work.Wait()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stop()
	}()
	r.deps.Publish(*r.way.Load())
	var parts sync.WaitGroup
	if !r.deps.Forced {
		parts.Go(func() { r.explore(ctx) }) // it waits for answers, which must not hold up the relays
	}
	parts.Go(func() { r.watch(ctx) })
	parts.Wait()
	return nil
}

// Status returns the present state.
func (r *Relay) Status() Status {
	way := r.way.Load()
	s := Status{Reach: way.Reach.String(), Relays: way.Relays, Packets: r.count.packets.Load(), Dropped: r.count.dropped.Load(),
		Calls: r.count.calls.Load(), Refused: r.count.refused.Load()}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		if l.stands() {
			s.Links++
		}
	}
	return s
}

// Packets returns the gossip packets that came by links.
func (r *Relay) Packets() <-chan *memberlist.Packet { return r.packets }

// Streams returns the gossip streams that were carried to this node, Calls the calls of peers.
func (r *Relay) Streams() <-chan net.Conn { return r.streams }
func (r *Relay) Calls() <-chan net.Conn   { return r.calls }

// begin runs f in a goroutine, unless the relay has ended.
func (r *Relay) begin(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return false
	}
	r.work.Go(f)
	return true
}

// standing returns the open link with a member, nil if there is none.
func (r *Relay) standing(peer string) *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.links[peer]; l != nil && l.stands() {
		return l
	}
	return nil
}

// open returns the link with a member, dialling it if there is none. It returns nil if it may not dial now.
func (r *Relay) open(peer string) *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.links[peer]; l != nil {
		if l.ctx.Err() != nil {
			return nil // it could not be dialled a moment ago
		}
		return l
	}
	if r.ctx.Err() != nil || peer == r.deps.ID || len(r.links) >= mostLinks {
		return nil
	}
	l := newLink(r.ctx, peer)
	r.links[peer] = l
	r.work.Go(func() {
		defer r.drop(l)
		ctx, cancel := context.WithTimeout(r.ctx, dialTime)
		conn, err := r.connect(ctx, peer, hello{role: roleLink})
		if cancel(); err != nil {
			l.end()
			_ = bell.Sleep(r.ctx, Backoff)
			return
		}
		r.poked.Ring()
		l.run(conn, true, r.take)
	})
	return l
}

// drop removes a link that has ended.
func (r *Relay) drop(l *link) {
	r.mu.Lock()
	if r.links[l.peer] == l {
		delete(r.links, l.peer)
	}
	r.mu.Unlock()
	r.poked.Ring()
}

// connect dials a member and says hello.
func (r *Relay) connect(ctx context.Context, peer string, h hello) (net.Conn, error) {
	conn, err := r.deps.Connect(ctx, peer)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(dialTime)) // if this fails, so does the write
	if _, err := conn.Write(h.append(nil)); err != nil {
		return nil, errors.Join(fmt.Errorf("say hello: %w", err), conn.Close())
	}
	_ = conn.SetDeadline(time.Time{}) // its user sets its own
	return conn, nil
}

// Serve handles a connection that a member made by Connect. It does not block.
func (r *Relay) Serve(conn net.Conn, peer string) {
	if !r.begin(func() { r.serve(conn, peer) }) {
		conn.Close() //nolint:errcheck // the relay has ended
	}
}

func (r *Relay) serve(conn net.Conn, peer string) {
	_ = conn.SetDeadline(time.Now().Add(dialTime)) // if this fails, so does the read
	h, err := readHello(conn)
	if err != nil {
		conn.Close() //nolint:errcheck // it is unwanted
		return
	}
	_ = conn.SetDeadline(time.Time{})
	switch h.role {
	case roleLink:
		r.accept(conn, peer)
		return
	case roleCall:
		r.carry(conn, peer, h)
		return
	case roleAnswer:
		if r.answered(h.id, conn) {
			return
		}
	case roleKnock:
		r.knocked(h.id, func(q *round) { q.tcp[peer] = true })
	}
	conn.Close() //nolint:errcheck // it has served its purpose
}

// accept serves a link that a member has dialled. It replaces an older one, which ends when it is idle.
func (r *Relay) accept(conn net.Conn, peer string) {
	r.mu.Lock()
	if old := r.links[peer]; old != nil {
		old.keep.Store(false)
	} else if len(r.links) >= mostLinks {
		r.mu.Unlock()
		conn.Close() //nolint:errcheck // there is no room
		return
	}
	l := newLink(r.ctx, peer)
	r.links[peer] = l
	r.mu.Unlock()
	defer r.drop(l)
	r.poked.Ring()
	l.run(conn, false, r.take)
}

// take handles a frame.
func (r *Relay) take(l *link, f frame) {
	switch f.kind {
	case framePacket:
		if f.id == r.self {
			r.deliver(l, f.payload)
			return
		}
		to := r.standing(f.id.String())
		from, err := parseID(l.peer)
		if err != nil || to == nil || !l.may(time.Now()) || !to.offer(frame{kind: frameCarried, id: from, payload: f.payload}) {
			r.count.dropped.Add(1)
			return
		}
		r.count.packets.Add(1)
	case frameCarried:
		r.deliver(l, f.payload)
	case frameCall:
		r.dialBack(l.peer, hello{role: roleAnswer, id: f.id}, dialTime, func(conn net.Conn) { r.give(conn, Kind(f.payload[0])) })
	case frameCheck:
		r.dialBack(l.peer, hello{role: roleKnock, id: f.id}, answerTime, func(conn net.Conn) {
			r.deps.Knock(l.peer, append([]byte(knock), f.id[:]...))
			conn.Close() //nolint:errcheck // it has served its purpose
		})
	}
}

// deliver passes a packet to the gossip.
func (r *Relay) deliver(l *link, packet []byte) {
	if len(packet) == 0 {
		return
	}
	select {
	case r.packets <- &memberlist.Packet{Buf: packet, From: l.conn.RemoteAddr(), Timestamp: time.Now()}:
	case <-r.ctx.Done():
	}
}

// Send sends a gossip packet by a link. It returns false if the packet is to go to the member's port.
func (r *Relay) Send(peer string, packet []byte) bool {
	to, err := parseID(peer)
	if err != nil || peer == r.deps.ID || len(packet) > maxPayload {
		return false
	}
	way, _ := r.deps.Way(peer)
	if way.Reach == view.Direct && r.way.Load().Reach == view.Direct {
		return false
	}
	l := r.standing(peer)
	switch {
	case l != nil:
	case way.Reach != view.Outbound || len(way.Relays) == 0:
		l = r.open(peer)
	default:
		for _, relay := range r.inTurn(way.Relays) {
			if l = r.open(relay); l != nil {
				break
			}
		}
	}
	if l == nil {
		return false
	}
	l.offer(frame{kind: framePacket, id: to, payload: append([]byte(nil), packet...)}) // a dropped packet counts as lost
	return true
}

// inTurn returns a node's relays, another one first each time: those with an open link that are alive go before the others.
func (r *Relay) inTurn(relays []string) []string {
	var live, others []string
	first := int(r.turn.Add(1))
	for i := range relays {
		relay := relays[(first+i)%len(relays)]
		if relay == r.deps.ID {
			continue
		}
		if _, alive := r.deps.Way(relay); alive && r.standing(relay) != nil {
			live = append(live, relay)
		} else {
			others = append(others, relay)
		}
	}
	return append(live, others...)
}

func token() (t id) {
	_, _ = rand.Read(t[:]) // never fails
	return t
}
