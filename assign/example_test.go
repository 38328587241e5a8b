package assign_test

import (
	"fmt"
	"net/netip"
	"time"

	"proxima/assign"
)

// An assigner is a step machine: it asks for downloads, is told their times, and decides.
func Example() {
	addr := netip.MustParseAddr("192.0.2.1")
	batch := assign.Batch{ID: "example", Seed: 1, Servers: []assign.Server{{
		Addr: addr, Hosts: []assign.Host{{Name: "example.org", Pending: 100}},
	}}}
	took := map[string]time.Duration{"berlin": 30 * time.Millisecond, "tokyo": 250 * time.Millisecond, "york": 90 * time.Millisecond}
	var view assign.View
	for name := range took {
		view.Nodes = append(view.Nodes, assign.Node{ID: name})
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a, err := assign.New(assign.Nearest, assign.Default(), batch, view, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		choices, done := a.Decide(now)
		if done {
			fmt.Println(choices[0].Server, "goes to", choices[0].Node)
			return
		}
		for _, ask := range a.Asks(now) {
			connect := took[ask.Node]
			a.Observe(assign.Result{Ask: ask, OK: true, Timing: assign.Timing{
				Connect: connect, FirstByte: connect + 10*time.Millisecond, Total: 3 * connect, Bytes: 20_000,
			}}, now)
		}
		if next, ok := a.Next(now); ok {
			now = next
		}
	}
	// Output: 192.0.2.1 goes to berlin
}
