package assign_test

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/assign"
	"proxima/ncoord"
)

func TestNewRefuses(t *testing.T) {
	s := assign.Server{Addr: netip.MustParseAddr("198.18.0.1")}
	if _, err := assign.New("psychic", assign.Default(), assign.Batch{}, assign.View{}, time.Time{}); err == nil {
		t.Error("an unknown name was taken")
	}
	twice := assign.Batch{Servers: []assign.Server{s, s}}
	if _, err := assign.New(assign.Random, assign.Default(), twice, assign.View{}, time.Time{}); err == nil {
		t.Error("a server was taken twice")
	}
	if _, err := assign.New(assign.Random, assign.Config{}, assign.Batch{}, assign.View{}, time.Time{}); err == nil {
		t.Error("an empty configuration was taken")
	}
}

func TestConfigReportsAll(t *testing.T) {
	if err := assign.Default().Validate(); err != nil {
		t.Fatal(err)
	}
	cfg := assign.Default()
	cfg.Margin, cfg.Vivaldi.Theta, cfg.Vivaldi.Unconverged, cfg.Nearest.Estimates = -1, 0, "maybe", -1
	err := cfg.Validate()
	for _, want := range []string{"margin", "theta", "unconverged", "nearest.estimates"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// Each number may be the first and the last that is allowed, and none beyond.
func TestConfigBounds(t *testing.T) {
	const little = 1e-6
	for _, c := range []struct {
		name        string
		least, most float64
		step        float64
		set         func(c *assign.Config, v float64)
	}{
		{"margin", 0, 10, little, func(c *assign.Config, v float64) { c.Margin = v }},
		{"margin_ms", 0, 60_000, little, func(c *assign.Config, v float64) { c.MarginMs = v }},
		{"vivaldi.theta", 0.001, 10, little, func(c *assign.Config, v float64) { c.Vivaldi.Theta = v }},
		{"vivaldi.max_ticks", 1, 100_000, 1, func(c *assign.Config, v float64) { c.Vivaldi.MaxTicks = int(v) }},
		{"vivaldi.tick", 0.001, 3600, little, func(c *assign.Config, v float64) { c.Vivaldi.Tick = time.Duration(math.Round(v * 1e9)) }},
		{"vivaldi.window", 1, 1000, 1, func(c *assign.Config, v float64) { c.Vivaldi.Window = int(v) }},
		{"vivaldi.percentile", 0, 1, little, func(c *assign.Config, v float64) { c.Vivaldi.Percentile = v }},
		{"vivaldi.step", 0.001, 1, little, func(c *assign.Config, v float64) { c.Vivaldi.Step = v }},
		{"vivaldi.smoothing", 0.001, 1, little, func(c *assign.Config, v float64) { c.Vivaldi.Smoothing = v }},
		{"nearest.estimates", 0, 1000, 1, func(c *assign.Config, v float64) { c.Nearest.Estimates = int(v) }},
		{"nearest.min_estimates", 0, 1000, 1, func(c *assign.Config, v float64) { c.Nearest.MinEstimates = int(v) }},
		{"nearest.explore", 0, 10, little, func(c *assign.Config, v float64) { c.Nearest.Explore = v }},
		{"nearest.stop_gain", 0, 1, little, func(c *assign.Config, v float64) { c.Nearest.StopGain = v }},
		{"nearest.balance", 0, 10, little, func(c *assign.Config, v float64) { c.Nearest.Balance = v }},
		{"hash.replicas", 1, 10_000, 1, func(c *assign.Config, v float64) { c.Hash.Replicas = int(v) }},
		{"probe.threshold_ms", 0, 60_000, little, func(c *assign.Config, v float64) { c.Probe.ThresholdMs = v }},
		{"himicra.threshold_ms", 0, 60_000, little, func(c *assign.Config, v float64) { c.HiMicra.ThresholdMs = v }},
		{"himicra.branches", 2, 100, 1, func(c *assign.Config, v float64) { c.HiMicra.Branches = int(v) }},
		{"ipmicra.threshold_ms", 0, 60_000, little, func(c *assign.Config, v float64) { c.IPMicra.ThresholdMs = v }},
		{"can.landmarks", 2, 100, 1, func(c *assign.Config, v float64) { c.CAN.Landmarks = int(v) }},
	} {
		for v, ok := range map[float64]bool{c.least: true, c.most: true, c.least - c.step: false, c.most + c.step: false} {
			cfg := assign.Default()
			c.set(&cfg, v)
			if err := cfg.Validate(); (err == nil) != ok || !ok && !strings.Contains(err.Error(), c.name) {
				t.Errorf("%s: %v is allowed, %v: %v", c.name, v, ok, err)
			}
		}
	}
	for name, set := range map[string]func(c *assign.Config){
		"vivaldi.unconverged": func(c *assign.Config) { c.Vivaldi.Unconverged = "" },
		"probe.by":            func(c *assign.Config) { c.Probe.By = "" },
		"can.policy":          func(c *assign.Config) { c.CAN.Policy = "" },
		"margin":              func(c *assign.Config) { c.Margin = math.NaN() },
	} {
		cfg := assign.Default()
		set(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is allowed: %v", name, err)
		}
	}
}

// Only those that make estimates in rounds say how many they make at most.
func TestMostEstimates(t *testing.T) {
	cfg := assign.Default()
	cfg.Vivaldi.MaxTicks, cfg.Nearest.Estimates, cfg.CAN.Landmarks = 11, 12, 13
	want := map[string]int{assign.Vivaldi: 11, assign.Nearest: 12, assign.CAN: 13}
	for _, name := range assign.Names() {
		if n := cfg.MaxEstimates(name); n != want[name] {
			t.Errorf("%s makes up to %d estimates, want %d", name, n, want[name])
		}
	}
}

func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("node%d", i)
	}
	return list
}

