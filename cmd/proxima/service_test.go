package main

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestServiceManagerHearsThatTheNodeIsReadyAndLives(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	env := map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "3000", "WATCHDOG_PID": "7"}
	getenv := func(key string) string { return env[key] }
	if m := managed(getenv, 8); m.watchdog != 0 {
		t.Errorf("watchdog of another process: %v", m.watchdog)
	}
	m := managed(getenv, 7)
	if m.watchdog != 3*time.Millisecond {
		t.Errorf("watchdog = %v", m.watchdog)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.run(ctx, func() string { return "crawls" })
	}()
	heard := func() string {
		b := make([]byte, 1000)
		l.SetReadDeadline(time.Now().Add(patience))
		n, err := l.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	if first := heard(); !strings.HasPrefix(first, "READY=1\nMAINPID=") || !strings.HasSuffix(first, "WATCHDOG=1\nSTATUS=crawls") {
		t.Errorf("first heard %q", first)
	}
	if next := heard(); next != "WATCHDOG=1\nSTATUS=crawls" {
		t.Errorf("then heard %q", next)
	}
	stop()
	<-ended
}

func TestWithoutServiceManagerNothingIsTold(t *testing.T) {
	m := managed(func(string) string { return "" }, 1)
	m.run(t.Context(), func() string { t.Error("asked"); return "" })
	m.tell("STOPPING=1")
}
