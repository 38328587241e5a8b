package ownership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/assign"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/bell"
	"proxima/node/peer"
	"proxima/node/view"
	"proxima/node/wire"
)

// stage is a small overlay on a fake clock without any randomness. The test decides which nodes see each other, which links are found,
// which pages are done, and which messages are lost.
type stage struct {
	t     testing.TB
	cfg   Config
	names *names

	mu      sync.Mutex
	players map[int]*player
	members []int           // the settled ones
	cut     map[[2]int]bool // one-way links that are down
	fault   map[int]*fault  // of the disks of nodes that will join

	// hooks guards the fields below, and is held while they are called. Each may be nil.
	hooks sync.Mutex
	// fate reports whether a message is lost. It is called before the message arrives, and again with its answer.
	fate func(letter) (lost bool)
	// lag returns how much longer a message takes to arrive.
	lag func(letter) time.Duration
	// seen hears of every message that arrived, with its answer; told of every event; warned of every warning.
	seen   func(letter)
	told   func(at int, e Event)
	warned func(at int, err error)
}

// lose sets which messages are lost from now on; nil for none.
func (s *stage) lose(fate func(letter) bool) {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	s.fate = fate
}

// delay sets how much longer messages take to arrive from now on.
func (s *stage) delay(lag func(letter) time.Duration) {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	s.lag = lag
}

// listen sets who hears of events and of warnings from now on; nil for nobody.
func (s *stage) listen(told func(at int, e Event), warned func(at int, err error)) {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	s.told, s.warned = told, warned
}

// watch sets who hears of messages from now on; nil for nobody.
func (s *stage) watch(seen func(letter)) {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	s.seen = seen
}

// isLost reports whether a message or its answer is lost.
func (s *stage) isLost(l letter) bool {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	return s.fate != nil && s.fate(l)
}

// player is a node on a stage.
type player struct {
	*stage
	at   int
	disk *disk
	// members are the settled members in its view.
	members []int
	front   Frontier // the disk, or what a test puts before it
	own     *Ownership
	stop    context.CancelFunc // nil if it does not run
	over    chan struct{}
}

// letter is a message. res is nil until it has arrived.
type letter struct {
	from, to int
	req, res proto.Message
}

// idOf returns the id of a node.
func idOf(at int) string { return fmt.Sprintf("%032d", at) }

// numberOf returns the node with an id, 0 if there is none.
func numberOf(id string) int {
	n, _ := strconv.Atoi(strings.TrimLeft(id, "0")) //nolint:errcheck // the number is 0 then
	return n
}

// onStage runs a test on a stage with nodes that have heard of each other.
func onStage(t *testing.T, nodes []int, test func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, cfg: Default(), names: &names{paths: map[uint64]string{}}, players: map[int]*player{}, cut: map[[2]int]bool{}}
		s.cfg.ReplicateEvery = 489 * time.Millisecond // no other timer of a test fires at its multiples
		s.cfg.ChunkURLs = 10
		s.join(nodes...)
		time.Sleep(s.cfg.Collect + time.Second)
		test(s)
		for _, p := range s.all() {
			p.kill(false)
		}
	})
}

// hostOf returns a host with a rendezvous order: the first node is its home, the second one is when the first is gone, and so on.
func (s *stage) hostOf(order ...int) string { return s.hostsOf(1, order...)[0] }

func (s *stage) hostsOf(n int, order ...int) (hosts []string) {
	var want []string
	for _, at := range order {
		want = append(want, idOf(at))
	}
	sorted := slices.Sorted(slices.Values(want))
	for i := 0; len(hosts) < n; i++ {
		host := fmt.Sprintf("http://h%d.test", i)
		if slices.Equal(assign.RendezvousOrder(identity.RegistrableDomain(host), sorted, len(want)), want) {
			hosts = append(hosts, host)
			for k := range 200 {
				s.names.learn(host, path(k))
			}
		}
	}
	return hosts
}

// all returns the nodes in order.
func (s *stage) all() (all []*player) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range slices.Sorted(maps.Keys(s.players)) {
		all = append(all, s.players[at])
	}
	return all
}

func (s *stage) node(at int) *player {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.players[at]
}

// join adds nodes with empty disks to the members.
func (s *stage) join(nodes ...int) {
	s.mu.Lock()
	for _, at := range nodes {
		p := &player{stage: s, at: at, disk: newDisk(s.names)}
		p.front, p.disk.fault = p.disk, s.fault[at]
		s.players[at] = p
		s.members = append(s.members, at)
	}
	slices.Sort(s.members)
	s.mu.Unlock()
	for _, at := range nodes {
		s.node(at).start()
		time.Sleep(137 * time.Millisecond) // their timers do not fire together
	}
	s.see()
}

