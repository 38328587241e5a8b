package ownership

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// TestLostDisks loses disks during an undisturbed crawl. One lost disk loses nothing, because what had just been found on it is found
// again, even if another node is away when it is lost, or has just come back. Two disks at a time lose the hosts that were on both. An event names each of those, even if a
// newcomer becomes their home just then, and no other host is lost.
func TestLostDisks(t *testing.T) {
	for disks, test := range map[string]func(*world){
		"one": oneDiskDies, "one while another is away": oneDiskDiesMeanwhile, "one as another is back": oneDiskDiesThen, "two": twoDisksDie, "two as others come": disksDieAsOthersCome,
	} {
		t.Run(disks, func(t *testing.T) {
			seeded(t, 1+*runs/5, func(t *testing.T, seed uint64) {
				w := newWorld(t, seed, 5, 30)
				defer w.begin()()
				test(w)
			})
		})
	}
}

func oneDiskDies(w *world) {
	for range 3 {
		time.Sleep(5*time.Second + w.upTo(time.Minute))
		up := w.up()
		w.die(up[w.draw(len(up))])
		w.pause(true) // so that something is left to be lost
		time.Sleep(settled)
		w.pause(false)
		w.add().start()
		time.Sleep(2 * time.Minute)
	}
	w.finish(20 * time.Minute)
}

// oneDiskDiesMeanwhile lets a disk die while another node is away.
func oneDiskDiesMeanwhile(w *world) {
	for range 3 {
		time.Sleep(5*time.Second + w.upTo(time.Minute))
		up := w.up()
		away := up[w.draw(len(up))]
		away.kill(false)
		time.Sleep(w.upTo(100 * time.Second))
		up = w.up()
		w.die(up[w.draw(len(up))])
		time.Sleep(w.upTo(time.Minute))
		away.start()
		w.pause(true)
		time.Sleep(settled)
		w.pause(false)
		w.add().start()
		time.Sleep(2 * time.Minute)
	}
	w.finish(20 * time.Minute)
}

// oneDiskDiesThen lets a disk die when another node has just come back, and messages take seconds.
func oneDiskDiesThen(w *world) {
	w.mu.Lock()
	w.lag = [2]time.Duration{0, 4 * time.Second}
	w.mu.Unlock()
	for range 3 {
		time.Sleep(5*time.Second + w.upTo(time.Minute))
		up := w.up()
		away := up[w.draw(len(up))]
		away.kill(false)
		time.Sleep(w.upTo(50 * time.Second))
		up = w.up()
		w.mu.Lock()
		for i := range w.nodes {
			w.lags[[2]int{i, away.at}] = true
		}
		w.mu.Unlock()
		away.start()
		time.Sleep(w.upTo(6 * time.Second))
		w.die(up[w.draw(len(up))])
		w.pause(true)
		w.mu.Lock()
		clear(w.lags)
		w.mu.Unlock()
		time.Sleep(settled)
		w.pause(false)
		w.add().start()
		time.Sleep(2 * time.Minute)
	}
	w.finish(20 * time.Minute)
}

// disksDieAsOthersCome lets disks die about when newcomers settle: some hosts then have a home that has not heard of them.
func disksDieAsOthersCome(w *world) {
	for range 3 {
		w.add().start()
	}
	time.Sleep(settleAfter + w.upTo(5*time.Second))
	bothDisksDie(w)
}

func twoDisksDie(w *world) {
	time.Sleep(5*time.Second + w.upTo(3*time.Minute))
	bothDisksDie(w)
}

// bothDisksDie loses the two disks of a host. Events must name what was on them only.
func bothDisksDie(w *world) {
	host := w.hosts[w.draw(len(w.hosts))]
	var dead []*actor
	for _, a := range w.all() {
		if _, known, err := a.disk.RoleOf(w.ctx, host); err == nil && known {
			dead = append(dead, a)
		}
	}
	if len(dead) != 2 {
		return // it is changing its owner
	}
	had := w.accepted(map[string]bool{})
	w.die(dead...)
	time.Sleep(time.Second) // what was on its way arrives
	var lost, moving []string
	var but []string // hosts of which some pages may be missing
	for _, url := range w.thin(had, 1) {
		host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
		but = append(but, "http://"+host) // a third node has an older copy
	}
	for _, host := range w.hosts {
		left, whole := false, false
		for _, a := range w.up() {
			if role, known, err := a.disk.RoleOf(w.ctx, host); err == nil && known {
				left, whole = true, whole || role != frontier.Leaving
			}
		}
		switch {
		case !left:
			lost = append(lost, host)
		case !whole:
			moving = append(moving, host) // perhaps to one of the dead
		}
	}
	but = slices.Concat(but, moving, lost)
	for end := time.Now().Add(20 * time.Minute); len(w.faults(but)) > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Second)
	}
	for _, fault := range w.faults(but) {
		w.t.Error(fault)
	}
	time.Sleep(settled) // for nodes that may have a copy
	w.mu.Lock()
	events := slices.Clone(w.events)
	w.mu.Unlock()
	for _, host := range w.hosts {
		named := slices.ContainsFunc(events, func(e Event) bool { return e.Kind == Lost && e.Record.Host == host })
		if named != slices.Contains(lost, host) && !slices.Contains(moving, host) {
			w.t.Errorf("%s, named as lost: %t%s", host, named, w.describe(host))
		}
	}
}

