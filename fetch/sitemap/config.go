package sitemap

import "fmt"

// Config bounds what one sitemap may yield. The defaults are the limits of sitemaps.org.
type Config struct {
	// MaxBytes is the number of bytes read of a sitemap once decompressed; what is beyond is ignored. It bounds time
	// (XML is read at some 20 MB/s), not memory: a sitemap is read as a stream.
	MaxBytes int64
	// MaxURLs is the number of URLs kept of a sitemap, child sitemaps included; the rest is ignored. It bounds memory.
	MaxURLs int
	// MaxRefBytes is the length in bytes of the longest URL kept; longer ones are dropped and counted.
	MaxRefBytes int
}

// Default returns the limits of the protocol (https://www.sitemaps.org/protocol.html): 50 MiB, 50,000 URLs. There a URL
// has less than 2,048 characters; more are allowed here because pages' links may be as long.
func Default() Config {
	return Config{MaxBytes: 50 << 20, MaxURLs: 50_000, MaxRefBytes: 4096}
}

// Validate reports the first field that cannot be used.
func (c Config) Validate() error {
	switch {
	case c.MaxBytes < 1:
		return fmt.Errorf("max_bytes: %d is not positive", c.MaxBytes)
	case c.MaxURLs < 1:
		return fmt.Errorf("max_urls: %d is not positive", c.MaxURLs)
	case c.MaxRefBytes < 1 || c.MaxRefBytes > 1<<20:
		return fmt.Errorf("max_ref_bytes: %d is not in 1..%d", c.MaxRefBytes, 1<<20)
	}
	return nil
}
