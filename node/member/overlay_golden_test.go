package member_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/golden"
	"proxima/node/member"
	"proxima/node/netsim"
)

// TestOverlayGolden plays the scenarios of testdata/overlay, in which whole nodes come, go and are cut off. scene.do explains the steps. After each
// block it prints what the nodes see, those that see the same together.
//
//	go test -run TestOverlayGolden ./node/member -update
func TestOverlayGolden(t *testing.T) {
	golden.Play(t, "testdata/overlay/*.txt", *member.Update, func(t *testing.T, blocks [][]string, _ []string) (printed []string) {
		synctest.Test(t, func(t *testing.T) {
			s := &scene{trip: flat(30), seen: map[*node]member.View{}, changed: map[*node]<-chan struct{}{}}
			s.overlay = newOverlay(t, func(a, b int) float64 { return s.trip(a, b) })
			for _, steps := range blocks {
				for step := range strings.SplitSeq(strings.Join(steps, ";"), ";") {
					s.do(strings.Fields(step))
				}
				printed = append(printed, s.print())
			}
			s.close()
		})
		return printed
	})
}

// scene is an overlay, and what its nodes saw when that was printed last.
type scene struct {
	*overlay
	trip    func(a, b int) float64
	said    []string
	seen    map[*node]member.View
	changed map[*node]<-chan struct{}
}

// do takes a step; several stand in one line, with semicolons between them.
//
//	world 5             from now on the nodes are in this generated world; before, all round trips take 30 ms
//	start 0-4 [life 2] [join 3|nobody|name] [as 3] [goalone 15m] [preset lan]
//	                    nodes start at these places; they join by place 0, or others, or the name of places 0 and 1
//	kill 1, leave 1-3   nodes end without a word, or in order: one after the other
//	leave 1-3 at once, leave 3 quietly
//	                    all at the same time; with few packets
//	part 3 4            these are cut off from the others
//	heal [700ms]        they are no more, after a while
//	pass 2m, hold 40s   time passes; nothing changes meanwhile
//	full 1 2, room 1 2  their disks are full, and are no more
//	over 0, stood 3     it finds the crawl to be over; it stood still
//	alone 4             an operator lets it go on alone
//	why 0               whom it misses, and what it waits for
//	told 0 death join   whom the events of these kinds were about that it has told
//	voters 0            how many it counts
//	life 3 at 1         which life of node 3 node 1 sees
func (s *scene) do(w []string) {
	places, opts := member.Places(w[1:])
	switch w[0] {
	case "world":
		s.trip = world(16, uint64(places[0]))
	case "start":
		for _, i := range places {
			s.begin(i, opts)
		}
	case "kill":
		for _, i := range places {
			s.kill(i)
		}
	case "leave":
		if len(opts) > 1 {
			for _, i := range places {
				s.nodes[i].stop()
			}
		}
		for _, i := range places {
			s.bye(i, slices.Contains(opts, "quietly"))
		}
	case "part":
		s.part(places)
	case "heal":
		if len(opts) > 0 {
			time.AfterFunc(s.span(opts[0]), s.net.Heal)
		} else {
			s.net.Heal()
		}
	case "pass":
		time.Sleep(s.span(w[1]))
	case "hold":
		was := s.outlook()
		for end := time.Now().Add(s.span(w[1])); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if is := s.outlook(); is != was {
				s.t.Fatalf("it becomes\n%s\nfrom\n%s", is, was)
			}
		}
	case "full", "room":
		for _, i := range places {
			s.mu.Lock()
			s.nodes[i].full = w[0] == "full"
			s.mu.Unlock()
		}
	case "over":
		if err := s.nodes[places[0]].Over(); err != nil {
			s.t.Error(err)
		}
	case "stood":
		s.nodes[places[0]].Stopped()
	case "alone":
		dropped, err := s.nodes[places[0]].GoAlone("told")
		if err != nil {
			s.t.Error(err)
		}
		s.said = append(s.said, "drops"+ranges(dropped))
	case "why":
		v := s.nodes[places[0]].View()
		s.said = append(s.said, strings.TrimSpace("misses"+ranges(v.Absent)+"\n"+v.Reason))
	case "told":
		for _, kind := range opts {
			s.said = append(s.said, kind+s.told(kind, places))
		}
	case "voters":
		s.said = append(s.said, fmt.Sprint(s.nodes[places[0]].View().Voters, " voters"))
	case "life":
		at, _ := strconv.Atoi(opts[1])
		s.said = append(s.said, fmt.Sprint("life ", s.nodes[at].sees(places[0]).Boot))
	default:
		s.t.Fatalf("no step %q", w[0])
	}
}