func TestRendezvous(t *testing.T) {
	nodes := names(20)
	count := map[string]int{}
	moved := 0
	for i := range 20_000 {
		key := fmt.Sprintf("198.18.%d.%d", i/256, i%256)
		was := assign.Rendezvous(key, nodes)
		count[was]++
		order := assign.RendezvousOrder(key, nodes, 3)
		if len(order) != 3 || order[0] != was {
			t.Fatalf("the order %v does not begin with %s", order, was)
		}
		joined := assign.Rendezvous(key, append(slices.Clone(nodes), "another"))
		if joined != was {
			moved++
			if joined != "another" {
				t.Fatalf("a join moved %s from %s to %s", key, was, joined)
			}
		}
		// Without the first, the second.
		without := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == was })
		if got := assign.Rendezvous(key, without); got != order[1] {
			t.Fatalf("without %s it is %s, not %s", was, got, order[1])
		}
		slices.Reverse(without)
		if got := assign.Rendezvous(key, without); got != order[1] {
			t.Fatal("the order of nodes matters")
		}
	}
	for n, c := range count {
		if c < 850 || c > 1150 {
			t.Errorf("%s has %d of 20,000 keys, want about 1,000", n, c)
		}
	}
	if moved < 800 || moved > 1110 {
		t.Errorf("a join moved %d of 20,000 keys, want about 952", moved)
	}
	if assign.Rendezvous("x", nil) != "" || len(assign.RendezvousOrder("x", nodes, 99)) != 20 || len(assign.RendezvousOrder("x", nodes, -1)) != 0 {
		t.Error("the edges are wrong")
	}
}

func TestRandomIsNotMovedByAJoin(t *testing.T) {
	w := newWorld(madeUp(40, 1), worldConfig{Nodes: 10, Servers: 200, Seed: 1})
	v := w.View()
	a, _ := assign.New(assign.Random, assign.Default(), w.Batch(), v, time.Time{})
	before, _ := a.Decide(time.Time{})
	v.Nodes = append(v.Nodes, assign.Node{ID: "another"})
	a.SetView(v, time.Time{})
	after, _ := a.Decide(time.Time{})
	moved := 0
	for i := range before {
		if before[i].Node != after[i].Node {
			moved++
			if after[i].Node != "another" {
				t.Errorf("%s moved from %s to %s", before[i].Server, before[i].Node, after[i].Node)
			}
		}
	}
	if moved < 5 || moved > 40 {
		t.Errorf("%d of 200 servers moved to the new node, want about 18", moved)
	}
}

func TestGeographic(t *testing.T) {
	at := func(lat, lon float64) *ncoord.Location { return &ncoord.Location{Lat: lat, Lon: lon} }
	v := assign.View{Nodes: []assign.Node{{ID: "berlin", Location: at(52.5, 13.4)}, {ID: "tokyo", Location: at(35.7, 139.7)},
		{ID: "lost"}, {ID: "wrong", Location: at(1000, 0)}}}
	b := assign.Batch{Servers: []assign.Server{
		{Addr: netip.MustParseAddr("198.18.0.1"), Location: at(48.9, 2.4)},
		{Addr: netip.MustParseAddr("198.18.0.2"), Location: at(37.6, -179.9)},
		{Addr: netip.MustParseAddr("198.18.0.3")},
		{Addr: netip.MustParseAddr("198.18.0.4"), Location: at(0, 400)},
	}}
	a, err := assign.New(assign.Geographic, assign.Default(), b, v, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	p, done := a.Decide(time.Time{})
	if !done || p[0].Node != "berlin" || p[1].Node != "tokyo" {
		t.Errorf("chose %+v", p)
	}
	drawn := func(choices []assign.Choice) {
		t.Helper()
		for _, c := range choices {
			if want := fmt.Sprintf("no location: random draw (%d of 4 servers)", len(choices)); c.Reason != want || c.Node == "" {
				t.Errorf("%q for the reason %q, want %q", c.Node, c.Reason, want)
			}
		}
	}
	drawn(p[2:])
	a.SetView(assign.View{Nodes: v.Nodes[2:]}, time.Time{}) // no node is where it is known
	p, _ = a.Decide(time.Time{})
	drawn(p)
}
