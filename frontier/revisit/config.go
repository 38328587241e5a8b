package revisit

import (
	"fmt"
	"time"
)

// Config bounds the visits of the pages that are known.
type Config struct {
	// Budget is how many visits a day the known pages get in all. They go where most change is found.
	Budget int `toml:"budget"`
	// Min is the shortest time between two visits of a page, whatever it does.
	Min time.Duration `toml:"min"`
	// Max is the longest: so long is a page left alone that never changes, or changes too often to be worth a visit.
	// Where the budget cannot pay for it, it takes longer.
	Max time.Duration `toml:"max"`
}

// Default suits a node with some hundred thousand pages.
func Default() Config {
	return Config{Budget: 50_000, Min: time.Hour, Max: 90 * 24 * time.Hour}
}

// Validate reports the first value that cannot be.
func (c Config) Validate() error {
	switch {
	case c.Budget < 1 || c.Budget > 1e9:
		return fmt.Errorf("budget: %d is not between 1 and 1000000000", c.Budget)
	case c.Min < time.Second || c.Min > longest:
		return fmt.Errorf("min: %v is not between 1s and %v", c.Min, longest)
	case c.Max < c.Min || c.Max > longest:
		return fmt.Errorf("max: %v is not between min, %v, and %v", c.Max, c.Min, longest)
	}
	return nil
}
