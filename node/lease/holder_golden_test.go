package lease

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/golden"
	"proxima/node/wire"
)

// TestHolder plays the scenarios of testdata/holder: the life of one lease at its holder. bench.do explains the steps. After each block it
// prints the wishes that are sent and what the frontier is told, in order, and what the lease is then.
//
//	go test -run TestHolder ./node/lease -update
func TestHolder(t *testing.T) {
	golden.Play(t, "testdata/holder/*.txt", *update, func(t *testing.T, blocks [][]string, _ []string) (printed []string) {
		b := newBench(t)
		for _, steps := range blocks {
			for step := range strings.SplitSeq(strings.Join(steps, ";"), ";") {
				b = b.do(strings.Fields(step))
			}
			printed = append(printed, strings.Join(b.said, "; ")+"\n"+b.outcome())
			b.said = nil
		}
		return printed
	})
}

// do takes a step; several stand in one line, with semicolons between them. It sends what is due then.
//
//	anew                a new holder, which holds nothing
//	look [wanted] [1] [waits 1m]
//	                    a look at the frontier, which wants the server or does not, with requests in flight, and leaves it alone for a time
//	look elsewhere      a look at the frontier, which does not name the server
//	want                the frontier says that it wants it
//	answer given|held|elsewhere|none
//	                    the call under way ends
//	pass 10s            time passes
//	learn               a download adds to what is known of the server
//	hold, give s        a batch holds it; gives it to node s
//	grantor k2          its grantor changes
//	asked               the grantor hears in an inquiry that this node does not hold it
//	gap, leave          this node stood still; it leaves
func (b *bench) do(w []string) *bench {
	was := b.last
	switch has := strings.Join(w[1:], " "); w[0] {
	case "anew":
		return newBench(b.t)
	case "look":
		has, waits, _ := strings.Cut(has, "waits ")
		s := Server{Addr: server(1), Wanted: strings.Contains(has, "wanted")}
		s.Wait, _ = time.ParseDuration(waits)
		if has = strings.TrimSpace(has); has == "elsewhere" {
			s.Addr = server(2)
		} else if has != "" {
			s.InFlight, _ = strconv.Atoi(has[strings.LastIndex(has, " ")+1:])
		}
		b.tick([]Server{s}, b.now)
	case "want":
		b.want(server(1), b.now)
	case "answer":
		it := b.calling
		if it == nil {
			b.t.Fatalf("no call to answer after %q: %s", b.said, b.outcome())
		}
		if b.calling = nil; has == "none" {
			b.failed(*it, b.called, b.now)
			break
		}
		a := yes()
		if has != "given" {
			a = &wire.LeaseAnswer{Grant: map[string]wire.Grant{"held": held, "elsewhere": elsewhere}[has], Holder: "x"}
		}
		b.answered(*it, b.called, a, at(b.sent), b.now)
	case "pass":
		d, err := time.ParseDuration(has)
		if err != nil {
			b.t.Fatal(err)
		}
		b.pass(d)
	case "learn":
		l := b.get(server(1))
		if l.memory == nil {
			l.memory = &assign.Memory{}
		}
		l.memory.Observe("n", ncoord.Coordinate{}, page(time.Second), b.now)
		l.changed = b.now
	case "hold":
		b.get(server(1)).hold = true
	case "give":
		l := b.all[server(1)]
		l.successor, l.hold = has, false
		b.withdraw(server(1), l, b.now)
	case "grantor":
		b.grantedBy = has
		b.setView(b.now)
	case "asked":
		b.all[server(1)].void = true
	case "gap":
		b.stopped(at(b.now))
	case "leave":
		b.leave(b.now)
	default:
		b.t.Fatalf("no step %q", w[0])
	}
	if b.last != was {
		d, _ := b.told()
		b.say("told %v", d)
	}
	for grantor, items := range b.due(b.now, nil) {
		it := items[0]
		m := b.message(&it, grantor, b.now)
		what := strings.ToLower(strings.TrimPrefix(it.wish.String(), "WISH_"))
		if m.GetSuccessor() != "" {
			what += " for " + m.GetSuccessor()
		}
		if len(m.GetMemory()) > 0 {
			said, err := assign.DecodeMemory(m.GetMemory(), b.now)
			if err != nil {
				b.t.Fatal(err)
			}
			what += fmt.Sprintf(" with %d downloads", said.Downloads())
		}
		if m.GetWaitMs() > 0 {
			what += fmt.Sprintf(" after %v", ms(m.GetWaitMs()))
		}
		b.say("%s -> %s", what, grantor)
		b.calling, b.called, b.sent = &it, grantor, b.now
	}
	return b
}

func (b *bench) say(format string, args ...any) {
	b.said = append(b.said, fmt.Sprintf(format, args...))
}

// outcome tells what the lease is now.
func (b *bench) outcome() string {
	l := b.all[server(1)]
	if l == nil {
		return "nothing"
	}
	text := "not leased"
	if l.live(b.now) {
		text = fmt.Sprintf("leased for %v", l.right.until.mono.Sub(b.now))
	}
	if l.withdrawn {
		text += ", going back"
	}
	if _, known := b.slowed(b.now)[server(1)]; known {
		text += ", compared with others"
	}
	if !l.changed.IsZero() {
		text += ", news for its grantor"
	}
	if n := b.counts.Expired; n > 0 {
		text += fmt.Sprintf(", %d expired", n)
	}
	if l.why != "" {
		text += "; " + l.why
	}
	return text
}

// middle is a random source that always returns the middle, so that there is no jitter.
type middle struct{}

func (middle) Uint64() uint64 { return 1 << 52 }
