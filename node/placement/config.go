package placement

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"proxima/assign"
)

// Modes of a home.
const (
	// ModeCrawl makes no batches: hosts stay with their homes.
	ModeCrawl = "crawl"
	// ModeCycle makes batch after batch.
	ModeCycle = "cycle"
	// ModeSingle makes one batch, then none.
	ModeSingle = "single"
	// ModePersistent hands the same batch out again and again, and keeps what was learnt.
	ModePersistent = "persistent"
)

// Config is how a home makes batches.
type Config struct {
	// Mode is "crawl" (no batches), "cycle" (batch after batch), "single" (one batch) or "persistent" (one batch, handed
	// out again every round; only for servers of one's own).
	Mode string `toml:"mode"`
	// Hosts is the largest number of ready hosts in a batch; other hosts of the same servers come along, ready or not.
	// Many are decided in the same time as few; the next batch waits for the last.
	Hosts int `toml:"hosts"`
	// URLs is how many pending URLs make a host ready. Estimates use them up: it should exceed the estimates of a server.
	URLs int `toml:"urls"`
	// LongestWait is how long a host with fewer URLs waits. Shorter assigns small hosts that are nearly done.
	LongestWait time.Duration `toml:"longest_wait"`
	// Check is how often hosts are looked at.
	Check time.Duration `toml:"check"`
	// Scan is how many hosts are looked at in one check. More finds ready hosts sooner where there are many, and reads more.
	Scan int `toml:"scan"`
	// Assigners decide. The first owns the hosts; with more than one every URL is downloaded once by each node that one of
	// them chose: for comparisons.
	Assigners []string `toml:"assigners"`
	// Resolve is how long a host's name may take; then the batch goes on without the host.
	Resolve time.Duration `toml:"resolve"`
	// Lease is how long a server's lease may take; then the batch goes on without the server. More than a lease lasts
	// outwaits one that nobody gave back.
	Lease time.Duration `toml:"lease"`
	// Take is how long an estimate waits for the politeness of its server; then the assigner goes on without it.
	Take time.Duration `toml:"take"`
	// Deadline bounds the deciding; what is undecided then is decided by what is known, or drawn.
	Deadline time.Duration `toml:"deadline"`
	// Rest is how long a host that could not be assigned is left out of batches.
	Rest time.Duration `toml:"rest"`
	// CompareURLs is the largest number of URLs of a host that are downloaded for a comparison.
	CompareURLs int `toml:"compare_urls"`
	// RoundURLs is the largest number of URLs of a host in a round of mode persistent.
	RoundURLs int `toml:"round_urls"`
	// Trickle is the share of its usual speed at which the home crawls other hosts while estimates run, 0 to 1. Less keeps
	// round trips clean, and finds less.
	Trickle float64 `toml:"trickle"`
}

// Default makes no batches; the values are those for mode cycle.
func Default() Config {
	return Config{
		Mode: ModeCrawl, Hosts: 20, URLs: 50, LongestWait: 10 * time.Minute, Check: 10 * time.Second, Scan: 5_000,
		Assigners: []string{assign.Nearest}, Resolve: 15 * time.Second, Lease: 75 * time.Second, Take: 30 * time.Second,
		Deadline: time.Hour, Rest: 5 * time.Minute, CompareURLs: 100, RoundURLs: 20, Trickle: 1,
	}
}

// maxHosts bounds a batch, and with it the goroutines that carry it out.
const maxHosts = 1000

// Validate reports every value that cannot be.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	modes := []string{ModeCrawl, ModeCycle, ModeSingle, ModePersistent}
	check(slices.Contains(modes, c.Mode), "mode: %q is none of %q", c.Mode, modes)
	for _, n := range []struct {
		name             string
		value, min, most int
	}{
		{"hosts", c.Hosts, 1, maxHosts}, {"urls", c.URLs, 1, 1_000_000}, {"scan", c.Scan, 1, 1_000_000},
		{"compare_urls", c.CompareURLs, 1, 100_000}, {"round_urls", c.RoundURLs, 1, 20},
	} {
		check(n.value >= n.min && n.value <= n.most, "%s: %d is not between %d and %d", n.name, n.value, n.min, n.most)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"longest_wait", c.LongestWait}, {"check", c.Check}, {"resolve", c.Resolve}, {"lease", c.Lease}, {"take", c.Take},
		{"deadline", c.Deadline}, {"rest", c.Rest},
	} {
		check(d.value >= 10*time.Millisecond && d.value <= 7*24*time.Hour, "%s: %v is not between 10ms and 168h", d.name, d.value)
	}
	check(len(c.Assigners) >= 1 && len(c.Assigners) <= 8, "assigners: %d are not 1 to 8", len(c.Assigners))
	for i, name := range c.Assigners {
		check(slices.Contains(assign.Names(), name), "assigners: %q is none of %q", name, assign.Names())
		check(!slices.Contains(c.Assigners[:i], name), "assigners: %q stands there twice", name)
	}
	check(c.Trickle >= 0 && c.Trickle <= 1, "trickle: %v is not between 0 and 1", c.Trickle)
	return errors.Join(errs...)
}

// Warnings are what is possible and not wise, with what the assigners are configured to ask for.
func (c Config) Warnings(a assign.Config) []string {
	if c.Mode == ModeCrawl {
		return nil
	}
	var warnings []string
	for _, name := range c.Assigners {
		if n := a.MaxEstimates(name); c.URLs <= n {
			warnings = append(warnings, fmt.Sprintf("batch.urls is %d, and %s asks for up to %d estimates of a server: "+
				"a host may have no URLs left before it is decided", c.URLs, name, n))
		}
	}
	return warnings
}
