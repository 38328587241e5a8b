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
	// Seeds are files with a URL a line, read at start; URLs that are known already are skipped.
	Seeds []string `toml:"seeds"`
	// Fetchers is the number of downloads at once. Politeness bounds the speed of each server, fetchers that of all:
	// more use the network better, and distort each other's timings.
	Fetchers int `toml:"fetchers" live:"yes"`
	// Resolvers is the number of names resolved at once.
	Resolvers int `toml:"-"`
	// End is when the crawl ends: "idle" when nothing is left to do within patience, "never" only when stopped.
	End string `toml:"end"`
	// Patience is how long a crawl that ends when idle waits for retries that are due later. Longer gives failing hosts
	// more chances; what is left is reported as unfinished.
	Patience time.Duration `toml:"patience" live:"yes"`
	// MaxPages ends the crawl after exactly this many pages were asked for; 0 is no limit. Limits count what this start of a node alone
	// asks for, of which its data directory may have more; in an overlay the first three count for all nodes and all their starts.
	MaxPages int64 `toml:"max_pages"`
	// Sitemaps follows the sitemaps that robots.txt names. They find pages that nothing links to, and cost a few requests.
	Sitemaps bool `toml:"sitemaps"`
	// NearDuplicates is how many of the newest pages are remembered by what they say, for 48 bytes each: the links of a page of
	// 50 words or more that says nearly the same as one of them are counted, not followed. 0 follows all links.
	NearDuplicates int `toml:"near_duplicates"`
	// RobotsTTL is how long a robots.txt is believed; RFC 9309 allows a day.
	RobotsTTL time.Duration `toml:"-"`
	// RobotsCacheMiB bounds the parsed robots.txt kept in memory, in MiB of their text. Others are read from disk.
	RobotsCacheMiB int `toml:"-"`
	// MaxBytes ends the crawl after this many bytes of bodies were received; 0 is no limit. What is under way then is finished.
	MaxBytes int64 `toml:"max_bytes"`
	// MaxTime ends the crawl after this time; 0 is no limit. What is under way then has 10 seconds to end.
	MaxTime time.Duration `toml:"max_time"`
	// MaxHostPages is how many pages are asked for at each host; the others are dropped, with that reason. 0 is no limit.
	MaxHostPages int64 `toml:"max_host_pages"`
	// MaxDomainPages is how many pages are asked for at the hosts of each registrable domain together; 0 is no limit.
	MaxDomainPages int64 `toml:"max_domain_pages"`
}

// Default crawls alone until nothing is left to do.
func Default() Config {
	return Config{
		Seeds:          []string{},
		Fetchers:       64,
		Resolvers:      16,
		End:            EndIdle,
		Patience:       time.Minute,
		Sitemaps:       true,
		RobotsTTL:      24 * time.Hour,
		RobotsCacheMiB: 16,
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
	case c.RobotsTTL < time.Minute || c.RobotsTTL > 24*time.Hour:
		return fmt.Errorf("robots_ttl: %v is not between 1m and 24h", c.RobotsTTL)
	case c.RobotsCacheMiB < 1 || c.RobotsCacheMiB > 1<<16:
		return fmt.Errorf("robots_cache_mib: %d is not between 1 and 65536", c.RobotsCacheMiB)
	}
	return nil
}
