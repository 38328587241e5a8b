package home

import (
	"context"
	"errors"
	"fmt"

	"proxima/frontier"
	"proxima/node/wire"
)

// ErrNotOwner is returned by HandOff where this node does not own the host, or is handing it over already.
var ErrNotOwner = errors.New("this node does not own the host")

// ErrRefused is returned by HandOff where the other node does not want the host.
var ErrRefused = errors.New("the hand-off was refused")

// HandOff makes another node the owner of a host, or this node its assigned owner. The host is frozen, shipped in
// numbered chunks and committed. nil means that the record is written. After an error the host is crawled here as
// before, or, where the other node may have committed it, it stays frozen until that is known.
func (h *Home) HandOff(ctx context.Context, host, to string, assigned bool, reason string) error {
	defer h.locks.lock(host)()
	h.mu.Lock()
	v := h.horizon.now
	r, ok, err := h.records.get(host)
	_, leaving := h.leaving[host]
	switch {
	case err != nil:
	case !ok || r.Owner != v.Self || leaving:
		err = ErrNotOwner
	case !v.Majority:
		err = errors.New("this node sees only the smaller side of the overlay")
	case to == v.Self:
		if r.Assigned != assigned {
			r.Epoch, r.Assigned = r.Epoch+1, assigned
			err = h.put(r)
			h.pend(r)
		}
		h.mu.Unlock()
		signal(h.renew)
		return err
	}
	h.mu.Unlock()
	if err != nil {
		return fmt.Errorf("hand over %s: %w", host, err)
	}
	next := Record{Host: host, Epoch: r.Epoch + 1, Owner: to, Assigned: assigned}
	if err := h.freeze(ctx, host, to); err != nil {
		return errors.Join(fmt.Errorf("freeze %s: %w", host, err), h.thaw(ctx, host))
	}
	asked, err := h.transfer(ctx, to, next, false)
	if err != nil {
		h.event(Event{Kind: Aborted, Record: next, Peer: to, Reason: err.Error()})
		err = fmt.Errorf("hand over %s: %w", host, err)
		if r, _, e := h.Record(host); e != nil || r.Owner != v.Self {
			h.todo(host, job{kind: ship})
			return errors.Join(err, e) // a newer record has come: the host is no longer this node's
		}
		if asked && !errors.Is(err, ErrRefused) {
			h.todo(host, job{kind: settle, to: to})
			return err
		}
		return errors.Join(err, h.thaw(ctx, host))
	}
	return h.handedOver(ctx, next, reason)
}

// freeze stops everything that goes into a host here. When it returns, nothing of the host is under way.
func (h *Home) freeze(ctx context.Context, host, to string) error {
	h.gate.Lock() // links that were routed here before are on disk when this returns
	h.mu.Lock()
	h.leaving[host] = to
	h.mu.Unlock()
	h.gate.Unlock()
	return h.deps.Frontier.SetHold(ctx, host, frontier.Leaving)
}

// thaw lets a host go on here. It is done even if the node is being stopped: on disk it would stay frozen.
func (h *Home) thaw(ctx context.Context, host string) error {
	err := h.deps.Frontier.SetHold(context.WithoutCancel(ctx), host, frontier.Own)
	h.mu.Lock()
	delete(h.leaving, host)
	h.mu.Unlock()
	return err
}

// handedOver notes that a host has its next owner: what is here is its second copy, or is forgotten.
func (h *Home) handedOver(ctx context.Context, next Record, reason string) error {
	ctx = context.WithoutCancel(ctx)
	h.mu.Lock()
	mine, _, err := h.records.get(next.Host)
	if err == nil && (mine == next || next.Newer(mine)) {
		err = h.put(next)
	}
	keep := h.horizon.now.copyOf(next.Host, next.Owner) == h.horizon.now.Self
	h.counts.HandedOff++
	delete(h.fences.pending, next.Host)
	delete(h.wishes, next.Host)
	h.mu.Unlock()
	if err != nil {
		return err
	}
	if err := h.release(ctx, next.Host, keep); err != nil {
		return err
	}
	h.event(Event{Kind: HandedOff, Record: next, Peer: next.Owner, Reason: reason})
	return nil
}

