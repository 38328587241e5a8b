package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/node/bell"
	"proxima/node/wire"
)

// After a request, the server may be asked when its gap has passed. If a node that cannot be reached may still be downloading, the gap
// begins when that must be over. Without a request nothing changes.
func TestWhenAServerMayBeAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			res         Result
			err         error
			alone, next time.Duration // from now on
			unanswered  int64
		}{
			"downloaded":                 {res: Result{Asked: true}, next: time.Second},
			"slow, and wants more":       {res: Result{Asked: true, RetryAfter: 5 * time.Second, Timing: assign.Timing{Total: 10 * time.Second}}, next: 7 * time.Second},
			"not asked":                  {next: time.Minute, alone: time.Minute},
			"unanswered":                 {err: errLost, next: time.Second, unanswered: 1},
			"unanswered, may be at work": {res: Result{Lingers: 20 * time.Second}, err: errLost, alone: 20 * time.Second, next: 21 * time.Second, unanswered: 1},
		} {
			_, _, s := oneServer(t, 1)
			var asked RemoteFetch
			s.deps.Fetch = func(_ context.Context, _ string, f RemoteFetch) (Result, error) {
				asked = f
				return c.res, c.err
			}
			now := time.Now()
			s.alone, s.next = now.Add(time.Minute), now.Add(time.Minute)
			one := page{url: mustURL(t, "http://a.example/1"), host: "http://a.example", depth: 1, hops: 2, attempt: 3}
			if _, err := s.ask(t.Context(), "n1", one, RemoteFetch{Quiet: true}); !errors.Is(err, c.err) {
				t.Errorf("%s: %v", name, err)
			}
			if alone, next := max(0, s.alone.Sub(now)), s.next.Sub(now); alone != c.alone || next != c.next || s.Status().Unanswered != c.unanswered {
				t.Errorf("%s: alone for %v, next in %v, %d unanswered", name, alone, next, s.Status().Unanswered)
			}
			if want := (RemoteFetch{URL: one.url, Server: addrOf(1), Epoch: 7, Depth: 1, Hops: 2, Attempt: 3, Quiet: true}); fmt.Sprint(asked) != fmt.Sprint(want) {
				t.Errorf("%s: asked for %v, want %v", name, asked, want)
			}
		}
	})
}

// Pages are taken from the hosts of a server in turn. A host that has none left, or has gone to another server, is skipped.
func TestHostsOfAServerTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.gap = 0
		for name, urls := range map[string]int{"http://a.example": 3, "http://b.example": 1, "http://c.example": 2, "http://d.example": 9} {
			w.addHost(name, addrOf(1), urls).robots = true
		}
		w.hosts["http://d.example"].addr = addrOf(2)
		s := &server{Placement: New(cycle(), w.deps()), addr: addrOf(1)}
		s.reserve(s.addr, true)
		for _, name := range slices.Sorted(maps.Keys(w.hosts)) {
			s.hosts = append(s.hosts, &host{name: name})
		}
		var taken []string
		for {
			task, err := s.take(t.Context(), t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if task == nil {
				break
			}
			taken = append(taken, task.Host[7:8])
			if err := s.finish(t.Context(), task, frontier.Outcome{Ending: frontier.Done, Links: linksOf(task.URL)}); err != nil {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(taken); got != "[a b c a c a]" {
			t.Errorf("taken of %v", got)
		}
		for i, h := range s.hosts {
			if !h.spent || h.away != (i == 3) || h.taken != []int{3, 1, 2, 0}[i] {
				t.Errorf("%+v", h)
			}
		}
	})
}

// A batch that ends counts its hosts by their fates. Hosts that could not be assigned rest. Undecided ones may be in the next batch.
func TestWhatBecomesOfHosts(t *testing.T) {
	w := newWorld(t)
	w.addHost("http://x.example", addrOf(1), 1)
	p := New(cycle(), w.deps())
	b := &batch{Placement: p}
	for name, f := range map[string]fate{"undecided": undecided, "kept": kept, "handed off": handedOff, "joined": joined, "unresolved": unresolved} {
		b.hosts = append(b.hosts, &host{name: name, fate: f})
	}
	held, gone := &server{Placement: p, addr: addrOf(1), held: true}, &server{Placement: p, addr: addrOf(2)}
	w.servers[addrOf(1)].holder = w.self
	p.reserve(held.addr, true)
	b.servers = []*server{held, gone}
	b.end()
	if s := p.Status(); s.Kept != 1 || s.Unresolved != 1 || s.HandedOff != 1 || s.Joined != 1 {
		t.Errorf("%+v", s)
	}
	if rest := slices.Sorted(maps.Keys(p.walk.resting)); !slices.Equal(rest, []string{"kept", "unresolved"}) {
		t.Errorf("%q rest", rest)
	}
	if w.servers[addrOf(1)].reserved || !slices.Equal(w.servers[addrOf(1)].given, []string{"home"}) || len(w.log) != 1 {
		t.Errorf("given back: %v", w.log)
	}
}

