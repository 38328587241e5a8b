package placement

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
	"proxima/node/bell"
)

func TestAssignerRestsAsLongAsItThought(t *testing.T) {
	for _, c := range []struct {
		thought, cut time.Duration
		answers      int
	}{
		{0, time.Hour, 0}, // on a fake clock thinking takes no time
		{10 * time.Millisecond, time.Hour, 90},
		{10 * time.Millisecond, 30 * time.Millisecond, 30},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(context.Background(), c.cut)
			defer stop()
			answers := make(chan assign.Result)
			asking, end := context.WithCancel(context.Background())
			defer end()
			go func() { // an answer a millisecond
				for bell.Sleep(asking, time.Millisecond) == nil {
					select {
					case answers <- assign.Result{}:
					case <-asking.Done():
					}
				}
			}()
			n := 0
			rest(ctx, c.thought, answers, func(assign.Result) { n++ })
			if n < c.answers-1 || n > c.answers {
				t.Errorf("after %v of thinking, cut after %v: %d answers taken in, want %d", c.thought, c.cut, n, c.answers)
			}
		})
	}
}

// waiting is an assigner that decides nothing. It counts how often it is called.
type waiting struct {
	assign.Assigner
	due   time.Duration // from now until it says that it must be called again
	calls int
	once  []assign.Ask // what it asks for in the first call
	heard []bool       // which answers were usable
	last  time.Time    // when the last one came
	over  func() bool  // whether it has decided all the same; nil: never
}

func (a *waiting) Asks(time.Time) (asks []assign.Ask) {
	a.calls++
	asks, a.once = a.once, nil
	return asks
}

func (a *waiting) Observe(r assign.Result, now time.Time) {
	a.heard, a.last = append(a.heard, r.OK), now
}

func (a *waiting) Decide(time.Time) ([]assign.Choice, bool) {
	return nil, a.over != nil && a.over()
}

func (a *waiting) Next(now time.Time) (time.Time, bool) { return now.Add(a.due), a.due != never }

func (a *waiting) Memory(netip.Addr) *assign.Memory { return &assign.Memory{} }

// never is due at no time.
const never = 1000 * time.Hour

// An assigner is called when it is due. One that is always due is called a hundred times a second, and one that waits for nothing once.
// Meanwhile others hear every five seconds of what it has learnt.
func TestAssignerIsCalledWhenItIsDue(t *testing.T) {
	for due, calls := range map[time.Duration]int{-time.Second: 60 * 100, 0: 60 * 100, 10 * time.Millisecond: 60 * 100, time.Second: 60, never: 1} {
		inWorld(t, 0, func(t *testing.T, w *world) {
			cfg := cycle()
			cfg.Deadline = time.Minute - 5*time.Millisecond
			b := &batch{Placement: New(cfg, w.deps()), servers: []*server{{addr: addrOf(1)}}}
			a := &waiting{due: due}
			begun := time.Now()
			time.Sleep(time.Millisecond) // so that nothing else happens at the deadline
			if err := b.drive(t.Context(), "1", &plan{assigner: a, tuning: tuning{label: "a"}}, begun); err != nil || time.Since(begun) != cfg.Deadline {
				t.Errorf("it was given %v: %v", time.Since(begun), err)
			}
			told := 11
			if due == never {
				told = 1 // at the deadline
			}
			if a.calls != calls || len(w.placed) != told || w.placed[0] != "a 192.0.2.1 0" {
				t.Errorf("due in %v: %d calls, want %d; told %q", due, a.calls, calls, w.placed)
			}
		})
	}
}

// An assigner hears of a download that ends after the deadline. When it has decided, or at the deadline, no other one begins.
func TestDownloadsAtTheEndOfADecision(t *testing.T) {
	for most, deadline := range []time.Duration{30 * time.Second, time.Hour} {
		withServer(t, 1, func(t *testing.T, _ *world, _ *fakeHost, s *server) {
			s.pages, s.cfg.Deadline = pagesOf(t, "/"), deadline
			s.deps.Fetch = func(context.Context, string, RemoteFetch) (Result, error) {
				time.Sleep(time.Minute)
				return page200(time.Second), nil
			}
			a := &waiting{due: never, once: slices.Repeat([]assign.Ask{{Server: s.addr, Node: "n1"}}, 3)}
			a.over = func() bool { return most > 0 && len(a.heard) >= most }
			b := &batch{Placement: s.Placement, servers: []*server{s}}
			err := b.drive(t.Context(), "1", &plan{assigner: a}, time.Now())
			made := 0 // the second may begin when the first is answered, and those that do not begin may end before it is heard
			for _, ok := range a.heard {
				if ok {
					made++
				}
			}
			if err != nil || len(a.heard) != 3 || made < 1 || made > 2 || !a.last.Equal(time.Now()) {
				t.Errorf("decided after %d answers or %v: heard %v, the last %v ago, %v", most, deadline, a.heard, time.Since(a.last), err)
			}
		})
	}
}

// An assigner that finds nothing to ask for may decide at once. Nothing is waited for then.
func TestAssignerThatHasNothingToAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, begun := &waiting{due: never}, time.Now()
		a.over = func() bool { return a.calls > 0 }
		b := &batch{Placement: New(cycle(), newWorld(t).deps())}
		if err := b.drive(t.Context(), "1", &plan{assigner: a}, begun); err != nil || time.Since(begun) > 0 {
			t.Errorf("it was given %v: %v", time.Since(begun), err)
		}
	})
}

// A batch whose assigners cannot be made is an error.
func TestAssignersThatCannotBeMade(t *testing.T) {
	for _, candidates := range [][]Candidate{nil, {{"name": "a", "assigner": "psychic"}}} {
		cfg := modeWith(ModeCycle, 100, "a")
		cfg.Candidates = candidates
		b := &batch{Placement: New(cfg, newWorld(t).deps())}
		if err := b.decide(t.Context(), "1"); err == nil || len(b.plans) > 0 {
			t.Errorf("with the candidates %v: %v", candidates, err)
		}
	}
}
