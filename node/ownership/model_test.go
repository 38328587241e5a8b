package ownership

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
)

var runs = flag.Int("runs", 5, "how many seeded runs of the model are made")
var firstSeed = flag.Uint64("seed", 1, "the first seed of the model")

// TestNothingIsLost crawls a web with an overlay in trouble. Nodes are killed with and without their last second on disk, lose their
// disks or get older ones, join, leave, are drained, hand on all their hosts or offer each of them, come back and freeze, or can be dialled
// no more; in every third run newcomers take the places of the oldest nodes until no founder is left. Partitions and one-way links cut them
// off, and other links are slow. Clocks jump, disks are full, slow or do not answer, changes find no memory, messages are lost, late and
// repeated, some nodes answer some calls only, and hosts are handed around. Of the two disks of a host, one is lost at a time. Two nodes
// never ask one server, and no accepted URL is ever gone. When all has been calm for a while, each URL is on two disks. In the end every
// page is done, and every host has one owner and one equal replica.
//
//	go test -run TestNothingIsLost ./node/ownership -runs 2000 -seed 5000
func TestNothingIsLost(t *testing.T) { seeded(t, *runs, turmoil) }

// seeded runs a test with so many seeds, each on a fake clock.
func seeded(t *testing.T, n int, test func(t *testing.T, seed uint64)) {
	for i := range n {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, seed) })
		})
	}
}

// turmoil is one run of the model.
func turmoil(t *testing.T, seed uint64) {
	w := newWorld(t, seed, 5+int(seed%4/3)*5, 30)
	if seed%4 == 2 {
		w.cfg.CachedRecords = 3
	}
	if seed%2 == 1 {
		w.cfg.SweepEvery = 1000 * time.Hour // what has come up is found without it
	}
	stop := w.begin()
	defer stop()
	w.loss, w.late = 0.02, 0.01
	known := map[string]bool{}
	for range 25 {
		if w.draw(12) == 0 {
			w.rest(known)
		} else if up := w.up(); seed%3 == 2 && w.draw(2) == 0 && len(up) > 3 {
			w.loseDisk(up[0]) // the oldest: in the end no founder is left
			w.add().start()
		} else {
			w.act()
		}
		if w.draw(4) > 0 { // otherwise the next trouble comes at once
			time.Sleep(time.Duration(1+w.draw(60)) * time.Second)
		}
		if lost := w.thin(known, 1); len(lost) > 0 {
			t.Fatalf("lost: %v", lost)
		}
		w.accepted(known)
	}
	w.t.Logf("%d requests, %d sets of voters, %d downloads", w.asked, len(w.sets)-1, len(w.fetched))
	w.heal()
	w.finish(2 * time.Hour)
}

// begin starts all nodes and seeds the crawl. stop ends them.
func (w *world) begin() (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	for _, a := range w.nodes {
		a.start()
	}
	go w.watch(ctx)
	first := w.nodes[0]
	time.Sleep(w.cfg.Collect + 5*time.Second)
	for _, host := range w.hosts {
		link := frontier.Link{URL: identity.URL{Host: host, Path: path(0)}}
		mine, err := first.owner.Route(ctx, []frontier.Link{link})
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := first.disk.Add(ctx, mine); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := first.disk.Sync(ctx); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		cancel()
		for _, a := range w.nodes {
			a.kill(false)
		}
	}
}

// finish waits until all is done, and reports what is not in time.
func (w *world) finish(within time.Duration) {
	faults := w.sound()
	for end := time.Now().Add(within); len(faults) > 0 && time.Now().Before(end); faults = w.sound() {
		time.Sleep(10 * time.Second)
	}
	for _, fault := range faults { // not those of a moment later: hosts may be about to move
		w.t.Error(fault)
	}
}

