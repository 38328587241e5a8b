package ownership

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/frontier"
	"proxima/node/wire"
)

// stream carries what changes at the hosts of this node to the nodes that keep their replicas. Nothing of it is on disk: a
// digest tells whether a replica is whole, and one that is not is mended.
//
// URLs that were found go out at once. That a page is done is held back until the links found on it are safe: those for
// other nodes have been answered by then, and those for hosts of this node are at the replicas of these. Else both the page
// and its links would be gone with this node's disk.
type stream struct {
	flush chan chan struct{}

	// mu guards what follows.
	mu      sync.Mutex
	ready   map[string]*frontier.Change // to be sent
	held    []heldBack                  // in the order of time
	count   map[string]int              // by host: entries in held
	paused  map[string]int              // hosts that are being mended: their changes wait
	found   map[string]time.Time        // since when URLs of a host are not at its replica yet
	cleared bool                        // links of an earlier life are answered
	bytes   int                         // of all that waits
}

// heldBack is what was done until a time.
type heldBack struct {
	at    time.Time
	hosts map[string]*frontier.Change
}

// maxStream bounds the memory of what waits, in bytes. Beyond it hosts are mended as a whole.
const maxStream = 32 << 20

func newStream() *stream {
	return &stream{flush: make(chan chan struct{}), ready: make(map[string]*frontier.Change), count: make(map[string]int),
		paused: make(map[string]int), found: make(map[string]time.Time)}
}

// take adds what the frontier tells, at a time.
func (s *stream) take(changes map[string]*frontier.Change, now time.Time) {
	if len(changes) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	back := heldBack{at: now, hosts: make(map[string]*frontier.Change)}
	for host, c := range changes {
		if s.bytes > maxStream {
			c = &frontier.Change{Lost: true}
		}
		if len(c.Done) > 0 {
			done := &frontier.Change{Done: c.Done, Digest: c.Digest, Tracked: c.Tracked}
			back.hosts[host] = done
			s.count[host]++
			s.bytes += done.Memory()
			c.Done = nil
		}
		if _, ok := s.found[host]; !ok && len(c.Added) > 0 {
			s.found[host] = now
		}
		s.addLocked(host, c)
	}
	if len(back.hosts) > 0 {
		s.held = append(s.held, back)
	}
}

func (s *stream) addLocked(host string, c *frontier.Change) {
	s.bytes += c.Memory()
	if r := s.ready[host]; r != nil {
		s.bytes -= r.Memory() + c.Memory()
		r.Follow(c)
		s.bytes += r.Memory()
		return
	}
	s.ready[host] = c
}

// mature lets go what was held back and is safe now. cleared says that links of an earlier life have just been answered.
func (s *stream) mature(settled func(until time.Time) bool, startup, now time.Time, patience time.Duration) (cleared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cleared && (settled(startup) || now.Sub(startup) > patience) {
		s.cleared, cleared = true, true
	}
	for len(s.held) > 0 && (s.bytes > maxStream || s.storedLocked(s.held[0].at) && settled(s.held[0].at)) {
		for host, c := range s.held[0].hosts {
			s.letGoLocked(host, c)
		}
		s.held = s.held[1:]
	}
	return cleared
}

// storedLocked says that all URLs found up to a time are at the replicas of their hosts.
func (s *stream) storedLocked(until time.Time) bool {
	for _, at := range s.found {
		if !at.After(until) {
			return false
		}
	}
	return true
}

// stored notes that what was sent of a host is at its replica, or that there is none that answers.
func (s *stream) stored(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.found, host)
	if r := s.ready[host]; r != nil && len(r.Added) > 0 {
		s.found[host] = time.Now()
	}
}

func (s *stream) letGoLocked(host string, c *frontier.Change) {
	s.bytes -= c.Memory()
	if s.count[host]--; s.count[host] == 0 {
		delete(s.count, host)
	}
	s.addLocked(host, c)
}

// release lets go everything that is held back of a host.
func (s *stream) release(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, back := range s.held {
		if c := back.hosts[host]; c != nil {
			s.letGoLocked(host, c)
			delete(back.hosts, host)
		}
	}
}

// forget drops what waits of a host, which this node does not own any more.
func (s *stream) forget(host string) {
	s.release(host)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(host)
	delete(s.found, host)
}

