package runlog

import (
	"bytes"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

func sampleSystem(dir string, l *Load) {
	l.Load1 = field("/proc/loadavg", 0)
	l.RSSBytes = int64(field("/proc/self/statm", 1)) * int64(os.Getpagesize())
	var use unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &use) == nil {
		l.CPUSeconds = float64(use.Utime.Nano()+use.Stime.Nano()) / 1e9
	}
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) == nil {
		l.DiskFreeBytes = int64(min(fs.Bavail, math.MaxInt64/uint64(fs.Bsize))) * int64(fs.Bsize)
	}
}

// field returns the i-th number in a file of proc(5), or 0.
func field(path string, i int) float64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	words := bytes.Fields(b)
	if i >= len(words) {
		return 0
	}
	v, err := strconv.ParseFloat(string(words[i]), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