// act makes one trouble happen.
func (w *world) act() {
	up := w.up()
	down := slices.DeleteFunc(w.all(), func(a *actor) bool { return a.running() || a.disk == nil })
	pick := func(all []*actor) *actor { return all[w.draw(len(all))] }
	switch what := w.draw(28); {
	case what <= 1 && len(up) > 3:
		pick(up).kill(what == 0)
	case what <= 3 && len(down) > 0:
		pick(down).start()
	case what == 4 && len(up) > 3:
		w.loseDisk(pick(append(up, down...)))
	case what == 5 && len(up) < 7:
		w.add().start()
	case what == 6 && len(up) > 4:
		w.leave(pick(up))
	case what == 7:
		w.part()
		if w.draw(4) == 0 {
			time.Sleep(20 * time.Minute)
		}
	case what == 8: // a link that works one way only
		w.mu.Lock()
		w.cut[[2]int{w.rng.IntN(len(w.nodes)), w.rng.IntN(len(w.nodes))}] = true
		w.mu.Unlock()
	case what == 9: // what is asked is answered again
		w.heard()
	case what == 10:
		d := pick(up).disk
		d.mu.Lock()
		d.full = !d.full
		d.mu.Unlock()
	case what <= 12: // a process stands still
		a := pick(up)
		a.freeze()
		longest := 145 * time.Second
		if w.draw(4) == 0 {
			longest = 20 * time.Minute
		}
		time.AfterFunc(5*time.Second+w.upTo(longest), a.thaw)
	case what == 13:
		most := 2 * time.Minute
		if w.draw(4) == 0 {
			most = 5 * time.Hour
		}
		pick(up).setClock(w.upTo(2*most) - most)
	case what == 14: // a disk becomes slow, or fast again
		d := pick(up).disk
		d.mu.Lock()
		d.slow = !d.slow
		d.mu.Unlock()
	case what == 15: // all takes long on a link, one way only
		w.mu.Lock()
		w.lags[[2]int{w.rng.IntN(len(w.nodes)), w.rng.IntN(len(w.nodes))}] = true
		w.mu.Unlock()
	case what == 16: // a node answers some calls and not others
		a := pick(up)
		w.mu.Lock()
		w.picky[a.at] = map[string]int{}
		w.mu.Unlock()
	case what == 17 && len(up) > 3:
		w.restore(pick(up))
	case what == 18: // a node can be dialled no more, or again
		a := pick(up)
		w.mu.Lock()
		a.outbound = !a.outbound
		w.mu.Unlock()
	case what == 19: // a process dies, and begins anew before the others notice
		a := pick(up)
		a.kill(w.draw(2) == 0)
		a.start()
	case what == 20 && len(up) > 4:
		w.drain(pick(up))
	case what == 21: // a node is without the web for long
		a, until := pick(up), time.Now().Add(w.upTo(2*time.Minute))
		owner, without := a.owner, func() bool { return a.running() && time.Now().Before(until) }
		go func() {
			_ = owner.Evacuate(w.ctx, "no web", without) // it ends with the node
			time.Sleep(time.Until(until))
			owner.Refuse(false)
		}()
	case what == 22: // a node cannot reach the web servers of its hosts
		a := pick(up)
		for _, host := range w.hosts {
			go a.owner.Offer(w.ctx, host, "out of reach") //nolint:errcheck // it fails for hosts of others
		}
	case what == 23: // the frontier has no memory for what has changed
		pick(up).disk.forget()
	case what == 24: // nor has the stream
		pick(up).owner.stream.overflow()
	case what == 25: // digests are not kept
		d := pick(up).disk
		for _, host := range w.hosts {
			d.untrack(host)
		}
	case what == 26: // a disk does not answer
		pick(up).hang(w.upTo(55 * time.Second))
	default: // hosts are handed around
		for _, host := range w.hosts {
			for _, a := range up {
				if r, ok, err := a.owner.Record(host); err == nil && ok && r.Owner == a.id {
					a.owner.Wish(host, pick(up).id, "test")
				}
			}
		}
	}
}

// part cuts some nodes off from the others.
func (w *world) part() {
	w.mu.Lock()
	defer w.mu.Unlock()
	side := map[int]bool{}
	for _, a := range w.nodes {
		side[a.at] = w.rng.IntN(3) == 0
	}
	for i := range w.nodes {
		for j := range w.nodes {
			if side[i] != side[j] {
				w.cut[[2]int{i, j}] = true
			}
		}
	}
}

// loseDisk ends a node for good, as soon as everything on its disk is on another disk, too.
func (w *world) loseDisk(a *actor) {
	if w.spare(a) {
		a.kill(false)
		a.disk = nil
	}
}

// spare waits for a minute at most until everything on a disk is on another disk, too.
func (w *world) spare(a *actor) bool {
	for range 60 {
		if !w.alone(a) {
			return true
		}
		time.Sleep(time.Second)
	}
	return false
}

// backup is an older copy of what is on a node's disk.
type backup struct {
	disk *disk
	seat seat
}

// restore gives a node the disk of an earlier time, if there is a copy and all that came later is on another disk, too. Otherwise it makes one.
// It takes so long that all others notice.
func (w *world) restore(a *actor) {
	if a.backup == nil {
		w.mu.Lock()
		a.backup = &backup{a.disk.copy(), a.seat}
		w.mu.Unlock()
		return
	}
	if !w.spare(a) {
		return
	}
	a.kill(false)
	for _, b := range w.up() {
		b.thaw()
	}
	time.Sleep(deadAfter + deathsSpread + 5*time.Second)
	w.mu.Lock()
	a.disk, a.voters, a.renounced, a.declared = a.backup.disk.copy(), a.backup.seat.voters, a.backup.seat.renounced, a.backup.seat.declared
	w.mu.Unlock()
	if w.draw(2) == 0 {
		a.start()
	}
}

// alone reports whether something is on the disk of a node and on no other.
func (w *world) alone(a *actor) (alone bool) {
	w.each(func(host, path string) { alone = alone || a.disk.has(host, path) && w.copies(host, path) == 1 })
	return alone
}