func (s *stream) removeLocked(host string) *frontier.Change {
	c := s.ready[host]
	if c != nil {
		s.bytes -= c.Memory()
		delete(s.ready, host)
	}
	return c
}

// holdsBack says that not everything that is done of a host may be told.
func (s *stream) holdsBack(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.cleared || s.count[host] > 0
}

// busy says that something of a host is on its way.
func (s *stream) busy(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.cleared || s.count[host] > 0 || s.ready[host] != nil
}

// withhold takes out of a chunk what is held back of its host.
func (s *stream) withhold(host string, c *frontier.Chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cleared {
		c.Done = nil
		return
	}
	if s.count[host] == 0 || len(c.Done) == 0 {
		return
	}
	back := make(map[uint64]bool)
	for _, b := range s.held {
		if h := b.hosts[host]; h != nil {
			for _, hash := range h.Done {
				back[hash] = true
			}
		}
	}
	done := c.Done[:0]
	for _, hash := range c.Done {
		if !back[hash] {
			done = append(done, hash)
		}
	}
	c.Done = done
}

// pause keeps the changes of a host until the function that it returns is called.
func (s *stream) pause(host string) (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused[host]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.paused[host]--; s.paused[host] == 0 {
			delete(s.paused, host)
		}
	}
}

// next takes what can be sent now.
func (s *stream) next() map[string]*frontier.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]*frontier.Change, len(s.ready))
	for host := range s.ready {
		if s.paused[host] == 0 {
			out[host] = s.removeLocked(host)
		}
	}
	return out
}

// putBack returns what could not be sent, before what came since.
func (s *stream) putBack(host string, c *frontier.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := s.removeLocked(host); since != nil {
		c.Follow(since)
	}
	s.addLocked(host, c)
}

// sending is a change on its way.
type sending struct {
	host   string
	change *frontier.Change
	item   *wire.StoreItem
}

// runStream sends changes to replicas: one message at a time to each peer, and none waits for another peer's.
func (o *Ownership) runStream(ctx context.Context) error {
	tick := time.NewTicker(o.cfg.ReplicateEvery)
	defer tick.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	busy, over := make(map[string]bool), make(chan string)
	round := func() error {
		if err := o.gather(ctx); err != nil {
			return err
		}
		parcels, err := o.parcels(ctx, busy)
		for to, parcel := range parcels {
			busy[to] = true
			calls.Go(func() {
				o.send(ctx, to, parcel)
				select {
				case over <- to:
				case <-ctx.Done():
				}
			})
		}
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case to := <-over:
			delete(busy, to)
		case <-tick.C:
			if err := round(); err != nil {
				return err
			}
		case done := <-o.stream.flush:
			for range 2 { // the second is for peers that are being spoken to
				if err := o.gather(ctx); err != nil {
					return err
				}
				o.stream.mature(func(time.Time) bool { return true }, o.startup, time.Now(), 0)
				if err := round(); err != nil {
					return err
				}
				for len(busy) > 0 {
					select {
					case to := <-over:
						delete(busy, to)
					case <-ctx.Done():
						return nil
					}
				}
			}
			close(done)
		}
	}
}

// gather takes what the frontier tells, and lets go what is safe now.
func (o *Ownership) gather(ctx context.Context) error {
	changes := o.deps.Frontier.Changes()
	if len(changes) > 0 { // others are told that pages are done: a power cut must not undo the links found on them
		if err := o.deps.Frontier.Sync(ctx); err != nil {
			return err
		}
	}
	now := time.Now() // the links of these pages were added to the outbox before
	o.stream.take(changes, now)
	if o.stream.mature(o.deps.Outbox.Settled, o.startup, now, 2*o.cfg.TakeAfter) {
		o.mu.Lock()
		o.compare = nil // up to now nobody could have the same
		o.mu.Unlock()
		signal(o.sweep)
	}
	return nil
}