func (s *scene) span(text string) time.Duration {
	d, err := time.ParseDuration(text)
	must(s.t, err)
	return d
}

// begin starts a node.
func (s *scene) begin(place int, opts []string) {
	boot := uint64(1)
	s.start(place, boot, func(c *member.Config, d *member.Deps) {
		for i := 0; i+1 < len(opts); i += 2 {
			switch of, _ := member.Places(opts[i+1:]); opts[i] {
			case "life":
				d.Boot = uint64(of[0])
			case "as":
				d.ID = netsim.ID(of[0])
			case "preset":
				c.Preset = opts[i+1]
			case "goalone":
				c.GoAloneAfter = s.span(opts[i+1])
			case "join":
				if c.Join = []string{}; len(of) > 0 {
					c.Join = []string{netsim.GossipAt(of[0])}
				} else if opts[i+1] == "name" {
					c.Join = []string{fmt.Sprintf("nodes.test:%d", netsim.GossipPort)}
				}
			}
		}
		d.Resolve = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.AddrFrom16(netsim.Place(0).As16()), netsim.Place(1)}, nil
		}
	})
}

// bye ends a node in order, which does not take long.
func (s *scene) bye(place int, quietly bool) {
	begin, sent := time.Now(), s.sent(place)
	s.leave(place)
	if took, limit := time.Since(begin), member.Default().LeaveTimeout; took > limit {
		s.t.Errorf("the farewell of node %d takes %v, more than %v", place, took, limit)
	}
	if n := s.sent(place) - sent; quietly && n > 40 { // two packets to each, some again, and the gossip
		s.t.Errorf("the farewell of node %d takes %d packets", place, n)
	}
}

// outlook tells what the nodes see.
func (s *scene) outlook() string {
	by := map[string][]int{}
	for i, n := range s.nodes {
		v := n.View()
		sees := fmt.Sprintf("alive%s, settled%s", ranges(v.Alive), ranges(v.Settled))
		if len(v.Over) > 0 {
			sees += ", over" + ranges(v.Over)
		}
		if v.Majority {
			sees += ", a majority"
		}
		by[sees] = append(by[sees], i)
	}
	var lines []string
	for sees, places := range by {
		slices.Sort(places)
		lines = append(lines, strings.TrimSpace(ranges(ids(places...)))+": "+sees)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// print tells what the nodes see, after a check that they tell of changes, and have the addresses of those alive.
func (s *scene) print() string {
	for i, n := range s.nodes {
		is, was := n.View(), s.seen[n]
		select {
		case <-s.changed[n]:
		default:
			same := is.Version == was.Version && slices.Equal(is.Settled, was.Settled) && is.Majority == was.Majority && slices.Equal(is.Alive, was.Alive)
			if s.changed[n] != nil && !same {
				s.t.Errorf("node %d sees %+v, and its change is not told", i, is.View)
			}
		}
		for _, p := range is.Members {
			if addr, ok := n.Addr(p.ID); ok != (p.Phase == "alive") || ok && addr != p.Addr {
				s.t.Errorf("node %d dials %q for %+v", i, addr, p)
			}
		}
		s.seen[n], s.changed[n] = is, n.Changed()
	}
	text := strings.Join(append(s.said, s.outlook()), "\n")
	s.said = nil
	return text
}

// told returns whom the events of a kind were about that some nodes told, or how often it was told of nobody.
func (s *scene) told(kind string, places []int) string {
	var of []string
	times := 0
	for _, i := range places {
		n := s.nodes[i]
		n.mu.Lock()
		for _, e := range n.events {
			if e.Kind == kind && e.ID == "" {
				times++
			} else if e.Kind == kind {
				of = append(of, e.ID)
			}
		}
		n.mu.Unlock()
	}
	if times > 0 {
		return fmt.Sprint(" told ", times, " times")
	}
	slices.Sort(of)
	return ranges(of)
}

// ranges writes ids as places.
func ranges(of []string) string {
	var places []int
	for _, id := range of {
		if n, err := strconv.ParseInt(id, 16, 64); err == nil {
			places = append(places, int(n)-0x1000_0000)
		}
	}
	return member.Ranges(places)
}
