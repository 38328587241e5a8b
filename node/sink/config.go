package sink

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Formats of packages.
const (
	// WARC is WARC 1.1 with a CDXJ index. It holds every exchange as it went over the wire.
	WARC = "warc"
	// Pages is pages.jsonl.zst, with one line of JSON per page.
	Pages = "pages"
)

// Config says which downloads are kept, and where.
type Config struct {
	// URL is where packages go: "file:///directory", "https://collector/prefix" or
	// "s3://bucket/prefix?endpoint=https://host". It must not hold a password: see sink.secret. Empty: pages are discarded
	// once their links are read.
	URL string `toml:"url"`
	// Formats are "warc" (exchanges as they went over the wire, with a CDXJ index), "pages" (one line of JSON per page, with
	// its text), or both. Each format has its own packages.
	Formats []string `toml:"formats"`
	// Secret is a file with the credentials of the destination. For a collector: a token, sent as Bearer. For a store:
	// access key and secret key, on two lines. Empty: PROXIMA_SINK_TOKEN, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,
	// from the environment.
	Secret string `toml:"secret"`
	// SizeBytes is the size at which a package is closed, in bytes before text is compressed. Large packages are fewer,
	// small ones are delivered sooner. Closing a package needs as much disk again; frontier.min_free_mib should exceed that.
	SizeBytes int64 `toml:"size_bytes"`
	// Age is how long a package may stay open. 0: until it is full or the crawl ends.
	Age time.Duration `toml:"age"`
	// DiskBytes limits the data that waits for the destination, in bytes. At the limit downloads stop until packages are
	// taken.
	DiskBytes int64 `toml:"disk_bytes"`
	// Patience is how long a node whose crawl has ended waits for a destination that takes nothing. What is left is
	// delivered when the node is started again.
	Patience time.Duration `toml:"patience"`
}

// Default returns a configuration that discards pages.
func Default() Config {
	return Config{
		Formats:   []string{WARC},
		SizeBytes: 128 << 20,
		Age:       time.Hour,
		DiskBytes: 8 << 30,
		Patience:  10 * time.Minute,
	}
}

// revisits is how many payloads are remembered, at about 350 bytes each, to archive identical ones as revisit records.
const revisits = 100_000

// leastPackages is how many packages must fit within the bound: one being written, one being packed, which takes twice its
// space, and some that wait.
const leastPackages = 8

// Validate reports the first invalid value.
func (c Config) Validate() error {
	if c.URL != "" {
		if _, err := parseTarget(c.URL); err != nil {
			return fmt.Errorf("url: %w", err)
		}
	}
	switch {
	case len(c.Formats) == 0:
		return fmt.Errorf("formats: none")
	case c.SizeBytes < 1<<10 || c.SizeBytes > 4<<30:
		return fmt.Errorf("size_bytes: %d is not between 1 KiB and 4 GiB", c.SizeBytes)
	case c.Age < 0:
		return fmt.Errorf("age: %v is negative", c.Age)
	case c.DiskBytes < leastPackages*c.SizeBytes:
		return fmt.Errorf("disk_bytes: %d is less than %d packages of size_bytes", c.DiskBytes, leastPackages)
	case c.Patience < 0:
		return fmt.Errorf("patience: %v is negative", c.Patience)
	}
	for i, f := range c.Formats {
		if f != WARC && f != Pages {
			return fmt.Errorf("formats: %q is neither %q nor %q", f, WARC, Pages)
		}
		if slices.Contains(c.Formats[:i], f) {
			return fmt.Errorf("formats: %q twice", f)
		}
	}
	return nil
}

func parseTarget(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("it is no URL") // which may have a password in it
	}
	endpoint, err := url.Parse(u.Query().Get("endpoint"))
	if err != nil {
		return nil, errors.New("its endpoint is no URL")
	}
	if u.User != nil || endpoint.User != nil {
		return nil, errors.New("it holds a name or a password: those belong into the file sink.secret, or into the environment")
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" || u.Path == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("%q is no directory: write file:///directory", text)
		}
	case "http", "https":
		if u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("%q is no collector: write https://host/prefix", text)
		}
	case "s3":
		known := 0
		for _, key := range []string{"endpoint", "region"} {
			known += len(u.Query()[key])
		}
		if u.Host == "" || len(u.Query()) != known || endpoint.Host == "" || strings.Trim(endpoint.Path, "/") != "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" {
			return nil, fmt.Errorf("%q is no store: write s3://bucket/prefix?endpoint=https://host", text)
		}
	default:
		return nil, fmt.Errorf("%q: a sink is file:///directory, https://host/prefix or s3://bucket/prefix?endpoint=https://host", text)
	}
	return u, nil
}

// Dir returns the directory of a file destination, else "".
func (c Config) Dir() string {
	if u, err := parseTarget(c.URL); err == nil && u.Scheme == "file" {
		return u.Path
	}
	return ""
}