// A node that several assigners chose downloads once for all of them. The choice of the first assigner comes first, and each page begins
// with the next node.
func TestWhoIsChosen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, s := oneServer(t, 1)
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
			if made := s.byAll(t.Context(), page{host: "http://a.example"}, b.chosenFor(s), i, "n2", RemoteFetch{}); len(made) != 3 || asked != want {
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

// The pause doubles up to a second, and is random in its second half.
func TestPausesBeforeAskingAgain(t *testing.T) {
	for try, most := range []time.Duration{ms(250), ms(500), time.Second, time.Second, time.Second} {
		least, longest := time.Hour, time.Duration(0)
		for range 2000 {
			d := pause(try)
			least, longest = min(least, d), max(longest, d)
		}
		if least < most/2 || least > most*51/100 || longest > most || longest < most*99/100 {
			t.Errorf("try %d: between %v and %v", try, least, longest)
		}
	}
}

// answers is a peer that answers two calls after a while without a result, and the third with one.
type answers struct {
	after  time.Duration
	calls  []time.Time
	within []time.Duration // how long the download may take, as each call says
}

func (a *answers) Fetch(ctx context.Context, _ string, req *wire.FetchRequest) (*wire.FetchResponse, error) {
	a.calls, a.within = append(a.calls, time.Now()), append(a.within, time.Duration(req.GetWithinMs())*time.Millisecond)
	if len(a.calls) < 3 {
		return &wire.FetchResponse{}, bell.Sleep(ctx, a.after)
	}
	return &wire.FetchResponse{Result: encodeResult(page200(time.Second))}, nil
}

// A peer that has let this node wait for a quarter of a call is asked again at once. Another one, and one that does not answer for a whole
// call, is asked after a pause.
func TestPausesBetweenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const call, quarter = RemoteWait / 6, RemoteWait / 24
		for after, pauses := range map[time.Duration]bool{quarter - 1: true, quarter: false, quarter + 1: false, time.Hour: true} {
			peer := &answers{after: after}
			a := newNetwork().add(t, "a", 0, func(d *RemoteDeps) { d.Peers = peer })
			if _, err := a.Do(t.Context(), "b", estimateOf(t, "")); err != nil || len(peer.calls) != 3 {
				t.Fatalf("%d calls, %v", len(peer.calls), err)
			}
			for i := range 2 {
				if pause := peer.calls[i+1].Sub(peer.calls[i]) - min(after, call); (pause > 0) != pauses || pause > time.Second {
					t.Errorf("an answer after %v: a pause of %v", after, pause)
				}
			}
		}
	})
}

// Each call says how long the download may still take: until a call before this node stops waiting, and as long as the lease of the server
// lasts, which may have been renewed meanwhile.
func TestTimeThatIsLeftForADownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const call = RemoteWait / 6 // the message may take that long, too
		for leased, shrinks := range map[time.Duration]bool{time.Hour: true, 25 * time.Second: false} {
			peer := &answers{after: call / 2}
			a := newNetwork().add(t, "a", 0, func(d *RemoteDeps) {
				d.Peers, d.LeasedUntil = peer, func(netip.Addr) time.Time { return time.Now().Add(leased) }
			})
			if _, err := a.Do(t.Context(), "b", estimateOf(t, "")); err != nil {
				t.Error(err)
			}
			for i, within := range peer.within {
				want := min(leased, RemoteWait-call) - call
				if shrinks {
					want -= time.Duration(i) * call / 2
				}
				if within != want {
					t.Errorf("leased for %v: call %d leaves %v, want %v", leased, i, within, want)
				}
			}
		}
	})
}

