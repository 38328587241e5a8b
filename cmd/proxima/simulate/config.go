package simulate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"proxima/assign"
	"proxima/cmd/proxima/world"
)

// Config is what is simulated.
type Config struct {
	// Matrices are the round trips; each seed takes the next. Empty: synthetic ones among the built-in cities, by seed.
	Matrices []*world.Matrix
	// Nodes and Servers are drawn over the cities by seed.
	Nodes, Servers int
	// Seeds is how many worlds are drawn, numbered from First.
	Seeds int
	First uint64
	// Homes is how many nodes have a share of the servers to decide about; 0 for all.
	Homes int
	// Estimates is the hard budget of downloads a server; negative for each assigner's own.
	Estimates int
	// LocationWrong is the share of servers that the location database puts elsewhere, 0 to 1; LocationMissing the share of
	// servers and nodes that it does not know.
	LocationWrong, LocationMissing float64
	// Prefixed says that servers stand together in prefixes.
	Prefixed bool
	// Delegations are the blocks of which the prefixes are, nil for invented ones.
	Delegations Delegations
	sparse      bool // and few of them
	// Noise scales what is random about a download, a connect time and a ping; 1 is the default world.
	Noise float64
	// Pages is how many pages of each server are downloaded once all is decided.
	Pages int
	// Assigners are the names, in order; see Names.
	Assigners []string
	// Assign is how the real assigners decide.
	Assign assign.Config
}

// The assigners that see the truth. DirectPrefix is followed by the number of downloads.
const (
	Best         = "best"
	TrueRTT      = "true-rtt"
	DirectPrefix = "direct-"
)

// Default is the pinned world with the built-in matrices.
func Default() Config {
	return Config{
		Nodes: 14, Servers: 80, Seeds: 30, First: 1, Estimates: -1, Noise: 1, Pages: 100,
		Assigners: []string{assign.Random, assign.Geographic, assign.Vivaldi, assign.Nearest, Best, TrueRTT, "direct-1", "direct-2", "direct-4"},
		Assign:    assign.Default(),
	}
}

// most bounds what is simulated, so that a slip of the finger does not fill the memory.
const mostNodes, mostServers = 10_000, 1_000_000

// Validate reports all that is wrong.
func (c Config) Validate() error {
	var errs []error
	in := func(name string, v, least, most float64) {
		if math.IsNaN(v) || v < least || v > most {
			errs = append(errs, fmt.Errorf("%s: %v is not between %v and %v", name, v, least, most))
		}
	}
	in("nodes", float64(c.Nodes), 1, mostNodes)
	in("servers", float64(c.Servers), 1, mostServers)
	in("seeds", float64(c.Seeds), 1, 100_000)
	in("homes", float64(c.Homes), 0, float64(c.Nodes))
	in("estimates", float64(c.Estimates), -1, 1000)
	in("location-wrong", c.LocationWrong, 0, 1)
	in("location-missing", c.LocationMissing, 0, 1)
	in("noise", c.Noise, 0, 10)
	in("pages", float64(c.Pages), 1, 10_000)
	if len(c.Assigners) == 0 {
		errs = append(errs, errors.New("assigners: there are none"))
	}
	for i, name := range c.Assigners {
		if slices.Index(c.Assigners, name) < i {
			errs = append(errs, fmt.Errorf("assigners: %q is there twice", name))
		}
		if _, direct := downloads(name); !direct && name != Best && name != TrueRTT && !slices.Contains(assign.Names(), name) {
			errs = append(errs, fmt.Errorf("assigners: %q is none of %q, %q, %q and %q with a number from 1 to 1000", name, assign.Names(),
				Best, TrueRTT, DirectPrefix))
		}
		if probers := []string{assign.Probe, assign.HiMicra, assign.IPMicra, assign.CAN}; c.Estimates >= 0 && slices.Contains(probers, name) {
			errs = append(errs, fmt.Errorf("assigners: %q has no budget of estimates: leave that away", name))
		}
	}
	return errors.Join(errs...)
}

// budgeted is how the assigners decide, with the budget of estimates put into their configuration.
func (c Config) budgeted() assign.Config {
	cfg := c.Assign
	if c.Estimates >= 0 {
		cfg.Nearest.Estimates = c.Estimates
		cfg.Vivaldi.MaxTicks = max(1, c.Estimates)
	}
	return cfg
}
