package home

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

// overlay is a set of homes whose messages go through the test: they are delayed, lost, and cut off.
type overlay struct {
	t     *testing.T
	ids   []string
	rnd   *rand.Rand
	calls time.Duration // delay of a message, at most
	loss  float64       // share of requests, and of answers, that are lost

	// mu guards what follows.
	mu       sync.Mutex
	members  map[string]*member
	side     map[string]int // nodes of different sides do not reach each other
	crawled  map[string]map[string]int
	began    time.Time
	paused   atomic.Bool // nobody crawls
	history  []string
	faults   []string
	overlaps map[string]time.Duration // how long two nodes might crawl a host
}

// member is one node of the overlay: its disk outlives it.
type member struct {
	o      *overlay
	id     string
	disk   *disk
	shelf  *shelf
	outbox *outbox
	home   *Home // nil while dead
	stop   func()
	ctx    context.Context
	tasks  *sync.WaitGroup
	seen   map[string]time.Time // when it reached each other member last
}

// outbox is the durable list of links of one member.
type outbox struct {
	mu    sync.Mutex
	links []*wire.Link
}

func (b *outbox) Add(_ context.Context, _ string, links []*wire.Link) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.links = append(b.links, links...)
	return nil
}

// Proportions of the times in these tests.
const (
	detectAfter = 5 * time.Second  // from a silence to a death
	forgetAfter = 20 * time.Second // from a death until the member counts no more
)

func testConfig() Config {
	c := Default()
	c.RenewEvery, c.FenceAfter, c.TakeAfter, c.Collect = 3*time.Second, 12*time.Second, 18*time.Second, 8*time.Second
	c.SweepEvery = time.Minute
	return c
}

func newOverlay(t *testing.T, n int, seed uint64) *overlay {
	o := &overlay{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), calls: 50 * time.Millisecond,
		members: map[string]*member{}, side: map[string]int{}, crawled: map[string]map[string]int{},
		began: time.Now(), overlaps: map[string]time.Duration{}}
	for i := range n {
		id := fmt.Sprintf("%032x", i+1)
		o.ids = append(o.ids, id)
		o.members[id] = &member{o: o, id: id, disk: newDisk(), shelf: newShelf(), outbox: &outbox{}, seen: map[string]time.Time{}}
	}
	return o
}

func (o *overlay) float() float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rnd.Float64()
}

func (o *overlay) reach(from, to string) *Home {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.members[to]
	if m == nil || m.home == nil || o.members[from].home == nil || o.side[from] != o.side[to] {
		return nil
	}
	return m.home
}

var errLost = errors.New("lost on the way")

// call carries a message there and its answer back.
func call[Q, A any](ctx context.Context, m *member, to string, req Q, f func(h *Home, ctx context.Context, from string, req Q) (A, error)) (A, error) {
	var none A
	o := m.o
	time.Sleep(time.Duration(o.float() * float64(o.calls)))
	h := o.reach(m.id, to)
	if h == nil || o.lost() {
		time.Sleep(time.Second)
		return none, errLost
	}
	res, err := f(h, context.WithoutCancel(ctx), m.id, req)
	time.Sleep(time.Duration(o.float() * float64(o.calls)))
	if o.reach(m.id, to) == nil || o.lost() {
		return none, errLost
	}
	return res, err
}

func (m *member) Renew(ctx context.Context, to string, req *wire.RenewRequest) (*wire.RenewResponse, error) {
	return call(ctx, m, to, req, (*Home).Renew)
}
func (m *member) Claim(ctx context.Context, to string, req *wire.ClaimRequest) (*wire.ClaimResponse, error) {
	return call(ctx, m, to, req, (*Home).Claim)
}
func (m *member) Transfer(ctx context.Context, to string, req *wire.TransferRequest) (*wire.TransferResponse, error) {
	return call(ctx, m, to, req, (*Home).Transfer)
}
func (m *member) Backup(ctx context.Context, to string, req *wire.BackupRequest) (*wire.BackupResponse, error) {
	return call(ctx, m, to, req, (*Home).Backup)
}

// life is the present life of a member, nil while it is dead.
func (m *member) life() *Home {
	m.o.mu.Lock()
	defer m.o.mu.Unlock()
	return m.home
}

// lost draws whether a message is.
func (o *overlay) lost() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rnd.Float64() < o.loss
}

