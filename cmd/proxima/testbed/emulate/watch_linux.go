package emulate

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"proxima/ncoord/quantile"
	"proxima/node/bell"
)

// watch measures the load of the machine and how long processes wait for a core.
type watch struct {
	idle, total float64 // seconds of the processors at the start
	blind       bool    // whether /proc does not show the processes

	mu    sync.Mutex
	pids  []int
	seen  map[int]procfs.ProcSchedstat // by thread
	waits quantile.Histogram
}

const watchEvery = time.Second

func newWatch() (*watch, error) {
	_, silent := os.Stat("/proc/self/schedstat")
	idle, total, err := Ticks()
	return &watch{idle: idle, total: total, seen: map[int]procfs.ProcSchedstat{}, blind: silent != nil || !ownProc()}, err
}

func (w *watch) add(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pids = append(w.pids, pid)
}

func (w *watch) run(ctx context.Context) {
	if !w.blind {
		_ = bell.Every(ctx, watchEvery, w.sample)
	}
}

// sample reads the statistics of every thread of the watched processes. It removes processes that have ended.
func (w *watch) sample() {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, alive := map[int]procfs.ProcSchedstat{}, w.pids[:0]
	for _, pid := range w.pids {
		threads, _ := procfs.AllThreads(pid)
		for _, t := range threads {
			now, err := t.Schedstat()
			if err != nil { // it has ended
				continue
			}
			seen[t.PID] = now
			waited, runs := int64(now.WaitingNanoseconds-w.seen[t.PID].WaitingNanoseconds), int64(now.RunTimeslices-w.seen[t.PID].RunTimeslices)
			if runs > 0 && waited >= 0 {
				w.waits.Add(time.Duration(waited/runs), runs)
			}
		}
		if len(threads) > 0 {
			alive = append(alive, pid)
		}
	}
	w.seen, w.pids = seen, alive
}

func (w *watch) tell(s *Stats) error {
	idle, total, err := Ticks()
	if err != nil {
		return err
	}
	if total > w.total {
		s.Busy = 1 - (idle-w.idle)/(total-w.total)
	}
	if !w.blind {
		w.sample()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.WaitP99 = w.waits.Of(0.99)
	return nil
}

// Ticks returns how long the machine's processors were idle or waited for disks, and the time in total, in seconds.
func Ticks() (idle, total float64, err error) {
	fs, err := procfs.NewDefaultFS()
	var stat procfs.Stat
	if err == nil {
		stat, err = fs.Stat()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the load of the machine: %w", err)
	}
	c := stat.CPUTotal // User and Nice include the guests
	idle = c.Idle + c.Iowait
	return idle, idle + c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal, nil
}
