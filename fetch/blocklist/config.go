package blocklist

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says where the lists are and what they may cost.
type Config struct {
	// Sources are files or http(s) URLs of lists. A file must be there at the start; a list that cannot be read later stays as it
	// was. Each further list costs some 30 ns per label of a name that is looked up.
	Sources []string `toml:"sources" live:"yes"`
	// Poll is the time between two looks at the sources. Shorter blocks new entries sooner and asks servers more often.
	Poll time.Duration `toml:"-"`
	// Timeout bounds one read of all sources.
	Timeout time.Duration `toml:"-"`
	// MaxBytes is the size of the largest source in bytes, decompressed. A larger one fails as a whole, since half a list would
	// allow what the other half blocks.
	MaxBytes int64 `toml:"-"`
	// MaxEntries is the number of entries of all sources together. A source that does not fit fails as a whole. It bounds memory:
	// 8 bytes a host or prefix, and some 20 more while its source is read; each source may have as many until all are read.
	MaxEntries int `toml:"-"`
	// MaxPatterns is the number of patterns and regular expressions among the entries. It bounds time: each is tried on every
	// URL. On 2,000 bytes a pattern takes up to 3 µs, a regular expression 1 to 100 µs and a hostile one some ms, so take them
	// only from sources that you trust.
	MaxPatterns int `toml:"-"`
}

// Default has no sources.
func Default() Config {
	return Config{
		Poll:        10 * time.Minute,
		Timeout:     time.Minute,
		MaxBytes:    32 << 20,
		MaxEntries:  2_000_000,
		MaxPatterns: 1000,
	}
}

// Validate reports the first source that cannot be used.
func (c Config) Validate() error {
	for i, s := range c.Sources {
		if s == "" {
			return fmt.Errorf("sources[%d]: empty", i)
		}
		if !strings.Contains(s, "://") {
			continue
		}
		u, err := url.Parse(s)
		if err == nil && !isWeb(s) {
			err = errors.New("neither a path nor http nor https")
		}
		if err == nil && u.Host == "" {
			err = errors.New("no host")
		}
		if err != nil {
			return fmt.Errorf("sources[%d]: %w", i, err)
		}
	}
	return nil
}

// isWeb reports whether a source is a URL to be fetched.
func isWeb(source string) bool {
	scheme, _, ok := strings.Cut(source, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// Deps is what a List needs from outside.
type Deps struct {
	// HTTP fetches sources. Without it those on the web cannot be read.
	HTTP *http.Client
	// Changed, unless nil, is called by Run, from its goroutine, after each poll that changed something or failed.
	Changed func(Report)
}