// release ends this node's ownership in the frontier.
func (h *Home) release(ctx context.Context, host string, keep bool) (err error) {
	if keep {
		err = h.deps.Frontier.SetHold(ctx, host, frontier.Backup)
	} else {
		err = h.deps.Frontier.Remove(ctx, host)
	}
	h.mu.Lock()
	delete(h.leaving, host)
	h.mu.Unlock()
	if err != nil {
		return fmt.Errorf("release %s: %w", host, err)
	}
	return nil
}

// transferTries is how often a transfer begins anew when the other side misses chunks.
const transferTries = 3

// transfer ships a host. asked says that the commit was sent: from then on an error leaves it open whether the other
// side has it.
func (h *Home) transfer(ctx context.Context, to string, record Record, merge bool) (asked bool, err error) {
	for range transferTries {
		var step wire.Step
		step, err = h.transferOnce(ctx, to, record, merge, &asked)
		if err != nil {
			return asked, err
		}
		if step == wire.Step_STEP_COMMITTED {
			return true, nil
		}
	}
	return asked, fmt.Errorf("%w: the chunks that arrive differ from those that are sent", ErrRefused)
}

func (h *Home) transferOnce(ctx context.Context, to string, record Record, merge bool, asked *bool) (wire.Step, error) {
	var at frontier.Cursor
	for number := uint32(0); ; number++ {
		chunk, next, end, err := h.deps.Frontier.Export(ctx, record.Host, at, h.cfg.ChunkURLs, chunkBytes)
		if err != nil {
			return 0, fmt.Errorf("read chunk %d: %w", number, err)
		}
		req := &wire.TransferRequest{Record: record.wire(), Number: number, Chunk: chunkToWire(chunk), Merge: merge, Commit: end}
		if step, err := h.sendChunk(ctx, to, record, req, asked); err != nil || step != wire.Step_STEP_STORED {
			return step, err
		}
		at = next
	}
}

// sendChunk sends one chunk. It was stored, or the transfer ends with the step that it returns.
func (h *Home) sendChunk(ctx context.Context, to string, record Record, req *wire.TransferRequest, asked *bool) (wire.Step, error) {
	if req.GetCommit() {
		d, err := h.deps.Frontier.DigestOf(ctx, record.Host)
		if err != nil {
			return 0, fmt.Errorf("digest: %w", err)
		}
		req.Digest = digestToWire(d)
		*asked = true
	}
	res, err := h.deps.Peers.Transfer(ctx, to, req)
	if err != nil {
		return 0, fmt.Errorf("send chunk %d to %s: %w", req.GetNumber(), to, err)
	}
	switch res.GetStep() {
	case wire.Step_STEP_STORED:
		if req.GetCommit() {
			return wire.Step_STEP_AGAIN, nil
		}
		return wire.Step_STEP_STORED, nil
	case wire.Step_STEP_REFUSED:
		*asked = false // it said no
		if newer, ok := fromWire(res.GetNewer()); ok && newer.Host == record.Host && !record.Newer(newer) {
			if err := h.obey(newer); err != nil { // what is here is shipped to its owner
				return 0, err
			}
		}
		return 0, fmt.Errorf("%w by %s: %s", ErrRefused, to, res.GetReason())
	case wire.Step_STEP_COMMITTED, wire.Step_STEP_AGAIN:
		return res.GetStep(), nil
	default:
		return 0, fmt.Errorf("%w: %s does not understand", ErrRefused, to)
	}
}

