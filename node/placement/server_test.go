package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/node/lease"
)

// After a request, the server may be asked when its gap has passed. If a node that cannot be reached may still be downloading, the gap
// begins when that must be over. Without a request nothing changes.
func TestWhenAServerMayBeAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		res         Result
		err         error
		alone, next time.Duration // from now on
		unanswered  int64
	}{
		"downloaded":     {res: Result{Outcome: frontier.Outcome{Asked: true}}, next: time.Second},
		"slow":           {res: Result{Outcome: frontier.Outcome{Asked: true}, Timing: assign.Timing{Total: 10 * time.Second}}, next: 2 * time.Second},
		"wants more":     {res: Result{Outcome: frontier.Outcome{Asked: true, RetryAfter: 5 * time.Second}}, next: 6 * time.Second},
		"not asked":      {next: time.Minute, alone: time.Minute},
		"unanswered":     {err: errLost, next: time.Second, unanswered: 1},
		"may be at work": {err: errLost, res: Result{Outcome: frontier.Outcome{Lingers: 20 * time.Second}}, alone: 20 * time.Second, next: 21 * time.Second, unanswered: 1},
	} {
		withServer(t, 1, func(t *testing.T, _ *world, _ *fakeHost, s *server) {
			one := &frontier.Task{URL: mustURL(t, "http://a.example/1"), Host: "http://a.example", Depth: 1, Hops: 2, Attempt: 3}
			want := RemoteFetch{URL: one.URL, Server: addrOf(1), Epoch: 7, Depth: 1, Hops: 2, Attempt: 3, Quiet: true}
			s.deps.Fetch = func(_ context.Context, _ string, f RemoteFetch) (Result, error) {
				if fmt.Sprint(f) != fmt.Sprint(want) {
					t.Errorf("%s: asked for %v, want %v", name, f, want)
				}
				return c.res, c.err
			}
			now := time.Now()
			s.alone, s.next = now.Add(time.Minute), now.Add(time.Minute)
			_, err := s.ask(t.Context(), "n1", one, RemoteFetch{Quiet: true})
			alone, next, unanswered := max(0, s.alone.Sub(now)), s.next.Sub(now), s.Status().Unanswered
			if !errors.Is(err, c.err) || alone != c.alone || next != c.next || unanswered != c.unanswered {
				t.Errorf("%s: %v; alone for %v, next in %v, %d unanswered", name, err, alone, next, unanswered)
			}
		})
	}
}

// Pages are taken from the hosts of a server in turn. A host that has none left, or has gone to another server, is skipped.
func TestHostsOfAServerTakeTurns(t *testing.T) {
	withServer(t, 3, func(t *testing.T, w *world, _ *fakeHost, s *server) {
		w.gap = 0
		w.addHost("http://b.example", s.addr, 1)
		w.addHost("http://c.example", s.addr, 2)
		w.addHost("http://d.example", s.addr, 9).addr = addrOf(2)
		s.hosts = nil
		for _, name := range slices.Sorted(maps.Keys(w.hosts)) {
			w.hosts[name].robots = true
			s.hosts = append(s.hosts, &host{name: name})
		}
		s.reserve(s.addr, true)
		taken := ""
		for {
			task, err := s.take(t.Context(), t.Context())
			must(t, err)
			if task == nil {
				break
			}
			taken += task.Host[7:8]
			must(t, s.finish(t.Context(), task, frontier.Outcome{Ending: frontier.Done, Links: linksOf(task.URL)}))
		}
		if taken != "abcaca" {
			t.Errorf("taken of %v", taken)
		}
		for i, h := range s.hosts {
			if !h.spent || h.away != (i == 3) || h.taken != []int{3, 1, 2, 0}[i] {
				t.Errorf("%+v", h)
			}
		}
		s.reserve(s.addr, false)
		lost := &host{name: "http://a.example"} // its server is not reserved any more
		if task, err := s.takeOf(t.Context(), t.Context(), lost); task != nil || err != nil || !lost.away {
			t.Errorf("taken: %v, %v, away %v", task, err, lost.away)
		}
	})
}

