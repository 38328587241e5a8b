package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/node/view"
	"proxima/node/wire"
)

// world is an overlay of which only the quotas are real.
type world struct {
	t      *testing.T
	rand   *rand.Rand
	limits Limits
	begun  int // nodes that begin the crawl

	mu     sync.Mutex
	nodes  []*fake
	asked  int64         // pages, of all nodes and lives
	side   []int         // of a partition
	calm   bool          // no message is lost or late
	loss   int           // one of so many messages is lost
	late   int           // one of so many is late
	lateBy time.Duration // how much, at most
	pace   int           // how many times longer than usual a page takes
}

// fake is a node: a disk that outlives its lives, and a loop that asks for pages as fast as it may.
type fake struct {
	w    *world
	id   string
	disk map[string][]byte
	// limits are those of its configuration.
	limits Limits

	// The world's lock guards what follows.
	life      int
	quota     *Shares // nil while it is down
	crash     func()
	view      view.View
	used, may int64
	work      int64 // pages that it knows of
	ended     string
	full      bool                // its disk
	mute      bool                // no call reaches it
	up, held  time.Time           // when it last ran, and since when it has seen a majority
	declared  bool                // it says that it is settled
	seen      map[*fake]time.Time // when it last saw others that were settled
	version   uint64              // of its view
	sight     string              // what that shows
	warned    []string
	backup    map[string][]byte // an older copy of its disk
	gone      bool              // for good, with its disk
}

// lateBy is how late messages are, at most, in most courses.
const lateBy = 4 * time.Second

func newWorld(t *testing.T, seed uint64, n int, limits Limits) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 1)), limits: limits, begun: n, pace: 1, loss: 50, late: 20, lateBy: lateBy}
	w.join(n)
	return w
}

// join adds nodes that are down.
func (w *world) join(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		w.nodes = append(w.nodes, &fake{w: w, id: fmt.Sprintf("%032x", len(w.nodes)+1), disk: map[string][]byte{}, limits: w.limits, up: time.Now(), held: time.Now(),
			declared: len(w.nodes) < w.begun, seen: map[*fake]time.Time{}}) // founders count at once
		w.side = append(w.side, 0)
	}
}

// start begins a life of a node.
func (f *fake) start(ctx context.Context) {
	w := f.w
	w.mu.Lock()
	f.life++
	life := f.life
	f.used, f.may, f.ended = 0, 0, ""
	w.mu.Unlock()
	q, err := New(f.limits, Deps{View: func() view.View { w.mu.Lock(); defer w.mu.Unlock(); return f.view }, Expected: w.begun, Meter: &meter{f, life},
		Ask: func(ctx context.Context, to string, req *wire.QuotaRequest) (*wire.QuotaResponse, error) {
			return w.call(ctx, f, life, to, req)
		},
		Read: func(key string) ([]byte, error) { return f.disk[key], nil },
		Keep: func(key string, value []byte) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if f.life != life {
				return errors.New("it has crashed")
			}
			if f.full {
				return errors.New("its disk is full")
			}
			f.disk[key] = slices.Clone(value)
			return nil
		},
		Warn: func(err error) { w.mu.Lock(); defer w.mu.Unlock(); f.warned = append(f.warned, err.Error()) }})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(ctx)
	w.mu.Lock()
	f.quota, f.crash = q, stop
	w.mu.Unlock()
	go func() { _ = q.Run(ctx) }() // it fails when it has crashed
	go f.crawl(ctx, life)
}

// kill ends a life without a word.
func (f *fake) kill() {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if f.quota == nil {
		return
	}
	f.life++
	f.quota = nil
	f.crash()
}

// stop ends a life in order.
func (f *fake) stop() {
	f.w.mu.Lock()
	f.crash()
	f.w.mu.Unlock()
	time.Sleep(2 * reportEvery)
	f.kill()
}

// restore ends a life, and begins one with an older copy of the disk.
func (f *fake) restore(ctx context.Context) {
	f.kill()
	f.disk = maps.Clone(f.backup)
	f.start(ctx)
}

// crawl asks for pages.
func (f *fake) crawl(ctx context.Context, life int) {
	for ctx.Err() == nil {
		f.w.mu.Lock()
		pause := time.Duration(5+f.w.rand.IntN(30)) * time.Duration(f.w.pace) * time.Millisecond
		if f.life == life && f.work > 0 && f.used < f.may && f.ended == "" {
			f.used, f.work = f.used+1, f.work-1
			if f.w.asked++; f.w.asked > f.w.limits.MaxPages {
				f.w.t.Errorf("%d pages are asked for", f.w.asked)
			}
		}
		f.w.mu.Unlock()
		time.Sleep(pause)
	}
}

type meter struct {
	*fake
	of int
}

func (m *meter) Spent() (pages, bytes int64, wants bool) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.used, 10 * m.used, m.ended == "" && m.work > 0 && m.may-m.used < 20
}

func (m *meter) Allow(pages int64) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if m.life == m.of {
		m.may = max(m.may, pages)
	}
}

func (m *meter) Withdraw() int64 {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	n := m.may - m.used
	m.may = m.used
	return n
}

