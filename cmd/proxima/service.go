package main

import (
	"context"
	"net"
	"os"
	"strconv"
	"time"

	"proxima/node/bell"
)

// serviceManager is a service manager such as systemd that expects messages about the node (sd_notify(3)). The zero value is none.
type serviceManager struct {
	socket   string
	watchdog time.Duration // time without a message after which it restarts the node; 0 means never
}

// managed reads the service manager from the environment.
func managed(getenv func(string) string, pid int) serviceManager {
	m := serviceManager{socket: getenv("NOTIFY_SOCKET")}
	if of := getenv("WATCHDOG_PID"); of == "" || of == strconv.Itoa(pid) {
		if us, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 {
			m.watchdog = time.Duration(us) * time.Microsecond
		}
	}
	return m
}

// tell sends lines of sd_notify. Errors are left to the manager, which notices missing messages.
func (m serviceManager) tell(lines string) {
	if m.socket == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(lines))
}

// run reports that the node is ready, and then its state regularly until ctx ends. state needs the locks of the crawl. If the crawl
// hangs, there is no report, and the watchdog restarts the node.
func (m serviceManager) run(ctx context.Context, state func() string) {
	if m.socket == "" {
		return
	}
	every := 10 * time.Second
	if m.watchdog > 0 {
		every = min(every, m.watchdog/3)
	}
	report := func() string { return "WATCHDOG=1\nSTATUS=" + state() }
	m.tell("READY=1\nMAINPID=" + strconv.Itoa(os.Getpid()) + "\n" + report())
	_ = bell.Every(ctx, every, func() { m.tell(report()) })
}
