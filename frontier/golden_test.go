package frontier

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"proxima/frontier/identity"
	"proxima/node/golden"
)

var update = flag.Bool("update", false, "write the scenarios of testdata/golden anew")

// TestGolden plays the scenarios of testdata/golden on a workbench. The steps are those of scene.do; printed is what was handed
// out in a block and what became of it, and then every host and server.
//
//	go test -run Golden ./frontier -update
func TestGolden(t *testing.T) {
	golden.Play(t, "testdata/golden/*.txt", *update, func(t *testing.T, blocks [][]string, _ []string) (printed []string) {
		s := &scene{T: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), tasks: map[string]*Task{}}
		for _, steps := range blocks {
			for _, step := range steps {
				s.do(strings.Fields(step))
			}
			printed = append(printed, s.print())
		}
		return printed
	})
}

// scene is a workbench whose time a scenario moves.
type scene struct {
	*testing.T
	*workbench
	now   time.Time
	seq   uint64
	tasks map[string]*Task // those that are out, by host
	lines []string
}

func (s *scene) say(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// do plays a step.
func (s *scene) do(words []string) {
	s.Helper()
	if words[0] == "bench" {
		s.begin(words[1:])
		return
	}
	args := words[1:]
	switch words[0] {
	case "host": // host NAME URLS ORIGIN ADDRESSES: comes onto the workbench, with a robots.txt that holds for long
		h := s.enter(args[0])
		s.block(h, args[1], args[2])
		s.loadedHost(h, record{hostState: hostState{robotsUntil: s.now.Add(1000 * time.Hour)}}, s.now)
		if len(args) > 3 {
			s.place(args[3], "1000h")
		}
	case "record": // record NAME URLS WAIT DELAY LAST: the same, as an earlier life left it, and without a robots.txt
		h := s.enter(args[0])
		s.block(h, args[1], "discovered")
		s.loadedHost(h, record{hostState: hostState{notBefore: s.now.Add(duration(s, args[2])), crawlDelay: duration(s, args[3]),
			lastRequest: s.now.Add(-duration(s, args[4])), failures: 1, level: 1}}, s.now)
	case "more": // more NAME URLS ORIGIN: a block of it is written
		h := s.hosts[args[0]]
		s.block(h, args[1], args[2])
		s.settle(h, s.now)
	case "place": // place ADDRESSES TTL [TOOK]: the next name is resolved
		s.place(args[0], args[1], args[2:]...)
	case "lost": // lost [ours] [lasts]: the next name is not
		h := s.nextUnresolved(s.now)
		s.say("%s is lost; the last wait: %v", h.name, s.lostHost(h, "no such name", slices.Contains(args, "ours"), slices.Contains(args, "lasts"), s.now))
	case "take": // take N
		for range number(s, args[0]) {
			s.take()
		}
	case "end":
		s.end(args)
	case "wait":
		s.pass(duration(s, args[0]), nil)
	case "work": // work TIME EACH: what can be asked for is, and each takes as long
		s.pass(duration(s, args[0]), func() {
			for t := s.take(); t != nil; t = s.take() {
				s.now = s.now.Add(duration(s, args[1]))
				s.workbench.end(t, Outcome{Asked: true, Elapsed: duration(s, args[1])}, s.now)
				s.over(t)
			}
		})
	case "grant": // grant ADDRESS TIME WAIT
		s.grant(netip.MustParseAddr(args[0]), s.now.Add(duration(s, args[1])), duration(s, args[2]), s.now)
		s.hear()
	case "withdraw":
		s.withdraw(netip.MustParseAddr(args[0]), s.now)
	case "reserve": // reserve ADDRESS on|off
		s.reserve(netip.MustParseAddr(args[0]), args[1] == "on", s.now)
	case "suspend": // suspend NAME [WHY]
		h := s.hosts[args[0]]
		h.suspended = strings.Join(args[1:], " ")
		s.settle(h, s.now)
	case "freeze":
		h := s.hosts[args[0]]
		h.frozen = true
		s.settle(h, s.now)
	case "takehost": // takehost NAME ADDRESS: of a reserved server
		t, err := s.takeHost(args[0], netip.MustParseAddr(args[1]), s.now)
		if t == nil {
			s.say("%s nothing of %s: %v", s.at(s.now), args[0], err)
			return
		}
		s.out(t)
	case "enqueue": // enqueue ADDRESS ORIGIN PATH ...: remote fetches
		for _, path := range args[2:] {
			e := RemoteFetch{URL: identity.URL{Host: "far", Path: path}, Server: netip.MustParseAddr(args[0]), Origin: s.origin(args[1])}
			s.say("enqueued %v", s.remote.enqueue(e, s.now))
		}
	case "finish": // finish ADDRESS: the remote fetch of it
		s.remote.end(netip.MustParseAddr(args[0]))
	case "look": // says what can be taken
		due := s.nextWake(s.now)
		s.say("anything ready %v, next wake %s, %v; remote %d, out %d", s.readyServers(s.now) > 0, s.at(due), !due.IsZero(), s.remote.count, s.remote.out)
	case "closed": // closed NAME TIME [IN]: its hours end now, or in that time, and begin after the first
		hours := shut{until: s.now.Add(duration(s, args[1]))}
		if len(args) > 2 {
			hours.from = s.now.Add(duration(s, args[2]))
		}
		s.site = s.closing(args[0], hours)
	case "drop": // its URLs are given up
		h := s.hosts[args[0]]
		h.forget(s.seq)
		s.settle(h, s.now)
	default:
		s.Fatalf("no step %q", words)
	}
}

// begin makes the workbench: bench KEY VALUE ...
func (s *scene) begin(words []string) {
	cfg, polite, resumed := Default(), DefaultPoliteness(), time.Time{}
	apply(s, words, map[string]func(string){
		"leases":   func(string) { cfg.Leases = true },
		"own":      func(v string) { polite.Own = []string{v} },
		"parallel": func(v string) { polite.OwnParallel = number(s, v) },
		"gap":      func(v string) { polite.OwnGap = duration(s, v) }, // of one's own servers
		"window":   func(v string) { cfg.WindowURLs = number(s, v) },
		"resumed":  func(v string) { resumed = s.now.Add(-duration(s, v)) }, // an earlier life may have asked any server so long ago
		"remote":   func(v string) { cfg.RemoteFetches = number(s, v) },
	})
	prefixes, err := polite.own()
	must(s, err)
	s.workbench = newWorkbench(cfg, rules{Politeness: polite, prefixes: prefixes}, rand.New(rand.NewPCG(1, 2)))
	s.workbench.recrawl, s.resumed = newRecrawl(cfg.Recrawl, s.now), resumed
}

// block gives a host the next n URLs of an origin.
func (s *scene) block(h *host, n, origin string) {
	var entries []entry
	s.seq++
	for i := range number(s, n) {
		entries = append(entries, entry{PendingURL: PendingURL{Path: fmt.Sprintf("/%d-%d", s.seq, i)}})
	}
	h.take(&blockRef{seq: s.seq, n: len(entries), origin: s.origin(origin)}, entries)
}

func (s *scene) origin(word string) Origin {
	return map[string]Origin{"discovered": Discovered, "estimate": Estimate, "assigned": Assigned, "revisit": Revisit, "none": origins}[word]
}

// closing is what is set for hosts: for one, hours.
func (s *scene) closing(name string, hours Hours) func(string) *Site {
	before := s.site
	return func(host string) *Site {
		if host == name {
			return &Site{Hours: hours}
		}
		return before(host)
	}
}

func (s *scene) place(addresses, ttl string, took ...string) {
	var addrs []netip.Addr
	for _, a := range strings.Split(addresses, ",") {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	h := s.nextUnresolved(s.now)
	if h == nil {
		s.say("no name to resolve")
		return
	}
	for _, word := range took {
		h.resolveTook = duration(s, word)
	}
	s.placeHost(h, addrs, duration(s, ttl), s.now)
}

// take hands out a task, nil if there is none.
func (s *scene) take() *Task {
	t := s.workbench.take(s.now)
	if t == nil {
		return nil
	}
	s.out(t)
	return t
}

// out notes a task.
func (s *scene) out(t *Task) {
	more := ""
	if t.Hops > 0 || t.DNS > 0 {
		more = fmt.Sprintf(", hop %d, resolved in %v", t.Hops, t.DNS)
	}
	s.say("%s %s%s of %s: %v, attempt %d, waited %v%s", s.at(s.now), t.Host, t.URL.Path, t.Server, t.Origin, t.Attempt, t.Waited, more)
	s.tasks[t.Host] = t
}

// hear notes the tasks whose leases have ended since the last call.
func (s *scene) hear() {
	for _, host := range slices.Sorted(maps.Keys(s.tasks)) {
		if t := s.tasks[host]; t.Lease().Err() != nil {
			s.say("%s the lease of %s ended", s.at(s.now), host)
			t.lease = nil
		}
	}
}

// end ends the task of a host: end NAME OUTCOME (see outcome).
func (s *scene) end(words []string) {
	t := s.tasks[words[0]]
	if t == nil {
		s.say("%s %s has no task", s.at(s.now), words[0])
		return
	}
	out := outcome(s, words[1:], nil)
	e := s.workbench.end(t, out, s.now)
	ending := word(e.Ending, "done", "failed", "dropped", "to come again")
	s.say("%s %s%s has %s, again %s, give up %v", s.at(s.now), t.Host, t.URL.Path, ending, s.at(e.NextAttempt), e.GaveUp)
	s.over(t)
}

// outcome reads how a task ended: [done|failed|dropped|again] [TROUBLE] [lasts] [unasked] [KEY VALUE ...]. more reads other words, and
// returns how many follow that are its own.
func outcome(t testing.TB, words []string, more func(out *Outcome, word string, rest []string) int) (out Outcome) {
	out = Outcome{Asked: true, Reason: "it failed"}
	robots := func() *RobotsOutcome {
		out.Robots = cmp.Or(out.Robots, &RobotsOutcome{Body: []byte("allow")})
		return out.Robots
	}
	visit := func() *Visit {
		out.Visit = cmp.Or(out.Visit, &Visit{})
		return out.Visit
	}
	next := func() (word string) { word, words = words[0], words[1:]; return word }
	length := func() time.Duration { return duration(t, next()) }
	keys := map[string]func(){
		"done":        func() { out.Ending = Done },
		"failed":      func() { out.Ending = Failed },
		"dropped":     func() { out.Ending = Dropped },
		"again":       func() { out.Ending = Again },
		"unreachable": func() { out.Trouble = Unreachable },
		"broken":      func() { out.Trouble = Broken },
		"busy":        func() { out.Trouble = Busy },
		"forbidden":   func() { out.Trouble = Forbidden },
		"interrupted": func() { out.Trouble = Interrupted },
		"lasts":       func() { out.Lasts = true },
		"unasked":     func() { out.Asked = false },
		"took":        func() { out.Elapsed = length() },
		"retry-after": func() { out.RetryAfter = length() },
		"lingers":     func() { out.Lingers = length() },
		"robots":      func() { robots().Lifetime = length() },
		"redirect":    func() { robots().Redirect = &identity.URL{Host: next(), Path: "/robots.txt"} }, // of the robots.txt
		"crawl-delay": func() { robots().CrawlDelay = length() },
		"known":       func() { out.Known = number(t, next()) },
		"found": func() { // found unchanged|trivial|altered|gone|moved DIGEST
			found := map[string]Found{"unchanged": Unchanged, "trivial": Trivial, "altered": Altered, "gone": Gone, "moved": Moved}[next()]
			digest := number(t, next())
			v := visit()
			v.Found, v.Digest, v.Body, v.Simhash = found, uint64(digest), uint32(digest), uint64(digest)
		},
		"etag":      func() { visit().ETag = next() },
		"modified":  func() { visit().Modified = time.Now().Add(-length()) }, // so long ago
		"fresh-for": func() { visit().FreshFor = length() },
	}
	for len(words) > 0 {
		if word := next(); keys[word] != nil {
			keys[word]()
		} else if more == nil {
			t.Fatalf("no outcome %q", word)
		} else {
			words = words[more(&out, word, words):]
		}
	}
	return out
}

// over puts a host where it belongs after its task, as the frontier does when the end is on disk.
func (s *scene) over(t *Task) {
	delete(s.tasks, t.Host)
	s.settle(t.host, s.now)
}

// pass lets time pass, from one wake to the next, with work at each.
func (s *scene) pass(d time.Duration, work func()) {
	until := s.now.Add(d)
	for {
		s.advance(s.now)
		s.hear()
		if work != nil {
			work()
		}
		next := s.nextWake(s.now)
		if next.IsZero() || next.After(until) {
			s.now = later(s.now, until)
			return
		}
		if s.now = later(s.now, next); s.now.Equal(until) {
			return
		}
	}
}

// at is a time as it is printed.
func (s *scene) at(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).Round(time.Millisecond).String()
}

// print returns what happened since the last print, and how things stand.
func (s *scene) print() string {
	for _, addr := range s.wants {
		s.say("%s is wanted", addr)
	}
	s.wants = nil
	for _, name := range slices.Sorted(maps.Keys(s.hosts)) {
		h := s.hosts[name]
		e, lost := s.explain(h, s.now), ""
		if h.lost {
			lost = ", lost"
		}
		s.say("%s: %s; %d URLs, %d failures%s, level %d, delay %v", name, e.Sentence, e.InMemory, e.Failures, lost, h.level, e.Delay)
	}
	states := s.serverStates(s.now)
	slices.SortFunc(states, func(a, b ServerState) int { return a.Addr.Compare(b.Addr) })
	for _, st := range states {
		slices.Sort(st.Hosts)
		s.say("%s: wanted %v, until %s, wait %v, %d out, hosts %v", st.Addr, st.Wanted, s.at(st.Until), st.Wait.Round(time.Millisecond),
			st.InFlight, st.Hosts)
	}
	out := strings.Join(s.lines, "\n")
	s.lines = nil
	return out
}

// number reads a number in a script.
func number(t testing.TB, word string) int {
	n, err := strconv.Atoi(word)
	must(t, err)
	return n
}

// duration reads a duration in a script.
func duration(t testing.TB, word string) time.Duration {
	d, err := time.ParseDuration(word)
	must(t, err)
	return d
}
