package peer

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestLimitsOfTheProtocol: docs/protocol.md names the limits that are in force.
func TestLimitsOfTheProtocol(t *testing.T) {
	text, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, limits, _ := strings.Cut(strings.ReplaceAll(string(text), ",", ""), "\n## Limits\n")
	c := Default()
	for _, row := range []string{
		fmt.Sprintf("message decompressed | %d MiB", c.MessageMiB),
		fmt.Sprintf("messages and list elements in one message | %d", maxParts),
		fmt.Sprintf("call | %v s", callTime.Seconds()),
		fmt.Sprintf("connect with TLS | %v s", dialTime.Seconds()),
		fmt.Sprintf("calls carried out at once | %d", c.Calls),
		fmt.Sprintf("of these of one peer | %d", c.CallsPerPeer),
		fmt.Sprintf("connections | %d", c.Connections),
		fmt.Sprintf("connections that have not shown their certificate yet | %d see below", unproven),
		fmt.Sprintf("links for one peer listed in memory; more are on disk only | %d", c.OutboxLinks),
		fmt.Sprintf("links KiB of a message of links | %d %d", c.OutboxMessageLinks, c.OutboxMessageKiB),
	} {
		if !strings.Contains(limits, "\n| "+row+" |\n") {
			t.Errorf("it has no row %q", row)
		}
	}
}
