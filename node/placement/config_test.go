package placement

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"proxima/assign"
)

func TestConfig(t *testing.T) {
	if err := cycle().Validate(); err != nil {
		t.Error(err)
	}
	bad := Config{Mode: "x", Hosts: 5000, Assigners: []string{"nearest", "nearest", "far"}, Check: -1}
	err := bad.Validate()
	for _, part := range []string{"mode:", "hosts:", "urls:", "longest_wait:", "check:", "assigners:", "deadline:", "compare_urls:", "twice", `"far"`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s is not reported: %v", part, err)
		}
	}
}

// A host may run out of URLs before it is decided if batch.urls is no more than the estimates that an assigner asks for.
func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		mode      string
		urls      int
		assigners []string
		want      string // "" for none
	}{
		{ModeCycle, 9, []string{assign.Nearest}, ""},
		{ModeCycle, 8, []string{assign.Nearest}, "nearest asks for up to 8"},
		{ModeCrawl, 8, []string{assign.Nearest}, ""}, // there are no batches
		{ModeCycle, 50, []string{assign.Nearest}, ""},
		{ModeCycle, 50, []string{assign.Nearest, assign.Vivaldi}, "vivaldi asks for up to 300"},
	} {
		cfg := modeWith(c.mode, 100, c.assigners...)
		cfg.URLs = c.urls
		if got := fmt.Sprint(cfg.Warnings(assign.Default())); strings.Count(got, "asks for") != min(1, len(c.want)) || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// The smallest and the largest value of each key are accepted. Values beyond them are errors.
func TestBounds(t *testing.T) {
	for key, c := range map[string]struct {
		least, most int
		set         func(c *Config, n int)
	}{
		"hosts":        {1, maxHosts, func(c *Config, n int) { c.Hosts = n }},
		"urls":         {1, 1_000_000, func(c *Config, n int) { c.URLs = n }},
		"compare_urls": {1, 100_000, func(c *Config, n int) { c.CompareURLs = n }},
		"longest_wait": {10, 7 * 24 * 3600 * 1000, func(c *Config, n int) { c.LongestWait = ms(n) }},
		"check":        {10, 7 * 24 * 3600 * 1000, func(c *Config, n int) { c.Check = ms(n) }},
		"deadline":     {10, 7 * 24 * 3600 * 1000, func(c *Config, n int) { c.Deadline = ms(n) }},
		"assigners":    {1, 8, func(c *Config, n int) { c.Assigners = assign.Names()[:n] }},
	} {
		for n, fine := range map[int]bool{c.least - 1: false, c.least: true, c.most: true, c.most + 1: false} {
			cfg := cycle()
			c.set(&cfg, n)
			if err := cfg.Validate(); (err == nil) != fine || err != nil && !strings.HasPrefix(err.Error(), key+":") {
				t.Errorf("%s = %d: %v", key, n, err)
			}
		}
	}
}

// ms is a time in milliseconds.
func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// The defaults suit mode cycle.
func TestDefaults(t *testing.T) {
	want := Config{Mode: ModeCrawl, Hosts: 20, URLs: 50, LongestWait: 10 * time.Minute, Check: 10 * time.Second, Deadline: time.Hour,
		Assigners: []string{assign.Nearest}, CompareURLs: 100}
	if got := Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// The times of a batch and of a remote fetch follow from the configured ones.
func TestTimesFollow(t *testing.T) {
	short, long := Config{Check: 2 * time.Second, LongestWait: time.Minute}, Config{Check: time.Minute, LongestWait: time.Hour}
	remote := Remote{wait: RemoteWait}
	for name, c := range map[string]struct{ got, want time.Duration }{
		"resolve":            {short.resolveFor(), 3 * time.Second},
		"resolve, at most":   {long.resolveFor(), 15 * time.Second},
		"take":               {short.takeFor(), 6 * time.Second},
		"take, at most":      {long.takeFor(), 30 * time.Second},
		"rest":               {short.rest(), 30 * time.Second},
		"queue":              {remote.queue(), 20 * time.Second},
		"back from the dead": {remote.back(), 15 * time.Second},
		"call":               {remote.call(), 10 * time.Second},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	for _, c := range []struct {
		mode      string
		assigners []string
		moves     bool
	}{
		{ModeCycle, []string{assign.Nearest}, true}, {ModeSingle, []string{assign.Nearest}, true}, {ModeCrawl, []string{assign.Nearest}, false},
		{ModePersistent, []string{assign.Nearest}, false}, {ModeCycle, []string{assign.Random}, false},
		{ModeCycle, []string{assign.Nearest, assign.Random}, false},
	} {
		if cfg := (Config{Mode: c.mode, Assigners: c.assigners}); cfg.moves() != c.moves {
			t.Errorf("mode %s, %v: servers move later: %v", c.mode, c.assigners, cfg.moves())
		}
	}
}
