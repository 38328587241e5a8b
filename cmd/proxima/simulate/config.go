// Package simulate compares assigners without a network. It draws worlds of nodes and servers over a matrix of round trips, models
// their downloads instead of making them, and lets the real assign and ncoord decide. A truth that the assigners do not see judges
// their choices. The package owns the world and the judgement; how an assigner decides belongs to package assign.
package simulate

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"proxima/assign"
	"proxima/cmd/proxima/world"
	"proxima/node/strict"
)

// Config says what is simulated.
type Config struct {
	// Matrices are the round trips: each seed takes the next one. Without any, they are synthetic, over the built-in cities.
	Matrices []*world.Matrix
	Setup
	// Estimates is the hard limit of estimates per server; a negative one leaves it to each assigner.
	Estimates int
	// Delegations are the real address blocks for Prefixed; nil invents them.
	Delegations Delegations
	sparse      bool // few servers share a prefix
	// Assigners are compared in this order: those of package assign, Best, TrueRTT, and DirectPrefix with a number.
	Assigners []string
	// Assign configures the real assigners.
	Assign assign.Config
}

// Setup is the part of a configuration that reports repeat.
type Setup struct {
	// Nodes and Servers are placed in cities by seed.
	Nodes   int `json:"nodes"`
	Servers int `json:"servers"`
	// Homes is how many nodes decide, each about its share of the servers; 0 means all.
	Homes int `json:"homes"`
	// Seeds is the number of worlds, First the seed of the first one.
	Seeds int    `json:"seeds"`
	First uint64 `json:"first_seed"`
	// LocationWrong is the share of servers that the location database misplaces, LocationMissing the share of servers and nodes
	// that it does not know. Both are from 0 to 1.
	LocationWrong   float64 `json:"location_wrong"`
	LocationMissing float64 `json:"location_missing"`
	// Prefixed gives neighbouring addresses to servers that stand together.
	Prefixed bool `json:"prefixed"`
	// Noise scales everything random about a download, a connection and a ping; the default world has 1.
	Noise float64 `json:"noise"`
	// Pages is how many pages of each server are downloaded after all decisions.
	Pages int `json:"pages"`
	// Changed are the parameters of the assigners that Set has changed, as key=value.
	Changed []string `json:"set,omitempty"`
}

// Assigners that see the truth. DirectPrefix is followed by the number of downloads that every node makes from every server.
const (
	Best         = "best"
	TrueRTT      = "true-rtt"
	DirectPrefix = "direct-"
)

// Default returns the standard world, over synthetic round trips.
func Default() Config {
	return Config{
		Setup: Setup{Nodes: 14, Servers: 80, Seeds: 30, First: 1, Noise: 1, Pages: 100}, Estimates: -1,
		Assigners: []string{assign.Random, assign.Geographic, assign.Vivaldi, assign.Nearest, Best, TrueRTT, "direct-1", "direct-2", "direct-4"},
		Assign:    assign.Default(),
	}
}

// Validate reports everything that is wrong. Its upper bounds keep a typing error from filling the memory.
func (c Config) Validate() error {
	var errs []error
	in := func(name string, v, least, most float64) {
		if math.IsNaN(v) || v < least || v > most {
			errs = append(errs, fmt.Errorf("%s: %v is not between %v and %v", name, v, least, most))
		}
	}
	in("nodes", float64(c.Nodes), 1, 10_000)
	in("servers", float64(c.Servers), 1, 1_000_000)
	in("seeds", float64(c.Seeds), 1, 100_000)
	in("homes", float64(c.Homes), 0, float64(c.Nodes))
	in("estimates", float64(c.Estimates), -1, 1000)
	in("location-wrong", c.LocationWrong, 0, 1)
	in("location-missing", c.LocationMissing, 0, 1)
	in("noise", c.Noise, 0, 10)
	in("pages", float64(c.Pages), 1, 10_000)
	if len(c.Assigners) == 0 {
		errs = append(errs, errors.New("assigners: none are given"))
	}
	for i, name := range c.Assigners {
		if slices.Index(c.Assigners, name) < i {
			errs = append(errs, fmt.Errorf("assigners: %q is given twice", name))
		}
		if _, direct := downloads(name); !direct && name != Best && name != TrueRTT && !slices.Contains(assign.Names(), name) {
			errs = append(errs, fmt.Errorf("assigners: %q is none of %s, %s, %s, or %s with a number from 1 to 1000", name, strings.Join(assign.Names(), ", "),
				Best, TrueRTT, DirectPrefix))
		}
		if probers := []string{assign.Probe, assign.HiMicra, assign.IPMicra, assign.CAN}; c.Estimates >= 0 && slices.Contains(probers, name) {
			errs = append(errs, fmt.Errorf("assigners: the estimates of %q cannot be limited", name))
		}
	}
	return errors.Join(errs...)
}

// budgeted returns the configuration of the assigners with the limit of estimates in it.
func (c Config) budgeted() assign.Config {
	cfg := c.Assign
	if c.Estimates >= 0 {
		cfg.Nearest.Estimates = c.Estimates
		cfg.Vivaldi.MaxTicks = max(1, c.Estimates)
	}
	return cfg
}

// Flags adds the numeric flags.
func (c *Config) Flags(flags *flag.FlagSet) {
	flags.IntVar(&c.Nodes, "nodes", c.Nodes, "`number` of nodes")
	flags.IntVar(&c.Servers, "servers", c.Servers, "`number` of servers")
	flags.IntVar(&c.Seeds, "seeds", c.Seeds, "`number` of worlds")
	flags.Uint64Var(&c.First, "first-seed", c.First, "`seed` of the first world; the others follow")
	flags.IntVar(&c.Homes, "homes", c.Homes, "`number` of nodes that decide, each about its share of the servers; 0 for all")
	flags.IntVar(&c.Estimates, "estimates", c.Estimates, "hard limit of estimates per server, a `number` (vivaldi makes at least 1); -1 leaves it to the assigners")
	flags.Float64Var(&c.LocationWrong, "location-wrong", c.LocationWrong, "`share` of servers located in another city, 0 to 1")
	flags.Float64Var(&c.LocationMissing, "location-missing", c.LocationMissing, "`share` of servers and nodes without a location, 0 to 1")
	flags.Float64Var(&c.Noise, "noise", c.Noise, "`factor` of all noise; 1 is the standard world")
	flags.IntVar(&c.Pages, "pages", c.Pages, "`number` of pages per server")
}

// Set changes one parameter: a numeric flag, or a key of the assigners' configuration such as nearest.balance.
func (c *Config) Set(name, value string) error {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	c.Flags(flags)
	if flags.Lookup(name) != nil {
		if flags.Set(name, value) != nil {
			return fmt.Errorf("%s: %s", name, strict.NotNumber(value))
		}
		return nil
	}
	meta, err := toml.Decode(name+" = "+value, &c.Assign)
	if err != nil {
		return fmt.Errorf("%s = %s: %w", name, value, err)
	}
	if len(meta.Undecoded()) > 0 || len(meta.Keys()) == 0 {
		return fmt.Errorf("no parameter %q: it is neither a numeric flag nor a key of the assigners", name)
	}
	c.Changed = append(slices.Clip(c.Changed), name+"="+value)
	return c.Assign.Validate()
}
