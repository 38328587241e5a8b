package frontier

import (
	"fmt"
	"net/netip"
	"time"
)

// Config says how much memory and disk the frontier may use, and how it chooses URLs. All sizes are bounds, not goals.
type Config struct {
	// MemoryMiB is the memory of the process, in MiB. The frontier takes a sixteenth for the seen filter, three thirty-seconds for the
	// exact seen sets of hosts, and a sixty-fourth for each of the store's three write buffers, whose compactions need twenty times that.
	// With 32 MiB and 20 million URLs, the filter sends one in 500 new URLs to the exact sets.
	MemoryMiB int `toml:"-"`
	// FrontHosts is how many hosts the workbench holds at once. The others wait on disk. Hosts come in only when fetchers starve. Each
	// costs about 1 KiB and its window.
	FrontHosts int `toml:"-"`
	// WindowURLs is how many URLs of each queue of a host are held in memory. The others wait on disk. Less saves memory, more saves
	// reads.
	WindowURLs int `toml:"-"`
	// HostBudget is how many URLs of a host are taken while others wait on disk for its place. A small budget is fair, a large one keeps
	// connections warm.
	HostBudget int `toml:"-"`
	// MaxHostURLs is how many URLs of one host are accepted in all; it ends endless calendars. 0 means no limit, and then
	// memory grows with the largest host (16 bytes per URL).
	MaxHostURLs int `toml:"max_host_urls" live:"yes"`
	// TrackDepth keeps the smallest depth at which a pending URL was found, not the first. A limit on depths needs it. It costs a look at
	// the exact seen set of the host for each duplicate.
	TrackDepth bool `toml:"-"`
	// MinFreeMiB is the low-water mark of the disk, in MiB. With less free space the node starts no download and takes no
	// URLs from peers until there has been room for ten seconds. With less than a quarter of it the node writes nothing at all
	// and waits. 0 means what the store itself needs: an eighth of node.memory_mib, between 32 and 1024. A mark below that risks
	// the process, since the store writes through mapped files.
	MinFreeMiB int `toml:"min_free_mib"`
	// Leases says that a server is asked only while it is leased to this node (Grant).
	Leases bool `toml:"-"`
	// Shared says that other nodes own hosts, too. A host is crawled when Suspend has allowed it, and changes of hosts are kept for
	// Changes.
	Shared bool `toml:"-"`
	// Recrawl says whether and how often pages are visited again.
	Recrawl Recrawl `toml:"-"`
	// RemoteFetches is how many pages for other nodes may wait here or be under way. With more of them, each waits longer.
	RemoteFetches int `toml:"-"`
	// Compactors is how many goroutines merge the tables of the store, two or more. Each wakes 20 times a second, which takes most of the time
	// of a test that lets hours pass on a fake clock. With 0 the tables are never merged.
	Compactors int `toml:"-"`
}

// Default gives the values that suit one node on a machine of its own.
func Default() Config {
	return Config{
		MemoryMiB:     512,
		FrontHosts:    10_000,
		WindowURLs:    64,
		HostBudget:    1_000,
		MaxHostURLs:   200_000,
		MinFreeMiB:    512,
		RemoteFetches: 1_000,
		Compactors:    2,
		Recrawl:       DefaultRecrawl(),
	}
}

// filterMiB is the memory of the seen filter. Up to half a million URLs need 10 MiB at most.
func (c Config) filterMiB() int { return max(1, c.MemoryMiB/16) }

// setsMiB is the memory of the exact seen sets.
func (c Config) setsMiB() int { return max(1, c.MemoryMiB*3/32) }

// mostMemtableMiB is the largest size of one of the store's write buffers.
const mostMemtableMiB = 128

// memtableMiB is the size of each of the store's write buffers.
func (c Config) memtableMiB() int { return min(max(4, c.MemoryMiB/64), mostMemtableMiB) }

// Validate returns an error for the first impossible value of a key that a file can set.
func (c Config) Validate() error {
	for _, v := range []struct {
		key string
		got int
	}{{"max_host_urls", c.MaxHostURLs}, {"min_free_mib", c.MinFreeMiB}} {
		if v.got < 0 || v.got > 1<<30 {
			return fmt.Errorf("%s: %d is not between 0 and %d", v.key, v.got, 1<<30)
		}
	}
	if c.Recrawl.On() {
		return c.Recrawl.Validate()
	}
	return nil
}

