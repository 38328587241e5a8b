package main

import (
	"maps"
	"slices"
	"testing"
	"time"

	"proxima/scripts/lab"
)

func TestParseFaults(t *testing.T) {
	for list, want := range map[string]counts{
		"kill=10,freeze": {kill: 10, freeze: 4},
		"none":           {},
		"join=0":         {join: 0},
	} {
		if got, err := parseFaults(list); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v", list, got, err)
		}
	}
	for _, list := range []string{"", "burn", "kill=x", "kill=-1"} {
		if got, err := parseFaults(list); err == nil {
			t.Errorf("%q: %v", list, got)
		}
	}
}

func TestPlans(t *testing.T) {
	s := settings{faults: counts{kill: 30, erase: 4, freeze: 50}, pages: 20000, seed: 7, faster: 7.5, fetch: 1, shortest: 5 * time.Second, longest: 150 * time.Second}
	a := plans(s)
	if !slices.Equal(a, plans(s)) {
		t.Error("the same seed gives different moments")
	}
	s.seed++
	if slices.Equal(a, plans(s)) {
		t.Error("different seeds give the same moments")
	}
	seen, taken, brief := counts{}, counts{}, 0
	for i, p := range a {
		if p.after > 15000 || i > 0 && p.after < a[i-1].after {
			t.Errorf("fault %d after %d requests", i, p.after)
		}
		seen[p.kind]++
		if p.lasts > configure(s, &lab.Layout{}, &lab.Node{}).Ownership.TakeAfter {
			taken[p.kind]++
		}
		if p.kind == freeze && (p.lasts < s.shortest || p.lasts > s.longest) {
			t.Errorf("frozen for %v", p.lasts)
		}
		if p.kind == freeze && p.lasts < 20*time.Second {
			brief++
		}
	}
	if !maps.Equal(seen, s.faults) || taken[kill] != 6 || taken[erase] != 2 || brief < 10 || brief > 35 {
		t.Errorf("%v, of them %v outlast a takeover; %d freezes are brief", seen, taken, brief)
	}
}

func TestChoose(t *testing.T) {
	alive := []*lab.Node{{Index: 0}, {Index: 1}, {Index: 2}}
	drawn := map[int]int{}
	for pick := range uint64(1000) {
		drawn[choose(alive, map[int]int{1: 90, 2: 10}, pick).Index]++
	}
	if drawn[0] < 20 || drawn[2] < drawn[0] || drawn[1] < 600 {
		t.Errorf("drawn %v", drawn)
	}
	if choose(alive, nil, 5) == nil {
		t.Error("nobody is drawn where nobody works")
	}
}