// start begins a life of a member.
func (o *overlay) start(id string) {
	m := o.members[id]
	o.note("%s: started", id[29:])
	h, err := New(testConfig(), Deps{Frontier: m.disk, Peers: m, Outbox: m.outbox, Records: m.shelf,
		Admit: func(frontier.Link) string { return "" },
		Warn:  func(err error) { o.note("%s: %v", id[29:], err) },
		Event: func(e Event) {
			o.note("%s: %s event %d: epoch %d of %s assigned %v, peer %s, %s", id[29:], e.Record.Host, e.Kind, e.Record.Epoch, e.Record.Owner[29:], e.Record.Assigned, e.Peer, e.Reason)
		}})
	if err != nil {
		o.t.Fatal(err)
	}
	o.mu.Lock()
	m.home, m.seen = h, map[string]time.Time{}
	for other, p := range o.members { // members tell a newcomer of the others, dead ones too
		if p.home != nil && other != id && o.side[other] == o.side[id] {
			for whom, at := range p.seen {
				if at.After(m.seen[whom]) {
					m.seen[whom] = at
				}
			}
		}
	}
	o.mu.Unlock()
	m.disk.changed = h.Changed
	ctx, cancel := context.WithCancel(context.Background())
	wg := new(sync.WaitGroup)
	m.stop = func() { cancel(); wg.Wait() }
	m.ctx, m.tasks = ctx, wg
	o.look(m)
	wg.Go(func() {
		if err := h.Run(ctx); err != nil {
			o.fault("%s: run: %v", id, err)
		}
	})
	wg.Go(func() { m.live(ctx, h) })
}

// kill ends a life at once: what it was doing goes nowhere.
func (o *overlay) kill(id string) {
	m := o.members[id]
	o.note("%s: killed", id[29:])
	o.mu.Lock()
	m.home = nil
	o.mu.Unlock()
	m.disk.mu.Lock()
	m.disk.changed = nil
	m.disk.mu.Unlock()
	m.stop()
}

// note writes into the history that is shown when a test fails.
func (o *overlay) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.history = append(o.history, fmt.Sprintf("%9.3f ", time.Since(o.began).Seconds())+fmt.Sprintf(format, args...))
}

func (o *overlay) fault(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults = append(o.faults, fmt.Sprintf(format, args...))
}

// overlap notes that two nodes may crawl a host. The leases of servers keep them from asking at the same time; in all of
// a test it may not last longer than a fence, which stands for the minute of the real times.
func (o *overlay) overlap(host, what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.overlaps[host] += time.Second / 4; o.overlaps[host] > testConfig().FenceAfter { // both sides see it twice a second
		o.faults = append(o.faults, fmt.Sprintf("after %v: %s", time.Since(o.began), what))
	}
}

// look gives a member its view of the moment.
func (o *overlay) look(m *member) {
	now := time.Now()
	o.mu.Lock()
	h := m.home
	if h == nil {
		o.mu.Unlock()
		return
	}
	v := View{Self: m.id}
	for _, id := range o.ids {
		if id == m.id || (o.members[id].home != nil && o.side[id] == o.side[m.id]) {
			m.seen[id] = now
		}
		last, known := m.seen[id]
		if known && now.Sub(last) < detectAfter {
			v.Alive = append(v.Alive, id)
		}
		if known && now.Sub(last) < detectAfter+forgetAfter {
			v.Settled = append(v.Settled, id)
		}
	}
	n := len(v.Alive)
	v.Majority = 2*n > len(o.ids) || (2*n == len(o.ids) && v.Alive[0] == o.ids[0])
	o.mu.Unlock()
	if err := h.SetView(v); err != nil {
		o.fault("%s: view: %v", m.id, err)
	}
}

// live looks around, sends links and crawls.
func (m *member) live(ctx context.Context, h *Home) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m.o.look(m)
		m.send(ctx, h)
		if !m.o.paused.Load() {
			m.crawl(h)
		}
	}
}

func (m *member) send(ctx context.Context, h *Home) {
	m.outbox.mu.Lock()
	links := slices.Clone(m.outbox.links)
	m.outbox.mu.Unlock()
	by := map[string][]*wire.Link{}
	for _, l := range links {
		to := h.Destination(l)
		by[to] = append(by[to], l)
	}
	settled := map[*wire.Link]bool{}
	for to, links := range by {
		req := &wire.DeliverRequest{Links: links}
		var res *wire.DeliverResponse
		var err error
		if to == m.id {
			res, err = h.Deliver(ctx, m.id, req)
		} else {
			res, err = call(ctx, m, to, req, (*Home).Deliver)
		}
		if err != nil {
			continue
		}
		for i, a := range res.GetAnswers() {
			switch a.GetVerdict() {
			case wire.Verdict_VERDICT_ACCEPTED, wire.Verdict_VERDICT_DUPLICATE:
				settled[links[i]] = true
			case wire.Verdict_VERDICT_MOVED:
				if err := h.Moved(a.GetRecord()); err != nil {
					m.o.fault("%s: moved: %v", m.id, err)
				}
			case wire.Verdict_VERDICT_REFUSED:
				m.o.fault("%s: refused: %s", m.id, a.GetReason())
			}
		}
	}
	m.outbox.mu.Lock()
	m.outbox.links = slices.DeleteFunc(m.outbox.links, func(l *wire.Link) bool { return settled[l] })
	m.outbox.mu.Unlock()
}

