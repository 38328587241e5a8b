package client

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"proxima/scripts/lab"
)

// Who breaks a benchmark off is told just that, and not that the server is slow or its port taken.
func TestStartIsBrokenOff(t *testing.T) {
	free, err := lab.Addresses("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = Start(ctx, "origin", Config{Port: int(netip.MustParseAddrPort(free[0]).Port()) + 1}, "sh", "-c", "exec tail -f /dev/null")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a start that is broken off fails by: %v", err)
	}
}
