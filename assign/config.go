package assign

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// The values of VivaldiConfig.Unconverged: what decides.
const (
	UnconvergedDistance   = "distance"   // the coordinates as they are
	UnconvergedGeographic = "geographic" // the great circle
	UnconvergedRandom     = "random"     // a rendezvous draw
)

// Config is how assigners decide.
type Config struct {
	// Margin is the share of its own predicted time by which an owner must be slower than another node before a server moves. With a
	// low margin servers follow changes; with a high one they move rarely.
	Margin float64 `toml:"margin"`
	// MarginMs is the number of ms by which the owner must be slower, in addition to Margin.
	MarginMs float64 `toml:"margin_ms"`
	// The others are the parameters of the assigners that have some.
	Vivaldi VivaldiConfig `toml:"vivaldi"`
	Nearest NearestConfig `toml:"nearest"`
	Hash    HashConfig    `toml:"hash"`
	Probe   ProbeConfig   `toml:"probe"`
	HiMicra HiMicraConfig `toml:"himicra"`
	IPMicra IPMicraConfig `toml:"ipmicra"`
	CAN     CANConfig     `toml:"can"`
}

// HashConfig has the parameters of hash.
type HashConfig struct {
	// Replicas is the number of points that each node has on the circle. More replicas distribute servers more evenly.
	Replicas int `toml:"replicas"`
}

// ProbeConfig has the parameters of probe.
type ProbeConfig struct {
	// ThresholdMs ends the probes of a server when one takes no longer than this, in ms. With 0 all nodes probe.
	ThresholdMs float64 `toml:"threshold_ms"`
	// By says what to compare: "connect", the connect time, like a ping, or "total", the time of the whole download.
	By string `toml:"by"`
}

// HiMicraConfig has the parameters of himicra.
type HiMicraConfig struct {
	// ThresholdMs is the probe that is good enough, in ms. Higher needs fewer probes and finds the best node less often.
	ThresholdMs float64 `toml:"threshold_ms"`
	// Branches is the number of children of a node of the tree.
	Branches int `toml:"branches"`
}

// IPMicraConfig has the parameters of ipmicra.
type IPMicraConfig struct {
	// ThresholdMs is the probe that is good enough, in ms. Higher needs fewer probes and finds the best node less often.
	ThresholdMs float64 `toml:"threshold_ms"`
	// Check gives a further subnet of an organisation to its node only after a probe.
	Check bool `toml:"check"`
}

// CANConfig has the parameters of can.
type CANConfig struct {
	// Policy says which zone is split for a newcomer: "mp", "dl", "mpp", "nh", "gh", "mp_30_nh" or "dl_30_nh".
	Policy string `toml:"policy"`
	// Landmarks is the number of nodes that probe each server to find its place.
	Landmarks int `toml:"landmarks"`
}

// VivaldiConfig has the parameters of the method of 2009, under their names there.
type VivaldiConfig struct {
	VivaldiKnobs
	// Window is the number of download times in an estimator's window for a server. 1 means no window.
	Window int `toml:"window"`
	// Percentile selects the download time of the window that is used, 0 to 1.
	Percentile float64 `toml:"percentile"`
	// Step is the share of the error by which an update moves a server, 0 to 1.
	Step float64 `toml:"step"`
	// Smoothing is the weight of a new error in the moving average, times the weight of the update; 0 to 1.
	Smoothing float64 `toml:"smoothing"`
	// Unconverged says how servers above theta are decided after the last tick: "distance", "geographic" or "random".
	Unconverged string `toml:"unconverged"`
	// Keep starts at the server's place from earlier batches and the owners' downloads. This was future work in 2009.
	Keep bool `toml:"keep"`
}

