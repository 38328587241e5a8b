package home

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestNothingIsLost lets nodes be killed, cut off and healed, messages be lost and hosts be handed around, and asserts
// that at every moment at most one node may crawl a host, and that in the end every link is crawled.
func TestNothingIsLost(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { trouble(t, seed) })
		})
	}
}

func trouble(t *testing.T, seed uint64) {
	const hosts = 12
	o := newOverlay(t, 5, seed)
	o.loss = 0.05
	for _, id := range o.ids {
		o.start(id)
	}
	defer o.stopAll()
	rnd := rand.New(rand.NewPCG(seed, 2))
	offered := map[string]map[string]bool{}
	offer := func(n int) {
		for range n {
			m := o.members[o.ids[rnd.IntN(len(o.ids))]]
			l := link(hostName(rnd.IntN(hosts)), rnd.IntN(100))
			if m.offer(l) {
				if offered[l.URL.Host] == nil {
					offered[l.URL.Host] = map[string]bool{}
				}
				offered[l.URL.Host][l.URL.Path] = true
			}
		}
	}
	time.Sleep(10 * time.Second)
	var dead string
	kills := 0
	for range 120 {
		offer(rnd.IntN(10))
		switch rnd.IntN(12) {
		case 0:
			if dead == "" { // one at a time: a host has two copies, not three
				dead = o.ids[rnd.IntN(len(o.ids))]
				o.kill(dead)
				kills++
			}
		case 1, 2:
			if dead != "" {
				o.start(dead)
				dead = ""
			}
		case 3:
			if dead == "" {
				o.mu.Lock()
				o.side[o.ids[rnd.IntN(len(o.ids))]] = 1
				o.side[o.ids[rnd.IntN(len(o.ids))]] = 1
				o.mu.Unlock()
			}
		case 4:
			o.mu.Lock()
			clear(o.side)
			o.mu.Unlock()
		case 5, 6, 7:
			m := o.members[o.ids[rnd.IntN(len(o.ids))]]
			if h := m.life(); h != nil {
				to, host := o.ids[rnd.IntN(len(o.ids))], hostName(rnd.IntN(hosts))
				if h.Mine(host) {
					m.tasks.Go(func() { _ = h.HandOff(m.ctx, host, to, true, "test") }) // it may fail: nothing must be lost
				} else {
					h.WishMove(host, to, "test")
				}
			}
		}
		time.Sleep(time.Duration(rnd.IntN(8000)) * time.Millisecond)
	}
	o.mu.Lock()
	clear(o.side)
	o.loss = 0
	o.mu.Unlock()
	if dead != "" {
		o.start(dead)
	}
	time.Sleep(8 * time.Minute)
	o.check(offered)
	repeats := 0
	for _, paths := range o.crawled {
		for _, n := range paths {
			repeats += n - 1
		}
	}
	if t.Failed() {
		t.Log(strings.Join(o.history, "\n"))
	}
	t.Logf("%d kills, %d repeats", kills, repeats)
}
