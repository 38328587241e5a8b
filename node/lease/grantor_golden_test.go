package lease

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"proxima/node/golden"
	"proxima/node/view"
	"proxima/node/wire"
)

// TestGrantor plays the scenarios of testdata/grantor: who gets one server, as time passes and members change. desk.do explains the steps.
// After each block it prints the answers, and whether something of the server is remembered.
//
//	go test -run TestGrantor ./node/lease -update
func TestGrantor(t *testing.T) {
	golden.Play(t, "testdata/grantor/*.txt", *update, func(t *testing.T, blocks [][]string, _ []string) (printed []string) {
		d := newDesk(t, true)
		begun := [][]string{{"old"}} // the steps since d was made
		for _, steps := range blocks {
			var said []string
			for step := range strings.SplitSeq(strings.Join(steps, ";"), ";") {
				w := strings.Fields(step)
				switch {
				case w[0] == "old" || w[0] == "new":
					d, begun = newDesk(t, w[0] == "old"), [][]string{w}
				case w[len(w)-1] == "?":
					for _, wish := range []string{"acquire", "renew", "release"} {
						again := newDesk(t, begun[0][0] == "old")
						for _, w := range begun[1:] {
							again.do(w)
						}
						again.prune(again.now) // changes no answer
						said = append(said, wish+": "+again.do([]string{w[0], wish}))
					}
				default:
					begun = append(begun, w)
					if answer := d.do(w); answer != "" {
						said = append(said, w[0]+": "+answer)
					}
				}
			}
			printed = append(printed, strings.Join(said, " | ")+fmt.Sprintf("\n%d remembered", len(d.entries)))
		}
		return printed
	})
}

// do takes a step, and returns the answer if it is a message of a node, the next one of its first life if nothing else is said:
//
//	a acquire|renew|release [for b] [wait 10s] [life 2] [id 5]
//	a ?                 what each of the three would be answered, where this grantor was begun anew for it
//
// Several steps stand in one line, with semicolons between them. The others are:
//
//	old, new            a grantor that may grant at once, or that does not know what was granted before it
//	pass 10s            time passes
//	sees o              these nodes have settled, and all others are alive: k is this one, and the grantor of the server only without o
//	views               it sees more views than it remembers
//	minority, gone, alone   it sees that it is in a minority; that one has gone; that nobody else is alive
//	slept               it forgets what it granted
//	begin, end          an inquiry begins; it ends, after all have answered that they have nothing
//	inquiry [b]         all members answer an inquiry, and b says that it has the server for 10 s more
//	heard a 2           all have told what life 2 of node a left behind
//	hear a 2            it hears of life 2 of node a
//	remote              a page is under way for 20 s, under the lease of an earlier life
//	prune, full         what need not be remembered is dropped; it remembers no more servers
func (d *desk) do(w []string) string {
	sees := view.View{Self: "k", Alive: everyone, Settled: []string{"k"}, Majority: true}
	switch w[0] {
	case "pass":
		span, err := time.ParseDuration(w[1])
		if err != nil {
			d.t.Fatal(err)
		}
		d.pass(span)
	case "sees":
		sees.Settled = w[1:]
		d.setView(sees, d.now)
	case "views":
		for range 100 {
			d.do([]string{"sees", "k", "n1"})
			d.pass(time.Millisecond)
			d.do([]string{"sees", "k"})
			d.pass(time.Millisecond)
		}
	case "minority":
		sees.Majority = false
		d.setView(sees, d.now)
	case "gone":
		sees.Absent = []string{"z"}
		d.setView(sees, d.now)
	case "alone":
		sees.Alive = sees.Settled
		d.setView(sees, d.now)
	case "slept":
		d.forget(d.now)
	case "begin":
		if d.q = d.inquiry(d.now); d.q == nil {
			return "there can be no inquiry"
		}
	case "end":
		if !d.conclude(d.q, d.now) {
			return "it counts for nothing"
		}
		return "it counts"
	case "inquiry":
		rights := map[string][]*wire.Right{}
		for _, id := range w[1:] {
			rights[id] = []*wire.Right{{Server: server(1).AsSlice(), ForMs: 10_000}}
		}
		d.grants.ask = true
		if !d.inquires(rights) {
			return fmt.Sprint("it counts for nothing, and is asked again: ", d.grants.ask)
		}
	case "heard", "hear":
		life, _ := strconv.ParseUint(w[2], 10, 64)
		if d.lives.hear(w[1], life, d.now, d.cfg.Window()); w[0] == "heard" {
			d.known[w[1]] = life
		}
	case "remote":
		d.entries[server(1)] = &grant{remote: d.now.Add(20 * time.Second)}
	case "prune":
		d.prune(d.now)
	case "full":
		d.most = 0
	default:
		return d.wish(w)
	}
	return ""
}

