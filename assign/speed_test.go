package assign_test

import (
	"testing"
	"time"

	"proxima/assign"
	"proxima/assign/assigntest"
)

// BenchmarkDecide is the decision about a batch of 100 servers among 1,000 nodes with all answers in hand: from nothing to the
// choices.
func BenchmarkDecide(b *testing.B) {
	w := assigntest.NewWorld(assigntest.MadeUp(400, 1), assigntest.WorldConfig{Nodes: 1000, Servers: 100, Seed: 1})
	batch := w.Batch()
	a := build(b, budget(8), batch, w)
	_, now := w.Decide(a, time.Unix(0, 0), time.Second)
	for i := range batch.Servers {
		batch.Servers[i].Memory = *a.Memory(batch.Servers[i].Addr)
	}
	view := w.View()
	for b.Loop() {
		a, err := assign.New(assign.Nearest, budget(0), batch, view, now)
		if err != nil {
			b.Fatal(err)
		}
		a.Asks(now)
		if _, done := a.Decide(now); !done {
			b.Fatal("not decided")
		}
	}
}