// leave ends a life in order. The node loses its disk if everything on it is elsewhere, too.
func (w *world) leave(a *actor) {
	ctx, cancel := context.WithTimeout(w.ctx, 3*time.Second)
	defer cancel()
	a.owner.Flush(ctx)
	w.farewell(a)
	a.end()
	a.disk = a.disk.next(false)
	if !w.alone(a) {
		a.disk = nil
	}
}

// drain has a node hand over what it can within half a minute. Then it leaves.
func (w *world) drain(a *actor) {
	ctx, cancel := context.WithTimeout(w.ctx, 30*time.Second)
	defer cancel()
	_ = a.owner.Drain(ctx, func(int64, error) {}) // what is left is taken over
	w.leave(a)
}

// settled is how long it takes until every host has two copies again.
const settled = 6 * time.Minute

// rest ends all trouble for a while. Then everything that was accepted must be on two disks. Sometimes it loses one of them at once. What
// had just been found may be lost with it, and is found again.
func (w *world) rest(known map[string]bool) {
	w.calm()
	time.Sleep(settled)
	if !w.whole() {
		w.goAlone() // too many disks were lost
		time.Sleep(settled)
	}
	before := w.accepted(map[string]bool{})
	time.Sleep(30 * time.Second) // a message that is lost is sent again after patience
	if thin := w.thin(before, 2); len(thin) > 0 {
		host, _, _ := strings.Cut(strings.TrimPrefix(thin[0], "http://"), "/")
		w.t.Errorf("not on two disks: %v%s", thin, w.describe("http://"+host))
	}
	up := w.up()
	if w.draw(2) == 0 && len(up) > 3 {
		clear(known)
		maps.Copy(known, before)
		a := up[w.draw(len(up))]
		a.kill(false)
		a.disk = nil
	}
}

// whole reports whether all running nodes see a majority.
func (w *world) whole() bool {
	return !slices.ContainsFunc(w.up(), func(a *actor) bool { return !a.owner.view().Majority })
}

// up returns the nodes that run.
func (w *world) up() []*actor {
	return slices.DeleteFunc(w.all(), func(a *actor) bool { return !a.running() })
}

// calm ends all trouble, except that messages are still lost now and then.
func (w *world) calm() {
	w.heard()
	for _, a := range w.all() {
		a.thaw()
		if a.disk == nil {
			continue
		}
		a.disk.mu.Lock()
		a.disk.full, a.disk.slow = false, false
		a.disk.mu.Unlock()
		if !a.running() {
			a.start()
		}
	}
}

// heard ends all trouble between nodes, except that messages are still lost now and then.
func (w *world) heard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.cut)
	clear(w.lags)
	clear(w.picky)
}

// heal ends all trouble, and acts as an operator who says which nodes are gone for good, if the others are no majority without them.
func (w *world) heal() {
	w.calm()
	w.mu.Lock()
	w.loss, w.late = 0, 0
	w.mu.Unlock()
	time.Sleep(settled)
	if !w.whole() {
		w.goAlone()
	}
}

// Nodes freeze again and again for less than a lease, as on an overloaded machine. They still read the answers to their requests, so no
// page is requested twice.
func TestShortFreezesRepeatNothing(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed, 5, 30)
				stop := w.begin()
				defer stop()
				for range 40 {
					time.Sleep(10*time.Second + w.upTo(10*time.Second))
					a := w.nodes[w.draw(len(w.nodes))]
					a.freeze()
					time.Sleep(3*time.Second + w.upTo(15*time.Second))
					a.thaw()
				}
				w.finish(2 * time.Hour)
				if pages := len(w.hosts) * w.pages; w.asked != pages {
					t.Errorf("%d requests for %d pages", w.asked, pages)
				}
			})
		})
	}
}

// A node reaches nobody, and nobody reaches it, though it counts as alive, and that does not end. Its hosts are taken over, and nothing waits
// for it: neither do links of nodes that know its hosts by hearsay.
func TestNothingWaitsForAMuteNode(t *testing.T) {
	seeded(t, *runs, func(t *testing.T, seed uint64) {
		w := newWorld(t, seed, 6, 60)
		defer w.begin()()
		for range 3 {
			time.Sleep(w.upTo(time.Minute))
			for _, host := range w.hosts {
				to := w.nodes[w.draw(len(w.nodes))].id
				for _, a := range w.nodes {
					a.owner.Wish(host, to, "test")
				}
			}
		}
		time.Sleep(w.upTo(time.Minute))
		gone := w.nodes[w.draw(len(w.nodes))]
		w.mu.Lock()
		gone.mute, gone.outbound = true, true // it finds out that it cannot be dialled
		w.mu.Unlock()
		time.Sleep(30 * time.Minute)
		for _, a := range w.nodes {
			if a != gone && (a.now.outbox.Pending() > 0 || a.owner.Busy()) {
				t.Errorf("node %d has %d links for others, of which node %d is mute: %s", a.at, a.now.outbox.Pending(), gone.at, w.errands(a.owner))
			}
		}
	})
}
