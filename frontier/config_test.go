package frontier

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// What is just a value is taken, and what is just none is refused with the name of its key.
func TestBounds(t *testing.T) {
	const day = 24 * time.Hour
	c, p := Default(), DefaultPoliteness()
	c.Recrawl.Enabled = true
	for _, v := range []struct {
		key string
		set func(good bool)
	}{
		{"max_host_urls", func(g bool) { c.MaxHostURLs = pick(g, 0, -1) }},
		{"max_host_urls", func(g bool) { c.MaxHostURLs = pick(g, 1<<30, 1<<30+1) }},
		{"min_free_mib", func(g bool) { c.MinFreeMiB = pick(g, 0, -1) }},
		{"min_free_mib", func(g bool) { c.MinFreeMiB = pick(g, 1<<30, 1<<30+1) }},
		{"age", func(g bool) { c.Recrawl.Age = pick[time.Duration](g, 0, -1) }},
		{"age", func(g bool) { c.Recrawl.Age = pick(g, 3650*day, 3650*day+1) }},
		{"budget", func(g bool) { c.Recrawl.Budget = pick(g, 0, -1) }},
		{"min", func(g bool) { c.Recrawl.Min = pick(g, time.Minute, time.Minute-1) }},
		{"share", func(g bool) { c.Recrawl.Share = pick(g, 0, -0.01) }},
		{"share", func(g bool) { c.Recrawl.Share = pick(g, 1, 1.01) }},
		{"min_gap", func(g bool) { p.MinGap = pick[time.Duration](g, 0, -1) }},
		{"own_gap", func(g bool) { p.OwnGap = pick(g, 1000*time.Hour, 1000*time.Hour+1) }},
		{"backoff_min", func(g bool) { p.BackoffMin = pick(g, 1, time.Duration(0)) }},
		{"backoff_min", func(g bool) { p.BackoffMax = pick(g, p.BackoffMin, p.BackoffMin-1) }},
		{"factor", func(g bool) { p.Factor = pick(g, 0, -0.01) }},
		{"factor", func(g bool) { p.Factor = pick(g, 1000, 1000.01) }},
		{"retry_name", func(g bool) { p.RetryName = slices.Repeat([]time.Duration{1}, pick(g, 100, 101)) }},
		{"retry_page", func(g bool) { p.RetryPage = []time.Duration{pick(g, 1, time.Duration(0))} }},
		{"retry_connect", func(g bool) { p.RetryConnect = []time.Duration{pick(g, 1000*time.Hour, 1000*time.Hour+1)} }},
		{"own_parallel", func(g bool) { p.OwnParallel = pick(g, 1, 0) }},
		{"own_parallel", func(g bool) { p.OwnParallel = pick(g, 10_000, 10_001) }},
		{"own", func(g bool) { p.Own = []string{pick(g, "10.0.0.1/8", "10.0.0.1")} }},
	} {
		for _, good := range []bool{false, true} {
			v.set(good)
			if err := errors.Join(c.Validate(), p.Validate()); (err == nil) != good || err != nil && !strings.HasPrefix(err.Error(), v.key+": ") {
				t.Errorf("%s, good %v: %v", v.key, good, err)
			}
		}
	}
	c = Default()
	c.Recrawl.Min = 0
	if err := c.Validate(); err != nil {
		t.Errorf("of what is off nothing counts: %v", err)
	}
	for memory, want := range map[int][3]int{1: {1, 1, 4}, 512: {32, 48, 8}, 256: {16, 24, 4}, 320: {20, 30, 5}, 1 << 20: {65536, 98304, 128}} {
		c.MemoryMiB = memory
		if got := [3]int{c.filterMiB(), c.setsMiB(), c.memtableMiB()}; got != want {
			t.Errorf("%d MiB are used as %v", memory, got)
		}
	}
}

func pick[T any](good bool, a, b T) T {
	if good {
		return a
	}
	return b
}

// What is marked as live is taken, and nothing else.
func TestAdjust(t *testing.T) {
	cfg, was := testConfig()
	f := opened(t, cfg, was)
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
