package assign

import "time"

// Knobs are what the operator of a node turns of Config. All else has the values of Default: they were measured, and the
// simulator is the place to vary them.
type Knobs struct {
	// Vivaldi is the method of 2009.
	Vivaldi VivaldiKnobs `toml:"vivaldi"`
	// Nearest is the default assigner.
	Nearest NearestKnobs `toml:"nearest"`
}

// VivaldiKnobs are those of the method of 2009.
type VivaldiKnobs struct {
	// Theta is the median relative error below which the batch is decided. A lower value takes more estimates.
	Theta float64 `toml:"theta"`
	// MaxTicks is the number of ticks after which the batch is decided in any case.
	MaxTicks int `toml:"max_ticks"`
	// Tick is the time between two rounds of estimates.
	Tick time.Duration `toml:"tick"`
}

// NearestKnobs are those of nearest.
type NearestKnobs struct {
	// Estimates is the largest number of estimates of one server, 0 to 1000. Fewer estimates decide sooner.
	Estimates int `toml:"estimates"`
}

// DefaultKnobs gives the values of Default.
func DefaultKnobs() Knobs {
	c := Default()
	return Knobs{Vivaldi: VivaldiKnobs{c.Vivaldi.Theta, c.Vivaldi.MaxTicks, c.Vivaldi.Tick},
		Nearest: NearestKnobs{c.Nearest.Estimates}}
}

// Config is Default with the knobs turned.
func (k Knobs) Config() Config {
	c := Default()
	c.Vivaldi.Theta, c.Vivaldi.MaxTicks, c.Vivaldi.Tick = k.Vivaldi.Theta, k.Vivaldi.MaxTicks, k.Vivaldi.Tick
	c.Nearest.Estimates = k.Nearest.Estimates
	c.Nearest.MinEstimates = max(0, min(c.Nearest.MinEstimates, c.Nearest.Estimates-1)) // the last is for those worth it
	return c
}

// Validate reports all that is wrong.
func (k Knobs) Validate() error { return k.Config().Validate() }