// crawl downloads one page of each host that this node may crawl, and asserts that no other node may.
func (m *member) crawl(h *Home) {
	m.disk.mu.Lock()
	names := slices.Sorted(maps.Keys(m.disk.hosts))
	m.disk.mu.Unlock()
	for _, name := range names {
		if !m.may(h, name) {
			continue
		}
		m.o.mu.Lock()
		if m.home != h { // it was killed while it waited for an answer
			m.o.mu.Unlock()
			return
		}
		others := []*member{}
		for _, other := range m.o.members {
			if other != m && other.home != nil {
				others = append(others, other)
			}
		}
		m.o.mu.Unlock()
		for _, other := range others {
			if oh := other.life(); oh != nil && other.may(oh, name) {
				ra, _, _ := h.Record(name)
				rb, _, _ := oh.Record(name)
				m.o.overlap(name, fmt.Sprintf("%s may be crawled by %.3s (epoch %d of %.3s, home %.3s) and by %.3s (epoch %d of %.3s, home %.3s)", name,
					m.id[29:], ra.Epoch, ra.Owner[29:], h.HomeOf(name)[29:], other.id[29:], rb.Epoch, rb.Owner[29:], oh.HomeOf(name)[29:]))
			}
		}
		if path, ok := m.disk.crawlOne(name); ok {
			m.o.mu.Lock()
			if m.o.crawled[name] == nil {
				m.o.crawled[name] = map[string]int{}
			}
			m.o.crawled[name][path]++
			m.o.mu.Unlock()
		}
	}
}

func (m *member) may(h *Home, host string) bool {
	hold, known, _ := m.disk.HoldOf(context.Background(), host)
	return known && hold == frontier.Own && h.Wait(host) == ""
}

// offer routes a link at a member, as its crawl would; it reports whether the link is on a disk now.
func (m *member) offer(l frontier.Link) bool {
	h := m.life()
	if h == nil {
		return false
	}
	mine, done, err := h.Route(context.Background(), []frontier.Link{l})
	if err != nil {
		return false
	}
	defer done()
	for _, v := range must(m.disk.Add(context.Background(), mine)) {
		if v == frontier.NotOwn {
			m.o.fault("%s: %s was routed here and is not held", m.id, l.URL.Host)
		}
	}
	return true
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func hostName(i int) string { return fmt.Sprintf("https://www.site-%d.example", i) }

// check asserts what must hold when everything has come to rest: one owner per host, and all links crawled there.
func (o *overlay) check(offered map[string]map[string]bool) {
	t := o.t
	t.Helper()
	for _, f := range o.faults {
		t.Error(f)
	}
	for host, paths := range offered {
		var owners []string
		for _, m := range o.members {
			if r, ok, _ := m.home.Record(host); ok && r.Owner == m.id {
				owners = append(owners, m.id)
			}
			if hold, known, _ := m.disk.HoldOf(context.Background(), host); known && (hold == frontier.Leaving || hold == frontier.Arriving) {
				m.home.mu.Lock()
				j, queued := m.home.jobs[host]
				t.Errorf("%s is %v at %s for ever: leaving %q, job %v %+v, users %d", host, hold, m.id, m.home.leaving[host], queued, j, m.home.locks.users[host])
				m.home.mu.Unlock()
			}
		}
		if len(owners) != 1 {
			t.Errorf("%s has the owners %v", host, owners)
			continue
		}
		owner := o.members[owners[0]]
		pending, done := owner.disk.urlsOf(host)
		if len(pending) > 0 {
			t.Errorf("%s: %d pages were not crawled: %s", host, len(pending), owner.home.Wait(host))
		}
		for path := range paths {
			if !done[hashOf(host, path)] {
				t.Errorf("%s%s was accepted and is lost", host, path)
			}
		}
		owner.home.mu.Lock()
		second := owner.home.horizon.now.copyOf(host, owner.id)
		owner.home.mu.Unlock()
		if second == "" {
			continue
		}
		a, b := must(owner.disk.DigestOf(context.Background(), host)), must(o.members[second].disk.DigestOf(context.Background(), host))
		if a != b {
			t.Errorf("%s: its second copy at %s has %d of %d", host, second, b.Accepted, a.Accepted)
		}
	}
	for id, m := range o.members {
		m.outbox.mu.Lock()
		links := slices.Clone(m.outbox.links)
		m.outbox.mu.Unlock()
		for _, l := range links {
			u := must(identity.Parse(l.GetUrl()))
			r, ok, err := m.home.Record(u.Host)
			t.Errorf("%s still has to send %s, to %s: it has record %v %v %v, home %s", id, l.GetUrl(), m.home.Destination(l), r, ok, err, m.home.HomeOf(u.Host))
		}
	}
}

func (o *overlay) stopAll() {
	for _, id := range o.ids {
		if o.members[id].home != nil {
			o.kill(id)
		}
	}
}
