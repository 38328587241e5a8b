package keeper

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"proxima/assign"
	"proxima/node/wire"
)

// Lease answers a request of a peer, or of this node. Items that cannot be read are refused (GRANT_UNSPECIFIED) and
// counted; the others count nonetheless.
func (k *Keeper) Lease(ctx context.Context, from string, req *wire.LeaseRequest) (*wire.LeaseResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // nobody would hear the answer
	}
	items := req.GetItems()
	resp := &wire.LeaseResponse{Answers: make([]*wire.LeaseAnswer, len(items))}
	requests := make([]request, len(items))
	faults := make([]error, len(items))
	now := time.Now()
	for i, item := range items {
		if requests[i], faults[i] = readItem(from, req.GetHeader(), item, now); i >= maxItems {
			faults[i] = errTooMany
		}
	}
	replies := make([]reply, len(items))
	k.lenderMu.Lock()
	if now = time.Now(); now.Sub(k.pruned) >= pruneEvery {
		k.lender.prune(now)
		k.pruned = now
	}
	for i := range requests {
		if faults[i] != nil {
			k.lender.counts.bad++
			continue
		}
		replies[i] = k.lender.answer(requests[i], now)
	}
	k.lenderMu.Unlock()
	for i, r := range replies {
		resp.Answers[i] = &wire.LeaseAnswer{Grant: r.grant, Number: r.number, ForMs: r.until.Milliseconds(), Holder: r.holder,
			WaitMs: r.wait.Milliseconds(), Level: r.level, RetryMs: r.retry.Milliseconds()}
		if r.grant == wire.Grant_GRANT_GIVEN {
			k.exchange(requests[i], items[i].GetMemory(), resp.Answers[i], now)
		}
	}
	return resp, nil
}

// exchange stores the memory that came with a request which was granted, or fetches the one that goes with a new lease.
func (k *Keeper) exchange(r request, memory []byte, a *wire.LeaseAnswer, now time.Time) {
	if len(memory) > 0 {
		k.trouble(k.memories.put(r.addr, memory, now))
		return
	}
	if r.wish != wire.Wish_WISH_ACQUIRE {
		return
	}
	stored, age, err := k.memories.get(r.addr, now)
	k.trouble(err)
	a.Memory, a.MemoryAgeMs = stored, age.Milliseconds()
}

func (k *Keeper) trouble(err error) {
	if err != nil && k.deps.Trouble != nil {
		k.deps.Trouble(err)
	}
}

var (
	errTooMany = errors.New("more items than a message may have")
	errServer  = errors.New("no address of a server")
	errWish    = errors.New("an unknown wish")
	errSender  = errors.New("nobody to lend to")
	errID      = errors.New("an id that is too long")
)

// maxID is the longest id of a node, in bytes.
const maxID = 64

// readItem checks one item. It has no effect.
func readItem(from string, head *wire.Header, item *wire.LeaseItem, now time.Time) (request, error) {
	addr, ok := netip.AddrFromSlice(item.GetServer())
	switch {
	case !ok || addr != addr.Unmap() || addr.IsUnspecified():
		return request{}, errServer
	case from == "":
		return request{}, errSender
	case len(from) > maxID || len(item.GetSuccessor()) > maxID:
		return request{}, errID
	case item.GetWish() < wire.Wish_WISH_ACQUIRE || item.GetWish() > wire.Wish_WISH_RELEASE:
		return request{}, errWish
	}
	if m := item.GetMemory(); len(m) > 0 {
		if _, err := assign.DecodeMemory(m, now); err != nil {
			return request{}, err
		}
	}
	wait := min(max(item.GetWaitMs(), 0), maxWait.Milliseconds())
	return request{from: from, boot: head.GetBoot(), id: head.GetId(), addr: addr, wish: item.GetWish(),
		wait: time.Duration(wait) * time.Millisecond, level: item.GetLevel(), successor: item.GetSuccessor()}, nil
}
