// Package warc archives HTTP exchanges as WARC 1.1 files (ISO 28500:2017), one gzip member a record.
//
// It owns the form of the records, the digests, the memory that turns a payload seen before into a revisit record,
// and the files: their names, their rotation and their repair after a crash. It does not download, does not decide
// what is worth keeping, and never reads an archive but to repair its end. Names of files:
//
//	PREFIX-YYYYMMDDhhmmssmmm-SERIAL-RANDOM.warc.gz.open   being written
//	PREFIX-YYYYMMDDhhmmssmmm-SERIAL-RANDOM.warc.gz        complete, never touched again
//
// A directory and prefix belong to one Writer at a time: the caller holds a lock on its data directory.
package warc

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// Digests of Config.Digest, in the writing that the field expects: base32 for SHA-1, lowercase hex for SHA-256.
const (
	SHA1   = "sha1"
	SHA256 = "sha256"
)

// Config of a Writer.
type Config struct {
	// Dir of the files; made if missing.
	Dir string `toml:"dir"`
	// MaxFileBytes (bytes, compressed) is where the next file begins. Only a file with a single exchange may be larger.
	// The standard recommends 1 GiB; after a crash, as much has to be read to repair the last file.
	MaxFileBytes int64 `toml:"max_file_bytes"`
	// Prefix of the names of files: letters, digits, `.`, `_` and `-`.
	Prefix string `toml:"prefix"`
	// Software, Operator and Robots describe the crawl in each file's warcinfo record: program and version, a contact,
	// and the robots policy. Empty fields are left out.
	Software string `toml:"software"`
	Operator string `toml:"operator"`
	Robots   string `toml:"robots"`
	// Level of gzip, 1 (fast) to 9 (small).
	Level int `toml:"level"`
	// Digest is "sha1", which every tool reads, or "sha256", which no one can forge.
	Digest string `toml:"digest"`
	// RevisitEntries is how many payloads are remembered; an identical one is then archived without its body. An entry
	// takes about 350 bytes of memory, at most 1.4 kB. 0 remembers nothing.
	RevisitEntries int `toml:"revisit_entries"`
}

// Default gives every value but Dir.
func Default() Config {
	return Config{
		MaxFileBytes:   1 << 30,
		Prefix:         "proxima",
		Software:       "proxima",
		Robots:         "RFC 9309",
		Level:          6,
		Digest:         SHA1,
		RevisitEntries: 100_000,
	}
}

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)

// Validate names the first field that is wrong.
func (c Config) Validate() error {
	if c.Dir == "" {
		return fmt.Errorf("warc config: dir: missing")
	}
	if c.MaxFileBytes <= 0 {
		return fmt.Errorf("warc config: max_file_bytes: %d is not positive", c.MaxFileBytes)
	}
	if !prefixForm.MatchString(c.Prefix) {
		return fmt.Errorf("warc config: prefix: %q is not 1 to 100 letters, digits, dots, underscores and hyphens", c.Prefix)
	}
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

// Deps are what a Writer takes from the world.
type Deps struct {
	// Now is the clock for names and warcinfo records; safe for concurrent use.
	Now func() time.Time
	// Rand gives the random bits of record ids; read under a lock. crypto/rand.Reader, or something seeded in tests.
	Rand io.Reader
}
