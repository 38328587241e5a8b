package simulate

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// A node that becomes very slow loses its servers by what its own downloads show.
func TestCrawlLeavesASlowNode(t *testing.T) {
	cfg := Default()
	cfg.Nodes, cfg.Servers, cfg.Estimates = 8, 30, 6
	ctx := context.Background()
	c, err := newCrawl(ctx, newWorld(cfg, 4))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.settle(ctx, 4); err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, n := range c.count {
		made += n
	}
	if made != 60 {
		t.Errorf("%d downloads in 20 s, want two of each of 30 servers", made)
	}
	before := c.world.ratio(c.owner, c.all)
	much := change{"load × 100", 100, 1}
	node := c.hardest(much)
	had := 0
	for _, owner := range c.owner {
		if owner == node {
			had++
		}
	}
	begun := c.count[node]
	r, err := c.recover(ctx, node, much, 30, 1.2)
	if err != nil {
		t.Fatal(err)
	}
	if n := c.count[node] - begun; n > 30 {
		t.Errorf("the node made %d downloads, want no more than 30", n)
	}
	t.Logf("a node with %d servers: %+v", had, r)
	if had == 0 || r.servers < had || r.at < 2 || r.after > 1.2 || r.needed >= 30 || r.moved < had/2 {
		t.Errorf("a node with %d servers became slower: %+v; want them to leave", had, r)
	}
	if whole := c.world.ratio(c.owner, c.all); before > 1.2 || whole > 1.25 || whole != r.whole {
		t.Errorf("choice ratio of all: %.3f before, %.3f after, %.3f reported", before, whole, r.whole)
	}
}

// The servers that a change concerns are those of the node and those that it is or was the best for.
func TestConcerned(t *testing.T) {
	cfg := small()
	c, err := newCrawl(context.Background(), newWorld(cfg, 1))
	if err != nil {
		t.Fatal(err)
	}
	best := make([]int, cfg.Servers)
	for j := range best {
		best[j] = c.world.best(j)
	}
	load := c.world.nodes[2].loadMs
	got := c.concerned(2, change{"load × 7", 7, 1})
	if c.world.nodes[2].loadMs != 7*load {
		t.Errorf("load %v ms, want 7 times %v", c.world.nodes[2].loadMs, load)
	}
	for j := range best {
		want := c.owner[j] == 2 || best[j] == 2 || c.world.best(j) == 2
		if slices.Contains(got, j) != want {
			t.Errorf("server %d is of node %d, best at %d: concerned is %v, want %v", j, c.owner[j], best[j], !want, want)
		}
	}
	if c.world.ratio(c.owner, nil) != 1 {
		t.Error("the ratio of no servers is not 1")
	}
}

func TestGoalsOfSmallWorlds(t *testing.T) {
	cfg := small()
	cfg.Estimates = 6
	ctx := context.Background()
	rows, err := measureRecovery(ctx, cfg)
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows after changes: %v", len(rows), err)
	}
	balance, err := measureMakespan(ctx, cfg)
	if err != nil || len(balance) != 4 {
		t.Fatalf("%d rows of makespans: %v", len(balance), err)
	}
	if sought, usual := balance[0].Measured, balance[2].Measured; sought.Median >= usual.Median || sought.Median < 1-1e-4 {
		t.Errorf("makespan %+v of the same sum where balance is sought, %+v by default: want the first lower, not below 1", sought, usual)
	}
	for _, r := range append(rows, balance...) {
		m := r.Measured
		if !(m.P10 >= 0.9) || m.P10 > m.Median || m.Median > m.P90 || r.What == "" || r.Note == "" {
			t.Errorf("%+v", r)
		}
	}
	last, whole, err := timeDecision(ctx, newWorld(cfg, 1))
	if err != nil || last <= 0 || whole <= 0 || last > time.Minute {
		t.Errorf("a decision takes %v, the batch %v: %v", last, whole, err)
	}
}

func TestGoalsPrint(t *testing.T) {
	var out strings.Builder
	g := Goals{Goals: []Goal{
		{What: "a", Most: 1.1, Measured: Spread{1.05, 1, 1.2}, Pass: true},
		{What: "b", Most: 1, Measured: Spread{2, 1, 3}},
		{What: "c"},
	}}
	for i := range g.Goals {
		g.Goals[i].Print(&out)
	}
	if err := g.Print(&out); err != nil {
		t.Fatal(err)
	}
	lacks(t, out.String(), "PASS  ≤ 1.1", "1.050  (p10–p90 1.000–1.200)  a", "MISS  ≤ 1 ", "1 of 2 goals met")
}

// What is known of servers in the same network stands for an estimate or two, in worlds that nothing was tuned on.
func TestNeighbours(t *testing.T) {
	cfg := Default()
	cfg.Seeds, cfg.First = 8, 9100
	rows, err := measureNeighbours(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		t.Logf("%s: %.3f (%.3f–%.3f); %s", r.What, r.Measured.Median, r.Measured.P10, r.Measured.P90, r.Note)
		if most := []float64{1.08, 1.03, 1.02, 1.30, 1.25, 1.20}[i]; r.Measured.Median > most {
			t.Errorf("%s: %.3f, want at most %v", r.What, r.Measured.Median, most)
		}
	}
}

// Every setting is a world that there can be, also of one server or of many homes.
func TestSettingsOfOddWorlds(t *testing.T) {
	cfg := small()
	cfg.Nodes, cfg.Homes = 40, 40
	for _, s := range append(settings(nil), scarce()...) {
		one := cfg
		if s.set(&one); one.Validate() != nil {
			t.Errorf("%s: %v", s.what, one.Validate())
		}
	}
	cfg.Servers = 1
	if ratio, err := secondHalf(t.Context(), newWorld(cfg, 1), 1, true); ratio != 1 || err != nil {
		t.Errorf("second half of one server: %v, %v; want 1", ratio, err)
	}
}
