// Package warc makes WARC 1.1 records (ISO 28500:2017) of HTTP exchanges, each a gzip member of its own, and the lines of their
// CDXJ index. It remembers payloads, so that one seen before becomes a revisit record. It does not download, decide what to keep,
// or write files. Its callers begin each file with the record of Encoder.Info.
package warc

import (
	"fmt"
	"strings"
)

// Values of Config.Digest. Records write SHA-1 in base32 and SHA-256 in lowercase hex, as is usual in archives.
const (
	SHA1   = "sha1"
	SHA256 = "sha256"
)

// Config of an Encoder.
type Config struct {
	// Software, Operator and Robots describe the crawl in each file's warcinfo record: program and version, a contact,
	// and the robots policy. Empty fields are left out.
	Software string `toml:"software"`
	Operator string `toml:"operator"`
	Robots   string `toml:"robots"`
	// Level of gzip, 1 (fast) to 9 (small).
	Level int `toml:"level"`
	// Digest is "sha1", which every tool reads, or "sha256", which nobody can forge.
	Digest string `toml:"digest"`
	// RevisitEntries is how many payloads are remembered; an identical one is then archived without its body. An entry
	// takes about 350 bytes of memory, at most 1.4 kB. 0 remembers nothing.
	RevisitEntries int `toml:"revisit_entries"`
}

// Default returns the configuration that suits most archives.
func Default() Config {
	return Config{
		Software:       "proxima",
		Robots:         "RFC 9309",
		Level:          6,
		Digest:         SHA1,
		RevisitEntries: 100_000,
	}
}

// Validate reports the first field that is wrong.
func (c Config) Validate() error {
	for _, f := range []struct{ name, value string }{
		{"software", c.Software}, {"operator", c.Operator}, {"robots", c.Robots},
	} {
		if strings.ContainsFunc(f.value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("warc config: %s: %q has control characters", f.name, f.value)
		}
	}
	if c.Level < 1 || c.Level > 9 {
		return fmt.Errorf("warc config: level: %d is not within 1 and 9", c.Level)
	}
	if c.Digest != SHA1 && c.Digest != SHA256 {
		return fmt.Errorf("warc config: digest: %q is neither %q nor %q", c.Digest, SHA1, SHA256)
	}
	if c.RevisitEntries < 0 {
		return fmt.Errorf("warc config: revisit_entries: %d is negative", c.RevisitEntries)
	}
	return nil
}
