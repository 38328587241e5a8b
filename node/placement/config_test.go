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
		"queue":              {remote.queueFor(), 20 * time.Second},
		"back from the dead": {remote.goneFor(), 15 * time.Second},
		"call":               {remote.callFor(), 10 * time.Second},
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

func TestCandidates(t *testing.T) {
	c := Default()
	c.Assigners = []string{"theta15", assign.Nearest, "few"}
	c.Candidates = []Candidate{
		{"name": "theta15", "assigner": assign.Vivaldi, "theta": 0.15, "tick": "2s"},
		{"name": "few", "assigner": assign.Nearest, "estimates": int64(2)},
	}
	must(t, c.Validate())
	base := assign.Default()
	base.Margin = 0.5
	got, err := c.tuning("theta15", base)
	if err != nil || got.label != "theta15" || got.method != assign.Vivaldi || got.cfg.Vivaldi.Theta != 0.15 ||
		got.cfg.Vivaldi.Tick != 2*time.Second || got.cfg.Vivaldi.MaxTicks != base.Vivaldi.MaxTicks || got.cfg.Margin != 0.5 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, _ := c.tuning("few", base); got.cfg.Nearest.Estimates != 2 || got.cfg.Vivaldi.Theta != base.Vivaldi.Theta {
		t.Errorf("%+v", got)
	}
	if got, _ := c.tuning(assign.Nearest, base); got.method != assign.Nearest || got.cfg.Nearest.Estimates != base.Nearest.Estimates {
		t.Errorf("a name that is no candidate's: %+v", got)
	}
	if c.first() != assign.Vivaldi || c.moves() {
		t.Errorf("the first is %s", c.first())
	}
	c.Mode, c.Assigners, c.Candidates = ModeCycle, []string{"few"}, c.Candidates[1:]
	if !c.moves() {
		t.Error("a tuning of nearest does not move servers later")
	}
	if c.URLs = 7; len(c.Warnings(base)) > 0 { // enough for this tuning, not for nearest itself
		t.Errorf("%q", c.Warnings(base))
	}
}

// Each assigner of a batch is tuned as its candidate says. Servers move later by the configuration of all.
func TestTuningReachesTheAssigners(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		addr := w.addAssigned()
		cfg, deps := modeWith(ModeCycle, 100, "few"), w.deps()
		cfg.Candidates = []Candidate{{"name": "few", "assigner": assign.Nearest, "estimates": int64(1)}}
		deps.Assign.MarginMs = 60_000
		p := New(cfg, deps)
		p.SetView(w.view(), "")
		b := &batch{Placement: p, servers: []*server{{Placement: p, addr: addr, pages: pagesOf(t, "/"), estimating: make(chan struct{}, 1)}}}
		if err := b.decide(t.Context(), "1"); err != nil || p.Status().Estimates != 1 {
			t.Errorf("%d estimates, %v", p.Status().Estimates, err)
		}
		for range 2 {
			if err := p.reconsider(t.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(betterFor)
		}
		if len(w.log) > 0 {
			t.Errorf("it moves to a node that is hardly better: %v", w.log)
		}
	})
}

func TestCandidatesAreRefused(t *testing.T) {
	fine := Candidate{"name": "a", "assigner": assign.Vivaldi}
	for want, candidates := range map[string][]Candidate{
		"no such key":                {{"name": "a", "assigner": assign.Vivaldi, "thetta": 0.2}},
		"is the name of an assigner": {{"name": assign.Random, "assigner": assign.Vivaldi}},
		"not of letters":             {{"name": "a,b", "assigner": assign.Vivaldi}},
		`assigner: "psychic"`:        {{"name": "a", "assigner": "psychic"}},
		`assigner: ""`:               {{"name": "a"}},
		"incompatible types":         {{"name": "a", "assigner": assign.Vivaldi, "theta": "much"}},
		"theta: -1 is not":           {{"name": "a", "assigner": assign.Vivaldi, "theta": -1.0}},
		"unsupported type":           {{"name": "a", "assigner": assign.Vivaldi, "theta": make(chan int)}},
		"twice":                      {fine, fine},
	} {
		c := modeWith(ModeCycle, 100, "a")
		c.Candidates = candidates
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", candidates, err, want)
		}
	}
	c := cycle()
	c.Candidates = []Candidate{{"name": "other", "assigner": assign.Vivaldi}}
	if w := c.Warnings(assign.Default()); len(w) != 1 || !strings.Contains(w[0], "other is not among") {
		t.Errorf("a candidate that decides nothing: %q", w)
	}
}
