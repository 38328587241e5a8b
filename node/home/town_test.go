package home

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/assign"
	"proxima/frontier"
	"proxima/node/peer"
	"proxima/node/wire"
)

// town is a few nodes with homes, outboxes and frontiers on disks, whose calls go through the test. It lives in a
// synctest bubble.
type town struct {
	t      *testing.T
	cfg    Config
	ids    []string
	houses map[string]*house

	// mu guards what follows.
	mu sync.Mutex
	// before sees, and may change, each call on its way; its error loses it. after sees the answer; its error loses that.
	before func(from, to string, req proto.Message) error
	after  func(from, to string, req, res proto.Message) error
	dead   map[string]bool // nodes that are known not to answer
	left   map[string]bool // nodes that are known to have left
	small  map[string]bool // nodes that see the smaller side of a partition
}

// house is one node: its disk outlives it.
type house struct {
	town *town
	id   string
	dir  string
	*life
}

// life is one life of a node.
type life struct {
	*frontier.Frontier
	id      string
	town    *town
	home    *Home
	outbox  *peer.Outbox
	crashed atomic.Bool
	stop    func()

	// mu guards what follows.
	mu     sync.Mutex
	step   func(op string) bool // says whether the node crashes instead of doing this
	slow   func(op string)      // waits before it is done
	events []Event
	warned []error
}

var errCrashed = errors.New("crashed")

// newTown starts n nodes. The disks of those that are lasting outlive them.
func newTown(t *testing.T, n int, change func(*Config), lasting ...int) *town {
	cfg := Default()
	cfg.RenewEvery, cfg.FenceAfter, cfg.TakeAfter, cfg.Collect = 3*time.Second, 12*time.Second, 18*time.Second, 8*time.Second
	cfg.SweepEvery, cfg.ChunkURLs = time.Minute, 10
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	w := &town{t: t, cfg: cfg, houses: map[string]*house{}, dead: map[string]bool{}, left: map[string]bool{}, small: map[string]bool{}}
	for i := range n {
		w.ids = append(w.ids, fmt.Sprintf("%032x", i+1))
	}
	for _, id := range w.ids {
		w.houses[id] = &house{town: w, id: id} // in memory, until it is to live twice
	}
	for _, i := range lasting {
		w.house(i).dir = t.TempDir()
	}
	for _, id := range w.ids {
		w.houses[id].start()
	}
	t.Cleanup(func() {
		for _, h := range w.houses {
			h.end()
		}
	})
	time.Sleep(2 * cfg.Collect)
	return w
}

// start begins a life.
func (h *house) start() {
	w := h.town
	cfg, polite := frontier.Default(), frontier.DefaultPoliteness()
	cfg.FilterMiB, cfg.MemtableMiB, cfg.MinFreeMiB = 1, 4, 0
	l := &life{id: h.id, town: w}
	var self atomic.Pointer[Home]
	var err error
	l.Frontier, err = frontier.Open(h.dir, cfg, polite, frontier.Deps{
		Changed: func(c []frontier.Change) {
			if m := self.Load(); m != nil {
				m.Changed(c)
			}
		},
		Wait: func(host string) string {
			if m := self.Load(); m != nil {
				return m.Wait(host)
			}
			return "the node is starting"
		}})
	if err != nil {
		w.t.Fatal(err)
	}
	l.home, err = New(w.cfg, Deps{Frontier: l, Peers: l, Outbox: outboxOf{l}, Records: guarded{l, l.Shelf('r')},
		Admit: func(u frontier.Link) string {
			if u.URL.Path == "/unwanted" {
				return "out of scope"
			}
			return ""
		},
		Event: l.tell, Warn: l.warn})
	if err != nil {
		w.t.Fatal(err)
	}
	self.Store(l.home)
	l.outbox, err = peer.NewOutbox(peer.Default(), peer.OutboxDeps{Shelf: l.Shelf('o'), Deliver: l.Deliver,
		Route: func(u *wire.Link) string { return l.home.Destination(u) },
		Moved: func(r *wire.Record) {
			if err := l.home.Moved(r); err != nil {
				l.warn(err)
			}
		}})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	fctx, close := context.WithCancel(context.Background())
	var rooms, store sync.WaitGroup
	run := func(wg *sync.WaitGroup, ctx context.Context, part func(context.Context) error) {
		wg.Go(func() {
			if err := part(ctx); err != nil && !l.crashed.Load() {
				w.t.Errorf("%s: %v", l.id, err)
			}
		})
	}
	w.mu.Lock()
	h.life = l
	w.mu.Unlock()
	w.look() // the first view is known before it runs
	run(&store, fctx, l.Run)
	run(&rooms, ctx, l.home.Run)
	run(&rooms, ctx, l.outbox.Run)
	rooms.Go(func() { l.resolve(ctx) })
	l.stop = func() { cancel(); rooms.Wait(); close(); store.Wait() }
}