// faults returns what is wrong at the end, except with some hosts, and with pages to which only these had links.
func (w *world) faults(but []string) []string {
	return slices.DeleteFunc(w.sound(), func(fault string) bool {
		return slices.ContainsFunc(but, func(host string) bool {
			h, _ := numbers(host, "")
			next := w.hosts[(h+1)%len(w.hosts)]
			return strings.HasPrefix(fault, host+":") || strings.HasPrefix(fault, host+"\n") || strings.HasPrefix(fault, next+":")
		})
	})
}

// die ends nodes with their disks, all at one time.
func (w *world) die(nodes ...*actor) {
	w.mu.Lock()
	for _, a := range nodes {
		a.now.dead = true
	}
	w.mu.Unlock()
	for _, a := range nodes {
		a.kill(false)
		a.disk = nil
	}
}

// pause stops or continues the crawl of all nodes.
func (w *world) pause(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.nodes {
		a.paused = on
	}
}

// A home that has taken a host for new hears from others of an earlier owner. If that one is gone, the home goes on, awaits the copy, and says
// when none comes. A copy of what it has itself is none.
func TestAHomeAwaitsAnEarlierOwnersCopy(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		for i, c := range []struct {
			what           string
			epoch          uint64
			owner          int // 7 is gone
			copy           []int
			from           int // whose record comes with the copy
			awaited, still bool
		}{
			{"newer, without a copy", 3, 7, nil, 0, true, true},
			{"of this epoch, without a copy", 1, 7, nil, 0, true, true},
			{"newer, with a copy", 3, 7, []int{0, 1}, 7, true, false},
			{"newer, with a copy of the same", 3, 7, []int{0}, 7, true, false},
			{"newer, with what comes back from its own replica", 3, 7, []int{0}, 1, true, true},
			{"newer, with more than its own replica can have from here", 3, 7, []int{0, 1}, 1, true, false},
			{"newer, and alive", 3, 2, nil, 0, false, false},
		} {
			p, own, host := s.node(1), s.node(1).own, s.hostsOf(i+1, 1, 2, 3)[i]
			p.find(link(host, 0))
			unlock := own.locks.lock(host) // nobody looks at it
			if err := own.census.obey(rec(host, c.epoch, c.owner)); err != nil {
				t.Fatal(err)
			}
			unlock()
			awaits := func() (yes bool) {
				p.with(func() { _, yes = own.awaited[host] })
				return yes
			}
			if r := p.record(host); awaits() != c.awaited || c.awaited && (r.Owner != idOf(1) || r.Epoch != c.epoch+1) {
				t.Errorf("%s: awaited: %v, %v", c.what, awaits(), r)
			}
			if c.copy != nil {
				r := rec(host, c.epoch, c.owner)
				if c.from == 1 {
					r = p.record(host)
				}
				var chunk frontier.Chunk
				for _, page := range c.copy {
					chunk.Pending = append(chunk.Pending, frontier.PendingURL{Path: link(host, page).URL.Path})
				}
				if _, err := own.Store(s.t.Context(), idOf(3), &wire.StoreRequest{Items: []*wire.StoreItem{{Record: r.wire(), Chunk: chunkToWire(chunk)}}}); err != nil {
					t.Fatal(err)
				}
			}
			if awaits() != c.still {
				t.Errorf("%s: awaited in the end: %v", c.what, awaits())
			}
		}
	})
}

