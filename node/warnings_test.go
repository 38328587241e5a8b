package node

import (
	"fmt"
	"testing"
	"time"
)

// TestWarningsOfUnavailablePeers: one stands for all within ten seconds, and the next one says how many there were.
func TestWarningsOfUnavailablePeers(t *testing.T) {
	var w warnings
	var said []string
	for s := range 25 {
		if text := fmt.Sprint("call ", s); w.heard(&text, time.Unix(int64(s), 0)) {
			said = append(said, text)
		}
	}
	if got, want := fmt.Sprint(said), "[call 0 call 10 (and 9 other calls failed) call 20 (and 9 other calls failed)]"; got != want {
		t.Errorf("said %s, want %s", got, want)
	}
}
