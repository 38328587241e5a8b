package member

import (
	"testing"
	"time"
)

// What was asked before this node stood still says nothing of now, whenever the answer comes.
func TestAnswersToWhatWasAskedBeforeAStop(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	table := newTable(Default(), nodeID(0), 1, true, now)
	table.seen(nodeID(1), "10.0.0.1:1", meta{boot: 1, addr: "10.0.0.1:2"}, nil, now)
	table.forget(now.Add(time.Second))
	r := table.members[nodeID(1)]
	if table.answered(nodeID(1), now); !r.heard.IsZero() {
		t.Error("an answer to what was asked before the stop counts")
	}
	if table.answered(nodeID(1), now.Add(2*time.Second)); r.heard.IsZero() {
		t.Error("an answer to what was asked after it does not")
	}
	if table.answered(nodeID(1), now.Add(time.Second)); !r.heard.Equal(now.Add(2 * time.Second)) {
		t.Error("a late answer makes an earlier one of a later one")
	}
}
