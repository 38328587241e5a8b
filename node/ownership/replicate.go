package ownership

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/bell"
	"proxima/node/wire"
)

// replicator keeps the replicas of the hosts that this node owns: it streams changes to them and mends those that differ.
type replicator struct {
	*book
	census *census
	stream *stream
	sweep  bell.Bell // wakes runSweeps

	// The lock of the book guards the fields below.
	silent map[string]*silence // peers that have not answered a Store yet
	// untold are hosts whose record another node must be told, with its epoch: the witness, or the home if the owner is gone.
	untold map[string]uint64
	// compare are the peers whose replicas the next sweep compares, because they are back; nil stands for all.
	compare map[string]bool
}

func newReplicator(b *book, c *census) *replicator {
	return &replicator{book: b, census: c, stream: newStream(time.Now()), sweep: bell.New(), silent: make(map[string]*silence),
		untold: make(map[string]uint64)}
}

// silence is the wait for a peer that has not answered all Stores.
type silence struct {
	since time.Time // the latest answer meanwhile, or the first of these Stores
	calls int       // Stores that are under way
}

// sending is one item of a message to a peer.
type sending struct {
	host   string
	change *frontier.Change // for the replica; nil if the peer is only told the record
	item   *wire.StoreItem
}

// runStream sends changes to the replicas: one message at a time to each peer, without waiting for other peers.
func (rep *replicator) runStream(ctx context.Context) error {
	defer rep.stream.end()
	tick := time.NewTicker(rep.cfg.ReplicateEvery)
	defer tick.Stop()
	busy := make(map[string]bool)
	answered := make(chan string) // receives each busy peer when it has answered
	var calls sync.WaitGroup
	defer calls.Wait()
	var company <-chan time.Time // fires when an awaited change has waited long enough for others to join it
	for {
		select {
		case <-ctx.Done():
			return nil
		case to := <-answered:
			delete(busy, to)
			continue
		case <-rep.stream.wake:
			if company == nil {
				company = time.After(rep.cfg.ReplicateEvery / 4)
			}
			if !rep.stream.crowded() {
				continue
			}
		case <-company:
		case <-tick.C:
			if err := rep.records.flush(); err != nil {
				return err
			}
		}
		company = nil
		if err := rep.gather(ctx); err != nil {
			return err
		}
		parcels, err := rep.parcels(ctx, rep.stream.next(), busy)
		if err == nil {
			err = rep.addRecords(parcels, busy)
		}
		if err != nil {
			return err
		}
		for to, parcel := range parcels {
			busy[to] = true
			calls.Go(func() {
				rep.send(ctx, to, parcel)
				select {
				case answered <- to:
				case <-ctx.Done():
				}
			})
		}
	}
}

// gather moves changes from the frontier to the stream, and releases what need not be held back any more. Calls that wait for the one before
// share the next.
func (rep *replicator) gather(ctx context.Context) error {
	begun := rep.stream.gathers.Load()
	rep.stream.gathering <- struct{}{}
	defer func() { <-rep.stream.gathering }()
	if rep.stream.gathers.Load() > begun {
		return nil
	}
	rep.stream.gathers.Add(1)
	changes := rep.deps.Frontier.Changes()
	if len(changes) > 0 {
		// Peers will hear that these pages are done, so a power cut must not undo the links found on them. The frontier reports a
		// change once: a caller that gives up must not take it along, and after an error the replicas are mended instead.
		if err := rep.deps.Frontier.Sync(context.WithoutCancel(ctx)); err != nil {
			for _, c := range changes {
				c.Lost = true // but its pages are held back like all others
			}
			rep.stream.take(changes, time.Now())
			return err
		}
	}
	now := time.Now() // links of these pages entered the outbox before this
	rep.stream.take(changes, now)
	if rep.stream.mature(rep.deps.Outbox.Settled, now, 2*rep.cfg.TakeAfter, rep.cfg.SuspendAfter) {
		rep.mu.Lock()
		rep.compare = nil // until now every replica had to differ
		rep.mu.Unlock()
		rep.sweep.Ring()
	}
	return nil
}

// Flush waits until the replicas have all changes, those of finished pages when their links are safe, or the context ends.
func (rep *replicator) Flush(ctx context.Context) {
	for rep.begun() == nil {
		gathered := make(chan error, 1)
		// Nobody can break off a sync. On a silent disk this one goroutine outlasts the context, and the node ends without it.
		go func() { gathered <- rep.gather(ctx) }()
		select {
		case err := <-gathered:
			if err != nil || rep.stream.empty() {
				return
			}
		case <-ctx.Done():
			return
		}
		rep.stream.wake.Ring()
		if bell.Sleep(ctx, rep.cfg.ReplicateEvery/4) != nil {
			return
		}
	}
}

