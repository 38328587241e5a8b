package ownership

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A disk is lost at any moment of a busy crawl, while hosts are handed around, replicas are made, messages take seconds, and some disks are slow.
// Where a page is done, all of its links are on another disk at that moment.
//
//	go test -run TestAnyDiskMayBeLost ./node/ownership -runs 500 -seed 5000
func TestAnyDiskMayBeLost(t *testing.T) {
	for i := range 4 * *runs {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { anyDisk(t, seed) })
		})
	}
}

func anyDisk(t *testing.T, seed uint64) {
	w := newWorld(t, seed, 4+int(seed%3), 8, 150)
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
	for end := time.Now().Add(20*time.Second + w.upTo(3*time.Minute)); time.Now().Before(end); time.Sleep(w.upTo(6 * time.Second)) {
		host, to := w.hosts[w.draw(len(w.hosts))], w.nodes[w.draw(len(w.nodes))].id
		for _, a := range w.nodes {
			a.owner.Wish(host, to, "test")
		}
	}
	lost := w.nodes[w.draw(len(w.nodes))]
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
