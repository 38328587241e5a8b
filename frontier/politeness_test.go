package frontier

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"
)

func testRules() rules {
	p := DefaultPoliteness()
	p.Own, p.OwnGap, p.OwnParallel = []string{"10.1.0.0/16"}, time.Millisecond, 4
	prefixes, _ := p.own()
	return rules{Politeness: p, prefixes: prefixes}
}

func TestGapIsTheLargest(t *testing.T) {
	r := testRules() // 2 s at least, twice the download, that at most a minute
	foreign, own, loaded := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("192.0.2.2")
	r.spacing = map[netip.Addr]float64{loaded: 4}
	for _, c := range []struct {
		name                       string
		addr                       netip.Addr
		crawlDelay, after, elapsed time.Duration
		want                       time.Duration
	}{
		{"minimum", foreign, 0, 0, 100 * time.Millisecond, 2 * time.Second},
		{"slow server", foreign, 0, 0, 5 * time.Second, 10 * time.Second},
		{"slowness is bounded", foreign, 0, 0, time.Hour, time.Minute},
		{"crawl-delay", foreign, 90 * time.Second, 0, time.Hour, 90 * time.Second},
		{"retry-after", foreign, time.Second, time.Hour, time.Second, time.Hour},
		{"retry-after is bounded", foreign, 0, 1000 * time.Hour, 0, 24 * time.Hour},
		{"overloaded", loaded, 0, 0, 0, 8 * time.Second},
		{"overloaded, bounded", loaded, 20 * time.Second, 0, 0, time.Minute},
		{"overloaded, and a longer crawl-delay", loaded, 90 * time.Second, 0, 0, 90 * time.Second},
		{"one's own", own, time.Hour, time.Hour, time.Hour, time.Millisecond},
	} {
		if got := r.gap(nil, c.addr, c.crawlDelay, c.after, c.elapsed); got != c.want {
			t.Errorf("%s: gap %v, want %v", c.name, got, c.want)
		}
	}
	if r.parallel(foreign) != 1 || r.parallel(own) != 4 {
		t.Errorf("in parallel: %d and %d, want 1 and 4", r.parallel(foreign), r.parallel(own))
	}
}

func TestBackoffDoublesWithinBounds(t *testing.T) {
	r := testRules()
	rnd := rand.New(rand.NewPCG(1, 1))
	for level := uint8(1); level < 70; level++ {
		base := r.BackoffMax
		if level < 8 {
			base = min(base, r.BackoffMin<<(level-1))
		}
		seen := map[time.Duration]bool{}
		for range 100 {
			got := r.backoff(level, 0, rnd)
			if got < base*3/4 || got > base*5/4 {
				t.Fatalf("level %d: waits %v, base %v", level, got, base)
			}
			seen[got] = true
		}
		if len(seen) < 50 {
			t.Errorf("level %d: %d different waits of 100: hosts come back together", level, len(seen))
		}
	}
	if got := r.backoff(1, 10*time.Hour, rnd); got != 10*time.Hour {
		t.Errorf("waits %v for a Retry-After of 10h", got)
	}
	if got := r.backoff(1, 100*time.Hour, rnd); got != r.MaxRetryAfter {
		t.Errorf("waits %v for a Retry-After of 100h", got)
	}
	for i, wait := range []*time.Duration{&r.MaxRetryAfter, &r.BackoffMax, &r.EndedFor, &r.RetryConnect[0], &r.RetryName[1], &r.RetryPage[2]} {
		if *wait = time.Duration(i+100) * time.Hour; r.longest() != *wait*5/4 {
			t.Errorf("wait %d: the longest is %v, want %v", i, r.longest(), *wait*5/4)
		}
	}
}

func TestValidateNamesTheKey(t *testing.T) {
	bad := map[string]func(c *Config, p *Politeness){
		"max_host_urls": func(c *Config, _ *Politeness) { c.MaxHostURLs = -1 },
		"min_gap":       func(_ *Config, p *Politeness) { p.MinGap = -1 },
		"backoff_min":   func(_ *Config, p *Politeness) { p.BackoffMax = time.Second },
		"factor":        func(_ *Config, p *Politeness) { p.Factor = -1 },
		"retry_page":    func(_ *Config, p *Politeness) { p.RetryPage = []time.Duration{0} },
		"own":           func(_ *Config, p *Politeness) { p.Own = []string{"10.0.0.1"} },
		"own_parallel":  func(_ *Config, p *Politeness) { p.OwnParallel = 0 },
	}
	for key, spoil := range bad {
		c, p := Default(), DefaultPoliteness()
		if c.Validate() != nil || p.Validate() != nil {
			t.Fatal("the defaults are not valid")
		}
		spoil(&c, &p)
		err := c.Validate()
		if err == nil {
			err = p.Validate()
		}
		if err == nil || len(err.Error()) <= len(key) || err.Error()[:len(key)+1] != key+":" {
			t.Errorf("%s: error %v", key, err)
		}
	}
}

// HostsAt knows where each host is, when it comes, moves and leaves.
func TestHostsAt(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	f := &leases{&front{bench: testBench(now, 4, 3, Discovered)}}
	w := f.bench
	check := func(addr netip.Addr, want ...string) {
		t.Helper()
		if got := f.HostsAt(addr); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("at %v are %v, want %v", addr, got, want)
		}
	}
	addr2 := addr1.Next()
	all := slices.Sorted(maps.Keys(w.hosts))
	for _, name := range all {
		if h := w.hosts[name]; h.server != nil {
			w.unplace(h, now)
		}
		h := w.hosts[name]
		h.queued = [origins]bool{}
		w.seat(h, addr1, now.Add(time.Hour), now)
	}
	check(addr1, all...)
	w.unplace(w.hosts[all[0]], now)
	w.seat(w.hosts[all[0]], addr2, now.Add(time.Hour), now)
	check(addr1, all[1:]...)
	check(addr2, all[0])
	w.leave(w.hosts[all[1]], now)
	check(addr1, all[2:]...)
}

// What is marked as live is taken, and nothing else.
func TestAdjust(t *testing.T) {
	cfg, was := testConfig()
	f, err := Open("", cfg, was, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.store.close() //nolint:errcheck // it is in memory
	next := was
	v := reflect.ValueOf(&next).Elem()
	for i := range v.NumField() {
		switch p := v.Field(i).Addr().Interface().(type) {
		case *time.Duration:
			*p += time.Hour
		case *float64:
			*p++
		case *int:
			*p++
		case *[]time.Duration:
			*p = []time.Duration{7}
		case *[]string:
			*p = []string{"192.0.2.0/24"}
		}
	}
	cfg.MaxHostURLs = 77
	f.Adjust(cfg, next)
	if got := f.ledger.mostURLs.Load(); got != 77 {
		t.Errorf("%d URLs a host", got)
	}
	got := reflect.ValueOf(f.bench.rules.Politeness)
	for i := range got.NumField() {
		want, field := reflect.ValueOf(was), got.Type().Field(i)
		if field.Tag.Get("live") != "" {
			want = v
		}
		if !reflect.DeepEqual(got.Field(i).Interface(), want.Field(i).Interface()) {
			t.Errorf("%s is %v, not %v", field.Name, got.Field(i), want.Field(i))
		}
	}
}
