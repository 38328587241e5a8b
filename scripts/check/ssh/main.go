//go:build linux

// Command ssh checks long crawls on real machines (proxima fleet select, deploy, start, status, stop, collect) against real SSH servers. Ten
// hosts have a home directory and a load of their own. One does not answer, one refuses the key, and one has an unknown host key. Three
// nodes crawl a small site. Every step runs twice, because proxima fleet promises that they can be repeated.
//
// As root it runs in namespaces of its own (package emulate): each host has its own network, and the kernel ends everything in them even
// if the check is killed. Otherwise the hosts are SSH servers of this user on loopback, and all have the load of this machine.
// Exit codes: 0 all held, 1 something did not, 2 wrong usage, 3 a program is not installed. Run it from the root of the repository:
//
//	go run ./scripts/check/ssh
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"proxima/cmd/proxima/testbed/emulate"
	"proxima/cmd/proxima/testbed/sshd"
	"proxima/scripts/lab"
)

type settings struct {
	lab.Place
	loopback bool
}

func main() {
	if handled, code := emulate.Child(os.Args[1:]); handled {
		os.Exit(code)
	}
	var s settings
	s.Flags()
	flag.BoolVar(&s.loopback, "loopback", false, "use no namespaces, even if they are available")
	limit := flag.Duration("limit", 8*time.Minute, "longest `time` of the whole check")
	flag.Parse()
	lab.Refuse(false)
	lab.Main("ssh", *limit, func(ctx context.Context) (bool, error) {
		if emulate.Inside() {
			return true, check(ctx, s)
		}
		return outside(ctx, s)
	})
}

// outside runs the check inside namespaces if it can, and in this process otherwise.
func outside(ctx context.Context, s settings) (ok bool, err error) {
	if err = lab.Installed("go", "tar", "gzip", "sha256sum"); err == nil {
		_, err = sshd.Find()
	}
	if err != nil {
		return false, lab.Missing{Err: fmt.Errorf("SKIPPED, nothing was checked: %w", err)}
	}
	remove, err := s.Open(ctx, "ssh")
	if err != nil {
		return false, err
	}
	defer remove()
	if s.Dir, err = filepath.EvalSymlinks(s.Dir); err != nil { // as /proc shows it
		return false, fmt.Errorf("find directory: %w", err)
	}
	why := errors.New("-loopback is set")
	if !s.loopback {
		if why = namespaces(ctx); why == nil {
			code, err := emulate.Reexec(ctx, append(slices.Clone(os.Args[1:]), "-dir", s.Dir, "-proxima", s.Proxima)...)
			return code == 0, err
		}
	}
	fmt.Printf("no namespaces: %v; the hosts are on loopback and have the load of this machine\n", why)
	s.loopback = true
	return true, check(ctx, s)
}

// namespaces reports why this process cannot have the namespaces that sshd needs; nil if it can. sshd needs root, and more users than a
// user namespace has.
func namespaces(ctx context.Context) error {
	if os.Getuid() != 0 {
		return errors.New("not root")
	}
	trial := exec.CommandContext(ctx, "true")
	trial.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	if err := trial.Run(); err != nil {
		return err
	}
	return emulate.Preflight(ctx).Err()
}

// check runs all steps and looks for whatever they left behind.
func check(ctx context.Context, s settings) (err error) {
	began := time.Now()
	if self, err := os.Readlink("/proc/self"); err != nil || self != fmt.Sprint(os.Getpid()) {
		return fmt.Errorf("/proc does not show this process namespace: use -loopback (%v)", err)
	}
	b, err := newBed(ctx, s)
	if err == nil {
		err = newCourse(b).run(ctx)
	}
	if err := errors.Join(err, b.close()); err != nil {
		return err
	}
	var left []string // a killed process takes a moment to die
	if !lab.Within(ctx, 10*time.Second, func() bool { left = leftovers(s.Dir); return len(left) == 0 }) {
		return fmt.Errorf("left behind: %s", strings.Join(left, ", "))
	}
	fmt.Printf("nothing is left behind\nPASS in %.0f s\n", time.Since(began).Seconds())
	return nil
}
