package page

import (
	"fmt"
	"strings"
)

// Config bounds what one page may yield.
type Config struct {
	// MaxLinks is the number of links kept of one page; later ones are only counted. More finds more on index pages,
	// and costs memory: a link takes some 100 bytes beside its text while a page is read.
	MaxLinks int `toml:"-"`
	// MaxRefBytes is the length in bytes of the longest link kept; longer ones are dropped and counted. Servers refuse
	// URLs beyond some 8,000 bytes; longer ones are mostly traps.
	MaxRefBytes int `toml:"-"`
	// Agent is the product token that robots directives may name, without version ("proxima"), compared without
	// regard to case: that of fetch.user_agent.
	Agent string `toml:"-"`
}

// Default returns the configuration that suits the open web.
func Default() Config {
	return Config{MaxLinks: 10_000, MaxRefBytes: 4096, Agent: "proxima"}
}

// Validate reports the first field that cannot be used.
func (c Config) Validate() error {
	switch {
	case c.MaxLinks < 1:
		return fmt.Errorf("max_links: %d is not positive", c.MaxLinks)
	case c.MaxRefBytes < 1 || c.MaxRefBytes > 1<<20:
		return fmt.Errorf("max_ref_bytes: %d is not in 1..%d", c.MaxRefBytes, 1<<20)
	case !isProductToken(c.Agent):
		return fmt.Errorf("agent: %q is not a product token (letters, digits, '-', '_', '.')", c.Agent)
	case strings.EqualFold(c.Agent, "robots"):
		return fmt.Errorf("agent: %q means every robot", c.Agent)
	}
	return nil
}
