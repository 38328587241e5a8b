package crawl

import (
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	for key, change := range map[string]func(*Config){
		"fetchers":         func(c *Config) { c.Fetchers = 0 },
		"resolvers":        func(c *Config) { c.Resolvers = 0 },
		"end":              func(c *Config) { c.End = "" },
		"patience":         func(c *Config) { c.Patience = -1 },
		"max_pages":        func(c *Config) { c.MaxPages = -1 },
		"max_bytes":        func(c *Config) { c.MaxBytes = -1 },
		"max_time":         func(c *Config) { c.MaxTime = -1 },
		"max_host_pages":   func(c *Config) { c.MaxHostPages = -1 },
		"max_domain_pages": func(c *Config) { c.MaxDomainPages = -1 },
		"near_duplicates":  func(c *Config) { c.NearDuplicates = -1 },
	} {
		c := Default()
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), key+":") {
			t.Errorf("%s: %v", key, err)
		}
	}
}
