package frontier

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
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
