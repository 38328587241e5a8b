package ownership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"proxima/node/view"
	"proxima/node/wire"
)

// A host's record is on a third disk besides its owner's and its replica's, so that somebody knows of the host when both
// are lost at once: this node, the witness, is the home then, finds no copy, and says so.

// concerned says that this node has to know the record of a host: as its owner, its home, or by its replica or its witness.
func concerned(v *view.View, r Record) bool {
	return r.Owner == v.Self || v.Home(r.Host) == v.Self || v.Replica(r.Host, r.Owner) == v.Self || v.Witness(r.Host, r.Owner) == v.Self
}

// witnessEvery is how long records gather before they go to their witnesses.
const witnessEvery = 2 * time.Second

// runWitnesses tells the witnesses of the hosts of this node when it became their owner.
func (o *Ownership) runWitnesses(ctx context.Context) error {
	tick := time.NewTicker(witnessEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := o.tellWitnesses(ctx); err != nil {
			return err
		}
	}
}

func (o *Ownership) tellWitnesses(ctx context.Context) error {
	o.mu.Lock()
	v := *o.views.Now()
	hosts := make([]string, 0, len(o.unwitnessed))
	for host := range o.unwitnessed {
		hosts = append(hosts, host)
	}
	o.mu.Unlock()
	items := make(map[string][]*wire.StoreItem)
	for _, host := range hosts {
		r, ok, err := o.records.get(host)
		if err != nil {
			return err
		}
		to := v.Witness(host, r.Owner)
		switch {
		case !ok || r.Owner != v.Self || to == "":
			o.mu.Lock()
			delete(o.unwitnessed, host) // who becomes the owner, or a change of the members, enters it again
			o.mu.Unlock()
		case v.IsAlive(to):
			items[to] = append(items[to], &wire.StoreItem{Record: r.wire()})
		}
	}
	for to, all := range items {
		for part := range slices.Chunk(all, compared) {
			if err := o.tellWitness(ctx, to, part); err != nil && ctx.Err() == nil {
				o.warn(fmt.Errorf("tell %s who owns %d hosts: %w", to, len(part), err))
				break // it is told later
			}
		}
	}
	return nil
}

// tellWitness sends records to one witness. Those that it has not stored are sent again.
func (o *Ownership) tellWitness(ctx context.Context, to string, items []*wire.StoreItem) error {
	res, err := o.deps.Peers.Store(ctx, to, &wire.StoreRequest{Items: items})
	if err != nil {
		return err
	}
	for i, a := range res.GetAnswers()[:min(len(items), len(res.GetAnswers()))] {
		_, err := o.readAnswer(to, items[i], a)
		switch r := items[i].GetRecord(); {
		case errors.Is(err, errLater):
		case err == nil, errors.Is(err, errNotTheirs), errors.Is(err, errFull):
			o.mu.Lock()
			if o.unwitnessed[r.GetHost()] == r.GetEpoch() {
				delete(o.unwitnessed, r.GetHost())
			}
			o.mu.Unlock()
		default:
			return err
		}
	}
	return nil
}
