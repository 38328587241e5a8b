package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"proxima/scripts/lab"
)

// Usage is what one process tree took.
type Usage struct {
	Wall     time.Duration `json:"wall_ns"` // from start to exit
	CPU      time.Duration `json:"cpu_ns"`  // user and system time of the process and of all descendants it waited for
	PeakRSS  int64         `json:"peak_rss_bytes"`
	TimedOut bool          `json:"timed_out"`
	Exit     int           `json:"exit"` // exit code; -1 where a signal ended it
	Stderr   string        `json:"stderr,omitempty"`
}

const (
	firstPoll   = 2 * time.Millisecond // short crawls are polled often, long ones rarely
	lastPoll    = 100 * time.Millisecond
	waitForKill = 5 * time.Second // for the pipes of a killed tree
)

// measure runs argv on the given cores and waits for it, for limit at most. An exit code other than 0 is no error here: the
// report shows it. The command gets its own process group, so that nothing of it outlives the run.
func measure(ctx context.Context, argv []string, dir, cpus string, limit time.Duration) (Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if cpus != "" {
		// taskset replaces itself by the command, so it adds neither a process nor CPU time worth naming.
		argv = append([]string{"taskset", "-c", cpus}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = waitForKill
	start := time.Now()
	p, err := lab.Start(cmd)
	if err != nil {
		return Usage{}, err
	}
	peak := pollRSS(p)
	u := Usage{Wall: time.Since(start), PeakRSS: peak, CPU: p.CPU(), TimedOut: ctx.Err() != nil, Stderr: strings.TrimSpace(string(p.Tail()))}
	err = p.Wait()
	_ = syscall.Kill(-p.Pid(), syscall.SIGKILL) // stragglers of the group; none is the normal case
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !u.TimedOut {
		return u, fmt.Errorf("wait for %s: %w", argv[0], err)
	}
	u.Exit = cmd.ProcessState.ExitCode()
	// The kernel's own mark of the largest process is exact, but starts at this program's memory, which the child shares
	// until it becomes the command: it counts where it is higher.
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		if r.Maxrss<<10 > lab.MemoryOf(os.Getpid()).Peak {
			u.PeakRSS = max(u.PeakRSS, r.Maxrss<<10)
		}
	}
	return u, nil
}

// pollRSS returns the peak resident memory of a process tree in bytes, once the process has ended: the largest sum seen, or the
// highest mark of a single process, which the kernel keeps between the polls.
func pollRSS(p *lab.Process) int64 {
	var peak int64
	for wait := firstPoll; ; wait = min(wait*5/4, lastPoll) {
		var sum int64
		for _, pid := range tree(p.Pid()) {
			m := lab.MemoryOf(pid)
			sum += m.Resident
			peak = max(peak, m.Peak)
		}
		peak = max(peak, sum)
		select {
		case <-p.Ended():
			return peak
		case <-time.After(wait):
		}
	}
}

// tree lists a process and its descendants. Processes may end meanwhile; they are left out.
func tree(root int) []int {
	all := []int{root}
	for i := 0; i < len(all); i++ {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for _, f := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(f); err == nil {
					all = append(all, pid)
				}
			}
		}
	}
	return all
}
