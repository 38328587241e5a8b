package ncoord

import (
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	// MaxWindow is the most samples a link's filter keeps: the largest window of the experiments of 2009.
	MaxWindow = 20
	// MaxEnergyWindow is the most places each of the two windows behind the published coordinate keeps.
	MaxEnergyWindow = 32
)

// Config is how coordinates move. The values of all nodes of an overlay should be the same.
type Config struct {
	// Dims is the number of components used, 3 or 4; 2 is for tests on a plane. 4 chooses the nearest more often,
	// 3 needs fewer samples.
	Dims int `toml:"dims"`

	// MaxRTT is the longest round trip believed. What is above says more about a machine that slept than of a network.
	MaxRTT time.Duration `toml:"max_rtt"`
	// FloorMs is the shortest round trip told apart, in ms; below it clocks and schedulers are measured.
	FloorMs float64 `toml:"floor_ms"`
	// LocationKm is how far off a location may be, in km, before a round trip counts as faster than light. Less refuses
	// more lies and more honest nodes with a wrong entry in a database.
	LocationKm float64 `toml:"location_km"`

	// MaxLinks bounds the peers whose samples are kept (about 300 bytes each), and those whose refusals are counted
	// by name. Beyond it, peers not heard of for long make room.
	MaxLinks int `toml:"max_links"`
	// Window is how many samples of a link are kept, at most MaxWindow: more bears more noise, and takes longer to
	// see a route change.
	Window int `toml:"window"`
	// Percentile of the window that counts as the round trip, in [0, 1]. Low ones see the network, high ones the queues
	// and machines at both ends, which belong to the load.
	Percentile float64 `toml:"percentile"`
	// SampleTTL is how long a sample counts. It bounds how long a rarely measured link remembers an old route.
	SampleTTL time.Duration `toml:"sample_ttl"`
	// Neighbours is how many remembered neighbours pull beside the measured one at each sample of a node that is new
	// (StepSamples): many keep it from settling on the wrong side of one, for about 30 ns each.
	Neighbours int `toml:"neighbours"`
	// RecallEvery is at which every sample of a node that is no longer new one remembered neighbour pulls, so that how
	// often a peer is measured decides less; 0 is never.
	RecallEvery int `toml:"recall_every"`
	// NeighbourTTL is the age at which a remembered neighbour no longer pulls; its pull falls to that in a straight line.
	NeighbourTTL time.Duration `toml:"neighbour_ttl"`

	// Step is the share of a sample's error (cc) and of its surprise (ce) taken over by a node that is new or has jumped.
	Step float64 `toml:"step"`
	// StepMin is what that share falls to. Small is stable, large follows changes.
	StepMin float64 `toml:"step_min"`
	// StepSamples is after how many samples it has fallen half the way.
	StepSamples int `toml:"step_samples"`
	// NearMs weighs samples by √(NearMs/(NearMs+rtt)), in ms: less prefers that near places are told apart over that
	// far ones are exact. 0 weighs all alike, as Vivaldi does.
	NearMs float64 `toml:"near_ms"`
	// ClipMs bounds what a single sample can do, in ms, softly: a miss of m counts as m/(1+|m|/ClipMs). Pairs that no space
	// can hold, wild coordinates and bad samples pull no harder than by ClipMs times the step; what misses by more than
	// three times ClipMs counts less the more it misses. Less predicts better and lets misplaced nodes find their
	// place later.
	ClipMs float64 `toml:"clip_ms"`
	// ErrorFloor is the least error granted to a remote: nobody is believed without limit.
	ErrorFloor float64 `toml:"error_floor"`
	// GravityMs pulls to the origin by (|place|/GravityMs)² ms a sample, so that the overlay does not drift as a whole.
	// Less is stronger and bends predictions; 0 is none.
	GravityMs float64 `toml:"gravity_ms"`

	// HeightStart is the height of a new node, in ms.
	HeightStart float64 `toml:"height_start"`
	// HeightMin is the least height, in ms: none is nearer to all others than its own access.
	HeightMin float64 `toml:"height_min"`
	// HeightMax is the greatest height, in ms.
	HeightMax float64 `toml:"height_max"`
	// ShareMin is the least share of a move that goes into the height, in [0, 1]; between it and share_max it is the
	// heights' share of the distance (the unit vector of Vivaldi's height model). The floor lets low heights grow.
	ShareMin float64 `toml:"share_min"`
	// ShareMax is the greatest such share: it keeps near nodes from explaining all by heights.
	ShareMax float64 `toml:"share_max"`

	// EnergyWindow is how many moves make up a window of the published coordinate, at most MaxEnergyWindow. More is calmer
	// and later. (ENERGY, Ledlie et al., with 32 and 8.)
	EnergyWindow int `toml:"energy_window"`
	// EnergyMs is the energy distance between the old and the recent window, in ms, at which it is published anew.
	EnergyMs float64 `toml:"energy_ms"`
	// LoadMs is the least change of the load that is worth publishing, in ms.
	LoadMs float64 `toml:"load_ms"`
	// LoadShare is the least such change as a share of the load: both must be reached.
	LoadShare float64 `toml:"load_share"`
	// LoadHalf is the time in which load that is gone falls by half in what is published. Rising load shows at once.
	LoadHalf time.Duration `toml:"load_half"`
}