// parcels makes messages, by peer, of changes taken from the stream. It puts those back that cannot be sent now. New URLs of hosts whose replica
// is at a dead node go to the outbox, which copies them to another node. It keeps them until the dead node is back, or another has taken its place, and
// has stored them.
func (rep *replicator) parcels(ctx context.Context, changes map[string]*frontier.Change, busy map[string]bool) (map[string][]sending, error) {
	v := rep.view() // read last: a peer that comes later is compared, and must find nothing on its way
	out := make(map[string][]sending)
	var done []string
	alone := make(map[string]*frontier.Change)
	var unreplicated []*wire.Link
	defer func() { rep.stream.stored(done...) }()
	for host, c := range changes {
		r, err := rep.records.get(host)
		if err != nil {
			return nil, err
		}
		to := v.Replica(host, r.Owner)
		switch {
		case r.Owner != v.Self || to == "": // no other node could have it
			done = append(done, host)
		case !v.IsAlive(to):
			alone[host] = c
			for _, p := range rep.stream.ungiven(host, c) {
				l := frontier.Link{URL: identity.URL{Host: host, Path: p.Path}, Depth: p.Depth, Hops: p.Hops, Sitemap: p.Sitemap}
				unreplicated = append(unreplicated, LinkToWire(l))
			}
		case c.Lost:
			rep.stream.putBack(host, &frontier.Change{Lost: true}) // the rest of it is mended, too
			rep.queue.add(host, false)
		case busy[to]:
			rep.stream.putBack(host, c)
		default:
			item, err := rep.storeItem(ctx, r, c)
			if err != nil {
				return nil, err
			}
			out[to] = append(out[to], sending{host, c, item})
		}
	}
	if len(unreplicated) > 0 {
		if err := rep.deps.Outbox.Add(ctx, map[string][]*wire.Link{v.Self: unreplicated}); err != nil {
			return nil, err
		}
		rep.deps.Outbox.Hurry()
	}
	for host, c := range alone {
		rep.stream.leave(host, c, time.Now())
	}
	return out, nil
}

// tell has the record of a host told to its witness, or to its home if the owner is gone. A witness is a third node that knows of the host. If
// owner and replica are lost at once, the witness becomes the home or tells a newcomer, which is the home now. The home finds no copy, and
// reports the loss.
func (rep *replicator) tell(r Record) {
	rep.mu.Lock()
	defer rep.mu.Unlock()
	rep.untold[r.Host] = r.Epoch
}

// maxTold bounds the records that others are told at once. After a change of members it may be those of all hosts.
const maxTold = 10_000

// addRecords adds the records that others must be told. A peer that did not answer the last Store gets an empty message if there is nothing to
// send: the hosts whose replicas it keeps wait for an answer.
func (rep *replicator) addRecords(out map[string][]sending, busy map[string]bool) error {
	rep.mu.Lock()
	v := *rep.views.Now()
	for to, q := range rep.silent {
		if out[to] == nil && q.calls == 0 && !busy[to] && time.Since(q.since) < rep.cfg.SuspendAfter {
			out[to] = []sending{}
		}
	}
	var hosts []string
	for host := range rep.untold { // in random order, so that those whose witness does not answer keep none from its turn
		if hosts = append(hosts, host); len(hosts) == maxTold {
			break
		}
	}
	rep.mu.Unlock()
	for _, host := range hosts {
		r, err := rep.records.get(host)
		if err != nil {
			return err
		}
		to := ""
		switch {
		case r.Owner == v.Self:
			to = v.Witness(host, r.Owner)
		case r.Owner != "" && !v.IsAlive(r.Owner):
			to = v.Home(host)
		}
		switch {
		case to == "" || to == v.Self:
			rep.wasTold(host, maxEpoch) // a new owner, or the next change of members, enters it again
		case v.IsAlive(to) && !busy[to]:
			out[to] = append(out[to], sending{host: host, item: &wire.StoreItem{Record: r.wire()}})
		}
	}
	return nil
}

// wasTold notes that the witness or home of a host knows its record up to an epoch.
func (rep *replicator) wasTold(host string, epoch uint64) {
	rep.mu.Lock()
	defer rep.mu.Unlock()
	if rep.untold[host] <= epoch {
		delete(rep.untold, host)
	}
}

