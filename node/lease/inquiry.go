package lease

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/node/view"
	"proxima/node/wire"
)

// An inquiry asks all members what they may ask now, where this node does not know what was granted before: it has just
// started, became the grantor by a change of members, or was stopped. When all have answered in the same view, it knows
// every lease, and need not wait until older ones have run out. What makes that safe:
//
//   - Who answers has the same view: as a grantor it grants none of these servers any more, and as a holder it takes leases
//     on them from the asking node only. Answers to what it has sent to this node before count for nothing.
//   - A member that cannot answer has its leases until they run out: then this node waits as long. A member that is gone
//     for a lease and the skew has none left, as no grantor renews for who is not alive.
//   - Who has rights is not only who this node sees: whoever others see is asked, too.
//   - A page that a peer downloads under a lease of a life that is over counts, until it must be over; what that life asked
//     for and arrives later is refused.

// inquiry is one try.
type inquiry struct {
	view     view.View
	question *wire.RightsRequest
	began    time.Time
	lives    lives
	to       []string // who is asked, in order
	answers  map[string]*wire.RightsResponse
}

// inquiry begins one, if somebody waits for it and it can succeed.
func (l *grants) inquiry(now time.Time) *inquiry {
	v := l.history.Now()
	if !l.ask || !v.Majority || now.Before(l.founded) {
		return nil
	}
	all := l.members.all(now)
	if len(all) < 2 || !slices.Contains(l.members.alive, v.Self) {
		return nil // alone, it hears of nobody
	}
	for _, id := range all {
		if !slices.Contains(l.members.alive, id) {
			return nil // it cannot answer
		}
	}
	q := &wire.RightsRequest{View: v.Digest(), Members: view.Digest(all)}
	for id, known := range l.lives {
		q.Lives = append(q.Lives, &wire.Life{Id: id, Boot: known.boot})
	}
	return &inquiry{view: *v, question: q, began: now, lives: maps.Clone(l.lives), to: all,
		answers: map[string]*wire.RightsResponse{}}
}

// take notes an answer, and who else is to be asked; false if the inquiry has failed.
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

// conclude takes over what all members have said, if this node still sees what it saw when it began to ask.
func (l *grants) conclude(q *inquiry, now time.Time) bool {
	v := l.history.Now()
	if !v.Majority || !v.Same(&q.view) || l.history.Since().After(q.began) {
		return false
	}
	said := map[netip.Addr]bool{} // that a member holds a server
	for _, id := range slices.Sorted(maps.Keys(q.answers)) {
		for _, r := range q.answers[id].GetRights() {
			addr, ok := netip.AddrFromSlice(r.GetServer())
			if !ok || addr != addr.Unmap() || !isGrantor(v, addr) {
				continue
			}
			until := now.Add(min(time.Duration(max(0, r.GetForMs()))*time.Millisecond, l.cfg.Time) + l.cfg.Skew)
			n := l.entries[addr]
			if n == nil {
				n = &grant{}
				l.entries[addr] = n
			}
			n.settle(now)
			if of := r.GetHolder(); of != "" && of != id {
				if n.holder != of || n.boot < l.lives[of].boot {
					n.remote = latest(n.remote, until)
				}
			} else if l.blind(addr, now) > 0 && (n.holder == "" || n.claimed) {
				if said[addr] = true; n.holder == id {
					n.until, n.claimed = latest(n.until, until), false
					continue
				}
				n.claimed = false
				n.holder, n.last, n.boot, n.id, n.until = id, id, q.answers[id].GetBoot(), 0, until
			}
		}
	}
	for addr, n := range l.entries {
		if n.claimed && !said[addr] && l.blind(addr, now) > 0 {
			n.holder = "" // it had claimed what it had lost
		}
	}
	l.history.Begin(now.Add(-l.cfg.Window())) // nothing was granted before that this node does not know of
	for id, known := range q.lives {
		l.known[id] = known.boot
	}
	l.ask = false
	l.counts.Inquiries++
	return true
}

// latest is the later of two times.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// inquireLoop asks the members when somebody waits for it, and again until it succeeds or cannot, until the context ends.
func (g *Grantor) inquireLoop(ctx context.Context) {
	const shortest = 100 * time.Millisecond
	pause, of := shortest, uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.kick:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
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
		signal(g.kick)
	}
}

// inquireAtOnce is how many members are asked at a time.
const inquireAtOnce = 32

// inquire asks all members, and concludes if all have answered.
func (g *Grantor) inquire(ctx context.Context, q *inquiry) bool {
	gaps, err := g.deps.Clock.Awake()
	if err != nil {
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
			calls.Go(func() { answers[i], _ = g.deps.Peers.Rights(ctx, id, proto.CloneOf(q.question)) })
		}
		calls.Wait()
		for i, id := range now {
			if !q.take(id, answers[i]) {
				return false
			}
		}
	}
	if since, err := g.deps.Clock.Awake(); err != nil || since != gaps {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.grants.conclude(q, time.Now())
}

// Rights answers a grantor's inquiry: what this node may ask of the servers that the caller is the grantor of, by leases of
// its own and of others. From then on it takes leases on them from the caller only.
func (h *Holder) Rights(ctx context.Context, from string, req *wire.RightsRequest) (*wire.RightsResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := h.deps.Clock.Awake(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, x := range req.GetLives() {
		h.lives.hear(x.GetId(), x.GetBoot(), now, h.cfg.Window())
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
	if h.deps.Remote != nil { // what comes later from former lives is refused
		for _, r := range h.deps.Remote() {
			add(r.Server, r.Until, r.Holder)
		}
	}
	return a, nil
}

// FromLife has what a message asks for taken, unless a later life of its sender was heard of: that does not know of it. It
// says whether it was taken.
func (h *Holder) FromLife(id string, boot uint64, take func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.lives.hear(id, boot, time.Now(), h.cfg.Window()) {
		return false
	}
	take()
	return true
}
