package assign_test

import (
	"testing"
	"time"

	"proxima/assign"
	"proxima/assign/assigntest"
)

// homesScores decides one batch in each of some worlds, every node being home of its share of the servers.
func homesScores(t testing.TB, m *assigntest.Matrix, wc assigntest.WorldConfig, cfg assign.Config, first, seeds uint64) (s []assigntest.Score) {
	t.Helper()
	for seed := range seeds {
		wc.Seed = first + seed
		w := assigntest.NewWorld(m, wc)
		h, err := assigntest.NewHomes(w, assign.Nearest, cfg, wc.Nodes, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		choices, _ := h.Decide(time.Unix(0, 0), 10*time.Second)
		s = append(s, w.Judge(choices))
	}
	return s
}

// Homes that know nothing but their own estimates and what nodes publish decide nearly as well as one that sees all.
func TestSplitHomes(t *testing.T) {
	made := assigntest.MadeUp(120, 3)
	world := assigntest.WorldConfig{Nodes: 14, Servers: 80}
	none, wrong := world, world
	none.NoLocations, wrong.WrongLocations = true, 0.3
	for _, c := range []struct {
		what   string
		world  assigntest.WorldConfig
		budget int
		most   float64
	}{
		{"6 estimates", world, 6, 1.05}, {"16 estimates", world, 16, 1.03}, {"30 % of the locations wrong", wrong, 6, 1.08},
		{"no locations", none, 6, 1.10},
	} {
		got := of(homesScores(t, made, c.world, budget(c.budget), 50, 5), ratio)
		t.Logf("%s: choice ratio %.3f", c.what, got)
		if got > c.most {
			t.Errorf("%s: choice ratio %.3f, want at most %.2f", c.what, got, c.most)
		}
	}
}

// What is shared among equals costs next to no choice.
func TestBalanceCostsNoChoice(t *testing.T) {
	m := assigntest.MadeUp(120, 3)
	world := assigntest.WorldConfig{Nodes: 14, Servers: 80}
	span := func(balance float64) (makespan, choice float64) {
		cfg := budget(6)
		cfg.Nearest.Balance = balance
		s := homesScores(t, m, world, cfg, 70, 20)
		return of(s, func(s assigntest.Score) float64 { return s.Makespan }), of(s, ratio)
	}
	greedy, least := span(0)
	fair, cost := span(assign.Default().Nearest.Balance)
	t.Logf("makespan %.2f at choice ratio %.3f without balance, %.2f at %.3f with it", greedy, least, fair, cost)
	if fair > 1.02*greedy || cost > least+0.004 {
		t.Errorf("makespan %.2f at choice ratio %.3f without balance, %.2f at %.3f with it", greedy, least, fair, cost)
	}
}

func TestAblation(t *testing.T) {
	for _, name := range append(assign.Ablations(), "connect,kernel", "") {
		a, err := assign.ParseAblation(name)
		if err != nil || a.String() != name {
			t.Errorf("%q became %q, %v", name, a, err)
		}
	}
	if _, err := assign.ParseAblation("kernel,luck"); err == nil {
		t.Error("an unknown ingredient was left out")
	}
	// Each changes something, and what is decided is decided.
	m := assigntest.MadeUp(120, 3)
	world := assigntest.WorldConfig{Nodes: 14, Servers: 40}
	cfg := budget(6)
	run := func(without string) []assigntest.Score {
		var err error
		if cfg.Nearest.Without, err = assign.ParseAblation(without); err != nil {
			t.Fatal(err)
		}
		return homesScores(t, m, world, cfg, 90, 2)
	}
	all, unpublished := run(""), run("factors")
	for _, name := range assign.Ablations() {
		if name == "neighbours" { // none share a network here
			continue
		}
		with, without := all, name
		if name == "batch" { // it is for nodes that publish nothing
			with, without = unpublished, "factors,batch"
		}
		same := true
		for k, s := range run(without) {
			same = same && s == with[k]
		}
		if same {
			t.Errorf("without %s all is as it is with it", name)
		}
	}
	if with, without := of(all, ratio), of(run("connect"), ratio); without < with {
		t.Errorf("choice ratio %.3f, without connect times %.3f", with, without)
	}
}
