package placement

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"proxima/assign"
)

// The modes of a home.
const (
	ModeCrawl      = "crawl"      // no batches: hosts stay with their homes
	ModeCycle      = "cycle"      // batch after batch
	ModeSingle     = "single"     // one batch
	ModePersistent = "persistent" // one batch, downloaded again in rounds, with hosts that have become ready meanwhile
)

// Config sets how a home makes batches.
type Config struct {
	// Mode is "crawl" (no batches), "cycle" (batch after batch), "single" (one batch) or "persistent" (one batch that is
	// handed out again every round, with the hosts that have become ready since; only for your own servers).
	Mode string `toml:"mode"`
	// Hosts is the largest number of ready hosts in a batch; other hosts of the same servers come along, ready or not. A
	// large batch takes hardly longer to decide than a small one, but the next batch waits for it.
	Hosts int `toml:"hosts"`
	// URLs is how many pending URLs make a host ready. Estimates use them up, so it should exceed the number of estimates of
	// a server.
	URLs int `toml:"urls"`
	// LongestWait is how long a host with fewer URLs waits. A shorter time assigns small hosts that are nearly done. A host
	// that could not be assigned is left out of batches for half this time.
	LongestWait time.Duration `toml:"longest_wait"`
	// Check is how often hosts are looked at. A batch gives a name one and a half times this long to resolve, at most 15s,
	// and an estimate three times this long to wait for the politeness of its server, at most 30s.
	Check time.Duration `toml:"check"`
	// Deadline limits the decision. What is undecided then is decided by what is known, or drawn at random.
	Deadline time.Duration `toml:"deadline"`
	// Assigners decide. The first one's choice owns the hosts. With several, each URL is downloaded once by every node that
	// one of them chose, so that they can be compared; the home then crawls nothing else during estimates, to keep round
	// trips clean.
	Assigners []string `toml:"assigners"`
	// CompareURLs is the largest number of URLs of a host that are downloaded for a comparison; in a round of mode
	// "persistent" at most 20.
	CompareURLs int `toml:"compare_urls"`
	// Candidates are variants of assigners. Each has a name to use in batch.assigners, an assigner, and any of its keys
	// (theta = 0.15), so that several variants of one assigner can decide the same batch.
	Candidates []Candidate `toml:"candidate"`
}

// Default returns mode crawl, with values that suit mode cycle.
func Default() Config {
	return Config{
		Mode: ModeCrawl, Hosts: 20, URLs: 50, LongestWait: 10 * time.Minute, Check: 10 * time.Second, Deadline: time.Hour,
		Assigners: []string{assign.Nearest}, CompareURLs: 100,
	}
}

// resolveFor is how long a batch waits for names.
func (c Config) resolveFor() time.Duration { return min(c.Check*3/2, 15*time.Second) }

// takeFor is how long an estimate waits for the politeness of its server.
func (c Config) takeFor() time.Duration { return min(3*c.Check, 30*time.Second) }

// rest is how long a host that could not be assigned is left out of batches.
func (c Config) rest() time.Duration { return c.LongestWait / 2 }

// moves reports whether servers move later. They do only with nearest, which also finds the way back.
func (c Config) moves() bool {
	return (c.Mode == ModeCycle || c.Mode == ModeSingle) && len(c.Assigners) == 1 && c.first() == assign.Nearest
}

const (
	// maxHosts bounds a batch, and with it the goroutines that carry it out.
	maxHosts = 1000
	// maxRound bounds the URLs of a host in a round of mode persistent.
	maxRound = 20
)

// Validate returns an error for each value that is out of range.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	modes := []string{ModeCrawl, ModeCycle, ModeSingle, ModePersistent}
	check(slices.Contains(modes, c.Mode), "mode: %q is none of %q", c.Mode, modes)
	number := func(name string, n, most int) {
		check(n >= 1 && n <= most, "%s: %d is not between 1 and %d", name, n, most)
	}
	number("hosts", c.Hosts, maxHosts)
	number("urls", c.URLs, 1_000_000)
	number("compare_urls", c.CompareURLs, 100_000)
	duration := func(name string, d time.Duration) {
		check(d >= 10*time.Millisecond && d <= 7*24*time.Hour, "%s: %v is not between 10ms and 168h", name, d)
	}
	duration("longest_wait", c.LongestWait)
	duration("check", c.Check)
	duration("deadline", c.Deadline)
	check(len(c.Assigners) >= 1 && len(c.Assigners) <= 8, "assigners: %d are not 1 to 8", len(c.Assigners))
	for i, name := range c.Assigners {
		check(slices.Contains(assign.Names(), name) || c.candidate(name) != nil, "assigners: %q is none of %q, and no candidate", name, assign.Names())
		check(!slices.Contains(c.Assigners[:i], name), "assigners: %q stands there twice", name)
	}
	for i, one := range c.Candidates {
		_, err := one.tune(assign.Default())
		check(err == nil, "candidate[%d].%v", i, err)
		name := one.Name()
		check(!slices.ContainsFunc(c.Candidates[:i], func(o Candidate) bool { return o.Name() == name }), "candidate[%d].name: %q stands there twice", i, name)
	}
	return errors.Join(errs...)
}

