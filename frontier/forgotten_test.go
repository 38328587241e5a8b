package frontier

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// However hosts fail, move and are tried anew on a workbench that is too small, no URL is forgotten: at the end none is pending. Each seed is a
// crawl of its own.
func TestNoURLIsForgotten(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) { shake(t, seed) })
	}
}

// shaken is a crawl that is shaken by chance for some minutes.
type shaken struct {
	*life
	rough atomic.Bool

	// mu guards what follows.
	mu  sync.Mutex
	rnd *rand.Rand
}

// draw returns a number below n.
func (s *shaken) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rnd.IntN(n)
}

func (s *shaken) host() string { return site(9, 1)[s.draw(9)].URL.Host }

func (s *shaken) nap(most time.Duration) { time.Sleep(time.Duration(s.draw(int(most)))) }

func shake(t *testing.T, seed uint64) {
	s := &shaken{rnd: rand.New(rand.NewPCG(seed, 1))}
	cfg, polite := testConfig()
	cfg.FrontHosts, cfg.WindowURLs, cfg.HostBudget, cfg.Shared = 2+s.draw(5), 2+s.draw(4), 2+s.draw(5), s.draw(2) == 0
	polite.RetryConnect = slices.Repeat([]time.Duration{10 * time.Second}, 90)
	polite.RetryName, polite.RetryPage, polite.BackoffMin = polite.RetryConnect, polite.RetryConnect, time.Second
	s.life = begin(t, "", cfg, polite, Deps{})
	if cfg.Shared {
		go s.letAll()
	}
	w := newWeb(time.Second)
	w.address, w.answer = s.address, s.answer
	s.add(site(9, 4)...)
	s.rough.Store(true)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 40 {
				s.nap(10 * time.Second)
				s.act()
			}
		})
	}
	w.crawl(s.life, 1+s.draw(3), nil)
	all.Wait()
	s.rough.Store(false)
	w.crawl(s.life, 2, nil)
	if b := s.Status(); b.Pending+b.Held != 0 {
		t.Errorf("seed %d: %+v", seed, b)
	}
}

// address gives some hosts two addresses, and now and then none.
func (s *shaken) address(name string) []netip.Addr {
	addrs := shared(name)
	switch s.draw(8) {
	case 0, 1, 2, 3:
		addrs = append(addrs, addrs[0].Next().Next().Next())
	case 4:
		if s.rough.Load() {
			return nil
		}
	}
	return addrs
}

// answer lets a third of the tasks fail.
func (s *shaken) answer(task *Task) Outcome {
	if s.rough.Load() && s.draw(3) == 0 {
		trouble := []Trouble{Unreachable, Broken, Busy, Interrupted}[s.draw(4)]
		return Outcome{Ending: Again, Trouble: trouble, Reason: "it is shaken"}
	}
	out := Outcome{Ending: Done}
	if task.Kind == Page && s.rough.Load() {
		out.Links = pages(s.host(), s.draw(20), s.draw(3))
		out.Elsewhere = func(context.Context, []Link) error { return nil }
	}
	return out
}

// act does to a host what its node might do.
func (s *shaken) act() {
	host := s.host()
	short, cancel := context.WithTimeout(s.t.Context(), time.Duration(1+s.draw(int(10*time.Second))))
	defer cancel()
	switch s.draw(6) {
	case 0:
		_ = s.SetRole(short, host, Leaving) // or the host is busy for too long
		s.nap(10 * time.Second)
		s.role(host, Owned)
	case 1:
		_, _ = s.Import(short, host, Chunk{State: &HostState{SinceRequest: -1}}, Assigned)
	case 2:
		must(s.t, s.Retry(s.t.Context(), host))
	case 3:
		s.Hold("test", "it is shaken")
		s.nap(10 * time.Second)
		s.Hold("test", "")
	case 4:
		s.OwnTrouble("it is shaken", s.draw(2) == 0)
		s.nap(10 * time.Second)
		s.Answered(true)
		s.Answered(false)
	case 5:
		must(s.t, s.Activate(s.t.Context(), host))
	}
}