// A node that several assigners chose downloads once for all of them. The choice of the first assigner comes first, and each page begins
// with the next node.
func TestWhoIsChosen(t *testing.T) {
	withServer(t, 1, func(t *testing.T, w *world, _ *fakeHost, s *server) {
		var asked string
		s.deps.Fetch = func(_ context.Context, to string, f RemoteFetch) (Result, error) {
			asked += fmt.Sprintf("%s %v %v, ", to, f.Labels, f.Quiet)
			return Result{}, nil
		}
		b := &batch{Placement: s.Placement}
		for _, c := range [][2]string{{"A", "n2"}, {"B", "n1"}, {"C", ""}, {"D", "n2"}, {"E", "n3"}} {
			b.plans = append(b.plans, &plan{tuning: tuning{label: c[0]}, choices: map[netip.Addr]assign.Choice{s.addr: {Node: c[1]}}})
		}
		for i, want := range []string{
			"n2 [A D] false, n1 [B] true, n3 [E] true, ",
			"n1 [B] true, n3 [E] true, n2 [A D] false, ",
			"n3 [E] true, n2 [A D] false, n1 [B] true, ",
			"n2 [A D] false, n1 [B] true, n3 [E] true, ",
		} {
			asked = ""
			if made := s.downloadByAll(t.Context(), &frontier.Task{Host: "http://a.example"}, b.chosenFor(s), i, "n2", RemoteFetch{}); len(made) != 3 || asked != want {
				t.Errorf("page %d: %d downloads, %s", i, len(made), asked)
			}
		}
		if n := s.Status().Compared; n != 12 {
			t.Errorf("%d are counted", n)
		}
		b.plans[0].choices[s.addr] = assign.Choice{} // the node that would read the links is gone
		s.reserve(s.addr, true)
		if err := b.compare(t.Context(), s); err != nil || len(w.hosts["http://a.example"].urls) != 1 || w.hosts["http://a.example"].robots {
			t.Errorf("pages are taken whose links nobody would read: %v", err)
		}
	})
}

// A page that the server does not have is missing. One that it has no time for is not.
func TestMissingPages(t *testing.T) {
	for status, want := range map[int]bool{200: false, 399: false, 400: true, 404: true, 429: false, 499: true, 500: false} {
		if got := missing(Result{Status: status}, nil); got != want {
			t.Errorf("status %d: missing: %v", status, got)
		}
	}
	if missing(Result{Status: 404}, errLost) {
		t.Error("a page is missing of which nothing was heard")
	}
	for name, c := range map[string]struct {
		r    Result
		err  error
		want bool
	}{
		"a page":     {page200(time.Second), nil, true},
		"lost":       {page200(time.Second), errLost, false},
		"no HTML":    {Result{Timing: assign.Timing{Total: 1}}, nil, false},
		"no time":    {Result{HTML: true}, nil, false},
		"given back": {Result{HTML: true, Unmade: true, Timing: assign.Timing{Total: 1}}, nil, false},
	} {
		if usable(c.r, c.err) != c.want {
			t.Errorf("%s tells something about places: %v", name, !c.want)
		}
	}
}

// What the grantor of a lease knows of its server is where the batch begins.
func TestMemoryComesWithALease(t *testing.T) {
	for _, m := range []*assign.Memory{nil, {PageBytes: 7}} {
		withServer(t, 1, func(t *testing.T, w *world, _ *fakeHost, s *server) {
			w.memories[s.addr] = m
			err := (&batch{Placement: s.Placement}).hold(t.Context(), s)
			if err != nil || !s.held || !w.servers[s.addr].reserved || m != nil && s.memory.PageBytes != 7 {
				t.Errorf("with %v: held %v, memory %v; %v", m, s.held, s.memory, err)
			}
		})
	}
}

