package ownership

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/frontier"
	"proxima/node/view"
	"proxima/node/wire"
)

// replicator keeps the second copies of the hosts that this node owns: it streams what changes, and mends what differs.
type replicator struct {
	*book
	stream *stream
	sweep  chan struct{} // all hosts are to be looked at

	// The lock of the book guards what follows.
	silent map[string]time.Time // who has not answered what was to be stored, and since when
	// unwitnessed are hosts owned here whose witness is to be told, and the epochs of their records.
	unwitnessed map[string]uint64
	// compare are the nodes whose replicas are to be compared: those that are back. Nil: all.
	compare map[string]bool
}

func newReplicator(b *book) *replicator {
	return &replicator{book: b, stream: newStream(), sweep: make(chan struct{}, 1), silent: make(map[string]time.Time),
		unwitnessed: make(map[string]uint64)}
}

// changedLocked has the witness told of the new record of a host that this node owns.
func (rep *replicator) changedLocked(host string, r Record) {
	if r.Owner == rep.views.Now().Self {
		rep.unwitnessed[host] = r.Epoch
	}
}

// sending is a change on its way to the replica of a host, or the host's record on its way to the witness.
type sending struct {
	host   string
	change *frontier.Change // nil: to the witness
	item   *wire.StoreItem
}

