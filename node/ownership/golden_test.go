package ownership

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/node/bell"
	"proxima/node/golden"
	"proxima/node/wire"
)

var update = flag.Bool("update", false, "write the scenarios of testdata/golden anew")

// TestGolden plays the scenarios of testdata/golden. scene.do explains the steps. After each block it prints the messages and events of
// the block, each once, from when on hosts are crawled, and what every node has of every host.
//
//	go test -run Golden ./node/ownership -update
func TestGolden(t *testing.T) {
	golden.Play(t, "testdata/golden/*.txt", *update, func(t *testing.T, blocks [][]string, _ []string) (printed []string) {
		first := strings.Fields(blocks[0][0])
		onStage(t, numbersIn(first[1:]), func(s *stage) {
			g := &scene{stage: s, hosts: map[string]string{}, names: map[string]string{}, begun: time.Now()}
			s.watch(g.message)
			s.listen(g.event, func(at int, err error) { g.say("%d: warning: %s", at, g.numbers(err.Error())) })
			ctx, stop := context.WithCancel(s.t.Context())
			defer stop()
			go g.follow(ctx)
			blocks[0] = blocks[0][1:]
			for _, steps := range blocks {
				for _, step := range steps {
					g.do(strings.Fields(step))
				}
				time.Sleep(1300 * time.Millisecond) // nothing else happens at that time, nor a whole number of seconds before
				printed = append(printed, g.print())
			}
		})
		return printed
	})
}

// scene is a stage with short names for hosts, and what happened since the last print.
type scene struct {
	*stage
	hosts map[string]string // by short name
	names map[string]string // by host
	lines []said            // under hooks
	heard []string          // what was said in the block before
	begun time.Time         // the block
}

