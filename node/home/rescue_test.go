package home

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier/identity"
)

// TestCopyIsBroughtHome lets a node join at the moment another dies that was home and owner of hosts: the newcomer is the
// home of some of them now and has never heard of them, and the second copies are with a third node.
func TestCopyIsBroughtHome(t *testing.T) {
	for victim := range 4 {
		t.Run(fmt.Sprint(victim), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newcomer(t, victim) })
		})
	}
}

func newcomer(t *testing.T, victim int) {
	o := newOverlay(t, 5, uint64(victim))
	for _, id := range o.ids[:4] {
		o.start(id)
	}
	defer o.stopAll()
	o.paused.Store(true)
	time.Sleep(12 * time.Second)
	offered := map[string]map[string]bool{}
	for i := range 30 {
		for path := range 3 {
			l := link(hostName(i), path)
			if !o.members[o.ids[i%4]].offer(l) {
				t.Fatal("a link was not taken")
			}
			if offered[l.URL.Host] == nil {
				offered[l.URL.Host] = map[string]bool{}
			}
			offered[l.URL.Host][l.URL.Path] = true
		}
	}
	time.Sleep(12 * time.Second) // at their owners, with second copies
	o.start(o.ids[4])
	o.kill(o.ids[victim])
	o.paused.Store(false)
	time.Sleep(5 * time.Minute)
	o.mu.Lock()
	for host, paths := range offered {
		for path := range paths {
			if o.crawled[host][path] == 0 {
				t.Errorf("%s%s is not crawled while its owner is dead", host, path)
			}
		}
	}
	o.mu.Unlock()
	o.start(o.ids[victim])
	time.Sleep(5 * time.Minute)
	o.check(offered)
	for _, f := range o.history {
		if t.Failed() {
			t.Log(f)
		}
	}
}

// TestOldCopyDoesNotReplaceTheHomes kills the owner of a host that has its second copy at the next home and, from a while in
// which that one was away, an old copy at a third node. The next home has just started anew, and so is the last to count the
// owner as gone: the old copy is offered to it first. Nothing that the owner had done and copied is to be done again.
func TestOldCopyDoesNotReplaceTheHomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3, nil, 0, 1)
		host := w.hostOf(0, 1)
		links := pages(host, 0, 30)
		if err := w.house(0).offer(links...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		w.believe(func() { w.left[w.ids[1]] = true })
		time.Sleep(3 * time.Second)
		w.copyIs(host, 2, digestOf(links, nil))
		w.believe(func() { w.left[w.ids[1]] = false })
		w.house(0).crawl(1) // robots.txt
		var done []identity.URL
		for range 3 {
			time.Sleep(crawlDelay)
			done = append(done, w.house(0).crawl(1)[0].URL)
		}
		time.Sleep(3 * time.Second)
		w.copyIs(host, 1, digestOf(links, done))
		w.copyIs(host, 2, digestOf(links, nil))

		w.house(0).end()
		w.believe(func() { w.dead[w.ids[0]] = true })
		time.Sleep(2 * time.Second)
		w.believe(func() { w.left[w.ids[0]] = true }) // it is forgotten
		time.Sleep(w.cfg.TakeAfter / 2)
		w.house(1).end()
		w.house(1).start()
		time.Sleep(2 * w.cfg.TakeAfter)
		w.is(host, 1, digestOf(links, done))
		if n := w.house(1).had(Took); n != 1 {
			t.Errorf("the home took it over %d times", n)
		}
		if n := w.house(2).had(Took); n != 0 {
			t.Error("the old copy was taken for the host")
		}
	})
}
