package ownership

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
)

var runs = flag.Int("runs", 10, "how many seeded runs of the model are made")
var firstSeed = flag.Uint64("seed", 1, "the first seed of the model")

// TestNothingIsLost crawls a web with an overlay to which everything happens: nodes that are killed, with and without
// their last second on disk, disks that are lost, nodes that join, leave and come back, partitions and one-way links, full
// disks, lost and repeated messages, and hosts that are handed around. Of a host's disks one is lost at a time. In the end
// every page that can be found is done, and the books balance.
//
//	go test -run TestNothingIsLost ./node/ownership -runs 2000 -seed 5000
func TestNothingIsLost(t *testing.T) {
	for i := range *runs {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { turmoil(t, seed) })
		})
	}
}

// turmoil is one run of the model.
func turmoil(t *testing.T, seed uint64) {
	w := newWorld(t, seed, 5, 8, 30)
	ctx, cancel := context.WithCancel(t.Context())
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
			t.Fatal(err)
		}
		if _, err := first.disk.Add(ctx, mine); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.disk.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	w.loss = 0.02
	for range 25 {
		w.act()
		time.Sleep(time.Duration(1+w.draw(60)) * time.Second)
		if lost := w.thin(1); len(lost) > 0 {
			t.Fatalf("lost: %v", lost)
		}
	}
	w.heal()
	end := time.Now().Add(2 * time.Hour)
	for len(w.sound()) > 0 && time.Now().Before(end) {
		time.Sleep(10 * time.Second)
	}
	for _, fault := range w.sound() {
		t.Error(fault)
	}
	cancel()
	for _, a := range w.nodes {
		a.kill(false)
	}
}

// act lets one thing happen.
func (w *world) act() {
	var up, down []*actor
	for _, a := range w.nodes {
		switch {
		case a.running():
			up = append(up, a)
		case a.disk != nil:
			down = append(down, a)
		}
	}
	pick := func(all []*actor) *actor { return all[w.draw(len(all))] }
	switch what := w.draw(12); {
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
	case what == 7: // a partition
		w.mu.Lock()
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
		w.mu.Unlock()
		if w.draw(4) == 0 {
			time.Sleep(20 * time.Minute)
		}
	case what == 8: // a link that works one way only
		w.mu.Lock()
		w.cut[[2]int{w.rng.IntN(len(w.nodes)), w.rng.IntN(len(w.nodes))}] = true
		w.mu.Unlock()
	case what == 9:
		w.mu.Lock()
		clear(w.cut)
		w.mu.Unlock()
	case what == 10:
		d := pick(up).disk
		d.mu.Lock()
		d.full = !d.full
		d.mu.Unlock()
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

// loseDisk ends a node for good, when everything that is on its disk is on another one as well.
func (w *world) loseDisk(a *actor) {
	for range 60 { // what is one message away gets there
		if !w.alone(a) {
			a.kill(false)
			a.disk = nil
			return
		}
		time.Sleep(time.Second)
	}
}

// alone says whether something is on the disk of a node and on no other.
func (w *world) alone(a *actor) bool {
	for _, host := range w.hosts {
		for k := range w.pages {
			if a.disk.has(host, path(k)) && !slices.ContainsFunc(w.nodes, func(b *actor) bool {
				return b != a && b.disk != nil && b.disk.has(host, path(k))
			}) {
				return true
			}
		}
	}
	return false
}

// leave ends a life in order. If nothing is only there the node does not come back.
func (w *world) leave(a *actor) {
	ctx, cancel := context.WithTimeout(w.ctx, 3*time.Second)
	defer cancel()
	a.owner.Flush(ctx)
	w.mu.Lock()
	a.left = true
	w.mu.Unlock()
	a.kill(false)
	if !w.alone(a) {
		a.disk = nil
	}
}

// heal ends all trouble.
func (w *world) heal() {
	w.mu.Lock()
	clear(w.cut)
	w.loss = 0
	nodes := slices.Clone(w.nodes)
	w.mu.Unlock()
	for _, a := range nodes {
		if a.disk != nil {
			a.disk.mu.Lock()
			a.disk.full = false
			a.disk.mu.Unlock()
		}
		if a.disk != nil && !a.running() {
			a.start()
		}
	}
	// The operator tells who is gone for good.
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.nodes {
		maps.DeleteFunc(a.voters, func(at int, _ bool) bool { return w.nodes[at].stop == nil })
	}
}
