package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// serviceManager is who started the node as a service, and asks to be told how it is: systemd and its like (sd_notify(3)).
// The zero value is nobody.
type serviceManager struct {
	socket   string
	watchdog time.Duration // it restarts a node that it has not heard of for so long, 0: never
}

// managed reads from the environment who wants to be told.
func managed(getenv func(string) string, pid int) serviceManager {
	m := serviceManager{socket: getenv("NOTIFY_SOCKET")}
	if of := getenv("WATCHDOG_PID"); of == "" || of == strconv.Itoa(pid) {
		if us, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 {
			m.watchdog = time.Duration(us) * time.Microsecond
		}
	}
	return m
}

// tell sends lines of sd_notify. What cannot be sent is not worth a failure of the crawl: the watchdog's silence says it.
func (m serviceManager) tell(lines string) error {
	if m.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(lines)); err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	return nil
}

// run tells that the node is ready, then how it is, until ctx ends. state asks the crawl itself: a crawl that stands still
// with its locks held answers nothing, so the watchdog bites.
func (m serviceManager) run(ctx context.Context, state func() string) {
	if m.socket == "" {
		return
	}
	every := 10 * time.Second
	if m.watchdog > 0 {
		every = min(every, m.watchdog/3)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	say := "READY=1\nMAINPID=" + strconv.Itoa(os.Getpid()) + "\n"
	for {
		m.tell(say + "WATCHDOG=1\nSTATUS=" + state())
		say = ""
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
