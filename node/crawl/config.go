package crawl

import (
	"fmt"
	"time"
)

// When a crawl ends.
const (
	// EndIdle ends a crawl when nothing is left to do within the patience.
	EndIdle = "idle"
	// EndNever goes on until the node is stopped.
	EndNever = "never"
)

// Config is how a node crawls.
type Config struct {
	// Seeds are files with one URL per line, read at the start. URLs that are known already are skipped.
	Seeds []string `toml:"seeds"`
	// Fetchers is the number of downloads at once. Each server is paced by politeness, so more fetchers help only when many
	// servers are ready. They use the network better but distort each other's timings.
	Fetchers int `toml:"fetchers" live:"yes"`
	// Resolvers is the number of names resolved at once.
	Resolvers int `toml:"-"`
	// End says when the crawl ends: "idle" when nothing is left to do within crawl.patience, "never" only when it is
	// stopped. In an overlay one node with "never" is enough.
	End string `toml:"end"`
	// Patience is how long an idle crawl waits for retries that are due later, ten times as long at hosts that have answered. Of those,
	// hosts that cannot be reached any more are tried once more at the end of that time, whenever their next try is due.
	// A longer time gives failing hosts more chances. What is left then is reported as unfinished.
	Patience time.Duration `toml:"patience" live:"yes"`
	// MaxPages ends the crawl after exactly this many page requests; 0 means no limit. A node alone counts from its last
	// start. In an overlay max_pages, max_bytes and max_time hold for all nodes and all their starts together.
	MaxPages int64 `toml:"max_pages"`
	// Sitemaps follows the sitemaps that robots.txt names. They lead to pages without links, for a few requests.
	Sitemaps bool `toml:"sitemaps"`
	// NearDuplicates is how many recent pages are remembered by their text, at 48 bytes each. The links of a page of 50
	// words or more that says nearly the same as one of them are counted but not followed. 0 follows all links.
	NearDuplicates int `toml:"near_duplicates"`
	// MaxBytes ends the crawl after this many bytes of bodies; 0 means no limit. Downloads under way have 10 seconds to
	// finish.
	MaxBytes int64 `toml:"max_bytes"`
	// MaxTime ends the crawl after this time; 0 means no limit. Downloads under way have 10 seconds to finish.
	MaxTime time.Duration `toml:"max_time"`
	// MaxHostPages is the number of pages requested from each host in all starts; further pages are dropped, with that
	// reason. Revisits do not count. What an owner asked for just before it died or was cut off from its peers may come on
	// top. 0 means no limit.
	MaxHostPages int64 `toml:"max_host_pages"`
	// MaxDomainPages is the number of pages requested from all hosts of a registrable domain together. Each node counts from
	// its last start, without revisits, for the million domains that it met last; 0 means no limit.
	MaxDomainPages int64 `toml:"max_domain_pages"`
}

// Default crawls alone until nothing is left to do.
func Default() Config {
	return Config{
		Seeds:     []string{},
		Fetchers:  64,
		Resolvers: 16,
		End:       EndIdle,
		Patience:  time.Minute,
		Sitemaps:  true,
	}
}

// Validate reports the first value that cannot be.
func (c Config) Validate() error {
	switch {
	case c.Fetchers < 1 || c.Fetchers > 10_000:
		return fmt.Errorf("fetchers: %d is not between 1 and 10000", c.Fetchers)
	case c.Resolvers < 1 || c.Resolvers > 10_000:
		return fmt.Errorf("resolvers: %d is not between 1 and 10000", c.Resolvers)
	case c.End != EndIdle && c.End != EndNever:
		return fmt.Errorf("end: %q is neither %q nor %q", c.End, EndIdle, EndNever)
	case c.Patience < 0:
		return fmt.Errorf("patience: %v is negative", c.Patience)
	case c.MaxPages < 0:
		return fmt.Errorf("max_pages: %d is negative", c.MaxPages)
	case c.MaxBytes < 0:
		return fmt.Errorf("max_bytes: %d is negative", c.MaxBytes)
	case c.MaxTime < 0:
		return fmt.Errorf("max_time: %v is negative", c.MaxTime)
	case c.MaxHostPages < 0:
		return fmt.Errorf("max_host_pages: %d is negative", c.MaxHostPages)
	case c.MaxDomainPages < 0:
		return fmt.Errorf("max_domain_pages: %d is negative", c.MaxDomainPages)
	case c.NearDuplicates < 0 || c.NearDuplicates > 1e7:
		return fmt.Errorf("near_duplicates: %d is not between 0 and 10000000", c.NearDuplicates)
	}
	return nil
}