// wish is a message of a node, and returns the answer.
func (d *desk) wish(w []string) string {
	d.ids[w[0]]++
	wish, ok := wire.Wish_value["WISH_"+strings.ToUpper(w[1])]
	if !ok {
		d.t.Fatalf("no step %q", w)
	}
	r := request{from: w[0], boot: 1, id: d.ids[w[0]], addr: server(1), wish: wire.Wish(wish)}
	for i := 2; i+1 < len(w); i += 2 {
		n, _ := strconv.ParseUint(w[i+1], 10, 64)
		switch w[i] {
		case "for":
			r.successor = w[i+1]
		case "wait":
			r.wait, _ = time.ParseDuration(w[i+1])
		case "life":
			r.boot = n
		case "id":
			r.id, d.ids[w[0]] = n, max(n, d.ids[w[0]])
		}
	}
	return d.describe(r)
}

// describe answers a request, and describes the answer and what has changed by it.
func (d *desk) describe(r request) string {
	before := d.counts
	a := d.answer(r, d.now)
	var s strings.Builder
	s.WriteString(strings.ToLower(strings.TrimPrefix(a.GetGrant().String(), "GRANT_")))
	if a.GetForMs() > 0 {
		fmt.Fprintf(&s, " for %v", ms(a.GetForMs()))
	}
	if a.GetWaitMs() > 0 {
		fmt.Fprintf(&s, " after %v", ms(a.GetWaitMs()))
	}
	if a.GetRetryMs() > 0 {
		fmt.Fprintf(&s, " in %v", ms(a.GetRetryMs()))
	}
	if d.grants.ask {
		s.WriteString(", asks")
	}
	now, usual := d.counts, before
	switch a.GetGrant() {
	case given:
		usual.Given++
	case held:
		usual.Refused++
	case later:
		usual.Later++
	case elsewhere:
		usual.Elsewhere++
	}
	if now.Stale > before.Stale {
		s.WriteString(", stale")
		usual.Stale++
	}
	if now == before {
		s.WriteString(", not counted")
	} else if now != usual {
		fmt.Fprintf(&s, ", counted as %+v", now)
	}
	if n := d.entries[server(1)]; n != nil && d.granted(d.now) == 1 {
		fmt.Fprintf(&s, "; %s's", n.holder)
	} else if n != nil && n.reserved.After(d.now) {
		fmt.Fprintf(&s, "; for %s", n.successor)
	}
	return s.String()
}

const (
	acquire = wire.Wish_WISH_ACQUIRE
	renew   = wire.Wish_WISH_RENEW
	release = wire.Wish_WISH_RELEASE

	given     = wire.Grant_GRANT_GIVEN
	held      = wire.Grant_GRANT_HELD
	elsewhere = wire.Grant_GRANT_ELSEWHERE
	later     = wire.Grant_GRANT_LATER
)

// desk is a grantor with a clock that the test moves.
type desk struct {
	*grants
	t   *testing.T
	now time.Time
	ids map[string]uint64
	q   *inquiry // of a scenario
}

// everyone lists the members of these tests. All of them are alive.
var everyone = []string{"a", "b", "c", "d", "h", "k", "n", "n0", "n1", "o", "x", "y"}

// newDesk makes a grantor of all servers. If old is set, it may grant at once.
func newDesk(t *testing.T, old bool) *desk {
	cfg := Default()
	d := &desk{grants: newGrants(&cfg, 2), t: t, now: time.Unix(1e9, 0), ids: map[string]uint64{}}
	d.setView(view.View{Self: "k", Alive: everyone, Settled: []string{"k"}, Majority: true}, d.now)
	if old {
		d.pass(cfg.Window())
	}
	return d
}

func (d *desk) pass(t time.Duration) { d.now = d.now.Add(t) }

// send sends a request, and checks the answer and the holder that it names.
func (d *desk) send(r request, want wire.Grant, holder string) *wire.LeaseAnswer {
	d.t.Helper()
	got := d.answer(r, d.now)
	if got.GetGrant() != want || got.GetHolder() != holder || got.GetWaitMs() < 0 {
		d.t.Fatalf("%v by %s: %v %q, want %v %q", r.wish, r.from, got.GetGrant(), got.GetHolder(), want, holder)
	}
	return got
}

// ms converts a time of a message.
func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// inquires makes an inquiry to which all members answer with the rights that they have, and reports whether it is concluded.
func (d *desk) inquires(rights map[string][]*wire.Right) bool {
	d.t.Helper()
	q := d.inquiry(d.now)
	for _, id := range everyone {
		if !q.take(id, &wire.RightsResponse{SameView: true, Boot: 1, Rights: rights[id]}) {
			d.t.Fatalf("the answer of %s was refused", id)
		}
	}
	d.lives.hear("late", 1, d.now, d.cfg.Window())
	d.known["forgotten"] = 1
	concluded := d.conclude(q, d.now)
	if d.known["late"] > 0 || concluded && d.known["forgotten"] > 0 {
		d.t.Error("members count as having told of a life that began after they were asked, or of one that is forgotten")
	}
	return concluded
}
