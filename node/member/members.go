package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sync/errgroup"

	"proxima/node/bell"
	"proxima/node/lobby"
	"proxima/node/strict"
)

const (
	maxClaims = 16
	// tick is how often loops look at the time.
	tick = 500 * time.Millisecond
)

// Members is this node among its peers. New makes it and Run runs it once; all other methods are safe for concurrent
// use at any time.
type Members struct {
	cfg        Config
	deps       Deps
	nonce      uint64
	locator    *locator
	wakeTend   bell.Bell // wakes tend
	wakeVoting bell.Bell // wakes vote
	ring       *memberlist.Keyring

	complaints bell.Hush // of the gossip

	storeMu sync.Mutex // held by store, so that older state never overwrites newer
	sending sync.WaitGroup
	// streams are the messages that are sent by stream now. joins and dials are the dials under way: of configured addresses, and of others.
	streams, joins, dials errgroup.Group

	// mu guards what follows. It is taken while memberlist's lock is held, never the other way round.
	mu           sync.Mutex
	table        *table
	list         *memberlist.Memberlist // nil before and after Run
	carrier      *carrier
	gossip       string // this node's gossip address, once known
	running      bool
	over         bool // this node has said that the crawl is over
	metSelf      bool
	messages     []message // for vote to read
	told         meta      // what this node last published
	toldAt       time.Time
	repeats      int                 // how often it is to be published again
	hosts        map[string]struct{} // of all members' addresses, for Knows: strangers are many, and none may cost a walk over the members
	duplicateErr error
	claims       map[string]struct{} // gossip addresses that claim this node's id
	twin         twin
	changed      chan struct{}
	version      uint64 // the version for which changed was last closed
}

// ErrVoters means that Deps.Voters are not what Deps.Keep was given.
var ErrVoters = errors.New("they are damaged or of another version")

// New checks its arguments without touching the network. The error lists all that is wrong.
func New(cfg Config, deps Deps) (*Members, error) {
	if err := validate(cfg, deps); err != nil {
		return nil, fmt.Errorf("configure members: %w", err)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Resolve == nil {
		deps.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	m := &Members{
		cfg:        cfg,
		deps:       deps,
		nonce:      rand.Uint64(),
		locator:    newLocator(deps.Boot, deps.Location, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))),
		wakeTend:   bell.New(),
		wakeVoting: bell.New(),
		claims:     map[string]struct{}{},
		changed:    make(chan struct{}),
	}
	m.table = newTable(cfg, deps.ID, deps.Boot, len(cfg.Join)+len(deps.Known)+len(deps.Voters) > 0, m.now())
	if len(deps.Voters) > 0 {
		k, err := decode[kept](deps.Voters, "votes")
		if err != nil {
			return nil, fmt.Errorf("read who votes: %w: %w", ErrVoters, err)
		}
		m.table.restore(k, m.now())
	}
	var err error
	if m.ring, err = memberlist.NewKeyring(deps.Secrets, deps.Secrets[0]); err != nil {
		return nil, fmt.Errorf("use secret: %w", err)
	}
	m.version = m.table.version
	m.streams.SetLimit(maxStreams)
	m.joins.SetLimit(maxDials)
	m.dials.SetLimit(maxDials)
	return m, nil
}

func (m *Members) now() time.Time { return m.deps.Now() }

// emitLocked queues an event.
func (m *Members) emitLocked(e Event) {
	if m.table.emit(e) {
		m.wakeTend.Ring()
	}
}

// trouble emits an event of trouble. It must not be called with mu held.
func (m *Members) trouble(addr, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.emitLocked(Event{Kind: EventTrouble, Time: m.now(), Addr: addr, Reason: reason})
}

// Run joins the overlay and stays in it until ctx ends. Then it says farewell, within LeaveTimeout. It returns nil after an orderly
// end, ErrDuplicate if an older live node has this id, or the error that kept it from listening. Some goroutines of memberlist end
// only when their timers fire, up to 25 s later; they send nothing any more.
func (m *Members) Run(ctx context.Context) error {
	m.mu.Lock()
	if m.running {
		m.mu.Unlock()
		return errors.New("run members: they were run before")
	}
	m.running = true
	now := m.now()
	m.table.started, m.table.held, m.table.lacked, m.table.self.since = now, now, now, now
	m.mu.Unlock()

	list, c, err := m.open()
	if err != nil {
		return fmt.Errorf("join overlay: %w", err)
	}
	m.mu.Lock()
	m.list, m.carrier, m.gossip = list, c, list.LocalNode().Address()
	m.mu.Unlock()

	// The farewell goes by packets, and a stream to a silent peer would delay the end.
	defer context.AfterFunc(ctx, c.hangUp)()
	g, running := errgroup.WithContext(ctx)
	targets := map[string]*target{}
	g.Go(func() error { return loop(running, m.wakeTend, m.tend) })
	g.Go(func() error { return loop(running, nil, func() error { m.redial(running, targets); return nil }) })
	g.Go(func() error { return loop(running, nil, func() error { m.pingQuiet(); return nil }) })
	g.Go(func() error { return loop(running, m.wakeVoting, m.vote) })
	err = g.Wait()
	// A duplicate says no farewell, because it would be taken for the other node's.
	if err == nil {
		err = m.farewell(list)
	}
	if down := list.Shutdown(); down != nil {
		err = errors.Join(err, fmt.Errorf("stop gossip: %w", down))
	}
	m.mu.Lock()
	m.list, m.carrier = nil, nil
	m.mu.Unlock()
	m.sending.Wait()
	_, _ = m.joins.Wait(), m.dials.Wait()
	m.flush()
	return err
}