// The pages that rounds repeat are asked for in turn. One that is missing is not asked for again.
func TestRepeatedPagesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, s := oneServer(t, 1)
		s.pages = pagesOf(t, "/page", "/missing", "/lost")
		var asked []string
		s.deps.Fetch = func(_ context.Context, _ string, f RemoteFetch) (Result, error) {
			asked = append(asked, f.URL.Path)
			switch f.URL.Path {
			case "/missing":
				return Result{Asked: true, Status: 404}, nil
			case "/lost":
				return Result{}, errLost
			}
			return page200(time.Second), nil
		}
		for range 5 {
			_, err := s.again(t.Context(), "n1", RemoteFetch{})
			if lost := asked[len(asked)-1] == "/lost"; errors.Is(err, errLost) != lost {
				t.Errorf("%v for %s", err, asked[len(asked)-1])
			}
		}
		if got := fmt.Sprint(asked); got != "[/missing /page /lost /page /lost]" || s.Status().Estimates != 5 {
			t.Errorf("asked for %s, %d estimates", got, s.Status().Estimates)
		}
	})
}

// A round asks for every page once, also for the one after a page that is missing, and learns from those that are there.
func TestRoundAsksForEveryPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, s := oneServer(t, 1)
		s.pages = pagesOf(t, "/0", "/1", "/2", "/3")
		var asked []string
		s.deps.Fetch = func(_ context.Context, _ string, f RemoteFetch) (Result, error) {
			asked = append(asked, f.URL.Path)
			r := page200(time.Second)
			if f.URL.Path == "/1" {
				r = Result{Asked: true, Status: 404, Timing: r.Timing} // which tells nothing about places
			}
			return r, nil
		}
		a, err := assign.New(assign.Random, assign.Default(), assign.Batch{}, w.view(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		b := &batch{Placement: s.Placement, plans: []*plan{{assigner: a, choices: map[netip.Addr]assign.Choice{s.addr: {Node: "n1"}}}}}
		err = b.round(t.Context(), s, "1")
		if m := s.learnt[""]; err != nil || fmt.Sprint(asked) != "[/0 /1 /2 /3]" || len(s.pages) != 3 || m.Downloads() != 3 {
			t.Errorf("asked for %v, %d pages are left, %d downloads are known; %v", asked, len(s.pages), m.Downloads(), err)
		}
	})
}

// known is leases that know something of every server.
type known struct {
	Leases
	m *assign.Memory
}

func (k known) Hold(context.Context, netip.Addr) (*assign.Memory, error) { return k.m, nil }

// What the grantor of a lease knows of its server is where the batch begins.
func TestMemoryComesWithALease(t *testing.T) {
	for _, m := range []*assign.Memory{nil, {PageBytes: 7}} {
		w, _, s := oneServer(t, 1)
		s.deps.Leases = known{w, m}
		if err := (&batch{Placement: s.Placement}).hold(t.Context(), s); err != nil || !s.held || !w.servers[s.addr].reserved || m != nil && s.memory.PageBytes != 7 {
			t.Errorf("with %v: held %v, memory %v; %v", m, s.held, s.memory, err)
		}
	}
}

// A server is asked for an estimate when nobody may be downloading from it any more, until the decision is cut off.
func TestWhenAnEstimateIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			alone time.Duration // from now
			cut   bool
			made  bool
		}{
			"alone until now":    {0, false, true},
			"alone for a moment": {1, false, false},
			"cut off":            {0, true, false},
		} {
			w, _, s := oneServer(t, 1)
			s.alone, s.pages = time.Now().Add(c.alone), pagesOf(t, "/")
			coord := w.coordOf("n1")
			s.deps.Fetch = func(context.Context, string, RemoteFetch) (Result, error) {
				r := page200(time.Second)
				r.Coord = coord
				return r, nil
			}
			cut, stop := context.WithCancel(t.Context())
			if c.cut {
				stop()
			}
			r, err := s.estimate(t.Context(), cut, "1", "nearest", assign.Ask{Server: s.addr, Node: "n1"})
			stop()
			if err != nil || r.OK != c.made || (r.Timing.Total > 0) != c.made || (r.Coord == coord) != c.made || len(s.turns) > 0 {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
	})
}

// judge is a crawler that cannot say whether a page may be asked for.
type judge struct{ Crawler }

func (judge) Refuse(context.Context, *frontier.Task) (string, error) { return "", errLost }

// A page is not requested, and stays pending, if it is unknown whether it may be.
func TestPagesThatCannotBeJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h, s := oneServer(t, 2)
		h.robots = true
		s.deps.Crawler = judge{w}
		s.reserve(s.addr, true)
		task, err := s.takeOf(t.Context(), t.Context(), s.hosts[0])
		if task != nil || !errors.Is(err, errLost) || len(h.urls) != 2 || len(w.out) != 0 || !w.servers[s.addr].next.IsZero() {
			t.Errorf("%v, %v, %d pages are left", task, err, len(h.urls))
		}
	})
}