// storeItem makes the message about a change.
func (rep *replicator) storeItem(ctx context.Context, r Record, c *frontier.Change) (item *wire.StoreItem, err error) {
	chunk := frontier.Chunk{Pending: c.Added, Done: c.Done, Pages: c.Pages, Drops: c.Digest.Drops}
	if c.State {
		if chunk.State, err = rep.deps.Frontier.StateOf(ctx, r.Host); err != nil {
			return nil, err
		}
	}
	item = &wire.StoreItem{Record: r.wire(), Chunk: chunkToWire(chunk)}
	if !rep.stream.compares(r.Host) {
		return item, nil
	}
	d := c.Digest
	if !c.Tracked {
		// The frontier tracks the digest from this call on. If the host has changed since, it is compared once more.
		if d, err = rep.deps.Frontier.DigestOf(ctx, r.Host); err != nil {
			return nil, err
		}
	}
	item.Digest = digestToWire(d)
	return item, nil
}

// A message with changes of several hosts ends after messageURLs URLs or chunkBytes bytes.
const messageURLs = 5000

// send sends a parcel to one peer, in messages of bounded size: one at least. Replicas that differ afterwards are mended.
func (rep *replicator) send(ctx context.Context, to string, parcel []sending) {
	for more := true; more; more = len(parcel) > 0 {
		n, urls, size := 0, 0, 0
		var items []*wire.StoreItem
		for n < len(parcel) && (n == 0 || urls < messageURLs && size < chunkBytes) {
			item := parcel[n].item
			urls += len(item.GetChunk().GetPending()) + len(item.GetChunk().GetDone())/8 + len(item.GetChunk().GetPages()) + 8
			size += proto.Size(item)
			items = append(items, item)
			n++
		}
		part := parcel[:n]
		parcel = parcel[n:]
		res, err := rep.askToStore(ctx, to, items...)
		if err != nil && ctx.Err() == nil && n > 0 {
			rep.deps.Warn(fmt.Errorf("send changes of %d hosts to %s: %w", len(part), to, err))
		}
		var stored []string
		for i, p := range part {
			if err != nil || i >= len(res.GetAnswers()) || res.GetAnswers()[i].GetStep() == wire.Step_STEP_LATER {
				if p.change != nil {
					rep.stream.putBack(p.host, p.change)
				}
				continue
			}
			_, err := rep.readAnswer(to, p.item, res.GetAnswers()[i])
			if p.change == nil {
				rep.wasTold(p.host, p.item.GetRecord().GetEpoch())
				continue
			}
			if err != nil {
				rep.deps.Warn(err)
			}
			if errors.Is(err, errFull) {
				rep.stream.putBack(p.host, &frontier.Change{Lost: true}) // mended when there is room again
				continue
			}
			stored = append(stored, p.host)
			if res.GetAnswers()[i].GetStep() != wire.Step_STEP_STORED {
				rep.queue.add(p.host, false)
			}
		}
		rep.stream.stored(stored...)
	}
}

// secure waits until the links on the finished pages of a host are safe, because another node is about to count these pages as done.
// The host must be frozen. If that takes longer than patience, the error is errLater.
func (rep *replicator) secure(ctx context.Context, host string, patience time.Duration) error {
	for waited := time.Duration(0); ; waited += rep.cfg.ReplicateEvery / 4 {
		if err := rep.gather(ctx); err != nil {
			return err
		}
		switch {
		case !rep.stream.holdsBack(host):
			return nil
		case waited >= patience:
			rep.deps.Outbox.Hurry() // for the next time
			return fmt.Errorf("%w: links on its pages are not safe yet", errLater)
		case waited >= rep.cfg.ReplicateEvery: // most links are acknowledged sooner
			rep.deps.Outbox.Hurry()
		}
		if err := bell.Sleep(ctx, rep.cfg.ReplicateEvery/4); err != nil {
			return err
		}
	}
}

// flushHost sends everything that waits of a frozen host to its replica, once that is safe. What the replica
// does not take is made good by shipping the whole.
func (rep *replicator) flushHost(ctx context.Context, host string) error {
	if err := rep.secure(ctx, host, rep.cfg.SilentAfter); err != nil {
		return err
	}
	changes := rep.stream.only(host)
	parcels, err := rep.parcels(ctx, changes, nil)
	if err != nil {
		rep.stream.putBack(host, changes[host])
		return err
	}
	for to, parcel := range parcels {
		rep.send(ctx, to, parcel)
	}
	return nil
}
