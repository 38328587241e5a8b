package main

import (
	"slices"
	"testing"
	"time"
)

func TestKillings(t *testing.T) {
	s := settings{kills: 50, seed: 7, think: time.Millisecond}
	a := s.killings(1000)
	if !slices.Equal(a, s.killings(1000)) {
		t.Error("the same seed gives different moments")
	}
	s.seed++
	if slices.Equal(a, s.killings(1000)) {
		t.Error("different seeds give the same moments")
	}
	last, starting := 0, 0
	for i, p := range a {
		if p.starting {
			starting++
			continue
		}
		if p.after > 950 || p.after < last {
			t.Errorf("kill %d after %d answers", i, p.after)
		}
		last = p.after
	}
	if starting < 5 || starting > 25 {
		t.Errorf("%d of 50 kills are aimed at a start", starting)
	}
}
