package lease

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/node/bell"
	"proxima/node/view"
	"proxima/node/wire"
)

// A grantor that does not know what was granted before it asks all members which leases they hold. It does so after it has
// started, after a gap, or when a change of members made it the grantor. If all answer in the same view it knows every lease, and
// need not wait until older ones have expired. This is safe because:
//
//   - A member that answers has the same view. As a grantor it grants these servers no more, and as a holder it accepts leases on
//     them from the asking node only. Of requests that it sent to this node before, it ignores the answers.
//   - If a member cannot answer, the inquiry fails and this node waits. A member that is gone for a lease and the skew has no leases
//     left, because grantors do not renew for members that are not alive.
//   - Members that only others see are asked as well.
//   - A page that a peer still downloads under a lease that its holder has lost, or had in an earlier life, counts until it must
//     be over. Requests of that life that arrive later are refused.

// inquiry is one attempt.
type inquiry struct {
	view     view.View
	question *wire.RightsRequest
	began    time.Time
	to       []string // the members to ask, in order
	answers  map[string]*wire.RightsResponse
}

// inquiry begins an inquiry, if somebody waits for it and it can succeed. Otherwise it returns nil.
func (l *grants) inquiry(now time.Time) *inquiry {
	v := l.history.Now()
	if !l.ask || !v.Majority || now.Before(l.founded) {
		return nil
	}
	all := l.members.all(now)
	if len(all) < 2 || len(all) != len(l.members.alive) {
		return nil // there is nobody to ask, or somebody who is gone
	}
	q := &wire.RightsRequest{View: v.Digest(), Members: view.Digest(all)}
	for id, known := range l.lives {
		q.Lives = append(q.Lives, &wire.Life{Id: id, Boot: known.boot})
	}
	return &inquiry{view: *v, question: q, began: now, to: all, answers: map[string]*wire.RightsResponse{}}
}

// take notes an answer, and the members that it adds. It returns false if the inquiry has failed.
func (q *inquiry) take(id string, a *wire.RightsResponse) bool {
	if !a.GetSameView() {
		return false
	}
	q.answers[id] = a
	for _, other := range a.GetMembers() {
		if !slices.Contains(q.to, other) {
			q.to = append(q.to, other)
		}
	}
	return true
}

// conclude applies the answers of all members, if the view has not changed since the inquiry began.
func (l *grants) conclude(q *inquiry, now time.Time) bool {
	v := l.history.Now()
	if !v.Majority || !v.Same(&q.view) || l.history.Since().After(q.began) {
		return false
	}
	said := map[netip.Addr]bool{} // servers that a member says it holds
	for r := range l.told(q, true) {
		n := l.entry(r.addr)
		if n == nil {
			return false // as long as this node does not know all leases it must wait for their end
		}
		if free := !n.until.After(now); l.blind(r.addr, now) > 0 && (free || n.claimed) {
			until := now.Add(r.left + l.cfg.Skew)
			if said[r.addr], n.claimed = true, false; !free && n.holder == r.by {
				n.until = latest(n.until, until)
				continue
			}
			n.holder, n.boot, n.id, n.until = r.by, q.answers[r.by].GetBoot(), 0, until
		}
	}
	for addr, n := range l.entries {
		if n.claimed && !said[addr] && l.blind(addr, now) > 0 {
			n.until = time.Time{} // the claim was wrong
		}
	}
	for r := range l.told(q, false) { // now that all holders are known
		n := l.entry(r.addr)
		if n == nil {
			return false
		}
		if free := !n.until.After(now); free || n.holder != r.of || n.boot < l.lives[r.of].boot {
			n.remote = latest(n.remote, now.Add(r.left+l.cfg.Skew))
		}
	}
	l.history.Begin(now.Add(-l.cfg.Window())) // all that was granted is known, as if this node had been the grantor all the time
	clear(l.known)
	for _, x := range q.question.Lives {
		l.known[x.Id] = x.Boot
	}
	l.ask = false
	l.counts.Inquiries++
	return true
}

// right is what a member told of a server: that it may ask it, for itself or for another holder.
type right struct {
	by, of string
	addr   netip.Addr
	left   time.Duration
}

