package home

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestHearsay lets a node hear of a host's owner by the answer to a link, and then become the host's home and the place
// of its second copy. When the owner dies, the host goes on there: what was only heard does not stand for a record on disk.
func TestHearsay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3, nil)
		host := w.hostOf(0, 1)
		links := pages(host, 0, 30)
		if err := w.house(0).offer(links...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second) // its second copy is made, at 1
		if err := w.house(0).home.HandOff(context.Background(), host, w.ids[2], true, "test"); err != nil {
			t.Fatal(err)
		}
		for n := 30; n < 32; n++ {
			found := pageOf(host, n)
			if err := w.house(1).offer(found); err != nil {
				t.Fatal(err)
			}
			links = append(links, found)
			if n > 30 {
				break
			}
			time.Sleep(2*w.cfg.SweepEvery + 5*time.Second) // 1, which keeps the copy no longer, has forgotten the host
			if _, ok, _ := w.house(1).home.Record(host); ok {
				t.Fatal("1 has not forgotten the host")
			}
		}
		time.Sleep(5 * time.Second)
		w.is(host, 2, digestOf(links, nil))
		if to, err := w.house(1).home.whereTo(host); err != nil || to.to != w.ids[2] {
			t.Errorf("1 has not heard who owns the host: %+v, %v", to, err)
		}

		w.house(0).end()
		w.believe(func() { w.left[w.ids[0]] = true })
		time.Sleep(w.cfg.Collect + 2*w.cfg.RenewEvery)
		home, owner := w.house(1).home, w.house(2).home
		home.mu.Lock()
		lent := home.fences.lent[w.ids[2]]
		home.mu.Unlock()
		owner.mu.Lock()
		owned := owner.fences.owned[w.ids[1]]
		owner.mu.Unlock()
		if lent != owned || lent.count != 1 {
			t.Errorf("the new home counts %+v, the owner %+v", lent, owned)
		}
		w.copyIs(host, 1, digestOf(links, nil))

		w.house(2).end()
		w.believe(func() { w.dead[w.ids[2]] = true })
		time.Sleep(2 * w.cfg.TakeAfter)
		w.believe(func() { w.left[w.ids[2]] = true })
		time.Sleep(10 * time.Second)
		if w.house(1).had(Took) != 1 {
			t.Error("the host is not taken over")
		}
		w.is(host, 1, digestOf(links, nil))
	})
}
