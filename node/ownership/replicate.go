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

// sending is a change on its way to the replica of a host, or the host's record on its way to the witness.
type sending struct {
	host   string
	change *frontier.Change // nil: to the witness
	item   *wire.StoreItem
}

// runStream sends changes to replicas: one message at a time to each peer, and none waits for another peer's.
func (o *Ownership) runStream(ctx context.Context) error {
	defer o.stream.end()
	tick := time.NewTicker(o.cfg.ReplicateEvery)
	defer tick.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	var company <-chan time.Time // what somebody waits for goes then
	busy, over := make(map[string]bool), make(chan string)
	round := func() error {
		company = nil
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
		case <-o.stream.wake:
			if company == nil {
				company = time.After(o.cfg.ReplicateEvery / 4)
			}
			if !o.stream.crowded() {
				continue
			}
			if err := round(); err != nil {
				return err
			}
		case <-company:
			if err := round(); err != nil {
				return err
			}
		case <-tick.C:
			if err := o.records.flush(); err != nil {
				return err
			}
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
	o.stream.gathering <- struct{}{}
	defer func() { <-o.stream.gathering }()
	changes := o.deps.Frontier.Changes()
	if len(changes) > 0 { // others are told that pages are done: a power cut must not undo the links found on them
		// Nobody hears of these changes again: whoever asked for this, and has gone, must not take them along.
		if err := o.deps.Frontier.Sync(context.WithoutCancel(ctx)); err != nil {
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
	changes := o.stream.next()
	v := o.view() // after that: a node that comes later is compared with, and finds nothing on its way
	out := make(map[string][]sending)
	var alone []string
	defer func() { o.stream.stored(alone...) }()
	for host, c := range changes {
		r, ok, err := o.records.get(host)
		if err != nil {
			return nil, err
		}
		to := v.Replica(host, r.Owner)
		switch {
		case !ok || r.Owner != v.Self:
			o.stream.forget(host)
			continue
		case to == "" || !v.IsAlive(to):
			alone = append(alone, host)
			continue // it is compared when there is one
		case c.Lost:
			o.stream.putBack(host, c)
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
	return out, o.addWitnesses(out, &v, busy)
}

// addWitnesses adds the records that witnesses are to be told. A host's record is on a third disk besides its owner's and its
// replica's, so that somebody knows of the host when both are lost at once: the witness is the home then, finds no copy, and
// says so.
func (o *Ownership) addWitnesses(out map[string][]sending, v *view.View, busy map[string]bool) error {
	o.mu.Lock()
	hosts := slices.Collect(maps.Keys(o.unwitnessed))
	o.mu.Unlock()
	for _, host := range hosts {
		r, ok, err := o.records.get(host)
		if err != nil {
			return err
		}
		switch to := v.Witness(host, r.Owner); {
		case !ok || r.Owner != v.Self || to == "":
			o.witnessed(host, maxEpoch) // who becomes the owner, or a change of the members, enters it again
		case v.IsAlive(to) && !busy[to]:
			out[to] = append(out[to], sending{host: host, item: &wire.StoreItem{Record: r.wire()}})
		}
	}
	return nil
}

// witnessed notes that the witness of a host need not be told a record any more.
func (o *Ownership) witnessed(host string, epoch uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unwitnessed[host] <= epoch {
		delete(o.unwitnessed, host)
	}
}

// storeItem makes the message about the changes of one host.
func (o *Ownership) storeItem(ctx context.Context, r Record, c *frontier.Change) (item *wire.StoreItem, err error) {
	chunk := frontier.Chunk{Pending: c.Added, Done: c.Done, Pages: c.Pages, Drops: c.Digest.Drops}
	if c.State {
		if chunk.State, err = o.deps.Frontier.StateOf(ctx, r.Host); err != nil {
			return nil, err
		}
	}
	item = &wire.StoreItem{Record: r.wire(), Chunk: chunkToWire(chunk)}
	if o.stream.holdsBack(r.Host) {
		return item, nil
	}
	d := c.Digest
	if !c.Tracked { // from now on it is kept. What has changed since is in it, too: then the host is compared once more
		if d, err = o.deps.Frontier.DigestOf(ctx, r.Host); err != nil {
			return nil, err
		}
	}
	item.Digest = digestToWire(d)
	return item, nil
}

// messageURLs and chunkBytes bound a message of the changes of several hosts.
const messageURLs = 5000

// send sends changes to one peer, in messages of bounded size. A replica that differs afterwards is mended.
func (o *Ownership) send(ctx context.Context, to string, parcel []sending) {
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
		res, err := o.askToStore(ctx, to, items...)
		if err != nil && ctx.Err() == nil {
			o.warn(fmt.Errorf("send changes of %d hosts to %s: %w", len(part), to, err))
		}
		var stored []string
		for i, p := range part {
			if err != nil || i >= len(res.GetAnswers()) || res.GetAnswers()[i].GetStep() == wire.Step_STEP_LATER {
				if p.change != nil {
					o.stream.putBack(p.host, p.change)
				}
				continue
			}
			_, err := o.readAnswer(to, p.item, res.GetAnswers()[i])
			if p.change == nil {
				o.witnessed(p.host, p.item.GetRecord().GetEpoch())
				continue
			}
			stored = append(stored, p.host)
			if err != nil {
				o.warn(err)
			}
			if res.GetAnswers()[i].GetStep() != wire.Step_STEP_STORED {
				o.queue.add(p.host, false)
			}
		}
		o.stream.stored(stored...)
	}
}

// flushHost sends everything that waits of a frozen host to the node that keeps its replica.
func (o *Ownership) flushHost(ctx context.Context, r Record) error {
	defer o.stream.pause(r.Host)()
	if err := o.gather(ctx); err != nil {
		return err
	}
	o.stream.release(r.Host)
	c := o.stream.only(r.Host)
	v := o.view()
	to := v.Replica(r.Host, r.Owner)
	switch {
	case c == nil:
		return nil
	case c.Lost || to == "" || !v.IsAlive(to):
		o.stream.putBack(r.Host, c) // it is shipped as a whole
		return nil
	}
	var a verdict
	item, err := o.storeItem(ctx, r, c)
	if err == nil {
		a, err = o.storeOne(ctx, to, item)
	}
	if err != nil {
		o.stream.putBack(r.Host, c)
		return err
	}
	o.stream.stored(r.Host)
	if !a.equal { // the host may stay here, and nobody else hears of it
		o.queue.add(r.Host, false)
	}
	return nil
}
