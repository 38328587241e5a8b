package home

import (
	"context"
	"fmt"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// arrival is a host on its way here.
type arrival struct {
	from  string
	epoch uint64
	next  uint32 // number of the next chunk
	last  time.Time
}

// Transfer takes a chunk of a host that comes here, or of what a former owner has left of a host that is here.
func (h *Home) Transfer(ctx context.Context, from string, req *wire.TransferRequest) (*wire.TransferResponse, error) {
	if err := h.begun(); err != nil {
		return nil, err
	}
	r, ok := fromWire(req.GetRecord())
	chunk, err := chunkFromWire(req.GetChunk())
	self := h.self()
	if err != nil || !ok || (!req.GetMerge() && r.Owner != self) {
		return &wire.TransferResponse{Step: wire.Step_STEP_REFUSED, Reason: "malformed"}, nil
	}
	unlock := h.locks.wait(ctx, r.Host) // its copy here may just be written
	if unlock == nil {
		return nil, fmt.Errorf("store chunk of %s: the host is busy", r.Host)
	}
	defer unlock()
	if req.GetMerge() {
		return h.merge(ctx, r, chunk, req.GetCommit())
	}
	a, res, err := h.begin(ctx, from, r, req.GetNumber())
	if err != nil || res != nil {
		return res, err
	}
	step, err := h.store(ctx, from, r, chunk, req)
	h.mu.Lock()
	a.last = time.Now()
	if step != wire.Step_STEP_STORED || err != nil {
		delete(h.arrive, r.Host)
	}
	a.next++
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return &wire.TransferResponse{Step: step}, nil
}

// begin finds the arrival that a chunk belongs to, or answers the chunk.
func (h *Home) begin(ctx context.Context, from string, r Record, number uint32) (*arrival, *wire.TransferResponse, error) {
	h.mu.Lock()
	mine, had, err := h.records.get(r.Host)
	_, leaving := h.leaving[r.Host]
	a := h.arrive[r.Host]
	var res *wire.TransferResponse
	switch {
	case err != nil:
	case had && !r.Newer(mine), leaving, had && mine.Owner == r.Owner && from != mine.Owner:
		// Even the same record may have come about without these chunks (this node has taken the host over, say): the
		// sender obeys and ships what it has, which is safe if it was committed as well.
		res = &wire.TransferResponse{Step: wire.Step_STEP_REFUSED, Reason: "this node has a newer record", Newer: mine.wire()}
	case number == 0:
		a = &arrival{from: from, epoch: r.Epoch, last: time.Now()}
		h.arrive[r.Host] = a
	case a == nil || a.from != from || a.epoch != r.Epoch || a.next != number:
		delete(h.arrive, r.Host)
		res = &wire.TransferResponse{Step: wire.Step_STEP_AGAIN}
	}
	h.mu.Unlock()
	if err != nil || res != nil || number > 0 {
		return a, res, err
	}
	// What is here is an old copy at best: the host comes whole.
	err = h.deps.Frontier.Remove(ctx, r.Host)
	if err == nil {
		err = h.deps.Frontier.SetHold(ctx, r.Host, frontier.Arriving)
	}
	if err != nil {
		h.mu.Lock()
		delete(h.arrive, r.Host)
		h.mu.Unlock()
		return nil, nil, fmt.Errorf("make room for %s: %w", r.Host, err)
	}
	return a, nil, nil
}

// store puts a chunk on disk, and with the last one makes this node the owner.
func (h *Home) store(ctx context.Context, from string, r Record, chunk frontier.Chunk, req *wire.TransferRequest) (wire.Step, error) {
	if _, err := h.deps.Frontier.Import(ctx, r.Host, chunk, originOf(r)); err != nil {
		return 0, fmt.Errorf("store chunk %d of %s: %w", req.GetNumber(), r.Host, err)
	}
	if !req.GetCommit() {
		return wire.Step_STEP_STORED, nil
	}
	d, err := h.deps.Frontier.DigestOf(ctx, r.Host)
	if err != nil {
		return 0, err
	}
	if d != digestFromWire(req.GetDigest()) {
		return wire.Step_STEP_AGAIN, nil
	}
	h.mu.Lock()
	mine, had, err := h.records.get(r.Host)
	if err == nil && had && mine.Newer(r) {
		err = fmt.Errorf("commit %s: a newer record has come", r.Host)
	}
	if err == nil {
		if former := mine.Owner; had && former != from && former != r.Owner {
			h.contest(r.Host, former) // it was not its owner who sent it
		}
		err = h.put(r) // from here on this node is the owner, and knows it after a crash
		h.pend(r)
		h.counts.Received++
	}
	h.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if err := h.deps.Frontier.SetHold(context.WithoutCancel(ctx), r.Host, frontier.Own); err != nil {
		return 0, err
	}
	h.event(Event{Kind: Received, Record: r, Peer: from})
	signal(h.renew)
	h.todo(r.Host, job{kind: resync, after: time.Now().Add(time.Second)}) // the former owner may have to write first
	return wire.Step_STEP_COMMITTED, nil
}

func originOf(r Record) frontier.Origin {
	if r.Assigned {
		return frontier.Assigned
	}
	return frontier.Discovered
}

// merge takes what a former owner has left. It does not take the gate: it may wait for a page whose links wait for the
// gate. A host that is given up meanwhile is shipped under its lock, which who calls this holds.
func (h *Home) merge(ctx context.Context, r Record, chunk frontier.Chunk, last bool) (*wire.TransferResponse, error) {
	h.mu.Lock()
	mine, had, err := h.records.get(r.Host)
	_, leaving := h.leaving[r.Host]
	self := h.horizon.now.Self
	h.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case !had || mine.Owner != self:
		return &wire.TransferResponse{Step: wire.Step_STEP_REFUSED, Reason: "this node does not own the host", Newer: mine.wire()}, nil
	case leaving:
		return nil, fmt.Errorf("take what is left of %s: it is on its way from here", r.Host)
	}
	if _, err := h.deps.Frontier.Import(ctx, r.Host, chunk, originOf(mine)); err != nil {
		return nil, fmt.Errorf("take what is left of %s: %w", r.Host, err)
	}
	if last {
		return &wire.TransferResponse{Step: wire.Step_STEP_COMMITTED}, nil
	}
	return &wire.TransferResponse{Step: wire.Step_STEP_STORED}, nil
}