// open makes the memberlist and the carrier under it. They listen from now on.
func (m *Members) open() (*memberlist.Memberlist, *carrier, error) {
	c := preset(m.cfg.Preset)
	host, port, _ := strict.HostPort(m.cfg.Bind) //nolint:errcheck // New has checked the configuration
	c.Name, c.Label = m.deps.ID, label(m.cfg, m.deps)
	c.Logger = log.New(gossipLog{m}, "", 0)
	d := delegate{m}
	c.Delegate, c.Events, c.Alive, c.Conflict, c.Ping = d, d, d, d, d
	c.BindAddr, c.BindPort = host, port
	if m.cfg.Advertise != "" {
		c.AdvertiseAddr, c.AdvertisePort, _ = strict.HostPort(m.cfg.Advertise) //nolint:errcheck // the same
	}
	t := m.deps.Transport
	if t == nil {
		var err error
		if t, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{host}, BindPort: port,
			Logger: c.Logger}); err != nil {
			return nil, nil, fmt.Errorf("listen for gossip: %w", err)
		}
	}
	c.Keyring = m.ring
	proof := &prover{label: c.Label, keys: m.ring.GetKeys, lobby: lobby.New(unproven, ofMember, m.Knows)}
	carrier := newCarrier(t, proof, m.deps.Links, func(from string, err error) {
		c.Logger.Printf("[WARN] gossip stream from %s refused: %v", from, err)
	})
	c.Transport = carrier
	list, err := memberlist.Create(c)
	if err != nil {
		if host == "0.0.0.0" && m.cfg.Advertise == "" { // it has looked for a private address
			err = fmt.Errorf("member.bind is all addresses, so set member.advertise to the one that peers reach: %w", err)
		}
		return nil, nil, errors.Join(err, carrier.Shutdown())
	}
	return list, carrier, nil
}

// loop takes a step now, at every tick, and when it is woken, until ctx ends or a step fails.
func loop(ctx context.Context, wake <-chan struct{}, step func() error) error {
	if err := step(); err != nil {
		return err
	}
	return bell.Loop(ctx, wake, tick, func(bool) error { return step() })
}

// tend brings the table up to date, and tells the node and the other members what has changed.
func (m *Members) tend() error {
	m.update()
	m.flush()
	m.announce()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.duplicateErr
}

// update brings the table up to date and tells those who wait for changes.
func (m *Members) update() {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.locator.publish(now)
	if only := len(m.cfg.Join)+len(m.deps.Known) == 1; only && (m.metSelf || slices.Contains(m.cfg.Join, m.gossip)) && m.table.paxos.set.version == 0 {
		m.table.paxos.found(now, m.deps.ID) // the only address to join is this node's
	}
	m.table.update(now)
	if m.table.version != m.version {
		m.version = m.table.version
		m.noteHostsLocked()
		close(m.changed)
		m.changed = make(chan struct{})
	}
	m.table.aloneByItself(now)
}

// Rekey changes the secrets that encrypt the gossip, in the form of Deps.Secrets. It may be called at any time, but not
// concurrently with itself.
func (m *Members) Rekey(secrets [][]byte) error {
	var err error
	for _, key := range secrets {
		err = errors.Join(err, m.ring.AddKey(key))
	}
	if err = errors.Join(err, m.ring.UseKey(secrets[0])); err == nil {
		for _, key := range slices.Clone(m.ring.GetKeys()) {
			if !slices.ContainsFunc(secrets, func(s []byte) bool { return bytes.Equal(s, key) }) {
				err = errors.Join(err, m.ring.RemoveKey(key))
			}
		}
	}
	if err != nil {
		return fmt.Errorf("change secret of gossip: %w", err)
	}
	return nil
}

// noteHostsLocked updates the hosts of the members.
func (m *Members) noteHostsLocked() {
	m.hosts = make(map[string]struct{}, 2*len(m.table.members))
	for _, r := range m.table.members {
		for _, addr := range []string{r.gossip, r.addr} {
			if host, _, err := net.SplitHostPort(addr); err == nil {
				m.hosts[host] = struct{}{}
			}
		}
	}
}

// Knows reports whether a host is the address of a member, as gossip has it. It waits for no I/O.
func (m *Members) Knows(host string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.hosts[host]
	return ok
}

// flush passes events to Deps.Event, and forgets the paths to members that are gone.
func (m *Members) flush() {
	m.mu.Lock()
	events := m.table.events
	m.table.events = nil
	for _, e := range events {
		switch e.Kind {
		case EventDeath, EventLeave, EventRejoin:
			m.locator.node.Forget(e.ID)
		}
	}
	m.mu.Unlock()
	for _, e := range events {
		if m.deps.Event != nil {
			m.deps.Event(e)
		}
	}
}

// announce publishes this node's meta when it changes.
func (m *Members) announce() {
	m.mu.Lock()
	list, news := m.list, m.newsLocked()
	m.mu.Unlock()
	if news {
		// The error only says that the message has not gone out yet. It will, or others get it when they compare all they
		// know.
		_ = list.UpdateNode(time.Millisecond)
	}
}

// What is new is announced tellAgain times more, againAfter apart. memberlist loses a broadcast unsent when that of another node gets its
// number in the queue, and nobody would hear of a founder that is settled before it has stopped to count as one.
const (
	tellAgain  = 2
	againAfter = time.Second
)

// newsLocked reports whether all are to be told what this node publishes: most changes at once and again, its place at most every
// AnnounceEvery.
func (m *Members) newsLocked() bool {
	is, since := m.metaLocked(), m.now().Sub(m.toldAt)
	return !is.saysSame(m.told) || m.repeats > 0 && since >= againAfter || since >= m.cfg.AnnounceEvery && !is.place.near(m.told.place)
}