// told yields the rights on this grantor's servers that members told: their own ones, or those of others for which they download.
func (l *grants) told(q *inquiry, own bool) iter.Seq[right] {
	return func(yield func(right) bool) {
		for _, by := range slices.Sorted(maps.Keys(q.answers)) {
			for _, r := range q.answers[by].GetRights() {
				addr, ok := netip.AddrFromSlice(r.GetServer())
				of := cmp.Or(r.GetHolder(), by)
				if !ok || addr != addr.Unmap() || !isGrantor(&q.view, addr) || (of == by) != own {
					continue
				}
				left := min(time.Duration(max(0, r.GetForMs()))*time.Millisecond, l.cfg.Time)
				if !yield(right{by, of, addr, left}) {
					return
				}
			}
		}
	}
}

// entry returns what is known of a server, nil if too many are known.
func (l *grants) entry(addr netip.Addr) *grant {
	n := l.entries[addr]
	if n == nil && len(l.entries) < l.most {
		n = &grant{}
		l.entries[addr] = n
	}
	return n
}

// latest returns the later of two times.
func latest(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

// inquireLoop makes inquiries when somebody waits for one, until the context ends. After a failure it tries again, unless the
// inquiry cannot succeed.
func (g *Grantor) inquireLoop(ctx context.Context) {
	const shortest = 100 * time.Millisecond
	pause, of := shortest, uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.kick:
		}
		if bell.Sleep(ctx, pause) != nil {
			return
		}
		g.mu.Lock()
		q := g.grants.inquiry(time.Now())
		g.mu.Unlock()
		if q == nil || g.inquire(ctx, q) {
			pause = shortest
			continue
		}
		if pause = min(2*pause, g.cfg.retryMax()); q.view.Version != of {
			pause, of = 2*shortest, q.view.Version
		}
		g.kick.Ring()
	}
}

// inquireAtOnce is how many members are asked in parallel.
const inquireAtOnce = 32

// inquire asks all members, and reports whether all have answered and the inquiry is concluded.
func (g *Grantor) inquire(ctx context.Context, q *inquiry) bool {
	if g.deps.Clock.Awake() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.timeout())
	defer cancel()
	for asked := 0; asked < len(q.to); {
		now := q.to[asked:min(len(q.to), asked+inquireAtOnce)]
		asked += len(now)
		answers := make([]*wire.RightsResponse, len(now))
		var calls sync.WaitGroup
		for i, id := range now {
			calls.Go(func() { answers[i], _ = g.deps.Rights(ctx, id, proto.CloneOf(q.question)) })
		}
		calls.Wait()
		for i, id := range now {
			if !q.take(id, answers[i]) {
				return false
			}
		}
	}
	if g.deps.Clock.Awake() != nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.grants.conclude(q, time.Now())
}

// Rights answers a grantor's inquiry: which of its servers this node may ask, by its own leases and by those of others for which it
// downloads. From then on this node accepts leases on them only if they were requested after this answer.
func (h *Holder) Rights(ctx context.Context, from string, req *wire.RightsRequest) (*wire.RightsResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := h.deps.Clock.Awake(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, x := range req.GetLives() {
		if h.members.has(x.GetId()) {
			h.lives.hear(x.GetId(), x.GetBoot(), now, h.cfg.Window())
		}
	}
	a := &wire.RightsResponse{SameView: req.GetView() == h.view.Digest(), Boot: h.deps.Boot}
	if !a.SameView {
		return a, nil
	}
	if all := h.members.all(now); req.GetMembers() != view.Digest(all) {
		a.Members = all
	}
	add := func(addr netip.Addr, until time.Time, holder string) {
		if left := until.Sub(now); left > 0 && h.book.grantor(addr) == from {
			a.Rights = append(a.Rights, &wire.Right{Server: addr.AsSlice(), ForMs: left.Milliseconds() + 1, Holder: holder})
		}
	}
	for addr, l := range h.book.all {
		add(addr, l.right.until.mono, "")
		if l.busy && h.book.grantor(addr) == from {
			l.void = true
		}
	}
	for _, r := range h.deps.Remote() { // complete, because FromLife refuses earlier lives from now on
		add(r.Server, r.Until, r.Holder)
	}
	return a, nil
}

// FromLife calls take to accept a request of a peer, unless a later life of the peer is known, which does not know of the request.
// It reports whether take was called.
func (h *Holder) FromLife(id string, boot uint64, take func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.lives.hear(id, boot, time.Now(), h.cfg.Window()) {
		return false
	}
	take()
	return true
}
