package lease

import (
	"slices"
	"testing"
	"time"

	"proxima/node/view"
)

// A dead member has no leases left after a window. It is remembered while it is still settled: otherwise the next view would take it for a
// member that has just gone.
func TestDeadMemberStaysOver(t *testing.T) {
	const window = 30 * time.Second
	for what, dead := range map[string]view.View{
		"unheard": {Alive: []string{"a"}, Settled: []string{"a"}},
		"settled": {Alive: []string{"a"}, Settled: []string{"a", "b"}},
		"missing": {Alive: []string{"a"}, Absent: []string{"b"}, Settled: []string{"a"}},
	} {
		now := time.Unix(1_000_000, 0)
		m := newMembers(window)
		m.set(view.View{Alive: []string{"a", "b"}, Settled: []string{"a", "b"}}, now)
		for age := time.Duration(0); age < 3*window; age += window / 6 {
			m.set(dead, now.Add(age))
			want := []string{"a", "b"}
			if age >= window {
				want = want[:1]
			}
			if got := m.all(now.Add(age)); !slices.Equal(got, want) {
				t.Errorf("%s, dead for %v: %q may have rights, want %q", what, age, got, want)
			}
		}
	}
}

// An earlier life is refused, unless the later one was not heard of for a window: a node that has lost its disk numbers its lives from the
// start.
func TestLivesAreForgotten(t *testing.T) {
	const window = 30 * time.Second
	now, l := time.Unix(1_000_000, 0), lives{}
	for i, step := range []struct {
		after time.Duration
		boot  uint64
		want  bool
	}{{0, 5, true}, {20 * time.Second, 4, false}, {20 * time.Second, 5, true}, {49 * time.Second, 4, false}, {50 * time.Second, 1, true}, {51 * time.Second, 1, true}} {
		if got := l.hear("a", step.boot, now.Add(step.after), window); got != step.want {
			t.Errorf("step %d: life %d is heard: %v", i, step.boot, got)
		}
	}
}