// runStream sends changes to replicas: one message at a time to each peer, and none waits for another peer's.
func (rep *replicator) runStream(ctx context.Context) error {
	defer rep.stream.end()
	tick := time.NewTicker(rep.cfg.ReplicateEvery)
	defer tick.Stop()
	t := talk{rep: rep, busy: make(map[string]bool), over: make(chan string)}
	defer t.calls.Wait()
	var company <-chan time.Time // what somebody waits for goes then
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case to := <-t.over:
			delete(t.busy, to)
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
			err = rep.records.flush()
		case done := <-rep.stream.flush:
			err = t.flush(ctx)
			close(done)
		}
		if company = nil; err == nil {
			err = t.round(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// talk is who is being spoken to by runStream.
type talk struct {
	rep   *replicator
	busy  map[string]bool
	over  chan string // receives who has answered
	calls sync.WaitGroup
}

// round sends what can be sent now.
func (t *talk) round(ctx context.Context) error {
	if err := t.rep.gather(ctx); err != nil {
		return err
	}
	parcels, err := t.rep.parcels(ctx, t.busy)
	for to, parcel := range parcels {
		t.busy[to] = true
		t.calls.Go(func() {
			t.rep.send(ctx, to, parcel)
			select {
			case t.over <- to:
			case <-ctx.Done():
			}
		})
	}
	return err
}

// flush sends all that there is, held back or not, and returns when it has been answered.
func (t *talk) flush(ctx context.Context) error {
	for range 2 { // the second is for peers that are being spoken to
		if err := t.rep.gather(ctx); err != nil {
			return err
		}
		t.rep.stream.mature(func(time.Time) bool { return true }, t.rep.startup, time.Now(), 0)
		if err := t.round(ctx); err != nil {
			return err
		}
		for len(t.busy) > 0 {
			select {
			case to := <-t.over:
				delete(t.busy, to)
			case <-ctx.Done():
				return nil
			}
		}
	}
	return nil
}

// gather takes what the frontier tells, and lets go what is safe now.
func (rep *replicator) gather(ctx context.Context) error {
	rep.stream.gathering <- struct{}{}
	defer func() { <-rep.stream.gathering }()
	changes := rep.deps.Frontier.Changes()
	if len(changes) > 0 { // others are told that pages are done: a power cut must not undo the links found on them
		// Nobody hears of these changes again: whoever asked for this, and has gone, must not take them along.
		if err := rep.deps.Frontier.Sync(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	now := time.Now() // the links of these pages were added to the outbox before
	rep.stream.take(changes, now)
	if rep.stream.mature(rep.deps.Outbox.Settled, rep.startup, now, 2*rep.cfg.TakeAfter) {
		rep.mu.Lock()
		rep.compare = nil // up to now nobody could have the same
		rep.mu.Unlock()
		signal(rep.sweep)
	}
	return nil
}

// Flush sends what has changed up to now to the replicas, each change once, and returns when that is over or the context
// ends.
func (rep *replicator) Flush(ctx context.Context) {
	if rep.begun() != nil {
		return
	}
	done := make(chan struct{})
	select {
	case rep.stream.flush <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// parcels takes the changes that can be sent now, by the peers that keep the replicas.
func (rep *replicator) parcels(ctx context.Context, busy map[string]bool) (map[string][]sending, error) {
	changes := rep.stream.next()
	v := rep.view() // after that: a node that comes later is compared with, and finds nothing on its way
	out := make(map[string][]sending)
	var alone []string
	defer func() { rep.stream.stored(alone...) }()
	for host, c := range changes {
		r, ok, err := rep.records.get(host)
		if err != nil {
			return nil, err
		}
		to := v.Replica(host, r.Owner)
		switch {
		case !ok || r.Owner != v.Self:
			rep.stream.forget(host)
			continue
		case !v.IsAlive(to):
			alone = append(alone, host)
			continue // it is compared when there is one
		case c.Lost:
			rep.stream.putBack(host, c)
			rep.queue.add(host, false)
			continue
		case busy[to]:
			rep.stream.putBack(host, c)
			continue
		}
		item, err := rep.storeItem(ctx, r, c)
		if err != nil {
			return nil, err
		}
		out[to] = append(out[to], sending{host, c, item})
	}
	return out, rep.addWitnesses(out, &v, busy)
}

// addWitnesses adds the records that witnesses are to be told. A host's record is on a third disk besides its owner's and its
// replica's, so that somebody knows of the host when both are lost at once: the witness is the home then, finds no copy, and
// says so.
func (rep *replicator) addWitnesses(out map[string][]sending, v *view.View, busy map[string]bool) error {
	rep.mu.Lock()
	hosts := slices.Collect(maps.Keys(rep.unwitnessed))
	rep.mu.Unlock()
	for _, host := range hosts {
		r, ok, err := rep.records.get(host)
		if err != nil {
			return err
		}
		switch to := v.Witness(host, r.Owner); {
		case !ok || r.Owner != v.Self || to == "":
			rep.witnessed(host, maxEpoch) // who becomes the owner, or a change of the members, enters it again
		case v.IsAlive(to) && !busy[to]:
			out[to] = append(out[to], sending{host: host, item: &wire.StoreItem{Record: r.wire()}})
		}
	}
	return nil
}

// witnessed notes that the witness of a host need not be told a record any more.
func (rep *replicator) witnessed(host string, epoch uint64) {
	rep.mu.Lock()
	defer rep.mu.Unlock()
	if rep.unwitnessed[host] <= epoch {
		delete(rep.unwitnessed, host)
	}
}

// storeItem makes the message about the changes of one host.
func (rep *replicator) storeItem(ctx context.Context, r Record, c *frontier.Change) (item *wire.StoreItem, err error) {
	chunk := frontier.Chunk{Pending: c.Added, Done: c.Done, Pages: c.Pages, Drops: c.Digest.Drops}
	if c.State {
		if chunk.State, err = rep.deps.Frontier.StateOf(ctx, r.Host); err != nil {
			return nil, err
		}
	}
	item = &wire.StoreItem{Record: r.wire(), Chunk: chunkToWire(chunk)}
	if rep.stream.holdsBack(r.Host) {
		return item, nil
	}
	d := c.Digest
	if !c.Tracked { // from now on it is kept. What has changed since is in it, too: then the host is compared once more
		if d, err = rep.deps.Frontier.DigestOf(ctx, r.Host); err != nil {
			return nil, err
		}
	}
	item.Digest = digestToWire(d)
	return item, nil
}

// messageURLs and chunkBytes bound a message of the changes of several hosts.
const messageURLs = 5000

// send sends changes to one peer, in messages of bounded size. A replica that differs afterwards is mended.
func (rep *replicator) send(ctx context.Context, to string, parcel []sending) {
	for len(parcel) > 0 {
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
		if err != nil && ctx.Err() == nil {
			rep.warn(fmt.Errorf("send changes of %d hosts to %s: %w", len(part), to, err))
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
				rep.witnessed(p.host, p.item.GetRecord().GetEpoch())
				continue
			}
			stored = append(stored, p.host)
			if err != nil {
				rep.warn(err)
			}
			if res.GetAnswers()[i].GetStep() != wire.Step_STEP_STORED {
				rep.queue.add(p.host, false)
			}
		}
		rep.stream.stored(stored...)
	}
}

// flushHost sends everything that waits of a frozen host to the node that keeps its replica.
func (rep *replicator) flushHost(ctx context.Context, r Record) error {
	defer rep.stream.pause(r.Host)()
	if err := rep.gather(ctx); err != nil {
		return err
	}
	rep.stream.release(r.Host)
	c := rep.stream.only(r.Host)
	v := rep.view()
	to := v.Replica(r.Host, r.Owner)
	switch {
	case c == nil:
		return nil
	case c.Lost || !v.IsAlive(to):
		rep.stream.putBack(r.Host, c) // it is shipped as a whole
		return nil
	}
	var a verdict
	item, err := rep.storeItem(ctx, r, c)
	if err == nil {
		a, err = rep.storeOne(ctx, to, item)
	}
	if err != nil {
		rep.stream.putBack(r.Host, c)
		return err
	}
	rep.stream.stored(r.Host)
	if !a.equal { // the host may stay here, and nobody else hears of it
		rep.queue.add(r.Host, false)
	}
	return nil
}