func (m *meter) End(limit string) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if m.life == m.of {
		if m.ended != "" {
			m.w.t.Errorf("a node is ended by %q, after %q", limit, m.ended)
		}
		m.ended = limit
	}
}

// call carries a message and its answer, unless one gets lost. The caller does not wait for late ones.
func (w *world) call(ctx context.Context, from *fake, life int, to string, req *wire.QuotaRequest) (*wire.QuotaResponse, error) {
	own := proto.CloneOf(req)
	req.Header = &wire.Header{} // as a client does
	type answer struct {
		res *wire.QuotaResponse
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		res, err := w.carry(from, life, to, own)
		answers <- answer{res, err}
	}()
	select {
	case a := <-answers:
		return a.res, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *world) carry(from *fake, life int, to string, req *wire.QuotaRequest) (*wire.QuotaResponse, error) {
	pass := func() (q *Shares, pause time.Duration) {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := slices.IndexFunc(w.nodes, func(f *fake) bool { return f.id == to })
		at := w.nodes[i]
		if from.life != life || at.quota == nil || at.mute || w.side[i] != w.side[slices.Index(w.nodes, from)] || !w.calm && w.rand.IntN(w.loss) == 0 {
			return nil, time.Second
		}
		pause = time.Duration(w.rand.IntN(100)) * time.Millisecond
		if !w.calm && w.rand.IntN(w.late) == 0 {
			pause = time.Duration(w.rand.Int64N(int64(w.lateBy)))
		}
		return at.quota, pause
	}
	q, pause := pass()
	time.Sleep(pause)
	if q == nil {
		return nil, errors.New("lost")
	}
	res, err := q.Quota(w.t.Context(), from.id, req)
	again, pause := pass()
	time.Sleep(pause)
	if again != q {
		return nil, errors.New("its answer is lost")
	}
	return res, err
}

// whole reports whether all nodes are there, and have all that one of them has stored, which takes a while where messages are late. Only then may
// it lose that.
func (w *world) whole(of *fake) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := of.stored()
	for i, f := range w.nodes {
		if f.quota == nil || w.side[i] != w.side[0] || time.Since(f.held) < settles/4 {
			return false
		}
		if has := f.stored(); w.lateBy > lateBy && (own.GetEpoch() > has.GetEpoch() || newer(own.GetBook(), has.GetBook())) {
			return false
		}
	}
	return true
}

// stored is what a node has on disk of the keepers.
func (f *fake) stored() *wire.QuotaRequest {
	stored := &wire.QuotaRequest{}
	if value := f.disk[keyBook]; value != nil {
		if err := parse(value, 1, stored); err != nil {
			f.w.t.Error(err)
		}
	}
	return stored
}

// settles is how long a node must have seen a majority until it counts as settled, and for how long it counts when it is gone: a minute in
// an overlay.
const settles = 20 * time.Second

// look gives nodes the view that they would have; each lags behind by up to six seconds. All nodes vote, also those that are down.
func (w *world) look() {
	for i, f := range w.nodes {
		w.mu.Lock()
		lag := time.Duration(w.rand.IntN(6000)) * time.Millisecond
		v := f.sees(i)
		w.mu.Unlock()
		time.AfterFunc(lag, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			f.view = v
		})
	}
}

// sees returns the view that the i-th node would have. The caller holds the world's lock.
func (f *fake) sees(i int) view.View {
	w, now := f.w, time.Now()
	v, lives := view.View{Self: f.id}, []int{}
	for j, other := range w.nodes {
		if other.quota != nil && w.side[i] == w.side[j] {
			v.Alive, lives = append(v.Alive, other.id), append(lives, other.life)
			if other.declared {
				f.seen[other] = now
			}
		}
		if at, ever := f.seen[other]; ever && now.Sub(at) < settles {
			v.Settled = append(v.Settled, other.id)
		}
	}
	for _, other := range w.nodes {
		v.Voting = append(v.Voting, other.id)
	}
	v.Majority = 2*len(v.Alive) > len(w.nodes)
	switch {
	case f.quota == nil:
		f.held, f.declared = now, f.declared && now.Sub(f.up) < settles
	case !v.Majority:
		f.up, f.held = now, now
	default:
		f.up, f.declared = now, f.declared || now.Sub(f.held) >= settles
	}
	if sight := fmt.Sprint(v.Alive, lives, v.Settled, v.Majority); sight != f.sight {
		f.version, f.sight = f.version+1, sight
	}
	v.Version = f.version
	return v
}

// calmly plays a story in a bubble, in a world of n nodes that loses and delays no message, and ends it.
func calmly(t *testing.T, n int, limits Limits, story func(ctx context.Context, t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		w := newWorld(t, 1, n, limits)
		w.calm = true
		story(ctx, t, w)
		stop()
		time.Sleep(4 * askPatience) // calls under way
	})
}

// startAll starts all nodes, which would ask for so many pages each.
func (w *world) startAll(ctx context.Context, work int64) {
	for _, f := range w.nodes {
		f.work = work
		f.start(ctx)
	}
}

// pass lets time pass.
func (w *world) pass(seconds int) {
	for range seconds {
		w.look()
		time.Sleep(time.Second)
	}
}