// A server is asked for an estimate when nobody may be downloading from it any more, until the decision is cut off.
func TestWhenAnEstimateIsMade(t *testing.T) {
	for name, c := range map[string]struct {
		alone time.Duration // from now
		cut   bool
		made  bool
	}{
		"alone until now":    {0, false, true},
		"alone for a moment": {1, false, false},
		"cut off":            {0, true, false},
	} {
		withServer(t, 1, func(t *testing.T, _ *world, _ *fakeHost, s *server) {
			s.alone, s.pages = time.Now().Add(c.alone), pagesOf(t, "/")
			answer := page200(time.Second)
			answer.Coord = coordOf("n1")
			s.deps.Fetch = func(context.Context, string, RemoteFetch) (Result, error) { return answer, nil }
			cut, stop := context.WithCancel(t.Context())
			defer stop()
			if c.cut {
				stop()
			}
			want := assign.Result{Ask: assign.Ask{Server: s.addr, Node: "n1"}}
			if c.made {
				want.OK, want.Timing, want.Coord = true, answer.Timing, answer.Coord
			}
			if r, err := s.estimate(t.Context(), cut, "1", "nearest", want.Ask); err != nil || r != want || len(s.estimating) > 0 {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		})
	}
}

// A node fails to reach a server if it brings no answer, or one that may be meant for it alone.
func TestWhatAnEstimateSaysOfItsNode(t *testing.T) {
	for status, unreached := range map[int]bool{0: true, 200: false, 301: false, 401: true, 403: true, 404: false, 410: false, 429: true, 503: true} {
		withServer(t, 1, func(t *testing.T, _ *world, _ *fakeHost, s *server) {
			s.pages = pagesOf(t, "/")
			s.deps.Fetch = func(context.Context, string, RemoteFetch) (Result, error) {
				return Result{Outcome: frontier.Outcome{Asked: status > 0}, Status: status}, nil
			}
			r, err := s.estimate(t.Context(), t.Context(), "1", "nearest", assign.Ask{Server: s.addr, Node: "n1"})
			if err != nil || r.OK || r.Unreached != unreached || r.Busy {
				t.Errorf("status %d: %+v, %v", status, r, err)
			}
		})
	}
	for what, c := range map[string]struct {
		result Result
		err    error
	}{
		"it had no time to try":         {unmade("queue full"), nil},
		"the server is not held":        {Result{}, fmt.Errorf("ask n1: %w", errNotHeld)},
		"the node that asks was frozen": {Result{}, fmt.Errorf("ask n1: %w", lease.ErrGap)},
	} {
		withServer(t, 1, func(t *testing.T, _ *world, _ *fakeHost, s *server) {
			s.pages = pagesOf(t, "/")
			s.deps.Fetch = func(context.Context, string, RemoteFetch) (Result, error) { return c.result, c.err }
			r, err := s.estimate(t.Context(), t.Context(), "1", "nearest", assign.Ask{Server: s.addr, Node: "n1"})
			if err != nil || r.OK || r.Unreached || !r.Busy {
				t.Errorf("%s: %+v, %v", what, r, err)
			}
		})
	}
}

// A page is not requested, and stays pending, if it is unknown whether it may be.
func TestPagesThatCannotBeJudged(t *testing.T) {
	withServer(t, 2, func(t *testing.T, w *world, h *fakeHost, s *server) {
		h.robots = true
		s.deps.Crawler = &faulty{world: w, call: "Refuse", err: errLost}
		s.reserve(s.addr, true)
		task, err := s.takeOf(t.Context(), t.Context(), s.hosts[0])
		if task != nil || !errors.Is(err, errLost) || len(h.urls) != 2 || len(w.out) != 0 || !w.servers[s.addr].next.IsZero() {
			t.Errorf("%v, %v, %d pages are left", task, err, len(h.urls))
		}
	})
}

// What the result of a remote fetch means for its page, to the node "home" that asked for it.
func TestOutcomes(t *testing.T) {
	again := func(tr frontier.Trouble) Result {
		return Result{Outcome: frontier.Outcome{Ending: frontier.Again, Trouble: tr, Asked: true, Reason: "x"}}
	}
	failed := func(tr frontier.Trouble) frontier.Outcome {
		return frontier.Outcome{Ending: frontier.Again, Trouble: tr, Asked: true}
	}
	for _, c := range []struct {
		name, node string
		r          Result
		err        error
		want       frontier.Outcome // Ending, Trouble and Asked
	}{
		{"unanswered", "n1", Result{}, errLost, putBack(true)},
		{"given back", "n1", Result{Unmade: true}, nil, putBack(false)},
		{"done", "n1", Result{Outcome: frontier.Outcome{Asked: true}, Status: 200, HTML: true}, nil, frontier.Outcome{Asked: true}},
		{"not changed", "n1", Result{Outcome: frontier.Outcome{Asked: true}, Status: 304}, nil, frontier.Outcome{Asked: true}},
		{"not found", "n1", Result{Outcome: frontier.Outcome{Ending: frontier.Failed, Asked: true}, Status: 404}, nil, frontier.Outcome{Ending: frontier.Failed, Asked: true}},
		{"a peer cannot reach it", "n1", again(frontier.Unreachable), nil, putBack(true)},
		{"a peer must not", "n1", again(frontier.Forbidden), nil, putBack(true)},
		{"a peer does not even ask", "n1", Result{Outcome: frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Forbidden}}, nil, putBack(false)},
		{"we cannot reach it", "home", again(frontier.Unreachable), nil, failed(frontier.Unreachable)},
		{"we must not", "home", again(frontier.Forbidden), nil, failed(frontier.Forbidden)},
		{"busy", "n1", again(frontier.Busy), nil, failed(frontier.Busy)},
		{"broken", "n1", again(frontier.Broken), nil, failed(frontier.Broken)},
		{"no trouble", "n1", again(frontier.NoTrouble), nil, putBack(true)},
	} {
		c.r.RetryAfter, c.r.Timing.Total = 3*time.Second, time.Second
		if c.err != nil {
			c.r.Lingers, c.want.Lingers = 2*time.Second, 2*time.Second
		} else if !c.r.Unmade { // otherwise it is unknown how long the server took
			c.want.Elapsed, c.want.RetryAfter = time.Second, 3*time.Second
		}
		out := outcome("home", c.node, c.r, c.err)
		if (out.Visit != nil) != (c.name == "done") {
			t.Errorf("%s: visit %v", c.name, out.Visit)
		}
		out.Visit, out.Reason, c.want.Reason = nil, "", ""
		if !reflect.DeepEqual(out, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, out, c.want)
		}
	}
}