// NearestConfig has the parameters of nearest.
type NearestConfig struct {
	NearestKnobs
	// MinEstimates is the number of estimates that are made even if they gain little.
	MinEstimates int `toml:"min_estimates"`
	// Explore is the number of standard deviations by which predictions are lowered to choose the next estimator. A higher value
	// prefers nodes about which little is known.
	Explore float64 `toml:"explore"`
	// StopGain ends the estimates of a server when one more is expected to shorten its downloads by less than this share. 0.01 saves a
	// tenth of 8 estimates, 0.02 a quarter, and 0 none.
	StopGain float64 `toml:"stop_gain"`
	// Balance is the share by which a page may take longer if that relieves the busiest node, 0 to 10. The work of a node is its share of
	// the batch and the queue that it publishes. A higher value distributes servers more evenly, with longer times. 0 ignores work.
	Balance float64 `toml:"balance"`
	// Without leaves out ingredients, for simulations only.
	Without Ablation `toml:"-"`
}

// Default returns the values that measured best.
func Default() Config {
	return Config{
		Margin:   0.05,
		MarginMs: 5,
		Vivaldi: VivaldiConfig{
			VivaldiKnobs: VivaldiKnobs{Theta: 0.25, MaxTicks: 300, Tick: 10 * time.Second},
			Window:       16, Percentile: 0.5, Step: 0.25, Smoothing: 0.25, Unconverged: UnconvergedDistance,
		},
		Nearest: NearestConfig{NearestKnobs: NearestKnobs{Estimates: 8}, MinEstimates: 3, Explore: 1.4, StopGain: 0.01, Balance: 0.05},
		Hash:    HashConfig{Replicas: 200},
		Probe:   ProbeConfig{By: ProbeConnect},
		HiMicra: HiMicraConfig{ThresholdMs: 50, Branches: 2},
		IPMicra: IPMicraConfig{ThresholdMs: 50},
		CAN:     CANConfig{Policy: CANMP, Landmarks: 20},
	}
}

// MaxEstimates returns the largest number of estimates of one server that an assigner asks for. It is 0 if the assigner asks for
// none, or for at most one of each node.
func (c Config) MaxEstimates(name string) int {
	switch name {
	case Vivaldi:
		return c.Vivaldi.MaxTicks
	case Nearest:
		return c.Nearest.Estimates
	case CAN:
		return c.CAN.Landmarks
	}
	return 0
}

// Validate reports all fields that are wrong.
func (c Config) Validate() error {
	var errs []error
	in := func(name string, v, least, most float64) {
		if math.IsNaN(v) || v < least || v > most {
			errs = append(errs, fmt.Errorf("%s: %v is not between %v and %v", name, v, least, most))
		}
	}
	oneOf := func(name, v string, values ...string) {
		if !slices.Contains(values, v) {
			errs = append(errs, fmt.Errorf("%s: %q is none of %q", name, v, values))
		}
	}
	in("margin", c.Margin, 0, 10)
	in("margin_ms", c.MarginMs, 0, 60_000)
	v := c.Vivaldi
	in("vivaldi.theta", v.Theta, 0.001, 10)
	in("vivaldi.max_ticks", float64(v.MaxTicks), 1, 100_000)
	in("vivaldi.tick", v.Tick.Seconds(), 0.001, 3600)
	in("vivaldi.window", float64(v.Window), 1, 1000)
	in("vivaldi.percentile", v.Percentile, 0, 1)
	in("vivaldi.step", v.Step, 0.001, 1)
	in("vivaldi.smoothing", v.Smoothing, 0.001, 1)
	oneOf("vivaldi.unconverged", v.Unconverged, UnconvergedDistance, UnconvergedGeographic, UnconvergedRandom)
	n := c.Nearest
	in("nearest.estimates", float64(n.Estimates), 0, 1000)
	in("nearest.min_estimates", float64(n.MinEstimates), 0, 1000)
	in("nearest.explore", n.Explore, 0, 10)
	in("nearest.stop_gain", n.StopGain, 0, 1)
	in("nearest.balance", n.Balance, 0, 10)
	in("hash.replicas", float64(c.Hash.Replicas), 1, 10_000)
	in("probe.threshold_ms", c.Probe.ThresholdMs, 0, 60_000)
	oneOf("probe.by", c.Probe.By, ProbeConnect, ProbeTotal)
	in("himicra.threshold_ms", c.HiMicra.ThresholdMs, 0, 60_000)
	in("himicra.branches", float64(c.HiMicra.Branches), 2, 100)
	in("ipmicra.threshold_ms", c.IPMicra.ThresholdMs, 0, 60_000)
	oneOf("can.policy", c.CAN.Policy, canPolicies()...)
	in("can.landmarks", float64(c.CAN.Landmarks), 2, 100)
	return errors.Join(errs...)
}

