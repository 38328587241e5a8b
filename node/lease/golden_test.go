package lease

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/golden"
	"proxima/node/wire"
)

var update = flag.Bool("update", false, "write the scenarios of testdata/golden anew")

// TestGolden plays the scenarios of testdata/golden. scene.do explains the steps. After each block it prints the answers of grantors, each
// once, and who may ask which server.
//
//	go test -run Golden ./node/lease -update
func TestGolden(t *testing.T) {
	golden.Play(t, "testdata/golden/*.txt", *update, func(t *testing.T, blocks [][]string, _ []string) (printed []string) {
		synctest.Test(t, func(t *testing.T) {
			g := &scene{world: newWorld(t, Default(), 1), servers: map[string]netip.Addr{}, views: map[string][]string{}}
			defer g.shutdown()
			g.delay = 0
			g.seen = g.message
			g.heard = func(id string, addr netip.Addr, by string) { g.note(addr, id+" is told that "+by+" has %s") }
			for _, steps := range blocks {
				for step := range strings.SplitSeq(strings.Join(steps, ";"), ";") {
					g.do(strings.Fields(step))
				}
				time.Sleep(10 * time.Millisecond)
				printed = append(printed, g.print())
			}
		})
		return printed
	})
}

// scene is a world without randomness, with short names for servers.
type scene struct {
	*world
	servers map[string]netip.Addr
	ids     []string            // of all nodes
	views   map[string][]string // the settled nodes that a node sees

	lines sync.Mutex
	said  []line // since the last print
}

// line is an answer of a grantor.
type line struct {
	at   time.Time
	text string
}

// do takes a step; several stand in one line, with semicolons between them:
//
//	nodes n1 n2 n3          they start together and see each other
//	node n1 of n1 n2 [outvoted]   it starts, and sees these nodes, and a majority or not
//	server s of n1 [n2]     a server: its grantor is n1, and n2 when n1 is gone
//	want s t at n2, drop s at n2
//	see n1 n2 at n2 n3      from now on nodes n2 and n3 see these nodes, and a majority
//	alone n1                node n1 sees that it is in a minority
//	kill n1, start n1       a life ends at once; another begins
//	stop n1                 a life ends in order
//	freeze n1, thaw n1      its process stands still, and goes on
//	cut n1 n2, heal         they do not reach each other, and do again
//	hold s at n1            a batch wants it, for a minute at most
//	give s to n2 at n1      it gives it to a node, with a download in its memory
//	busy s at n1, idle s at n1   a request is in flight, or is not
//	blind n1                for how long it does not know what was granted before
//	quiet s 40s at n2       n2 says that the server must be left alone for so long
//	wait 75s                time passes, and at no moment may two nodes ask a server
func (g *scene) do(w []string) {
	node := func(id string) *fakeNode {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.nodes[id]
	}
	switch w[0] {
	case "nodes":
		g.ids = w[1:]
		g.startAll(g.ids...)
		for _, id := range g.ids {
			g.views[id] = g.ids
		}
	case "node":
		of := slices.DeleteFunc(slices.Clone(w[3:]), func(word string) bool { return word == "outvoted" })
		g.ids, g.views[w[1]] = of, of
		g.start(w[1]).see(of, len(of) == len(w[3:]))
	case "server":
		fits := func(addr netip.Addr) bool {
			return assign.Rendezvous(addr.String(), g.ids) == w[3] && !slices.Contains(slices.Collect(maps.Values(g.servers)), addr) &&
				(len(w) == 4 || assign.Rendezvous(addr.String(), without(g.ids, w[3])) == w[4])
		}
		addr := server(0)
		for i := 1; !fits(addr); i++ {
			addr = server(i)
		}
		g.servers[w[1]] = addr
	case "want":
		for _, name := range w[1 : len(w)-2] {
			node(w[len(w)-1]).want(true, g.servers[name])
		}
	case "quiet":
		d, _ := time.ParseDuration(w[2])
		node(w[4]).set(g.servers[w[1]], func(s *Server) { s.Wait = d })
	case "hold":
		ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
		defer cancel()
		m, err := node(w[3]).holder.Hold(ctx, g.servers[w[1]])
		var other *HeldError
		switch {
		case errors.As(err, &other):
			g.note(g.servers[w[1]], w[3]+" cannot hold %s, which "+other.Holder+" has")
		case errors.Is(err, context.DeadlineExceeded):
			g.note(g.servers[w[1]], w[3]+" tries to hold %s in vain")
		case err != nil:
			g.t.Error(err)
		case m != nil:
			g.note(g.servers[w[1]], fmt.Sprint(w[3], " holds %s, and knows of ", m.Downloads(), " downloads"))
		default:
			g.note(g.servers[w[1]], w[3]+" holds %s")
		}
	case "give":
		m := &assign.Memory{}
		m.Observe(w[5], ncoord.Coordinate{}, page(time.Second), time.Now())
		node(w[5]).holder.Give(g.servers[w[1]], w[3], m)
	case "busy", "idle":
		inFlight := map[string]int{"busy": 1}[w[0]]
		node(w[3]).set(g.servers[w[1]], func(s *Server) { s.InFlight = inFlight })
	case "blind":
		g.note(g.servers["s"], fmt.Sprint(w[1], " is blind for ", ms(node(w[1]).grantor.Status().Blind)))
	case "drop":
		node(w[3]).want(false, g.servers[w[1]])
	case "see":
		at := slices.Index(w, "at")
		for _, id := range w[at+1:] {
			g.views[id] = w[1:at]
			node(id).see(g.views[id], true)
		}
	case "alone":
		node(w[1]).see(g.views[w[1]], false)
	case "kill":
		node(w[1]).kill()
	case "stop":
		node(w[1]).stop()
	case "start":
		g.start(w[1]).see(g.views[w[1]], true)
	case "freeze":
		node(w[1]).freeze()
	case "thaw":
		node(w[1]).thaw()
	case "cut":
		g.part(w[1], w[2])
	case "heal":
		g.world.heal()
	case "wait":
		d, err := time.ParseDuration(w[1])
		if err != nil {
			g.t.Fatal(err)
		}
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(max(d/100, 100*time.Millisecond)) {
			for name, addr := range g.servers {
				if who := g.askers(addr); len(who) > 1 {
					g.t.Errorf("%s may be asked by %v", name, who)
				}
			}
		}
	default:
		g.t.Fatalf("no step %q", w[0])
	}
}

