package netsim

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a kernel timer. While a process sleeps, Go's timers are rounded to a millisecond; this one is exact.
type alarm struct{ file *os.File }

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create timer: %w", err)
	}
	return &alarm{os.NewFile(uintptr(fd), "timer")}, nil
}

// set makes it ring once after a while, replacing any earlier setting. On a closed alarm it does nothing.
func (a *alarm) set(after time.Duration) {
	raw, err := a.file.SyscallConn()
	if err != nil {
		return
	}
	when := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(1, after)))}
	_ = raw.Control(func(fd uintptr) { _ = unix.TimerfdSettime(int(fd), 0, &when, nil) })
}

// wait returns when it rings, or with an error when it is closed.
func (a *alarm) wait() error {
	var rings [8]byte
	_, err := a.file.Read(rings[:])
	return err
}

func (a *alarm) close() error { return a.file.Close() }