// Knobs is the part of Config that a node's configuration can set. The rest has the measured values of Default. The simulator can vary
// all of them.
type Knobs struct {
	// Vivaldi is the method of 2009.
	Vivaldi VivaldiKnobs `toml:"vivaldi"`
	// Nearest is the default assigner.
	Nearest NearestKnobs `toml:"nearest"`
}

// VivaldiKnobs are the knobs of vivaldi.
type VivaldiKnobs struct {
	// Theta is the median relative error below which the batch is decided. A lower value takes more estimates.
	Theta float64 `toml:"theta"`
	// MaxTicks is the number of ticks after which the batch is decided in any case.
	MaxTicks int `toml:"max_ticks"`
	// Tick is the time between two rounds of estimates.
	Tick time.Duration `toml:"tick"`
}

// NearestKnobs are the knobs of nearest.
type NearestKnobs struct {
	// Estimates is the largest number of estimates of one server, 0 to 1000. Fewer estimates decide sooner.
	Estimates int `toml:"estimates"`
}

// DefaultKnobs returns the values of Default.
func DefaultKnobs() Knobs {
	c := Default()
	return Knobs{Vivaldi: c.Vivaldi.VivaldiKnobs, Nearest: c.Nearest.NearestKnobs}
}

// Config returns Default with the knobs set.
func (k Knobs) Config() Config {
	c := Default()
	c.Vivaldi.VivaldiKnobs, c.Nearest.NearestKnobs = k.Vivaldi, k.Nearest
	c.Nearest.MinEstimates = max(0, min(c.Nearest.MinEstimates, c.Nearest.Estimates-1)) // the last one only if it is worth it
	return c
}

// Validate reports all fields that are wrong.
func (k Knobs) Validate() error { return k.Config().Validate() }

// Ablation is a set of ingredients that nearest leaves out. It serves to measure the worth of each ingredient in simulations. The
// zero value leaves out none. No configuration file can set it.
type Ablation uint32

// The ingredients, in the order of Ablations.
const (
	withoutConnect     Ablation = 1 << iota // connect times tell round trips; without them only times to the first byte do
	withoutKernel                           // nodes close to each other share detours
	withoutStated                           // the location that a database states
	withoutBeside                           // the server may stand beside one of the nodes
	withoutHeights                          // heights of coordinates may be distance, which every round trip pays
	withoutAnywhere                         // a server that fits nowhere is expected as far from a node as other nodes are
	withoutFactors                          // what nodes publish about their load and bandwidth
	withoutBatch                            // the batch tells load and bandwidth of nodes that publish nothing
	withoutPairs                            // what a node showed at a server beyond the model
	withoutExpectation                      // nodes are ranked by expected time; without it, by the median
	withoutExplore                          // the next estimator has the lowest prediction less deviations; without it, the lowest prediction
	withoutStop                             // estimates end when one more is worth too little; without it, all are used
	withoutBalance                          // nodes share a batch; without it, each server goes to the least predicted time
	withoutNeighbours                       // servers of one network mostly stand in one place
)

// Ablations lists the names of the ingredients that can be left out. The i-th is left out by 1 << i.
func Ablations() []string {
	return []string{"connect", "kernel", "stated", "beside", "heights", "anywhere", "factors", "batch", "pairs", "expectation", "explore",
		"stop", "balance", "neighbours"}
}

func (a Ablation) has(ingredient Ablation) bool { return a&ingredient != 0 }
