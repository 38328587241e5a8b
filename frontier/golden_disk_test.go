package frontier

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier/identity"
	"proxima/node/golden"
)

// TestGoldenDisk plays the scenarios of testdata/disk on a whole frontier. The steps are those of house.do; printed is what they
// answer, and after each block the books, what is told of hosts, and all that is on disk.
//
//	go test -run Golden ./frontier -update
func TestGoldenDisk(t *testing.T) {
	golden.Play(t, "testdata/disk/*.txt", *update, func(t *testing.T, blocks [][]string, _ []string) (printed []string) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			h := &house{t: t, dir: dir, sites: map[string]*Site{}, blocked: map[string]string{}, tasks: map[string]*Task{},
				paths: map[uint64]string{}, chunks: map[string][]Chunk{}, begun: time.Now()}
			h.cfg, h.polite = testConfig()
			h.polite.MinGap, h.polite.Factor, h.polite.EndedFor = time.Second, 0, 10*time.Minute
			for _, steps := range blocks {
				for _, step := range steps {
					h.do(strings.Fields(step))
				}
				printed = append(printed, h.print())
			}
			if h.life != nil {
				h.life.stop()
			}
		})
		return printed
	})
}

// house is a frontier that a scenario opens and closes over one directory.
type house struct {
	*life
	t       *testing.T
	dir     string
	cfg     Config
	polite  Politeness
	sites   map[string]*Site
	blocked map[string]string
	tasks   map[string]*Task // those that are out, by URL
	paths   map[uint64]string
	chunks  map[string][]Chunk // those exported or made up, by name
	begun   time.Time
	last    string // the URL of the task that came last

	// mu guards what follows.
	mu    sync.Mutex
	lines []string
	heard []string // what was said by others than the steps since the last step
}

func (h *house) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

// hear notes what the frontier did by itself, at the same time as other things.
func (h *house) hear(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, fmt.Sprintf(format, args...))
}

// wait lets everything come to rest.
func (h *house) wait() {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.heard)
	h.lines, h.heard = append(h.lines, h.heard...), nil
}

// half is a source of draws that are all in the middle: their order does not matter.
type half struct{}

func (half) Uint64() uint64 { return 1 << 63 }

