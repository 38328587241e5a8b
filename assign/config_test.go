package assign

import (
	"math"
	"strings"
	"testing"
	"time"
)

// Each number may be the first and the last that is allowed, and none beyond.
func TestConfigBounds(t *testing.T) {
	const little = 1e-6
	for _, c := range []struct {
		name        string
		least, most float64
		step        float64
		set         func(c *Config, v float64)
	}{
		{"margin", 0, 10, little, func(c *Config, v float64) { c.Margin = v }},
		{"margin_ms", 0, 60_000, little, func(c *Config, v float64) { c.MarginMs = v }},
		{"vivaldi.theta", 0.001, 10, little, func(c *Config, v float64) { c.Vivaldi.Theta = v }},
		{"vivaldi.max_ticks", 1, 100_000, 1, func(c *Config, v float64) { c.Vivaldi.MaxTicks = int(v) }},
		{"vivaldi.tick", 0.001, 3600, little, func(c *Config, v float64) { c.Vivaldi.Tick = time.Duration(math.Round(v * 1e9)) }},
		{"vivaldi.window", 1, 1000, 1, func(c *Config, v float64) { c.Vivaldi.Window = int(v) }},
		{"vivaldi.percentile", 0, 1, little, func(c *Config, v float64) { c.Vivaldi.Percentile = v }},
		{"vivaldi.step", 0.001, 1, little, func(c *Config, v float64) { c.Vivaldi.Step = v }},
		{"vivaldi.smoothing", 0.001, 1, little, func(c *Config, v float64) { c.Vivaldi.Smoothing = v }},
		{"nearest.estimates", 0, 1000, 1, func(c *Config, v float64) { c.Nearest.Estimates = int(v) }},
		{"nearest.min_estimates", 0, 1000, 1, func(c *Config, v float64) { c.Nearest.MinEstimates = int(v) }},
		{"nearest.explore", 0, 10, little, func(c *Config, v float64) { c.Nearest.Explore = v }},
		{"nearest.stop_gain", 0, 1, little, func(c *Config, v float64) { c.Nearest.StopGain = v }},
		{"nearest.balance", 0, 10, little, func(c *Config, v float64) { c.Nearest.Balance = v }},
		{"hash.replicas", 1, 10_000, 1, func(c *Config, v float64) { c.Hash.Replicas = int(v) }},
		{"probe.threshold_ms", 0, 60_000, little, func(c *Config, v float64) { c.Probe.ThresholdMs = v }},
		{"himicra.threshold_ms", 0, 60_000, little, func(c *Config, v float64) { c.HiMicra.ThresholdMs = v }},
		{"himicra.branches", 2, 100, 1, func(c *Config, v float64) { c.HiMicra.Branches = int(v) }},
		{"ipmicra.threshold_ms", 0, 60_000, little, func(c *Config, v float64) { c.IPMicra.ThresholdMs = v }},
		{"can.landmarks", 2, 100, 1, func(c *Config, v float64) { c.CAN.Landmarks = int(v) }},
	} {
		for v, ok := range map[float64]bool{c.least: true, c.most: true, c.least - c.step: false, c.most + c.step: false} {
			cfg := Default()
			c.set(&cfg, v)
			if err := cfg.Validate(); (err == nil) != ok || !ok && !strings.Contains(err.Error(), c.name) {
				t.Errorf("%s: %v is allowed, %v: %v", c.name, v, ok, err)
			}
		}
	}
	cfg := Default()
	cfg.Margin, cfg.Vivaldi.Unconverged, cfg.Probe.By, cfg.CAN.Policy, cfg.Nearest.Estimates = math.NaN(), "", "maybe", "", -1
	err := cfg.Validate()
	for _, name := range []string{"margin", "vivaldi.unconverged", "probe.by", "can.policy", "nearest.estimates"} { // all that is wrong is told at once
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}

// Only those that make estimates in rounds say how many they make at most.
func TestMostEstimates(t *testing.T) {
	cfg := Default()
	cfg.Vivaldi.MaxTicks, cfg.Nearest.Estimates, cfg.CAN.Landmarks = 11, 12, 13
	want := map[string]int{Vivaldi: 11, Nearest: 12, CAN: 13}
	for _, name := range Names() {
		if n := cfg.MaxEstimates(name); n != want[name] {
			t.Errorf("%s makes up to %d estimates, want %d", name, n, want[name])
		}
	}
}

// The defaults are the values that measured best, and those of the methods' authors.
func TestDefaults(t *testing.T) {
	want := Config{
		Margin: 0.05, MarginMs: 5,
		Vivaldi: VivaldiConfig{VivaldiKnobs: VivaldiKnobs{0.25, 300, 10 * time.Second}, Window: 16, Percentile: 0.5, Step: 0.25, Smoothing: 0.25,
			Unconverged: UnconvergedDistance},
		Nearest: NearestConfig{NearestKnobs: NearestKnobs{8}, MinEstimates: 3, Explore: 1.4, StopGain: 0.01, Balance: 0.05},
		Hash:    HashConfig{200}, Probe: ProbeConfig{By: ProbeConnect}, HiMicra: HiMicraConfig{50, 2},
		IPMicra: IPMicraConfig{ThresholdMs: 50}, CAN: CANConfig{CANMP, 20},
	}
	if got := Default(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestKnobs: knobs as they come are the default, and each of them turns something.
func TestKnobs(t *testing.T) {
	if got := DefaultKnobs().Config(); got != Default() {
		t.Errorf("untouched knobs make %+v, want %+v", got, Default())
	}
	k := Knobs{Vivaldi: VivaldiKnobs{0.5, 7, 9}, Nearest: NearestKnobs{3}}
	c := k.Config()
	if c.Vivaldi.Theta != 0.5 || c.Vivaldi.MaxTicks != 7 || c.Vivaldi.Tick != 9 || c.Nearest.Estimates != 3 || c.Nearest.MinEstimates != 2 {
		t.Errorf("%+v makes %+v", k, c)
	}
	if (Knobs{Nearest: NearestKnobs{0}}).Config().Nearest.MinEstimates != 0 {
		t.Error("without estimates some are made")
	}
	if k.Vivaldi.Theta = -1; k.Validate() == nil {
		t.Error("an impossible theta is taken")
	}
}
