package home

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestHandOffMeetsABusyHost hands a host to a node that is writing its copy of it. It waits for that, but not for ever: two
// nodes that are at the same host could wait for each other.
func TestHandOffMeetsABusyHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2, nil)
		host := w.hostOf(0, 1)
		if err := w.house(0).offer(pages(host, 0, 5)...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second) // its second copy is made
		there := w.house(1).home
		unlock := there.locks.lock(host)
		began := time.Now()
		err := w.house(0).home.HandOff(context.Background(), host, w.ids[1], true, "test")
		if err == nil || !strings.Contains(err.Error(), "busy") || time.Since(began) > 2*moment {
			t.Fatalf("after %v: %v, want that the host is busy", time.Since(began), err)
		}
		if users := there.locks.users[host]; users != 1 {
			t.Errorf("%d have the host or wait for it, want the one that has it", users)
		}
		time.AfterFunc(moment/2, unlock)
		time.Sleep(10 * time.Second) // it is settled that it did not arrive
		if n := w.crawlers(host); n != 1 {
			t.Errorf("%d nodes crawl the host that stayed, want 1", n)
		}
		time.AfterFunc(moment/2, there.locks.lock(host))
		if err := w.house(0).home.HandOff(context.Background(), host, w.ids[1], true, "test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if r, _, err := there.Record(host); err != nil || r.Owner != w.ids[1] || len(there.locks.users) != 0 {
			t.Errorf("%+v, %v; locks %v", r, err, there.locks.users)
		}
	})
}
