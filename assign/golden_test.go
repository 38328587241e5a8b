package assign_test

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"proxima/assign"
	"proxima/node/golden"
)

var update = flag.Bool("update", false, "write the scenarios of testdata/golden anew")

// TestGolden lets each assigner decide a small world, over and over: where the servers go, in what time a page is expected, after
// how many estimates, how wrong that may be, and why. The steps are those of small.do.
//
//	go test -run Golden ./assign -update
func TestGolden(t *testing.T) {
	golden.Play(t, "testdata/golden/*.txt", *update, func(t *testing.T, blocks [][]string, _ []string) (printed []string) {
		s := &small{t: t, cfg: assign.Default(), now: time.Unix(0, 0), world: newWorld(madeUp(30, 5), worldConfig{Nodes: 8, Servers: 4, Seed: 5})}
		for _, steps := range blocks {
			s.out.Reset()
			for _, step := range steps {
				s.do(strings.Fields(step))
			}
			printed = append(printed, s.out.String())
		}
		return printed
	})
}

// small is a world of eight nodes and four servers, and one assigner after the other.
type small struct {
	t        *testing.T
	world    *world
	now      time.Time
	assigner assign.Assigner
	choices  []assign.Choice
	cfg      assign.Config
	out      strings.Builder
}

// do takes a step:
//
//	decide nearest     an assigner decides, with what others have learnt before
//	lose               the node of the first server is gone
//	back               all nodes are there again
//	hurry nearest      an assigner that knew nothing decides when two rounds of its questions have been answered
//	deaf node0003      the downloads of these nodes fail from now on
//	policy gh          the policy of can from now on
//	unconverged random what vivaldi does with servers whose places are not sure
//	queue node0003 900 pages wait so many ms at this node from now on, and nearest may double their time to relieve it
//	without stop       nearest leaves out these ingredients from now on
//	pass 11m           time passes
//	look               this node looks for a better one for each server, and for one that explores
func (s *small) do(w []string) {
	switch w[0] {
	case "decide":
		b := s.world.Batch()
		if b.Before = s.assigner; s.assigner != nil {
			for i := range b.Servers {
				if m := s.assigner.Memory(b.Servers[i].Addr); m != nil {
					b.Servers[i].Memory = m.Clone()
				}
			}
		}
		s.assigner = build(s.t, w[1], s.cfg, b, s.world.View(), s.now)
		s.choices, s.now = s.world.Decide(s.assigner, s.now, time.Second)
	case "hurry":
		s.assigner = build(s.t, w[1], s.cfg, s.world.Batch(), s.world.View(), s.now)
		for range 2 {
			s.now = s.world.round(s.assigner, s.now, time.Second)
		}
		s.choices = s.assigner.Conclude(s.now)
	case "lose", "back":
		v := s.world.View()
		v.Nodes = slices.DeleteFunc(v.Nodes, func(n assign.Node) bool { return w[0] == "lose" && n.ID == s.choices[0].Node })
		s.assigner.SetView(v, s.now)
		s.choices, _ = s.assigner.Decide(s.now)
	case "look":
		s.look()
		return
	default:
		s.change(w)
		return
	}
	for _, c := range s.choices {
		downloads := 0
		if m := s.assigner.Memory(c.Server); m != nil {
			downloads = m.Downloads()
		}
		fmt.Fprintf(&s.out, "%v to %s: %.1f ms ±%.3f, %d estimates, %d known: %s\n", c.Server, c.Node, c.PredictedMs, c.Error, c.Estimates, downloads, c.Reason)
	}
}

// change takes a step that decides nothing.
func (s *small) change(w []string) {
	switch w[0] {
	case "deaf":
		s.world.deaf = w[1:]
	case "policy":
		s.cfg.CAN.Policy = w[1]
	case "unconverged":
		s.cfg.Vivaldi.Unconverged = w[1]
	case "queue":
		ms, _ := strconv.ParseFloat(w[2], 64)
		s.world.Nodes[s.world.NodeIndex(w[1])].Factors.QueueMs, s.cfg.Nearest.Balance = ms, 1
	case "without":
		s.cfg.Nearest.Without = 0
		for _, name := range w[1:] {
			s.cfg.Nearest.Without |= 1 << slices.Index(assign.Ablations(), name)
		}
	case "pass":
		d, _ := time.ParseDuration(w[1])
		s.now = s.now.Add(d)
	default:
		s.t.Fatalf("no step %q", w[0])
	}
}

// look prints who would be better than this node, and by how much, and who would be asked to explore.
func (s *small) look() {
	self := s.world.Nodes[0].ID
	for _, server := range s.world.Servers {
		m := s.assigner.Memory(server.Addr)
		if m == nil {
			continue
		}
		better, gain, _ := assign.Better(assign.Default(), m, s.world.View(), self)
		explorer, _ := assign.Explorer(assign.Default(), m, s.world.View(), self, func() float64 { return 0.5 })
		fmt.Fprintf(&s.out, "%v: better at %q by %.1f ms, explored by %q, slowed %.2f\n", server.Addr, better, gain, explorer, m.Slowed())
	}
}
