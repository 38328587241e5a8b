package netsim

import "testing"

// Heavy skips a test that takes minutes under the race detector. scripts/test.sh runs it without; the same code runs under the
// detector in smaller tests.
func Heavy(t testing.TB) {
	t.Helper()
	if raceDetector {
		t.Skip("takes minutes under the race detector: scripts/test.sh runs it without")
	}
}
