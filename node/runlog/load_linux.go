package runlog

import (
	"math"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

func sampleSystem(dir string, l *Load) {
	if proc, err := procfs.NewDefaultFS(); err == nil {
		if load, err := proc.LoadAvg(); err == nil {
			l.Load1 = load.Load1
		}
		if self, err := proc.Self(); err == nil {
			stat, _ := self.Stat() // nothing after an error
			l.RSSBytes = int64(stat.ResidentMemory())
		}
	}
	var use unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &use) == nil {
		l.CPUSeconds = float64(use.Utime.Nano()+use.Stime.Nano()) / 1e9
	}
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) == nil {
		l.DiskFreeBytes = int64(min(fs.Bavail, math.MaxInt64/uint64(fs.Bsize))) * int64(fs.Bsize)
	}
}
