package node

import (
	"strings"
	"testing"
	"time"
)

// A peer's entry counts only as this node would have written it: else two nodes would add up other digests of the same.
func TestParseBlock(t *testing.T) {
	good := Block{On: "a.test", Version: 3, By: "ann", Node: "n", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Why: "<b>"}
	if b, err := parseBlock(good.entry()); err != nil || b != good {
		t.Fatalf("%v, %v", b, err)
	}
	for _, c := range [][2]string{
		{`"a.test"`, `"A.test"`}, {`"a.test"`, `"*"`}, {`"version":3`, `"version":0`}, {`"version":3`, `"version":9007199254740993`},
		{`"version":3`, `"version":-1`}, {`"version":3`, `"version":3,"more":1`}, {`"version":3`, `"version": 3`}, {`04:05Z`, `04:05+01:00`},
		{`\u003cb\u003e`, `<b>`}, {`\u003cb\u003e`, `\u001b[31m`}, {`{`, `[`}, {`"n"`, `"` + strings.Repeat("n", 101) + `"`},
	} {
		entry := strings.Replace(good.entry(), c[0], c[1], 1)
		if entry == good.entry() {
			t.Errorf("%s is not there", c[0])
		}
		if b, err := parseBlock(entry); err == nil {
			t.Errorf("%s: taken as %v", entry, b)
		}
	}
}

// Of two blocks all nodes choose the same one.
func TestNewerBlock(t *testing.T) {
	low, high := Block{On: "a", Version: 2, Why: "z"}, Block{On: "a", Version: 3, Why: "a"}
	if low.newer(high) || !high.newer(low) || high.newer(high) {
		t.Error("not the higher version holds")
	}
	at := high
	at.Why = "b"
	if high.newer(at) == at.newer(high) {
		t.Error("of one version both hold, or none")
	}
}