// forget removes nodes from the members.
func (s *stage) forget(nodes ...int) {
	s.mu.Lock()
	s.members = slices.DeleteFunc(s.members, func(m int) bool { return slices.Contains(nodes, m) })
	s.mu.Unlock()
	s.see()
}

// welcome adds a node to the members again.
func (s *stage) welcome(at int) {
	s.mu.Lock()
	s.members = append(s.members, at)
	slices.Sort(s.members)
	s.mu.Unlock()
	s.see()
}

// see gives every node its view. Those members are alive that run and can be reached in both directions. A node that was forgotten still
// sees the members of before.
func (s *stage) see() {
	for _, p := range s.all() {
		s.mu.Lock()
		v := view.View{Self: idOf(p.at)}
		if slices.Contains(s.members, p.at) {
			p.members = slices.Clone(s.members)
		}
		for _, m := range p.members {
			v.Settled = append(v.Settled, idOf(m))
			if s.players[m].stop != nil && !s.cut[[2]int{p.at, m}] && !s.cut[[2]int{m, p.at}] {
				v.Alive = append(v.Alive, idOf(m))
			}
		}
		half := len(v.Alive) > 0 && 2*len(v.Alive) == len(v.Settled) && v.Alive[0] == v.Settled[0]
		v.Majority = 2*len(v.Alive) > len(v.Settled) || half
		running := p.stop != nil
		s.mu.Unlock()
		if running {
			p.own.SetView(v)
		}
	}
}

// start begins a life of a node.
func (p *player) start() {
	own := New(p.cfg, Deps{Frontier: p.front, Peers: p.calls(), Outbox: outbox{p.disk}, Records: p.disk,
		Admit: func(frontier.Link) string { return "" },
		Warn: func(err error) {
			p.hooks.Lock()
			defer p.hooks.Unlock()
			if p.warned != nil {
				p.warned(p.at, err)
			}
		},
		Event: func(e Event) {
			p.hooks.Lock()
			defer p.hooks.Unlock()
			if p.told != nil {
				p.told(p.at, e)
			}
		},
	})
	own.jitter = func(d time.Duration) time.Duration { return d * time.Duration(p.at%7) / 7 }
	ctx, cancel := context.WithCancel(p.t.Context())
	over := make(chan struct{})
	p.mu.Lock()
	p.own, p.stop, p.over = own, cancel, over
	p.mu.Unlock()
	own.SetView(view.View{Self: idOf(p.at)})
	p.see()
	var all sync.WaitGroup
	all.Go(func() {
		switch err := own.Run(ctx); {
		case errors.Is(err, errFault):
			p.hooks.Lock()
			p.warned(p.at, fmt.Errorf("it ends: %w", err))
			p.hooks.Unlock()
			cancel()
		case err != nil && !errors.Is(err, frontier.ErrClosed):
			p.t.Errorf("node %d: %v", p.at, err)
		}
	})
	disk := p.disk
	all.Go(func() { p.deliver(ctx, own, disk) })
	go func() { all.Wait(); close(over) }()
}

// kill ends a life at once. After a power cut the disk is as it was last synced.
func (p *player) kill(powerCut bool) {
	p.mu.Lock()
	stop, over := p.stop, p.over
	if p.stop = nil; stop != nil {
		p.disk = p.disk.next(powerCut)
		p.front = p.disk
	}
	p.mu.Unlock()
	if stop == nil {
		return
	}
	stop()
	<-over
	p.see()
}