func numbersIn(words []string) (all []int) {
	for _, w := range words {
		if n, err := strconv.Atoi(w); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// do takes a step:
//
//	nodes 1 2 3             the first step: nodes that have heard of each other
//	host a of 1 2 3         a host: its home is 1, and 2 without 1, and 3 without both
//	find a 0-4 at 2         node 2 finds links to pages 0 to 4 of it
//	crawl a 0 at 1          node 1 has downloaded page 0
//	hand a from 1 to 3      an assigner chose node 3
//	join 4                  a node with an empty disk becomes a member
//	forget 4, welcome 4     the others no longer count it among them, and do again
//	kill 1, return 1        a process ends at once, and starts again on its disk
//	lose 1                  it ends for good, with its disk
//	cut 1 from 2 3, heal    they do not hear each other, and do again
//	mute 1 from 2 3         the same, but gossip tells nobody
//	leave 3                 it says farewell, and ends
//	cut power of 1          it ends at once, and what was not synced is lost
//	stopped 1               it stood still
//	fill 1, clear 1         its disk is full, and has room again
//	spoil a 1 at 2          page 1 is gone from a disk
//	wish a from 1 to 3      placement wants it there
//	move a from 1 to 3      the operator does
//	drain 1                 it is to own nothing
//	flush 1                 all that waits is to be sent
//	drop commit from 1 to 3, drop answers of commit from 1 to 3, drop nothing
//	                        messages of a kind are lost, or their answers are; "to" may name several nodes
//	wait 90s
func (g *scene) do(w []string) {
	host := ""
	if len(w) > 1 {
		host = g.hosts[w[1]]
	}
	n := numbersIn(w[1:])
	switch w[0] {
	case "host":
		all := g.hostsOf(len(g.hosts)+1, numbersIn(w[3:])...)
		host = all[slices.IndexFunc(all, func(h string) bool { return g.names[h] == "" })]
		g.hosts[w[1]], g.names[host] = host, w[1]
	case "find":
		from, to, _ := strings.Cut(w[2], "-")
		pages := numbersIn([]string{from, cmp.Or(to, from)})
		g.node(n[len(n)-1]).find(links(host, pages[0], pages[1]+1)...)
	case "crawl":
		g.node(n[1]).crawl(host, n[0])
	case "hand":
		if err := g.node(n[0]).own.HandOff(g.t.Context(), host, idOf(n[1]), true, "chosen"); err != nil {
			g.tell("%s", g.numbers(err.Error()))
		}
	case "join":
		g.join(n...)
	case "forget":
		g.forget(n[0])
	case "welcome":
		g.welcome(n[0])
	case "leave":
		g.forget(n[0])
		g.node(n[0]).kill(false)
	case "kill":
		g.node(n[0]).kill(false)
	case "stopped":
		g.node(n[0]).own.Stopped()
	case "fill", "clear":
		g.node(n[0]).fill(w[0] == "fill")
	case "spoil":
		g.node(n[1]).spoil(host, n[0])
	case "wish":
		g.node(n[0]).own.Wish(host, idOf(n[1]), "it is nearer")
	case "move":
		if err := g.node(n[0]).own.Move(g.t.Context(), host, idOf(n[1])); err != nil {
			g.tell("%s", g.numbers(err.Error()))
		}
	case "drain":
		if err := g.node(n[0]).own.Drain(g.t.Context(), func(left int64, trouble error) {
			g.tell("%d: %d hosts are left%s", n[0], left, mark(trouble != nil, g.numbers(fmt.Sprintf(", %v", trouble))))
		}); err != nil {
			g.t.Error(err)
		}
	case "evacuate":
		if err := g.node(n[0]).own.Evacuate(g.t.Context(), "no web", func() bool { return true }); errors.Is(err, errRefused) {
			g.tell("%d: all others refuse", n[0])
		} else if err != nil {
			g.t.Error(err)
		}
	case "refuse", "take":
		g.node(n[0]).own.Refuse(w[0] == "refuse")
	case "flush":
		g.node(n[0]).own.Flush(g.t.Context())
	case "drop":
		g.drop(strings.Contains(strings.Join(w, " "), "answers of"), w, n)
	case "lose":
		g.node(n[0]).die()
	case "return":
		g.node(n[0]).start()
	case "cut", "mute", "heal":
		if w[len(w)-1] != "heal" && w[1] == "power" {
			g.node(n[0]).kill(true)
			return
		}
		g.mu.Lock()
		clear(g.cut)
		g.mu.Unlock()
		if w[0] != "heal" {
			g.part(n[0], n[1:]...)
		}
		if w[0] != "mute" {
			g.see()
		}
	case "wait":
		d, err := time.ParseDuration(w[1])
		if err != nil {
			g.t.Fatal(err)
		}
		time.Sleep(d)
	default:
		g.t.Fatalf("no step %q", w[0])
	}
}

// said is a line of a block. Repetitions within a second are counted in it.
type said struct {
	line     string
	at, last time.Duration
	times    int
}

// tell is say for callers that do not hold hooks.
func (g *scene) tell(format string, args ...any) {
	g.hooks.Lock()
	defer g.hooks.Unlock()
	g.say(format, args...)
}

// say notes a line. The caller holds hooks.
func (g *scene) say(format string, args ...any) {
	line, now := fmt.Sprintf(format, args...), time.Since(g.begun)
	i := slices.IndexFunc(g.lines, func(s said) bool { return s.line == line })
	if i < 0 {
		g.lines = append(g.lines, said{line: line, at: now, last: now, times: 1})
	} else if now-g.lines[i].last >= time.Second {
		g.lines[i].last = now
		g.lines[i].times++
	}
}

// drop makes messages get lost from now on.
func (g *scene) drop(answers bool, w []string, n []int) {
	g.lose(func(l letter) bool {
		kind := strings.ToLower(strings.TrimSuffix(string(l.req.ProtoReflect().Descriptor().Name()), "Request"))
		if !slices.Contains(w, kind) || l.from != n[0] || !slices.Contains(n[1:], l.to) || (l.res != nil) != answers {
			return false
		}
		g.say("%d -> %d %s is lost", l.from, l.to, yes(answers, "the answer of "+kind, kind))
		return true
	})
}

// numbers replaces ids in a text by the numbers of nodes, and hosts by their short names.
func (g *scene) numbers(text string) string {
	text = numbered.ReplaceAllStringFunc(text, func(id string) string { return fmt.Sprint(numberOf(id)) })
	for host, name := range g.names {
		text = strings.ReplaceAll(text, host, name)
	}
	return text
}

var numbered = regexp.MustCompile(`[0-9]{32}`)

func (g *scene) event(at int, e Event) {
	reason := ""
	if e.Reason != "" {
		reason = ": " + g.numbers(e.Reason)
	}
	g.say("%d: %s %s%s", at, e.Kind, g.record(e.Record.wire()), reason)
}

// follow tells when a node begins to crawl a host, and when it ends, to a tenth of a second.
func (g *scene) follow(ctx context.Context) {
	crawled := map[string]bool{}
	for ; ctx.Err() == nil; _ = bell.Sleep(ctx, 100*time.Millisecond) {
		synctest.Wait()
		for _, p := range g.all() {
			p.disk.mu.Lock()
			for host, name := range g.names {
				h, what := p.disk.now.hosts[host], fmt.Sprintf("%d: %s", p.at, name)
				if now := g.running(p) && h != nil && h.role == frontier.Owned && p.disk.allowed[host]; now != crawled[what] {
					crawled[what] = now
					g.tell("%s is %s", what, yes(now, "crawled", "not crawled any more"))
				}
			}
			p.disk.mu.Unlock()
		}
	}
}

func (g *scene) record(r *wire.Record) string {
	return fmt.Sprintf("%s of %d, epoch %d", g.names[r.GetHost()], numberOf(r.GetOwner()), r.GetEpoch())
}

func chunk(c *wire.Chunk) string {
	return fmt.Sprintf("%d pending, %d done", len(c.GetPending()), len(c.GetDone())/8)
}

func word(enum fmt.Stringer) string {
	_, last, _ := strings.Cut(enum.String(), "_")
	return strings.ToLower(last)
}

// message notes a message that was answered.
func (g *scene) message(l letter) {
	for _, words := range g.spoken(l.req, l.res) {
		g.say("%d -> %d %s", l.from, l.to, words)
	}
}

// print returns what happened, and what every node has.
func (g *scene) print() string {
	g.hooks.Lock()
	var lines []string
	g.heard = nil
	slices.SortFunc(g.lines, func(a, b said) int { // lines of one instant come in any order
		const moment = 5 * time.Millisecond
		return cmp.Or(cmp.Compare(a.at/moment, b.at/moment), cmp.Compare(a.line, b.line))
	})
	for _, s := range g.lines {
		line := fmt.Sprintf("+%.1fs %s", s.at.Seconds(), s.line)
		if s.times > 1 {
			line += fmt.Sprintf(" (%d times)", s.times)
		}
		g.heard = append(g.heard, s.line)
		lines = append(lines, line)
	}
	g.lines, g.begun = nil, time.Now()
	g.hooks.Unlock()
	for _, name := range slices.Sorted(maps.Keys(g.hosts)) {
		host := g.hosts[name]
		for _, p := range g.all() {
			if !g.running(p) {
				continue
			}
			line := fmt.Sprintf("%s at %d:", name, p.at)
			r, ok, err := p.own.Record(host)
			if err == nil && ok {
				line += fmt.Sprintf(" owner %d, epoch %d;", numberOf(r.Owner), r.Epoch)
			} else {
				line += " no record;"
			}
			role, known, err := p.disk.RoleOf(g.t.Context(), host)
			if err != nil {
				g.t.Fatal(err)
			}
			if known {
				all, done := p.has(host)
				line += fmt.Sprintf(" %v, %d URLs, %d done", role, all, done)
				p.disk.mu.Lock()
				may := p.disk.allowed[host]
				p.disk.mu.Unlock()
				if role == frontier.Owned && !may {
					line += ", suspended"
				}
				if why := p.own.suspended(host, r, time.Now()); role == frontier.Owned && why != "" {
					line += ": " + why
				}
				line += mark(p.own.Mine(host), ", to be assigned")
			} else {
				line += " nothing"
			}
			lines = append(lines, line)
		}
	}
	for _, p := range g.all() {
		if g.running(p) {
			lines = append(lines, fmt.Sprintf("%d: %s", p.at, g.inside(p)))
		}
	}
	return strings.Join(lines, "\n")
}
