package emulate

import (
	"errors"
	"path/filepath"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// schedule gives this process the best scheduling that the kernel allows. It applies to every thread, because the thread that carries packets
// sometimes waits for another thread of the runtime.
func schedule() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // ns; by default sleeps are up to 50 µs longer
	if setThreads(unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1}) {
		return
	}
	for _, nice := range []int32{-20, 0} {
		// With a short slice, the EEVDF scheduler (since Linux 6.12) runs a thread sooner after it wakes. Its share remains the same.
		if setThreads(unix.SchedAttr{Policy: unix.SCHED_NORMAL, Nice: nice, Runtime: uint64(100 * time.Microsecond)}) {
			return
		}
	}
}

// setThreads sets the scheduling of all threads of this process, and of later ones. It returns false if the kernel refuses.
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

// readRaw and writeRaw never block, so they need not inform the runtime's scheduler of a system call.
func readRaw(fd int, b []byte) (int, unix.Errno) {
	n, _, e := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return int(n), e
}

func writeRaw(fd int, b []byte) unix.Errno {
	_, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return e
}
