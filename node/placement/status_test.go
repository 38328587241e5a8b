package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
)

// The status tells the phase, hosts and servers of a batch from its beginning to its end. Hosts of the same servers come along, and one
// whose name does not resolve is left out.
func TestStatusOfABatch(t *testing.T) {
	for mode, want := range map[string][]string{
		ModeCycle: {
			"resolving 4 0", "taking leases 4 0", "deciding 5 2", "comparing 5 2", "handing off 5 2", "idle 0 0 no host is ready",
		},
		ModePersistent: {
			"resolving 4 0", "taking leases 4 0", "taking leases 4 2", "deciding 3 2", "waiting for the next round 3 2", "downloading a round 3 2",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			for i, addr := range []int{1, 1, 2} {
				w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(addr), 60)
			}
			w.addHost("http://small.example", addrOf(2), 3)
			w.addHost("http://lost.example", addrOf(3), 60).resolves = false
			w.servers[addrOf(1)].holdFor, w.servers[addrOf(2)].holdFor = time.Second, time.Second
			cfg := cycle()
			cfg.Mode, cfg.Assigners, cfg.CompareURLs = mode, []string{assign.Nearest, assign.Random}, 3
			p, stop := w.start(cfg)
			var told []string
			for begin := time.Now(); time.Since(begin) < 5*time.Minute && len(told) < len(want); time.Sleep(10 * time.Millisecond) {
				synctest.Wait() // the batch may be at work at this instant, between two phases
				s := p.Status()
				line := strings.TrimSpace(fmt.Sprintf("%s %d %d %s", s.Phase, s.Hosts, s.Servers, s.Why))
				if s.ForMs > 0 && (len(told) == 0 || told[len(told)-1] != line) && s.Why+s.Batch != "" {
					told = append(told, line)
				}
			}
			if !slices.Equal(told, want) {
				t.Errorf("mode %s: %q, want %q", mode, told, want)
			}
			stop()
			for _, addr := range []int{1, 2} {
				if s := w.servers[addrOf(addr)]; mode == ModeCycle && len(s.given) != 1 {
					t.Errorf("server %d was given to %v", addr, s.given)
				}
			}
			if s := p.Status(); s.Unresolved != 1 || s.Batches != 1 {
				t.Errorf("mode %s: %+v", mode, s)
			}
		})
	}
}

// Mode single goes on until a batch has assigned something. Hosts that wait for more URLs, and those that were left out, are counted.
func TestSingleBatchThatAssignsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addHost("http://small.example", addrOf(2), 3)
		h := w.addHost("http://lost.example", addrOf(1), 60)
		h.resolves = false
		cfg := cycle()
		cfg.Mode, cfg.Assigners = ModeSingle, []string{assign.Random}
		p, stop := w.start(cfg)
		time.Sleep(time.Minute)
		if s := p.Status(); s.Batches != 1 || s.HandedOff != 0 || s.Waiting != 1 || s.Resting != 1 || s.Why != "no host is ready" {
			t.Errorf("%+v", s)
		}
		w.mu.Lock()
		h.resolves = true
		w.mu.Unlock()
		time.Sleep(6 * time.Minute) // it rested for 5
		if s := p.Status(); s.Batches != 2 || s.HandedOff != 1 || s.Why != "mode single has made its batch" {
			t.Errorf("%+v", s)
		}
		stop()
		if p.neighbours.known.Len() > 0 {
			t.Error("servers are remembered of which nothing was learnt")
		}
	})
}