// Default gives the values that did well over PlanetLab, cities and cloud regions alike.
func Default() Config {
	return Config{
		Dims:       4,
		MaxRTT:     20 * time.Second,
		FloorMs:    0.1,
		LocationKm: 50,

		MaxLinks:     512,
		Window:       16,
		Percentile:   0.25,
		SampleTTL:    30 * time.Minute,
		Neighbours:   8,
		RecallEvery:  4,
		NeighbourTTL: 10 * time.Minute,

		Step:        0.25,
		StepMin:     0.1,
		StepSamples: 600,
		NearMs:      20,
		ClipMs:      160,
		ErrorFloor:  0.05,
		GravityMs:   2000,

		HeightStart: 5,
		HeightMin:   0.1,
		HeightMax:   5000,
		ShareMin:    0.05,
		ShareMax:    0.1,

		EnergyWindow: 32,
		EnergyMs:     8,
		LoadMs:       2,
		LoadShare:    0.2,
		LoadHalf:     20 * time.Second,
	}
}

// Validate reports every value that cannot be, nil if there is none.
func (c Config) Validate() error {
	var errs []error
	within := func(key string, got, low, top float64) {
		if !(got >= low && got <= top) {
			errs = append(errs, fmt.Errorf("%s is %v, not within %v to %v", key, got, low, top))
		}
	}
	day := float64(24 * time.Hour)
	within("dims", float64(c.Dims), 2, MaxDims)
	within("max_rtt", float64(c.MaxRTT), 1, MaxComponent*float64(time.Millisecond))
	within("floor_ms", c.FloorMs, 0.001, 100)
	within("location_km", c.LocationKm, 0, 20_100)
	within("max_links", float64(c.MaxLinks), 1, 1<<20)
	within("window", float64(c.Window), 1, MaxWindow)
	within("percentile", c.Percentile, 0, 1)
	within("sample_ttl", float64(c.SampleTTL), 1, day)
	within("neighbours", float64(c.Neighbours), 0, 64)
	within("recall_every", float64(c.RecallEvery), 0, 1<<20)
	within("neighbour_ttl", float64(c.NeighbourTTL), 1, day)
	within("step", c.Step, 0.001, 1)
	within("step_min", c.StepMin, 0.001, math.Min(c.Step, 1))
	within("step_samples", float64(c.StepSamples), 1, 1<<20)
	within("near_ms", c.NearMs, 0, MaxComponent)
	within("clip_ms", c.ClipMs, 1, MaxComponent)
	within("error_floor", c.ErrorFloor, 0.001, MaxError)
	within("gravity_ms", c.GravityMs, 0, 1e9)
	within("height_min", c.HeightMin, 0, MaxComponent)
	within("height_max", c.HeightMax, c.HeightMin, MaxComponent)
	within("height_start", c.HeightStart, c.HeightMin, c.HeightMax)
	within("share_min", c.ShareMin, 0, 1)
	within("share_max", c.ShareMax, c.ShareMin, 1)
	within("energy_window", float64(c.EnergyWindow), 4, MaxEnergyWindow)
	within("energy_ms", c.EnergyMs, 0, MaxComponent)
	within("load_ms", c.LoadMs, 0, MaxComponent)
	within("load_share", c.LoadShare, 0, 1)
	within("load_half", float64(c.LoadHalf), 1, day)
	return errors.Join(errs...)
}
