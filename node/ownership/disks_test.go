package ownership

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
)

// TestLostDisks loses disks during an undisturbed crawl. One lost disk loses nothing, because what had just been found on it is found
// again. Two disks at a time lose the hosts that were on both. An event names each of those, and nothing else is lost.
func TestLostDisks(t *testing.T) {
	for i := range 1 + *runs/5 {
		seed := *firstSeed + uint64(i)
		for disks, test := range map[string]func(*world){"one": oneDiskDies, "two": twoDisksDie} {
			t.Run(fmt.Sprintf("%s/%d", disks, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, seed, 5, 8, 30)
					defer w.begin()()
					test(w)
				})
			})
		}
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

func twoDisksDie(w *world) {
	time.Sleep(5*time.Second + w.upTo(3*time.Minute))
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
	var lost []string
	for _, host := range w.hosts {
		if !slices.ContainsFunc(w.all(), func(a *actor) bool {
			role, known, err := a.disk.RoleOf(w.ctx, host)
			return err == nil && known && role != frontier.Leaving && !slices.Contains(dead, a)
		}) {
			lost = append(lost, host)
		}
	}
	w.die(dead...)
	for end := time.Now().Add(20 * time.Minute); len(w.faults(lost)) > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Second)
	}
	for _, fault := range w.faults(lost) {
		w.t.Error(fault)
	}
	time.Sleep(settled) // for nodes that may have a copy
	w.mu.Lock()
	events := slices.Clone(w.events)
	w.mu.Unlock()
	for _, host := range lost {
		if !slices.ContainsFunc(events, func(e Event) bool { return e.Kind == Lost && e.Record.Host == host }) {
			w.t.Errorf("%s is lost, and no event names it%s", host, w.describe(host))
		}
	}
}

// faults returns what is wrong at the end, except with some hosts.
func (w *world) faults(but []string) []string {
	return slices.DeleteFunc(w.sound(), func(fault string) bool {
		return slices.ContainsFunc(but, func(host string) bool {
			return strings.HasPrefix(fault, host+":") || strings.HasPrefix(fault, host+"\n")
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
