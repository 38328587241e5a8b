package ownership

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/golden"
	"proxima/node/wire"
)

var update = flag.Bool("update", false, "write the scenarios of testdata/golden anew")

// TestGolden plays the scenarios of testdata/golden. The steps are those of scene.do; printed are the messages and events
// of a block, each once, and then what every node has of every host.
//
//	go test -run Golden ./node/ownership -update
func TestGolden(t *testing.T) {
	golden.Play(t, "testdata/golden/*.txt", *update, func(t *testing.T, blocks [][]string) (printed []string) {
		first := strings.Fields(blocks[0][0])
		onStage(t, numbersIn(first[1:]), func(s *stage) {
			g := &scene{stage: s, hosts: map[string]string{}, names: map[string]string{}}
			s.watch(g.message)
			s.hooks.Lock()
			s.told = g.event
			s.hooks.Unlock()
			blocks[0] = blocks[0][1:]
			for _, steps := range blocks {
				for _, step := range steps {
					g.do(strings.Fields(step))
				}
				time.Sleep(time.Second)
				printed = append(printed, g.print())
			}
		})
		return printed
	})
}

// scene is a stage with hosts that have short names, and what happened since the last print.
type scene struct {
	*stage
	hosts map[string]string // by short name
	names map[string]string // by host
	lines []string          // under hooks
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
//	wait 90s
func (g *scene) do(w []string) {
	host := ""
	if len(w) > 1 {
		host = g.hosts[w[1]]
	}
	n := numbersIn(w[1:])
	switch w[0] {
	case "host":
		host = g.hostOf(numbersIn(w[3:])...)
		g.hosts[w[1]], g.names[host] = host, w[1]
	case "find":
		from, to, _ := strings.Cut(w[2], "-")
		pages := numbersIn([]string{from, cmp.Or(to, from)})
		g.node(n[len(n)-1]).find(links(host, pages[0], pages[1]+1)...)
	case "crawl":
		g.node(n[1]).crawl(host, n[0])
	case "hand":
		if err := g.node(n[0]).own.HandOff(g.t.Context(), host, idOf(n[1]), true, "chosen"); err != nil {
			g.say("hand-off failed")
		}
	case "join":
		g.join(n...)
	case "forget":
		g.forget(n[0])
	case "welcome":
		g.welcome(n[0])
	case "kill":
		g.node(n[0]).kill(false)
	case "lose":
		g.node(n[0]).die()
	case "return":
		g.node(n[0]).start()
	case "cut", "heal":
		g.mu.Lock()
		clear(g.cut)
		for i := 1; i < len(n); i++ {
			g.cut[[2]int{n[0], n[i]}], g.cut[[2]int{n[i], n[0]}] = true, true
		}
		g.mu.Unlock()
		g.see()
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

// say notes a line, once in a block.
func (g *scene) say(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); !slices.Contains(g.lines, line) {
		g.lines = append(g.lines, line)
	}
}

var numbered = regexp.MustCompile(`[0-9]{32}`)

func (g *scene) event(at int, e Event) {
	reason := ""
	if e.Reason != "" {
		reason = ": " + numbered.ReplaceAllStringFunc(e.Reason, func(id string) string { return fmt.Sprint(numberOf(id)) })
	}
	g.say("%d: %s %s%s", at, e.Kind, g.record(e.Record.wire()), reason)
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

// message notes what says more than that all is well.
func (g *scene) message(l letter) {
	line := fmt.Sprintf("%d -> %d ", l.from, l.to)
	switch req := l.req.(type) {
	case *wire.RenewRequest:
		if req.GetCount() > 0 && !l.res.(*wire.RenewResponse).GetAgreed() {
			g.say("%srenew %d hosts -> not agreed", line, req.GetCount())
		}
	case *wire.ClaimRequest:
		res := l.res.(*wire.ClaimResponse)
		for _, r := range req.GetRecords() {
			answer := "yes"
			for _, newer := range res.GetNewer() {
				if newer.GetHost() == r.GetHost() {
					answer = "no: " + g.record(newer)
				}
			}
			if slices.Contains(res.GetLater(), r.GetHost()) {
				answer = "later"
			}
			if slices.Contains(res.GetContested(), r.GetHost()) {
				answer = "contested"
			}
			g.say("%sclaim %s -> %s", line, g.record(r), answer)
		}
	case *wire.StoreRequest:
		for i, item := range req.GetItems() {
			a := l.res.(*wire.StoreResponse).GetAnswers()[i]
			what, answer := "compare "+g.record(item.GetRecord()), word(a.GetStep())
			if a.GetStep() == wire.Step_STEP_STORED {
				answer = "the same"
			}
			if c := item.GetChunk(); c != nil {
				what, answer = fmt.Sprintf("store %s: %s", g.record(item.GetRecord()), chunk(c)), word(a.GetStep())
			}
			if a.GetNewer() != nil {
				answer += ", newer: " + g.record(a.GetNewer())
			}
			g.say("%s%s -> %s", line, what, answer)
		}
	case *wire.LoadRequest:
		g.say("%sload %s -> %s", line, g.names[req.GetHost()], chunk(l.res.(*wire.LoadResponse).GetChunk()))
	case *wire.CommitRequest:
		g.say("%scommit %s -> %s", line, g.record(req.GetRecord()), word(l.res.(*wire.CommitResponse).GetStep()))
	case *wire.DeliverRequest:
		for i, link := range req.GetLinks() {
			for host, name := range g.names {
				if path, ok := strings.CutPrefix(link.GetUrl(), host); ok {
					a := l.res.(*wire.DeliverResponse).GetAnswers()[i]
					g.say("%sdeliver %s %s -> %s", line, name, path, word(a.GetVerdict()))
				}
			}
		}
	}
}

// print returns what happened, and what every node has.
func (g *scene) print() string {
	g.hooks.Lock()
	lines := g.lines
	g.lines = nil
	g.hooks.Unlock()
	for _, name := range slices.Sorted(maps.Keys(g.hosts)) {
		host := g.hosts[name]
		for _, p := range g.all() {
			if !g.running(p) {
				continue
			}
			line := fmt.Sprintf("%s at %d:", name, p.at)
			if r, ok, err := p.own.Record(host); err == nil && ok {
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
				if may := p.disk.allowed[host]; role == frontier.Owned && !may {
					line += ", suspended"
				}
				p.disk.mu.Unlock()
			} else {
				line += " nothing"
			}
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
