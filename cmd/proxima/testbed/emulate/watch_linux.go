package emulate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// watch measures how busy the machine is and how long processes wait for a core.
type watch struct {
	idle, total int64 // ticks at the start
	blind       bool  // /proc does not show the processes

	mu    sync.Mutex
	pids  []int
	seen  map[string]slice // by path of a thread's schedstat
	waits histogram
}

// slice is what the kernel counts of one thread: time waited for a core, and how often it got one.
type slice struct {
	waited time.Duration
	runs   int64
}

const watchEvery = time.Second

func newWatch() (*watch, error) {
	w := &watch{seen: map[string]slice{}, blind: !ownProc()}
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		w.blind = true
	}
	var err error
	w.idle, w.total, err = ticks()
	return w, err
}

// add watches one more process.
func (w *watch) add(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pids = append(w.pids, pid)
}

// run samples until ctx ends.
func (w *watch) run(ctx context.Context) {
	if w.blind {
		return
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.sample()
		}
	}
}

// sample looks at every thread of the watched processes and forgets those that are gone.
func (w *watch) sample() {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, alive := map[string]slice{}, w.pids[:0]
	for _, pid := range w.pids {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, path := range threads {
			now, ok := readSlice(path)
			if !ok {
				continue
			}
			seen[path] = now
			before := w.seen[path]
			if runs := now.runs - before.runs; runs > 0 && now.waited >= before.waited {
				w.waits.add((now.waited-before.waited)/time.Duration(runs), runs)
			}
		}
		if len(threads) > 0 {
			alive = append(alive, pid)
		}
	}
	w.seen, w.pids = seen, alive
}

func readSlice(path string) (slice, bool) {
	b, err := os.ReadFile(path)
	fields := strings.Fields(string(b))
	if err != nil || len(fields) != 3 {
		return slice{}, false
	}
	waited, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return slice{}, false
	}
	runs, err := strconv.ParseInt(fields[2], 10, 64)
	return slice{time.Duration(waited), runs}, err == nil
}

// tell adds what was measured to s.
func (w *watch) tell(s *Stats) error {
	idle, total, err := ticks()
	if err != nil {
		return err
	}
	if total > w.total {
		s.Busy = 1 - float64(idle-w.idle)/float64(total-w.total)
	}
	if s.Waited = !w.blind; s.Waited {
		w.sample()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.WaitP50, s.WaitP99 = w.waits.quantile(0.5), w.waits.quantile(0.99)
	return nil
}

// ticks reads how long the machine's processors were idle, and idle or not, in ticks.
func ticks() (idle, total int64, err error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, fmt.Errorf("read how busy the machine is: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	for i, field := range strings.Fields(line) {
		n, err := strconv.ParseInt(field, 10, 64)
		// Columns after the eighth are counted in the first two already.
		if err != nil || i > 8 {
			continue
		}
		total += n
		if i == 4 || i == 5 { // idle, waiting for disks
			idle += n
		}
	}
	return idle, total, nil
}
