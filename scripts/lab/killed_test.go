package lab

import (
	"slices"
	"testing"
	"time"
)

func TestKillings(t *testing.T) {
	k := Killed{Kills: 50, Seed: 7, Think: time.Millisecond}
	a := k.killings(1000)
	if !slices.Equal(a, k.killings(1000)) {
		t.Error("the same seed gives different moments")
	}
	k.Seed++
	if slices.Equal(a, k.killings(1000)) {
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