func without(ids []string, id string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(o string) bool { return o == id })
}

// message notes the answers of a grantor.
func (g *scene) message(from, to string, req *wire.LeaseRequest, res *wire.LeaseResponse) {
	word := func(enum fmt.Stringer) string {
		_, last, _ := strings.Cut(enum.String(), "_")
		return strings.ToLower(last)
	}
	g.lines.Lock()
	defer g.lines.Unlock()
	for i, item := range req.GetItems() {
		addr, _ := netip.AddrFromSlice(item.GetServer())
		a := res.GetAnswers()[i]
		answer := word(a.GetGrant())
		if a.GetGrant() == wire.Grant_GRANT_HELD {
			answer += " by " + a.GetHolder()
		}
		if wait := ms(a.GetWaitMs()).Round(time.Second); wait > 0 {
			answer += fmt.Sprint(" after ", wait)
		}
		g.say(addr, from+" -> "+to+": "+word(item.GetWish())+" %s -> "+answer)
	}
}

// note notes something of a server.
func (g *scene) note(addr netip.Addr, format string) {
	g.lines.Lock()
	defer g.lines.Unlock()
	g.say(addr, format)
}

// say notes something of a server once.
func (g *scene) say(addr netip.Addr, format string) {
	for name, s := range g.servers {
		text := strings.ReplaceAll(format, "%s", name)
		if s == addr && !slices.ContainsFunc(g.said, func(l line) bool { return l.text == text }) {
			g.said = append(g.said, line{time.Now(), text})
		}
	}
}

// print returns the answers, and who may ask which server.
func (g *scene) print() string {
	g.lines.Lock()
	slices.SortFunc(g.said, func(a, b line) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.text, b.text)) })
	var lines []string
	for _, l := range g.said {
		lines = append(lines, l.text)
	}
	g.said = nil
	g.lines.Unlock()
	for _, name := range slices.Sorted(maps.Keys(g.servers)) {
		by := strings.Join(g.askers(g.servers[name]), ", ")
		if by == "" {
			by = "nobody"
		}
		lines = append(lines, fmt.Sprintf("%s may be asked by %s", name, by))
	}
	return strings.Join(lines, "\n")
}
