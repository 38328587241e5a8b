package sitemap

import "testing"

func TestConfigBounds(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		good   bool
	}{
		{func(*Config) {}, true}, {func(c *Config) { c.MaxBytes, c.MaxURLs, c.MaxRefBytes = 1, 1, 1 }, true}, {func(c *Config) { c.MaxBytes = 0 }, false},
		{func(c *Config) { c.MaxURLs = 0 }, false}, {func(c *Config) { c.MaxRefBytes = 0 }, false}, {func(c *Config) { c.MaxRefBytes = 1 << 20 }, true},
		{func(c *Config) { c.MaxRefBytes = 1<<20 + 1 }, false},
	} {
		cfg := Default()
		if c.change(&cfg); (cfg.Validate() == nil) != c.good {
			t.Errorf("%+v: %v", cfg, cfg.Validate())
		}
	}
}