// In a round of many pages another node than the chosen one downloads one of them, too, and the assigner learns from it.
func TestRoundsExplore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, s := oneServer(t, 1)
		asked := map[string]int{}
		s.deps.Fetch = func(_ context.Context, to string, _ RemoteFetch) (Result, error) {
			asked[to]++
			return page200(time.Second), nil
		}
		for _, node := range []string{"n1", "n2"} {
			s.memory.Observe(node, w.coordOf(node), page200(time.Second).Timing, time.Now())
		}
		b := &batch{Placement: s.Placement, servers: []*server{s}}
		for i := range 67 { // more than 1/exploreShare: there is one in each round
			s.pages = append(s.pages, pagesOf(t, fmt.Sprint("/", i))...)
		}
		s.SetView(w.view(), "")
		one := tuning{label: assign.Nearest, method: assign.Nearest, cfg: assign.Default()}
		a, err := assign.New(one.method, one.cfg, b.input("1", one), w.view(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		b.plans = []*plan{{tuning: one, assigner: a, choices: map[netip.Addr]assign.Choice{s.addr: {Node: "n1"}}}}
		if err := b.round(t.Context(), s, "1"); err != nil {
			t.Fatal(err)
		}
		others := -asked["n1"]
		for _, n := range asked {
			others += n
		}
		if m := s.learnt[assign.Nearest]; asked["n1"] != len(s.pages) || others != 1 || m.Downloads() != 2+len(s.pages)+1 {
			t.Errorf("asked %v for %d pages, %d downloads are known", asked, len(s.pages), m.Downloads())
		}
	})
}

func TestOutcomes(t *testing.T) {
	again := func(tr frontier.Trouble) Result {
		return Result{Ending: frontier.Again, Trouble: tr, Asked: true, Reason: "x"}
	}
	for _, c := range []struct {
		name, node string
		r          Result
		err        error
		want       frontier.Trouble
		ending     frontier.Ending
		asked      bool
	}{
		{"unanswered", "n1", Result{}, errors.New("x"), frontier.Interrupted, frontier.Again, true},
		{"given back", "n1", Result{Unmade: true}, nil, frontier.Interrupted, frontier.Again, false},
		{"done", "n1", Result{Asked: true, Status: 200, HTML: true}, nil, frontier.NoTrouble, frontier.Done, true},
		{"not changed", "n1", Result{Asked: true, Status: 304}, nil, frontier.NoTrouble, frontier.Done, true},
		{"we must not", "home", again(frontier.Forbidden), nil, frontier.Forbidden, frontier.Again, true},
		{"not found", "n1", Result{Ending: frontier.Failed, Asked: true, Status: 404}, nil, frontier.NoTrouble, frontier.Failed, true},
		{"a peer cannot reach it", "n1", again(frontier.Unreachable), nil, frontier.Interrupted, frontier.Again, true},
		{"a peer must not", "n1", again(frontier.Forbidden), nil, frontier.Interrupted, frontier.Again, true},
		{"we cannot reach it", "home", again(frontier.Unreachable), nil, frontier.Unreachable, frontier.Again, true},
		{"busy", "n1", again(frontier.Busy), nil, frontier.Busy, frontier.Again, true},
		{"broken", "n1", again(frontier.Broken), nil, frontier.Broken, frontier.Again, true},
		{"no trouble", "n1", again(frontier.NoTrouble), nil, frontier.Interrupted, frontier.Again, true},
	} {
		c.r.RetryAfter, c.r.Timing.Total, c.r.Lingers = 3*time.Second, time.Second, 2*time.Second
		out := outcome("home", c.node, c.r, c.err)
		elapsed, retry, lingers := time.Second, 3*time.Second, time.Duration(0)
		if c.err != nil || c.r.Unmade { // how long the server took is unknown
			elapsed, retry = 0, 0
		}
		if c.err != nil {
			lingers = 2 * time.Second
		}
		if out.Elapsed != elapsed || out.RetryAfter != retry || out.Lingers != lingers || (out.Visit != nil) != (c.name == "done") {
			t.Errorf("%s: %+v, visit %v", c.name, out, out.Visit)
		}
		if out.Trouble != c.want || out.Ending != c.ending || out.Asked != c.asked {
			t.Errorf("%s: %+v", c.name, out)
		}
	}
}
