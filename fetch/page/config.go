package page

// Config bounds what one page may yield.
type Config struct {
	// MaxLinks is the number of links kept of one page, some 100 bytes each. Later ones are only counted.
	MaxLinks int `toml:"-"`
	// MaxRefBytes is the length of the longest link kept, in bytes. Longer ones are dropped and counted: most are traps,
	// and servers refuse URLs beyond some 8,000 bytes.
	MaxRefBytes int `toml:"-"`
	// Agent is the product token of fetch.user_agent, without version ("proxima"). Robots directives may name it, in upper
	// or lower case.
	Agent string `toml:"-"`
}

// Default returns the configuration for the open web.
func Default() Config {
	return Config{MaxLinks: 10_000, MaxRefBytes: 4096, Agent: "proxima"}
}
