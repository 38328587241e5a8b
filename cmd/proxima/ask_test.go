package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"proxima/node"
)

// The mean since the start is not taken for the speed of a node that does nothing any more.
func TestStatusHasAMean(t *testing.T) {
	var out strings.Builder
	s := node.Status{UptimeS: 100}
	s.Crawl.Pages = 250
	showStatus(&out, s)
	holds(t, out.String(), "\n2.5 pages/s since the start · 250 pages · 0 queued · nothing is waiting")
}

// A table of members fits a terminal. What nobody has measured is not 0 ms.
func TestShowMembers(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 2)
	alive := node.MemberRow{PeerStatus: node.PeerStatus{ID: id, Addr: "255.255.255.255:65535", Phase: "alive", ForS: 4e6, Settled: true, RTTMs: 1234.56, Reach: "outbound", Links: 123456}, QueueMs: 0.2}
	dead := alive
	dead.Phase, dead.RTTMs, dead.QueueMs = "dead", 0, 0
	var out strings.Builder
	showMembers(&out, []node.MemberRow{alive, dead})
	lines := strings.Split(out.String(), "\n")
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 90 {
			t.Errorf("a line of %d characters: %s", n, line)
		}
	}
	for i, want := range []string{"01234567 alive outbound 1111h6m40s true 1234.6 0 123456 255.255.255.255:65535", "01234567 dead outbound 1111h6m40s true - - 123456 255.255.255.255:65535"} {
		if got := strings.Join(strings.Fields(lines[i+1]), " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
