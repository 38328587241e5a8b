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

// Usage has the resources that a process tree used.
type Usage struct {
	Wall     time.Duration `json:"wall_ns"` // from start to exit
	CPU      time.Duration `json:"cpu_ns"`  // user and system time of the process and of all descendants it waited for
	PeakRSS  int64         `json:"peak_rss_bytes"`
	TimedOut bool          `json:"timed_out"`
	Exit     int           `json:"exit"` // exit code; -1 if a signal ended it
	Stderr   string        `json:"stderr,omitempty"`
}

const (
	firstPoll   = 2 * time.Millisecond // the interval grows, so that long crawls are polled rarely
	lastPoll    = 100 * time.Millisecond
	waitForKill = 5 * time.Second // until the output of a killed process tree is closed
)

// measure runs argv on the given cores and waits for its end or the time limit. An exit code other than 0 is not an error, since the
// report shows it. The command has its own process group, so that measure can kill all its processes.
func measure(ctx context.Context, argv []string, dir, cpus string, limit time.Duration) (Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if cpus != "" {
		// taskset replaces itself with the command, so it adds no process and hardly any CPU time.
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
	_ = syscall.Kill(-p.Pid(), syscall.SIGKILL) // there is usually no process left
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited && !u.TimedOut {
		return u, fmt.Errorf("wait for %s: %w", argv[0], err)
	}
	u.Exit = cmd.ProcessState.ExitCode()
	return u, nil
}

// pollRSS polls until the process has ended, and returns the peak resident memory of its tree in bytes: the largest sum at a poll, or the
// maximum of a single process according to the kernel, if that is larger.
func pollRSS(p *lab.Process) int64 {
	var peak uint64
	for wait := firstPoll; ; wait = min(wait*5/4, lastPoll) {
		var sum uint64
		for _, pid := range tree(p.Pid()) {
			s := lab.StatusOf(pid)
			sum += s.VmRSS
			peak = max(peak, s.VmHWM)
		}
		peak = max(peak, sum)
		select {
		case <-p.Ended():
			return int64(peak)
		case <-time.After(wait):
		}
	}
}

// tree returns a process and its descendants, except those that end in the meantime.
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