// end ends a life. What a crashed one was about to do goes nowhere.
func (h *house) end() {
	if l := h.life; l != nil {
		l.stop()
		w := h.town
		w.mu.Lock()
		h.life = nil
		w.mu.Unlock()
	}
}

// look gives all nodes their views.
func (w *town) look() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range w.ids {
		if h := w.houses[id]; h != nil && h.life != nil {
			if err := h.home.SetView(w.viewOf(id)); err != nil {
				w.t.Error(err)
			}
		}
	}
}

// viewOf needs mu held.
func (w *town) viewOf(self string) View {
	v := View{Self: self, Majority: !w.small[self]}
	for _, id := range w.ids {
		if !w.left[id] {
			v.Settled = append(v.Settled, id)
			if !w.dead[id] {
				v.Alive = append(v.Alive, id)
			}
		}
	}
	return v
}

// believe changes what all nodes see.
func (w *town) believe(change func()) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	w.look()
}

// set changes how calls fare.
func (w *town) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// hostOf finds a host with a home, and the node with the second copy where the home is the owner.
func (w *town) hostOf(home, second int) string {
	for i := range 10_000 {
		name := fmt.Sprintf("https://www.town-%d.example", i)
		order := assign.RendezvousOrder(domainOf(name), w.ids, 2)
		if order[0] == w.ids[home] && (len(order) == 1 || second < 0 || order[1] == w.ids[second]) {
			return name
		}
	}
	w.t.Fatal("no such host")
	return ""
}

func (w *town) house(i int) *house { return w.houses[w.ids[i]] }

// crawlers counts the nodes that may crawl a host now.
func (w *town) crawlers(host string) (n int) {
	w.t.Helper()
	for _, id := range w.ids {
		l := w.houses[id].life
		if l == nil || l.crashed.Load() {
			continue
		}
		hold, known, err := l.HoldOf(context.Background(), host)
		if err != nil {
			w.t.Error(err)
		}
		if known && hold == frontier.Own && l.home.Wait(host) == "" {
			n++
		}
	}
	return n
}

// is asserts who owns a host, by every node that lives, that its URLs are whole there and in its second copy, and that it
// is not on its way any more.
func (w *town) is(host string, owner int, want frontier.Digest) {
	w.t.Helper()
	ctx := context.Background()
	for i, id := range w.ids {
		l := w.houses[id].life
		if l == nil {
			continue
		}
		r, ok, err := l.home.Record(host)
		if err != nil {
			w.t.Error(err)
		}
		if ok && r.Owner != w.ids[owner] {
			w.t.Errorf("%s: %d believes that %s owns it (epoch %d)", host, i, r.Owner, r.Epoch)
		}
		hold, known, err := l.HoldOf(ctx, host)
		if err != nil {
			w.t.Error(err)
		}
		d, err := l.DigestOf(ctx, host)
		if err != nil {
			w.t.Error(err)
		}
		w.mu.Lock()
		v := w.viewOf(id)
		w.mu.Unlock()
		second := v.copyOf(host, w.ids[owner]) == id
		switch {
		case i == owner && (!ok || !known || hold != frontier.Own):
			w.t.Errorf("%s: its owner %d holds it as %v (known %v, record %v)", host, i, hold, known, ok)
		case i != owner && known && hold != frontier.Backup:
			w.t.Errorf("%s: %d, not its owner, holds it as %v", host, i, hold)
		case (i == owner || second) && d != want:
			w.t.Errorf("%s: %d has %+v, not %+v", host, i, d, want)
		}
		if why := l.home.Wait(host); (why == "") != (i == owner) {
			w.t.Errorf("%s: at %d it waits because %q", host, i, why)
		}
		if l.home.Busy() {
			w.t.Errorf("%d is busy", i)
		}
		if n := l.outbox.Pending(); n > 0 {
			w.t.Errorf("%d has %d links to send", i, n)
		}
	}
}