// do plays a step. Hosts are named without "http://", and a URL as HOST/PATH.
func (h *house) do(words []string) {
	h.t.Helper()
	ctx := context.Background()
	args := words[1:]
	host := ""
	if len(args) > 0 {
		host = "http://" + args[0]
	}
	switch words[0] {
	case "set":
		h.set(args)
	case "site": // site HOST KEY VALUE ...
		h.site(host, args[1:])
	case "blocked": // blocked HOST [WHY]
		h.blocked[args[0]] = strings.Join(args[1:], " ")
	case "open":
		deps := Deps{Rand: rand.New(half{}), Site: func(host string) *Site { return h.sites[host] },
			Blocked: func(host string) string { return h.blocked[short(host)] },
			Event:   func(e Event) { h.hear("event %d %s %s, %d URLs", e.Kind, short(e.Host), e.Reason, e.URLs) }}
		h.life = begin(h.t, h.dir, h.cfg, h.polite, deps)
		go h.placing(addr1)
		if h.cfg.Shared {
			go h.letAll()
		}
	case "close":
		h.stop()
		h.life = nil
	case "wait":
		time.Sleep(duration(h.t, args[0]))
	case "add":
		var links []Link
		for _, word := range args {
			links = append(links, h.link(word))
		}
		h.say("add: %v", h.add(links...))
	case "take": // take [nothing]
		if h.cfg.FrontHosts == Default().FrontHosts { // else they come in by themselves, at the same time
			some, _, _ := h.Ready("", 1, 100)
			for _, r := range some {
				h.Activate(ctx, r.Host)
				h.wait()
			}
		}
		task := h.taking(time.Minute)
		h.wait()
		if task == nil {
			h.say("nothing comes")
			break
		}
		h.last = short(task.URL.String())
		h.say("%s", said(fmt.Sprintf("%s comes: %v, %v", h.last, task.Kind, task.Origin), "depth %d", task.Depth, "hops %d", task.Hops,
			"attempt %d", task.Attempt, "known as %s", h.page(task.Page)))
		h.tasks[h.last] = task
	case "end":
		h.end(args)
	case "crawl": // crawl N OUTCOME: of robots.txt the best comes
		for range number(h.t, args[0]) {
			if h.do([]string{"take"}); len(h.tasks) == 0 {
				break
			}
			for url, task := range h.tasks {
				if task.Kind == Robots {
					h.end([]string{url, "robots", "24h"})
				} else {
					h.end(append([]string{url}, args[1:]...))
				}
				h.wait()
			}
		}
	case "role":
		r := map[string]Role{"owned": Owned, "replica": Replica, "leaving": Leaving}[args[1]]
		h.role(host, r)
		got, known, err := h.RoleOf(ctx, host)
		h.say("role: %v, known %v, %v", got, known, err)
	case "drop": // drop HOST WHY
		n, err := h.DropHost(ctx, host, strings.Join(args[1:], " "))
		h.say("dropped: %d, %v", n, err)
	case "drop-blocked":
		h.say("dropped: %v", h.DropBlocked(ctx))
	case "remove":
		h.say("removed: %v", h.Remove(ctx, host))
	case "retry":
		h.say("retry: %v", h.Retry(ctx, host))
	case "digest":
		h.digest(host)
	case "activate":
		h.say("activate: %v", h.Activate(ctx, host))
	case "export": // export HOST NAME URLS BYTES
		h.export(host, args[1], number(h.t, args[2]), number(h.t, args[3]))
	case "chunk": // chunk HOST NAME [KEY VALUE ...] [pending PATH ...] [done PATH ...] [page PATH ...]
		h.chunk(args)
	case "import": // import HOST NAME: as assigned
		for _, c := range h.chunks[args[1]] {
			n, err := h.Import(ctx, host, c, Assigned)
			h.say("imported: %d new, %v", n, err)
		}
	case "list": // list MOST, from each to the next
		after := ""
		for {
			some, err := h.List(ctx, after, number(h.t, args[0]))
			if len(some) == 0 {
				h.say("list ends, %v", err)
				return
			}
			for _, s := range some {
				h.say("%s", said(fmt.Sprintf("list: %s, %v", short(s.Host), s.Role), "done %d", s.Done, "failed %d", s.Failed, "dropped %d", s.Dropped))
				after = s.Host
			}
		}
	case "ready": // ready URLS MOST, from each to the next
		for next := ""; ; {
			some, at, err := h.Ready(next, number(h.t, args[0]), number(h.t, args[1]))
			for _, r := range some {
				h.say("ready: %s with %d", short(r.Host), r.Pending)
			}
			if next = at; next == "" {
				h.say("ready ends, %v", err)
				return
			}
		}
	case "explain":
		e := h.Explain(host)
		h.say("%s", said(args[0], "%s", e.Wait, "%s", e.Sentence, "%d in memory", e.InMemory, "more on disk", e.OnDisk, "%d failures", e.Failures))
	case "find": // find PART MOST
		found, all := h.Find(args[0], number(h.t, args[1]))
		for _, e := range found {
			h.say("found: %s of %d with %d in memory", short(e.Host), all, e.InMemory)
		}
	case "idle": // idle PATIENCE
		h.say("idle %v, hopeless %v", h.Idle(duration(h.t, args[0])), h.Hopeless())
	case "trouble": // trouble lookup|network: this node's own
		h.OwnTrouble("no "+args[0], args[0] == "lookup")
	case "answered":
		h.Answered(args[0] == "lookup")
	case "status":
		s := h.Status()
		maps.DeleteFunc(s.Queues, func(_ string, n int) bool { return n == 0 })
		h.say("%s", said("status", "%d servers", s.Servers, "%d ready", s.Ready, "%d out", s.InFlight,
			"hosts wait on disk", s.Waiting, "paused: %s", s.Paused,
			"troubled", h.Troubled(), "hosts %v", s.Hosts, "queues %v", s.Queues, "failing %v", s.Failing, "next in %v", s.NextDue))
	default:
		h.t.Fatalf("no step %q", words)
	}
	h.wait()
}

// apply sets values by their names: KEY VALUE ...
func apply(t testing.TB, words []string, keys map[string]func(value string)) {
	t.Helper()
	for pair := range slices.Chunk(words, 2) {
		set := keys[pair[0]]
		if set == nil {
			t.Fatalf("no key %q", pair[0])
		}
		set(pair[1])
	}
}

// set changes the configuration of the next life.
func (h *house) set(words []string) {
	c := &h.cfg
	apply(h.t, words, map[string]func(string){
		"shared":        func(v string) { c.Shared = v == "on" },
		"depths":        func(v string) { c.TrackDepth = v == "on" },
		"urls":          func(v string) { c.MaxHostURLs = number(h.t, v) },
		"hosts":         func(v string) { c.FrontHosts = number(h.t, v) },
		"window":        func(v string) { c.WindowURLs = number(h.t, v) },
		"budget":        func(v string) { c.HostBudget = number(h.t, v) },
		"recrawl":       func(v string) { c.Recrawl.Enabled, c.Recrawl.Min, c.Recrawl.Max = v == "on", time.Minute, time.Hour },
		"age":           func(v string) { c.Recrawl.Age, c.Recrawl.Min = duration(h.t, v), time.Minute },
		"retry-name":    func(v string) { h.polite.RetryName = []time.Duration{duration(h.t, v)} },
		"retry-connect": func(v string) { h.polite.RetryConnect = []time.Duration{duration(h.t, v)} },
	})
}