// Flush sends what has changed up to now to the replicas, each change once, and returns when that is over or the context
// ends.
func (o *Ownership) Flush(ctx context.Context) {
	if o.begun() != nil {
		return
	}
	done := make(chan struct{})
	select {
	case o.stream.flush <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// parcels takes the changes that can be sent now, by the peers that keep the replicas.
func (o *Ownership) parcels(ctx context.Context, busy map[string]bool) (map[string][]sending, error) {
	v := o.view()
	out := make(map[string][]sending)
	for host, c := range o.stream.next() {
		r, ok, err := o.records.get(host)
		if err != nil {
			return nil, err
		}
		to := v.replicaOf(host, r.Owner)
		switch {
		case !ok || r.Owner != v.Self:
			o.stream.forget(host)
			continue
		case to == "" || !v.alive(to):
			o.stream.stored(host)
			continue // it is compared when there is one
		case c.Lost:
			o.stream.stored(host)
			o.queue.add(host, false)
			continue
		case busy[to]:
			o.stream.putBack(host, c)
			continue
		}
		item, err := o.storeItem(ctx, r, c)
		if err != nil {
			return nil, err
		}
		out[to] = append(out[to], sending{host, c, item})
	}
	return out, nil
}

// storeItem makes the message about the changes of one host.
func (o *Ownership) storeItem(ctx context.Context, r Record, c *frontier.Change) (item *wire.StoreItem, err error) {
	chunk := frontier.Chunk{Pending: c.Added, Done: c.Done, Drops: c.Digest.Drops}
	if c.State {
		if chunk.State, err = o.deps.Frontier.StateOf(ctx, r.Host); err != nil {
			return nil, err
		}
	}
	item = &wire.StoreItem{Record: r.wire(), Chunk: chunkToWire(chunk)}
	switch {
	case !c.Tracked: // from now on the digest is kept
		_, err = o.deps.Frontier.DigestOf(ctx, r.Host)
	case !o.stream.holdsBack(r.Host):
		item.Digest = digestToWire(c.Digest)
	}
	return item, err
}

// messageURLs and chunkBytes bound a message of the changes of several hosts.
const messageURLs = 5000

// send sends changes to one peer, in messages of bounded size. A replica that differs afterwards is mended.
func (o *Ownership) send(ctx context.Context, to string, parcel []sending) {
	for len(parcel) > 0 {
		n, urls, size := 0, 0, 0
		req := &wire.StoreRequest{}
		for n < len(parcel) && (n == 0 || urls < messageURLs && size < chunkBytes) {
			item := parcel[n].item
			urls += len(item.GetChunk().GetPending()) + len(item.GetChunk().GetDone())/8 + 8
			size += proto.Size(item)
			req.Items = append(req.Items, item)
			n++
		}
		part := parcel[:n]
		parcel = parcel[n:]
		res, err := o.deps.Peers.Store(ctx, to, req)
		if err != nil && ctx.Err() == nil {
			o.warn(fmt.Errorf("send changes of %d hosts to their replicas at %s: %w", len(part), to, err))
		}
		for i, p := range part {
			if err != nil || i >= len(res.GetAnswers()) {
				o.stream.putBack(p.host, p.change)
				continue
			}
			switch a := res.GetAnswers()[i]; a.GetStep() {
			case wire.Step_STEP_STORED:
				o.stream.stored(p.host)
			case wire.Step_STEP_LATER:
				o.stream.putBack(p.host, p.change)
			default:
				o.stream.stored(p.host)
				if _, err := o.readAnswer(to, p.item, a); err != nil {
					o.warn(err)
				}
				o.queue.add(p.host, false)
			}
		}
	}
}

// flushHost sends everything that waits of a frozen host to the node that keeps its replica.
func (o *Ownership) flushHost(ctx context.Context, r Record) error {
	defer o.stream.pause(r.Host)()
	if err := o.gather(ctx); err != nil {
		return err
	}
	o.stream.release(r.Host)
	o.stream.mu.Lock()
	c := o.stream.removeLocked(r.Host)
	o.stream.mu.Unlock()
	v := o.view()
	to := v.replicaOf(r.Host, r.Owner)
	o.stream.stored(r.Host) // else it is shipped as a whole
	if c == nil || c.Lost || to == "" || !v.alive(to) {
		return nil
	}
	item, err := o.storeItem(ctx, r, c)
	if err != nil {
		return err
	}
	_, err = o.storeOne(ctx, to, item)
	return err
}