// Warnings returns what is allowed and unwise, given the configuration of the assigners.
func (c Config) Warnings(a assign.Config) []string {
	if c.Mode == ModeCrawl {
		return nil
	}
	var warnings []string
	for _, one := range c.Candidates {
		if !slices.Contains(c.Assigners, one.Name()) {
			warnings = append(warnings, fmt.Sprintf("candidate %s is not among batch.assigners: it decides nothing", one.Name()))
		}
	}
	for _, name := range c.Assigners {
		t, _ := c.tuning(name, a)
		if n := t.cfg.MaxEstimates(t.method); c.URLs <= n {
			warnings = append(warnings, fmt.Sprintf("batch.urls is %d, and %s asks for up to %d estimates of a server: "+
				"a host may have no URLs left before it is decided", c.URLs, name, n))
		}
	}
	return warnings
}

// Candidate is a variant of an assigner with a name of its own, so that several variants can decide the same batch. It has the
// keys "name" and "assigner", and any keys of that assigner.
type Candidate map[string]any

var candidateName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,64}$`)

// tuning is what a name in Config.Assigners stands for: an assigner and its configuration.
type tuning struct {
	label  string // the name
	method string // the assigner
	cfg    assign.Config
}

// text returns the string under a key, "" if there is none.
func (c Candidate) text(key string) string {
	s, _ := c[key].(string)
	return s
}

// Name returns the name to use in Config.Assigners.
func (c Candidate) Name() string { return c.text("name") }

// tune returns the tuning of the candidate. Keys that it does not have come from base. Errors begin with the key.
func (c Candidate) tune(base assign.Config) (tuning, error) {
	t := tuning{label: c.Name(), method: c.text("assigner"), cfg: base}
	switch {
	case !candidateName.MatchString(t.label):
		return t, fmt.Errorf("name: %q is not of letters, digits, dots, hyphens and underscores", t.label)
	case slices.Contains(assign.Names(), t.label):
		return t, fmt.Errorf("name: %q is the name of an assigner", t.label)
	case !slices.Contains(assign.Names(), t.method):
		return t, fmt.Errorf("assigner: %q is none of %q", t.method, assign.Names())
	}
	keys := maps.Clone(c)
	delete(keys, "name")
	delete(keys, "assigner")
	var b strings.Builder
	if err := toml.NewEncoder(&b).Encode(map[string]any{t.method: map[string]any(keys)}); err != nil {
		return t, err
	}
	meta, err := toml.Decode(b.String(), &t.cfg)
	if err != nil {
		return t, fmt.Errorf("assigner: %w", err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return t, fmt.Errorf("%s: %s has no such key", unknown[0][len(unknown[0])-1], t.method)
	}
	if err := t.cfg.Validate(); err != nil {
		return t, errors.New(strings.TrimPrefix(err.Error(), t.method+"."))
	}
	return t, nil
}

// candidate returns the candidate with a name, nil if there is none.
func (c Config) candidate(name string) Candidate {
	for _, one := range c.Candidates {
		if one.Name() == name {
			return one
		}
	}
	return nil
}

// tuning returns what a name in Assigners stands for. Keys that a candidate does not have come from base.
func (c Config) tuning(name string, base assign.Config) (tuning, error) {
	if one := c.candidate(name); one != nil {
		return one.tune(base)
	}
	return tuning{label: name, method: name, cfg: base}, nil
}

// first returns the assigner whose choice gets the hosts.
func (c Config) first() string {
	t, _ := c.tuning(c.Assigners[0], assign.Default())
	return t.method
}