func (h *house) site(host string, words []string) {
	s := &Site{}
	h.sites[host] = s
	apply(h.t, words, map[string]func(string){
		"gap":    func(v string) { d := duration(h.t, v); s.Gap = &d },
		"budget": func(v string) { n := number(h.t, v); s.Budget = &n },
		"min":    func(v string) { s.RecrawlMin = duration(h.t, v) },
		"max":    func(v string) { s.RecrawlMax = duration(h.t, v) },
		"stays":  func(v string) { s.Stays = v == "on" },
		"closed": func(v string) { s.Hours = shut{until: time.Now().Add(duration(h.t, v))} }, // from now on for so long
		"first": func(v string) { // paths with that come first, and of them the least deep
			s.Rank = func(u identity.URL, depth uint8) int {
				if strings.Contains(u.Path, v) {
					return 100 - int(depth)
				}
				return 0
			}
		},
	})
}

// end ends a task, "it" is the last that came: end URL OUTCOME [elsewhere|nowhere] [links URL ...].
func (h *house) end(words []string) {
	url := words[0]
	if url == "it" {
		url = h.last
	}
	task := h.tasks[url]
	if task == nil {
		h.say("%s is not out", url)
		return
	}
	delete(h.tasks, url)
	out := outcome(h.t, words[1:], func(out *Outcome, word string, rest []string) int {
		switch word {
		case "links":
			for _, link := range rest {
				out.Links = append(out.Links, h.link(link))
			}
			return len(rest)
		case "elsewhere", "nowhere":
			out.Elsewhere = func(_ context.Context, links []Link) error {
				h.say("%d links are for elsewhere", len(links))
				if word == "nowhere" {
					return fmt.Errorf("nobody there")
				}
				return nil
			}
		default:
			h.t.Fatalf("no outcome %q", word)
		}
		return 0
	})
	res, err := h.Finish(context.Background(), task, out)
	ending := word(res.Ending, "done", "failed", "dropped", "to come again")
	h.say("%s", said(fmt.Sprintf("%s has %s", url, ending), "again at %s", h.at(res.NextAttempt), "gave up", res.GaveUp,
		"%d links are new", res.Accepted, "%d known", res.Duplicate,
		"%d refused", res.Refused, "%d not owned", len(res.NotOwned), "%v", err))
}

// link reads a URL and what follows it: "@3" a depth, "^2" hops, "!" a sitemap, "~1h" a lastmod that is so old.
func (h *house) link(word string) Link {
	l := Link{}
	word, l.Sitemap = strings.CutSuffix(word, "!")
	word, ago, modified := strings.Cut(word, "~")
	if modified {
		l.Modified = time.Now().Add(-duration(h.t, ago))
	}
	word, hops, _ := strings.Cut(word, "^")
	word, depth, _ := strings.Cut(word, "@")
	l.Depth, l.Hops = uint8(number(h.t, cmp.Or(depth, "0"))), uint8(number(h.t, cmp.Or(hops, "0")))
	host, path, _ := strings.Cut(word, "/")
	l.URL = identity.URL{Host: "http://" + host, Path: "/" + path}
	h.paths[l.URL.Hash()] = "/" + path
	return l
}

// placing puts all names at an address but those that begin with "lost".
func (h *house) placing(addr netip.Addr) {
	l := h.life
	for {
		u, err := l.Resolve(context.Background())
		switch {
		case err != nil:
			return
		case strings.HasPrefix(u.Name, "lost"):
			h.hear("%s is lost, %v", u.Name, l.Lost(context.Background(), u, "no such name", false, true))
		case strings.HasPrefix(u.Name, "refused"):
			h.hear("%s is refused, %v", u.Name, l.Refuse(context.Background(), u, "refused", u.Name != "refused-once"))
		default:
			l.Place(u, []netip.Addr{addr}, time.Hour, 0)
		}
	}
}

// print returns what was said since the last print, the books, what is told of hosts, and what is on disk.
func (h *house) print() string {
	if h.life != nil {
		t := h.Status().Totals
		h.say("%s", said("books", "accepted %d", t.Accepted, "duplicate %d", t.Duplicate, "done %d", t.Done, "failed %d", t.Failed,
			"dropped %d", t.Dropped, "arrived %d", t.Arrived, "left %d", t.Left, "held %d", t.Held,
			"pending %d", t.Pending, "pages %d", t.Pages, "revisited %d", t.Revisited,
			"reasons %v", t.Reasons))
		changes := h.Changes()
		for _, host := range slices.Sorted(maps.Keys(changes)) {
			h.say("%s", h.told("told of "+short(host), changes[host]))
		}
		h.dump()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	out := strings.Join(h.lines, "\n")
	h.lines = nil
	return out
}
