package placement

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
	"proxima/frontier"
)

// Names, leases, remote fetches, members and hand-offs fail now and then. In the end every host is handed off or stays for a reason.
// Every task is finished once, no URL is lost, no dead node gets a host, and no server gets two requests at once or one too early.
func TestEveryHostEndsSomewhere(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			var mu sync.Mutex
			luck := func(percent int) bool {
				mu.Lock()
				defer mu.Unlock()
				return rnd.IntN(100) < percent
			}
			w := newWorld(t)
			total := make(map[string]int)
			for i := range 25 {
				name := fmt.Sprintf("http://h%02d.example", i)
				n := 1 + rnd.IntN(120)
				total[name] = n
				w.addHost(name, addrOf(1+rnd.IntN(15)), n).resolves = rnd.IntN(10) > 0
			}
			w.servers[w.hosts["http://h00.example"].addr].holder = "n2"
			w.servers[w.hosts["http://h01.example"].addr].holdFor = time.Hour
			w.do = func(ctx context.Context, _ string, e RemoteFetch) (Result, error, bool) {
				switch {
				case luck(8):
					select {
					case <-time.After(time.Minute):
					case <-ctx.Done():
					}
					return Result{}, errors.New("unanswered"), true
				case luck(5):
					return Result{Outcome: frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted}, Unmade: true}, nil, true
				case luck(5):
					return Result{Outcome: frontier.Outcome{Ending: frontier.Failed, Asked: true}, Status: 404}, nil, true
				case luck(5):
					return Result{Outcome: frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Broken, Asked: true}, Status: 500}, nil, true
				case luck(3):
					return Result{Outcome: frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Unreachable, Asked: true}}, nil, true
				}
				return Result{}, nil, false
			}
			moved := make(map[string]int)
			w.handOff = func(host, to string) error {
				if !w.nodes[to] && to != "n3" { // n3 comes and goes, and may have died just now
					t.Errorf("seed %d: %s was handed to %s, which is dead", seed, host, to)
				}
				if luck(10) {
					return errors.New("refused")
				}
				moved[host]++
				return nil
			}
			cfg := cycle()
			cfg.Hosts, cfg.LongestWait, cfg.CompareURLs = 1+rnd.IntN(10), 3*time.Minute, 1+rnd.IntN(15)
			names := assign.Names()
			rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			cfg.Assigners = names[:1+rnd.IntN(3)]
			cfg.Deadline = 20 * time.Minute
			b, stop := w.start(cfg)
			for i := range 100 {
				time.Sleep(5 * time.Minute)
				w.mu.Lock()
				if i%3 == 0 {
					delete(w.nodes, "n3")
				} else {
					w.nodes["n3"] = true
				}
				for _, s := range w.servers { // leases expire that nobody took
					if i == 40 {
						s.holdFor = 0
					}
					if s.holder != "n2" && i > 3 {
						s.holder = ""
					}
				}
				w.mu.Unlock()
				b.SetView(w.view(), "")
			}
			stop()
			entries := make(map[string]int) // decisions, by batch and host
			for _, d := range w.decided {
				entries[d.Batch+" "+d.Host]++
			}
			for key, n := range entries {
				if n != len(cfg.Assigners) && n != 1 {
					t.Errorf("seed %d: %s was decided %d times by %d assigners", seed, key, n, len(cfg.Assigners))
				}
			}
			for name, h := range w.hosts {
				if got := len(h.urls) + len(h.finished); got != total[name] {
					t.Errorf("seed %d: %s had %d URLs and has %d", seed, name, total[name], got)
				}
				switch {
				case moved[name] > 1:
					t.Errorf("seed %d: %s was handed off %d times", seed, name, moved[name])
				case h.owner == "home" && h.resolves && len(h.urls) > 0:
					t.Errorf("seed %d: %s was never handed off; %d URLs", seed, name, len(h.urls))
				case h.owner != "home" && !h.resolves && h.addr != w.hosts["http://h00.example"].addr && h.active:
					t.Errorf("seed %d: %s does not resolve and was handed off", seed, name)
				}
			}
			s := b.Status()
			if s.HandedOff+s.Joined == 0 || s.HandedOff+s.Joined != int64(len(moved)) {
				t.Errorf("seed %d: %d moved, status %+v", seed, len(moved), s)
			}
		})
	}
}
