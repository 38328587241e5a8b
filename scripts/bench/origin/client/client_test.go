package client

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// Who breaks a benchmark off is told just that, and not that the server is slow or its port taken.
func TestStartIsBrokenOff(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().(*net.TCPAddr).Port
	l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = Start(ctx, "origin", Config{Port: free + 1}, "sh", "-c", "exec tail -f /dev/null")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a start that is broken off fails by: %v", err)
	}
}
