package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// serviceManager is a service manager such as systemd that wants to hear how the node is (sd_notify(3)). The zero value is none.
type serviceManager struct {
	socket   string
	watchdog time.Duration // it restarts a node that is silent for so long; 0 means never
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

// tell sends lines of sd_notify. A failure does not harm the crawl, and the manager notices the silence.
func (m serviceManager) tell(lines string) error {
	if m.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	defer conn.Close()
	if _, err = conn.Write([]byte(lines)); err != nil {
		err = fmt.Errorf("tell the service manager: %w", err)
	}
	return err
}

// run says that the node is ready, then how it is, until ctx ends. state asks the crawl itself: one that hangs with its locks held does
// not answer, so the watchdog restarts it.
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