// settleDoubt decides about a host whose hand-off may have been committed: this node takes it back with an epoch beyond
// what was proposed, if the home agrees. Whoever has it by the epoch before has not been confirmed then, and obeys.
func (h *Home) settleDoubt(ctx context.Context, host string) error {
	unlock := h.locks.lock(host)
	defer func() { unlock() }()
	h.mu.Lock()
	v := h.horizon.now
	r, ok, err := h.records.get(host)
	h.mu.Unlock()
	if err != nil || !ok {
		return err
	}
	if r.Owner != v.Self {
		unlock()
		unlock = func() {}
		return h.shipRest(ctx, host) // the claim of the new owner has come meanwhile
	}
	if !v.Majority || len(v.Settled) == 0 {
		return errors.New("it is not known yet whether its hand-off was committed")
	}
	back := Record{Host: host, Epoch: r.Epoch + 2, Owner: v.Self, Assigned: r.Assigned}
	contested := false
	if home := v.homeOf(host); home != v.Self {
		res, err := h.deps.Peers.Claim(ctx, home, &wire.ClaimRequest{Records: []*wire.Record{back.wire()}})
		if err != nil {
			return fmt.Errorf("ask %s who owns it: %w", home, err)
		}
		if len(res.GetLater()) > 0 {
			return fmt.Errorf("%s does not know yet who owns it", home)
		}
		for _, w := range res.GetNewer() {
			newer, ok := fromWire(w)
			if !ok || newer.Host != host {
				continue
			}
			if err := h.obey(newer); err != nil || newer.Owner != v.Self {
				return err
			}
			return h.thaw(ctx, host) // this node is the owner, by a record that it did not have
		}
		contested = len(res.GetContested()) > 0
	}
	h.mu.Lock()
	if now, _, err := h.records.get(host); err != nil || now != r {
		h.mu.Unlock()
		return errors.Join(err, errors.New("its record has changed meanwhile"))
	}
	err = h.put(back)
	if contested { // the other node had been confirmed, and may not know yet
		h.pend(back)
	}
	h.mu.Unlock()
	if err != nil {
		return err
	}
	return h.thaw(ctx, host)
}

// pend keeps a host waiting until its home has confirmed this node as the owner. It needs mu held.
func (h *Home) pend(r Record) {
	if h.horizon.now.homeOf(r.Host) != h.horizon.now.Self {
		h.fences.pending[r.Host] = r
	}
}

func (h *Home) event(e Event) {
	if h.deps.Event != nil {
		h.deps.Event(e)
	}
}

// WishMove asks the home of a host for leave to hand it to a better peer; the hand-off follows by itself.
func (h *Home) WishMove(host, to, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := &h.horizon.now
	r, ok, err := h.records.get(host)
	if err != nil || !ok || r.Owner != v.Self || len(h.wishes) >= maxWishes {
		return
	}
	h.wishes[host] = &wire.Move{Host: host, Epoch: r.Epoch, To: to, Reason: reason}
	if v.homeOf(host) == v.Self {
		delete(h.wishes, host)
		h.list(host, job{kind: move, to: to, reason: reason})
		return
	}
	signal(h.renew)
}

// maxWishes bounds the moves that wait for leave.
const maxWishes = 1000

// wishesFor takes the wishes for one home. It needs mu held.
func (h *Home) wishesFor(home string) []*wire.Move {
	var out []*wire.Move
	for host, m := range h.wishes {
		if h.horizon.now.homeOf(host) == home {
			out = append(out, m)
			delete(h.wishes, host)
		}
	}
	return out
}

// recover finds the hosts that an earlier life has left frozen or half arrived.
func (h *Home) recover(ctx context.Context) error {
	self := h.self()
	return h.records.visit(func(r Record) error {
		hold, known, err := h.deps.Frontier.HoldOf(ctx, r.Host)
		if err != nil {
			return err
		}
		return h.recoverHost(ctx, r, hold, known, self)
	})
}

// recoverHost brings the record of a host and what the frontier holds it for together again. The record is written first.
func (h *Home) recoverHost(ctx context.Context, r Record, hold frontier.Hold, known bool, self string) error {
	mine := r.Owner == self
	switch {
	case !known:
	case hold == frontier.Leaving && mine:
		h.mu.Lock()
		h.leaving[r.Host] = ""
		h.mu.Unlock()
		h.todo(r.Host, job{kind: settle})
	case hold == frontier.Leaving, hold == frontier.Own && !mine:
		h.mu.Lock()
		h.leaving[r.Host] = r.Owner
		h.mu.Unlock()
		h.todo(r.Host, job{kind: ship})
	case hold != frontier.Own && mine:
		// It had arrived whole, or was taken over.
		if err := h.deps.Frontier.SetHold(ctx, r.Host, frontier.Own); err != nil {
			return err
		}
		h.mu.Lock()
		h.pend(r)
		h.mu.Unlock()
	}
	return nil
}