// die ends a node for good, with its disk.
func (p *player) die() {
	p.kill(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disk = newDisk(p.names)
	p.front = p.disk
}

// halt ends what a node does by itself. It still does what the test asks for.
func (p *player) halt() {
	p.stop()
	<-p.over
}

// part cuts a node off from others in both directions, without a new view.
func (s *stage) part(at int, from ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range from {
		s.cut[[2]int{at, other}], s.cut[[2]int{other, at}] = true, true
	}
}

// deliver sends what is in the outbox.
func (p *player) deliver(ctx context.Context, own *Ownership, disk *disk) {
	for ctx.Err() == nil {
		_ = bell.Sleep(ctx, 517*time.Millisecond)
		disk.deliver(own, func(to string, req *wire.DeliverRequest) (*wire.DeliverResponse, error) {
			return carry(p, to, req, (*Ownership).Deliver)
		})
	}
}

// carry brings a message to another node and its answer back, in a little more than 20 ms. Each pair of nodes has a different time, so
// that no two messages arrive at one instant.
func carry[Q, R proto.Message](p *player, to string, req Q, handle func(*Ownership, context.Context, string, Q) (R, error)) (none R, _ error) {
	l := letter{from: p.at, to: numberOf(to), req: proto.Clone(req)}
	gone := func() (*Ownership, bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		q := p.players[l.to]
		if q == nil || q.stop == nil || p.stop == nil || p.cut[[2]int{l.from, l.to}] {
			return nil, true
		}
		return q.own, false
	}
	way := 10*time.Millisecond + time.Duration(l.from*10+l.to)*100*time.Microsecond
	if store, ok := l.req.(*wire.StoreRequest); ok { // a longer message takes longer
		way += 9*time.Microsecond + time.Duration(len(store.GetItems()))*time.Microsecond
	}
	p.hooks.Lock()
	lag := p.lag
	p.hooks.Unlock()
	if lag != nil {
		time.Sleep(lag(l))
	}
	time.Sleep(way)
	own, lost := gone()
	if lost || p.isLost(l) {
		time.Sleep(5 * time.Second)
		return none, errors.New("no answer")
	}
	res, err := handle(own, context.Background(), idOf(p.at), req)
	if err != nil {
		return none, err
	}
	l.res = res
	p.hooks.Lock()
	if p.seen != nil {
		p.seen(l)
	}
	p.hooks.Unlock()
	time.Sleep(way)
	p.mu.Lock()
	lost = p.cut[[2]int{l.to, l.from}]
	p.mu.Unlock()
	if lost || p.isLost(l) {
		time.Sleep(5 * time.Second)
		return none, errors.New("no answer")
	}
	return res, nil
}

// calls carries all calls of a player.
func (p *player) calls() peer.Calls {
	return peer.Calls{Renew: carried(p, (*Ownership).Renew), Claim: carried(p, (*Ownership).Claim), Store: carried(p, (*Ownership).Store),
		Load: carried(p, (*Ownership).Load), Commit: carried(p, (*Ownership).Commit)}
}

func carried[Q, R proto.Message](p *player, handle func(*Ownership, context.Context, string, Q) (R, error)) func(context.Context, string, Q) (R, error) {
	return func(_ context.Context, to string, req Q) (R, error) { return carry(p, to, req, handle) }
}

// link returns a link to page k of a host.
func link(host string, k int) frontier.Link {
	return frontier.Link{URL: identity.URL{Host: host, Path: path(k)}}
}

// is reports whether a message is of one kind.
func is[M proto.Message](l letter) bool {
	_, ok := l.req.(M)
	return ok
}

// links returns links to the pages from k to n-1 of a host.
func links(host string, k, n int) (all []frontier.Link) {
	for ; k < n; k++ {
		all = append(all, link(host, k))
	}
	return all
}

// find lets a node find links.
func (p *player) find(links ...frontier.Link) {
	p.t.Helper()
	mine, err := p.own.Route(p.t.Context(), links)
	if err != nil {
		p.t.Fatal(err)
	}
	verdicts, err := p.front.Add(p.t.Context(), mine)
	if err != nil {
		p.t.Fatal(err)
	}
	for i, v := range verdicts {
		if v == frontier.NotOwned {
			if err := p.own.PassOn(p.t.Context(), mine[i:i+1]); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// crawl lets an owner finish page k of a host, with the links found on it.
func (p *player) crawl(host string, k int, found ...frontier.Link) {
	p.t.Helper()
	if err := p.own.Ending(p.t.Context(), link(host, k)); err != nil {
		p.t.Fatal(err)
	}
	mine, err := p.own.Route(p.t.Context(), found)
	if err != nil {
		p.t.Fatal(err)
	}
	if away, ok := p.disk.finish(host, path(k), mine); !ok || len(away) > 0 {
		p.t.Fatalf("node %d cannot do page %d of %s; links for elsewhere: %v", p.at, k, host, away)
	}
}

// found returns a host with n links. Its home has found them, and the replica has them, too.
func (s *stage) found(n int, order ...int) (host string) {
	s.t.Helper()
	host = s.hostOf(order...)
	s.node(order[0]).find(links(host, 0, n)...)
	time.Sleep(2 * time.Second)
	return host
}

// hand hands a host over.
func (s *stage) hand(host string, from, to int) {
	s.t.Helper()
	if err := s.node(from).handOff(host, to); err != nil {
		s.t.Fatal(err)
	}
}

func (p *player) handOff(host string, to int) error {
	return p.own.HandOff(p.t.Context(), host, idOf(to), true, "test")
}

// has counts the URLs of a host on a node's disk: all of them, and those that are done.
func (p *player) has(host string) (all, done int) {
	p.mu.Lock()
	disk := p.disk
	p.mu.Unlock()
	d, err := disk.DigestOf(p.t.Context(), host)
	if err != nil {
		p.t.Fatal(err)
	}
	return int(d.Accepted), int(d.Done)
}

// owners returns the running nodes that own a host by their own disks.
func (s *stage) owners(host string) (at []int) {
	for _, p := range s.all() {
		role, known, err := p.disk.RoleOf(s.t.Context(), host)
		if s.running(p) && err == nil && known && role == frontier.Owned {
			at = append(at, p.at)
		}
	}
	return at
}

// running reports whether a node is running.
func (s *stage) running(p *player) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.stop != nil
}
