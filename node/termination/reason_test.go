package termination

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What keeps the crawl from ending is told once by the node that waits and by the one that asks, however its numbers change.
func TestReasonIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		told := map[string][]string{}
		c := newCrew(t, 2, 2)
		for _, m := range c.mates {
			m.rounds.deps.Waits = func(why string) {
				mu.Lock()
				defer mu.Unlock()
				told[m.id] = append(told[m.id], why)
			}
		}
		busy := func(why string) {
			c.set(func() { c.mates[1].state.Idle, c.mates[1].state.Why = why == "", why })
		}
		for _, why := range []string{"it has pages to download", "7 links wait for other nodes", "it has pages to download"} {
			busy(why)
			time.Sleep(every)
		}
		for _, why := range []string{"8 links wait for other nodes", "5 links wait for other nodes", "3 links wait for other nodes"} {
			busy(why)
			time.Sleep(4 * every)
		}
		busy("")
		time.Sleep(10 * every)
		mu.Lock()
		defer mu.Unlock()
		want := []string{"3 links wait for other nodes"}
		if got := told[c.mates[1].id]; len(got) != 1 || got[0][1:] != want[0][1:] {
			t.Errorf("the node that waits told %q", got)
		}
		if got := told[c.mates[0].id]; len(got) != 1 || !slices.Contains([]byte(got[0]), ':') {
			t.Errorf("the node that asks told %q", got)
		}
		for _, m := range c.mates {
			if m.over.IsZero() {
				t.Error("it has not ended")
			}
		}
	})
}
