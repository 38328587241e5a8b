package assign

import (
	"slices"
	"time"
)

// Conclude of the assigners that have decided from the beginning.
func (a *random) Conclude(now time.Time) []Choice {
	choices, _ := a.Decide(now)
	return choices
}

func (a *geographic) Conclude(now time.Time) []Choice {
	choices, _ := a.Decide(now)
	return choices
}

// Conclude decides as after the last tick.
func (a *vivaldi) Conclude(time.Time) []Choice {
	if a.choices == nil {
		a.choices = a.decide()
	}
	return slices.Clone(a.choices)
}

// Conclude decides as if no estimate were worth its cost any more.
func (a *nearest) Conclude(now time.Time) []Choice {
	if a.choices == nil {
		if len(a.view.Nodes) > 0 {
			a.learn(now)
		}
		a.choices = a.decide()
	}
	return slices.Clone(a.choices)
}