// A node that counts as alive but answers nothing costs one batch a wait, and is left out of others for five minutes.
func TestSilentNodeIsLeftOut(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		w.do = func(_ context.Context, node string, _ RemoteFetch) (Result, error, bool) {
			if node == "n1" {
				time.Sleep(RemoteWait)
			}
			return Result{}, fmt.Errorf("ask n1: %w", errUnanswered), node == "n1"
		}
		asks := func() int { return w.asks(0, func(r request) string { return r.node })["n1"] }
		_, stop := w.start(cycle())
		defer stop()
		for i, step := range []struct{ after, within time.Duration }{{0, 2 * RemoteWait}, {0, 30 * time.Second}, {silentFor, 2 * RemoteWait}} {
			time.Sleep(step.after)
			h, before := w.addHost(hostName(i), addrOf(1+4*i), 50), asks() // n1 is the nearest
			time.Sleep(step.within)
			if owner := w.ownerOf(h.name); owner == "assigned:n1" || owner == w.self {
				t.Errorf("host %d is at %s after %v", i, owner, step.within)
			}
			if asked, want := asks()-before, 1-i%2; asked != want {
				t.Errorf("host %d: n1 was asked %d times, not %d", i, asked, want)
			}
		}
	})
}

// Nobody stays left out whose answers may have got lost because this node was cut off.
func TestNodesOfAnOutageAreNotLeftOut(t *testing.T) {
	withServer(t, 1, func(t *testing.T, w *world, _ *fakeHost, s *server) {
		for _, why := range []string{"", "a minority"} {
			s.SetView(w.view(), "")
			s.leaveOut("n1")
			s.SetView(w.view(), why)
			s.SetView(w.view(), "")
			if s.alive("n1") != (why != "") {
				t.Errorf("after %q: it is left out: %v", why, !s.alive("n1"))
			}
		}
	})
}

// A node that is left out when the decision ends is not chosen, however near it is.
func TestLeftOutNodeIsNotChosen(t *testing.T) {
	withServer(t, 1, func(t *testing.T, w *world, _ *fakeHost, s *server) {
		for i, node := range []string{"n1", "n2"} {
			s.memory.Observe(node, coordOf(node), pageOver(ms(15+60*i)), time.Now())
		}
		b := planned(t, w, s, assign.Nearest)
		for _, left := range []bool{false, true} {
			if left {
				s.leaveOut("n1")
			}
			b.conclude("1", time.Now())
			if node := b.plans[0].choices[s.addr].Node; (node == "n1") == left {
				t.Errorf("left out %v: %q is chosen", left, node)
			}
		}
	})
}

// A node that does not answer itself, because it was frozen or its disk hung, goes on choosing itself, and keeps its servers.
func TestNodeDoesNotLeaveItselfOut(t *testing.T) {
	withServer(t, 1, func(t *testing.T, w *world, _ *fakeHost, s *server) {
		s.pages = pagesOf(t, "/")
		s.SetView(w.view(), "")
		s.deps.Fetch = func(_ context.Context, node string, _ RemoteFetch) (Result, error) {
			return Result{}, fmt.Errorf("ask %s: %w", node, errUnanswered)
		}
		for _, node := range []string{w.self, "n1"} {
			r, err := s.estimate(t.Context(), t.Context(), "1", "nearest", assign.Ask{Server: s.addr, Node: node})
			if err != nil || !r.Unreached || s.alive(node) != (node == w.self) {
				t.Errorf("%s: %+v, %v, counts as alive: %v", node, r, err, s.alive(node))
			}
		}
	})
}