// Politeness says how often a server and a host may be asked, and what happens when they fail.
type Politeness struct {
	// MinGap is the least time between the end of one request to a server and the start of the next. A longer gap spares
	// servers, a shorter one crawls faster.
	MinGap time.Duration `toml:"min_gap" live:"yes"`
	// Factor times the duration of the last download is another lower bound of the gap, so that slow servers are asked less.
	Factor float64 `toml:"factor" live:"yes"`
	// MaxGap limits the gap that factor asks for. It does not limit Crawl-delay or Retry-After.
	MaxGap time.Duration `toml:"max_gap" live:"yes"`
	// MaxRetryAfter bounds what a Retry-After is believed.
	MaxRetryAfter time.Duration `toml:"-"`
	// BackoffMin is the first wait of a host that answers 429 or 503. Each further such answer doubles it, with jitter, up to
	// an hour. A longer Retry-After counts, up to a day.
	BackoffMin time.Duration `toml:"backoff_min" live:"yes"`
	// BackoffMax bounds the doubling.
	BackoffMax time.Duration `toml:"-"`
	// RetryConnect are the successive waits of a host that cannot be reached. After the last the host is given up for a day
	// and its URLs are dropped. More waits lose fewer hosts but hold memory longer.
	RetryConnect []time.Duration `toml:"retry_connect" live:"yes"`
	// RetryName are the successive waits of a host whose name does not resolve, or only to addresses that are not public.
	RetryName []time.Duration `toml:"retry_name" live:"yes"`
	// RetryPage are the successive waits of a page that broke off or answered 5xx. After the last the URL has failed.
	RetryPage []time.Duration `toml:"retry_page" live:"yes"`
	// EndedFor is how long a host that was given up is left alone: links to it are refused.
	EndedFor time.Duration `toml:"-"`
	// Own are address prefixes of your own servers. For them own_gap and own_parallel replace the rules above.
	Own []string `toml:"own"`
	// OwnGap is the gap between requests to your own servers.
	OwnGap time.Duration `toml:"own_gap" live:"yes"`
	// OwnParallel is the number of requests at once to one of your own servers.
	OwnParallel int `toml:"own_parallel"`
}

// DefaultPoliteness is gentle: a page every two seconds at most.
func DefaultPoliteness() Politeness {
	return Politeness{
		MinGap:        2 * time.Second,
		Factor:        2,
		MaxGap:        time.Minute,
		MaxRetryAfter: 24 * time.Hour,
		BackoffMin:    30 * time.Second,
		BackoffMax:    time.Hour,
		RetryConnect:  []time.Duration{30 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour},
		RetryName:     []time.Duration{30 * time.Second, 10 * time.Minute, time.Hour},
		RetryPage:     []time.Duration{20 * time.Second, 2 * time.Minute, 15 * time.Minute},
		EndedFor:      24 * time.Hour,
		Own:           []string{},
		OwnGap:        0,
		OwnParallel:   1,
	}
}

// Validate returns an error for the first impossible value of a key that a file can set.
func (p Politeness) Validate() error {
	for _, v := range []struct {
		key   string
		least time.Duration
		got   []time.Duration
	}{
		{"min_gap", 0, []time.Duration{p.MinGap}}, {"max_gap", 0, []time.Duration{p.MaxGap}}, {"own_gap", 0, []time.Duration{p.OwnGap}},
		{"retry_connect", 1, p.RetryConnect}, {"retry_name", 1, p.RetryName}, {"retry_page", 1, p.RetryPage},
		{"backoff_min", 1, []time.Duration{p.BackoffMin}},
	} {
		if len(v.got) > 100 {
			return fmt.Errorf("%s: more than 100 waits", v.key)
		}
		for _, d := range v.got {
			if d == 0 && v.least > 0 {
				return fmt.Errorf("%s: %v is no wait", v.key, d)
			}
			if d < 0 || d > 1000*time.Hour {
				return fmt.Errorf("%s: %v is not between 0 and 1000h", v.key, d)
			}
		}
	}
	if p.BackoffMax < p.BackoffMin {
		return fmt.Errorf("backoff_min: %v is not between 0 and %v", p.BackoffMin, p.BackoffMax)
	}
	if !(p.Factor >= 0 && p.Factor <= 1000) {
		return fmt.Errorf("factor: %v is not between 0 and 1000", p.Factor)
	}
	if p.OwnParallel < 1 || p.OwnParallel > 10_000 {
		return fmt.Errorf("own_parallel: %d is not between 1 and 10000", p.OwnParallel)
	}
	_, err := p.own()
	return err
}

// own parses Own.
func (p Politeness) own() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range p.Own {
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("own: %q is no address prefix, such as 10.0.0.0/8 or 192.0.2.1/32", s)
		}
		out = append(out, prefix)
	}
	return out, nil
}
