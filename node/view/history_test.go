package view

import (
	"fmt"
	"testing"
	"time"
)

var start = time.Unix(1_000_000, 0)

// seen is a view of node a, at a time.
type seen struct {
	at       time.Duration
	settled  []string
	majority bool
}

// TestBlind: who decides now does not know of what was decided in views in which another one did, and before the first view.
func TestBlind(t *testing.T) {
	const lasts = time.Minute
	mine, other := []string{"a"}, []string{"b"}
	for what, c := range map[string]struct {
		views []seen
		begin time.Duration // 0: it knows all
		at    time.Duration
		want  time.Duration
	}{
		"no view":             {at: time.Hour, want: lasts},
		"first view":          {views: []seen{{0, mine, true}}, at: 10 * time.Second, want: 50 * time.Second},
		"long after":          {views: []seen{{0, mine, true}}, at: lasts},
		"another one decided": {views: []seen{{0, other, true}, {5 * time.Minute, mine, true}}, at: 5*time.Minute + time.Second, want: 59 * time.Second},
		"and only for long":   {views: []seen{{0, other, true}, {5 * time.Minute, mine, true}}, at: 6 * time.Minute},
		"the last time":       {views: []seen{{0, other, true}, {250 * time.Second, mine, true}, {270 * time.Second, other, true}, {280 * time.Second, mine, true}}, at: 5 * time.Minute, want: 40 * time.Second},
		"no majority":         {views: []seen{{0, mine, true}, {4 * time.Minute, mine, false}, {5 * time.Minute, mine, true}}, at: 5 * time.Minute, want: lasts},
		"the same again":      {views: []seen{{0, mine, true}, {5 * time.Minute, mine, true}}, at: 5 * time.Minute},
		"it begins anew":      {views: []seen{{0, mine, true}}, begin: time.Hour, at: time.Hour, want: lasts},
	} {
		h := NewHistory(lasts)
		for _, s := range c.views {
			h.Set(View{Self: "a", Settled: s.settled, Majority: s.majority}, start.Add(s.at))
		}
		if c.begin > 0 {
			h.Begin(start.Add(c.begin))
		}
		got := h.Blind(start.Add(c.at), lasts, func(v *View) bool { return v.Majority && v.Home("http://x.test") == "a" })
		if got != c.want {
			t.Errorf("%s: blind for %v, want %v", what, got, c.want)
		}
	}
}

// TestSet: a view that gives the same draws replaces the one before, in force since then. After Begin the last one has just come into force.
func TestSet(t *testing.T) {
	h := NewHistory(time.Hour)
	h.Set(View{Settled: []string{"a", "b"}}, start)
	for version := range uint64(2) {
		at := start.Add(time.Duration(version+1) * time.Minute)
		if h.Set(View{Settled: []string{"b"}, Version: version}, at) != (version == 0) || h.Now().Version != version || !h.Since().Equal(start.Add(time.Minute)) {
			t.Errorf("version %d: there is %+v since %v", version, h.Now(), h.Since())
		}
	}
	h.Begin(start.Add(time.Hour))
	if now := h.Now(); len(now.Settled) != 1 || !h.Since().Equal(start.Add(time.Hour)) {
		t.Errorf("after Begin there is %+v since %v", now, h.Since())
	}
}

// TestHistoryIsBounded: of more views than it remembers it knows nothing.
func TestHistoryIsBounded(t *testing.T) {
	h := NewHistory(time.Hour)
	for i := range 3 * maxPeriods {
		h.Set(View{Self: "a", Settled: []string{"a", fmt.Sprint("n", i)}, Majority: true}, start.Add(time.Duration(i)*time.Second))
	}
	end := start.Add(3 * maxPeriods * time.Second)
	if len(h.periods) > maxPeriods {
		t.Errorf("%d views are remembered", len(h.periods))
	}
	if blind := h.Blind(end, time.Hour, func(*View) bool { return true }); blind != time.Hour-maxPeriods*time.Second {
		t.Errorf("it knows of what it does not remember: blind for %v", blind)
	}
}

// TestEver: an answer counts for the time in which a view was in force.
func TestEver(t *testing.T) {
	h := NewHistory(time.Minute)
	h.Set(View{Settled: []string{"a"}}, start)
	h.Set(View{Settled: []string{"b"}}, start.Add(time.Second))
	for home, want := range map[string]time.Duration{"a": time.Second, "b": 9 * time.Second} {
		if !h.Ever(start.Add(10*time.Second), func(v *View, from, until time.Time) bool {
			return v.Home("http://x.test") == home && until.Sub(from) == want
		}) {
			t.Errorf("%s was not the home for %v", home, want)
		}
	}
}