// While a home stood still, or saw no majority, nobody could give it a copy. It gives others time for that before it says that a host is lost.
func TestLossIsNotToldAfterAStandstill(t *testing.T) {
	for what, stop := range map[string]func(s *stage){
		"it stood still": func(s *stage) {
			time.Sleep(s.cfg.TakeAfter - 10*time.Second)
			s.node(1).own.Stopped()
		},
		"it saw no majority": func(s *stage) {
			s.part(1, 2, 3)
			s.see()
			time.Sleep(s.cfg.TakeAfter)
			s.mu.Lock()
			clear(s.cut)
			s.mu.Unlock()
			s.see()
		},
	} {
		onStage(t, []int{1, 2, 3}, func(s *stage) {
			p := s.node(1)
			var lost atomic.Int32
			s.listen(func(_ int, e Event) { lost.Add(int32(len(mark(e.Kind == Lost, "1")))) }, nil)
			host := s.found(3, 1, 2, 3)
			p.with(func() { p.own.awaited[host] = time.Now() })
			time.Sleep(s.cfg.TakeAfter + 5*time.Second)
			stop(s)
			if time.Sleep(s.cfg.TakeAfter); lost.Load() > 0 {
				t.Errorf("%s, and then it says that a host is lost", what)
			}
			if time.Sleep(s.cfg.TakeAfter + 10*time.Second); lost.Load() != 1 {
				t.Errorf("%s: in the end it has said %d times that the host is lost", what, lost.Load())
			}
		})
	}
}

// A disk is lost at any moment of a busy crawl, while hosts are handed around, replicas are made, messages take seconds, and some disks are slow.
// Where a page is done, all of its links are on another disk at that moment. Shortly before, the process may have died and begun anew, or its
// changes may have found no memory.
//
//	go test -run TestAnyDiskMayBeLost ./node/ownership -runs 500 -seed 5000
func TestAnyDiskMayBeLost(t *testing.T) {
	for before, trouble := range map[string]func(a *actor){
		"nothing":      nil,
		"a crash":      func(a *actor) { a.kill(false); a.start() },
		"a power cut":  func(a *actor) { a.kill(true); a.start() },
		"an overflow":  func(a *actor) { a.owner.stream.overflow() },
		"lost changes": func(a *actor) { a.disk.forget() },
	} {
		t.Run(before, func(t *testing.T) {
			n := 2 * *runs
			if trouble == nil {
				n = 4 * *runs
			}
			seeded(t, n, func(t *testing.T, seed uint64) { anyDisk(t, seed, trouble) })
		})
	}
}

func anyDisk(t *testing.T, seed uint64, trouble func(a *actor)) {
	w := newWorld(t, seed, 4+int(seed%3), 150)
	w.visit, w.lag = 500*time.Millisecond, [2]time.Duration{0, 4 * time.Second}
	stop := w.begin()
	defer stop()
	if seed%2 == 0 {
		w.loss = 0.03
	}
	for i, a := range w.nodes {
		a.disk.mu.Lock()
		a.disk.slow = w.draw(3) == 0
		a.disk.mu.Unlock()
		for j := range w.nodes {
			w.mu.Lock()
			w.lags[[2]int{i, j}] = w.rng.IntN(2) == 0
			w.mu.Unlock()
		}
	}
	handAround := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(w.upTo(6 * time.Second)) {
			host, to := w.hosts[w.draw(len(w.hosts))], w.nodes[w.draw(len(w.nodes))].id
			for _, a := range w.nodes {
				a.owner.Wish(host, to, "test")
			}
		}
	}
	handAround(20*time.Second + w.upTo(3*time.Minute))
	lost := w.nodes[w.draw(len(w.nodes))]
	if trouble != nil {
		trouble(lost)
		handAround(w.upTo(70 * time.Second))
	}
	w.mu.Lock()
	lost.now.dead = true
	w.mu.Unlock()
	lost.disk.next(false)
	defer lost.kill(false)
	var left []*disk
	for _, a := range w.nodes {
		if a != lost {
			left = append(left, a.disk)
		}
	}
	for _, d := range left {
		w.each(func(host, path string) {
			if !d.isDone(host, path) {
				return
			}
			for _, l := range w.links(host, path) {
				if !slices.ContainsFunc(left, func(d *disk) bool { return d.has(l.URL.Host, l.URL.Path) }) {
					t.Fatalf("%s%s is done, and its link %v is lost with node %d%s", host, path, l.URL, lost.at, w.describe(l.URL.Host))
				}
			}
		})
	}
}

func (d *disk) isDone(host, path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.now.hosts[host]
	return h != nil && h.done[path]
}
