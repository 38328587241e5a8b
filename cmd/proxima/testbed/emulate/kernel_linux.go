package emulate

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// schedule asks for the promptest treatment that the kernel grants, and says which that is. It asks for every thread: the one that
// carries packets at times waits for another of the runtime.
func schedule() string {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // ns; the default rounds sleeps up by 50 µs
	if setThreads(unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1}) {
		return "real-time priority"
	}
	for _, nice := range []int32{-20, 0} {
		// A short slice makes the scheduler (EEVDF, since Linux 6.12) run a thread that wakes sooner, at no cost to its share.
		if setThreads(unix.SchedAttr{Policy: unix.SCHED_NORMAL, Nice: nice, Runtime: uint64(100 * time.Microsecond)}) {
			return fmt.Sprintf("nice %d, short slices", nice)
		}
	}
	return "ordinary priority"
}

// setThreads gives all threads of this process, and those to come, the same scheduling; false if the kernel refuses.
func setThreads(attr unix.SchedAttr) bool {
	attr.Size = unix.SizeofSchedAttr
	threads, err := filepath.Glob("/proc/self/task/*")
	for _, path := range threads {
		id, e := strconv.Atoi(filepath.Base(path))
		if e == nil {
			e = unix.SchedSetAttr(id, &attr, 0)
		}
		if !errors.Is(e, unix.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	return err == nil && unix.SchedSetAttr(0, &attr, 0) == nil
}

// readRaw and writeRaw never block, so they spare the scheduler's bookkeeping of system calls.
func readRaw(fd int, b []byte) (int, unix.Errno) {
	n, _, e := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return int(n), e
}

func writeRaw(fd int, b []byte) unix.Errno {
	_, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return e
}

// epollWait waits exactly, where timers of the runtime and epoll_wait round to a millisecond; a negative timeout is endless.
func epollWait(epoll int, events []unix.EpollEvent, timeout time.Duration) (int, error) {
	var limit *[2]int64 // seconds and nanoseconds, as the kernel has it on every architecture
	if timeout >= 0 {
		limit = &[2]int64{int64(timeout / time.Second), int64(timeout % time.Second)}
	}
	n, _, e := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		uintptr(unsafe.Pointer(limit)), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}
