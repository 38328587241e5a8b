//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// prefix begins the names of networks and devices.
const prefix = "pxssh"

// separate is what the part inside has of its own.
const separate = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID

// namespaces says why there are none to be had, nil if there are.
func namespaces(ctx context.Context) error {
	if os.Getuid() != 0 {
		return errors.New("not root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return errors.New("iproute2 is not installed")
	}
	c := exec.CommandContext(ctx, "sh", "-c", "mount --make-rprivate / && mount -t tmpfs none /run && mkdir /run/netns && "+
		"ip link add pxssh type bridge && ip netns add a && ip link add v type veth peer name w netns a")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: separate}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// start starts the part inside, in namespaces or not; it is killed if this process dies. The channel has its end.
func start(c *exec.Cmd, apart bool) (<-chan error, error) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if apart {
		c.SysProcAttr.Cloneflags = separate
	}
	started, end := make(chan error), make(chan error, 1)
	go func() {
		// The signal comes when the thread ends that started it.
		runtime.LockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			end <- c.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the part inside: %w", err)
	}
	return end, nil
}

// enter makes the new namespaces usable: an own /proc, and an own /run, in which the names of networks lie.
func enter() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for _, dir := range []string{"/run/netns", "/run/sshd"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	return nil
}

// process is one that has to do with a folder.
type process struct {
	pid      int
	exe, cwd string
	args     []string
}

// processesOf lists the processes but this one whose program, working directory or arguments lie in a folder.
func processesOf(dir string) []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var list []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		p := process{pid: pid}
		p.exe, _ = os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		p.cwd, _ = os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		p.args = strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		in := func(path string) bool { return path == dir || strings.Contains(path, dir+"/") }
		if in(p.exe) || in(p.cwd) || slices.ContainsFunc(p.args, in) {
			list = append(list, p)
		}
	}
	return list
}

// leftovers names processes of a folder, and what still is in the folder for temporary files.
func leftovers(dir string) (left []string) {
	for _, p := range processesOf(dir) {
		left = append(left, fmt.Sprintf("process %d (%.100s)", p.pid, strings.Join(p.args, " ")))
	}
	for _, place := range []string{"/sys/class/net", "/run/netns"} {
		names, _ := filepath.Glob(filepath.Join(place, prefix+"*"))
		left = append(left, names...)
	}
	files, _ := os.ReadDir(filepath.Join(dir, "tmp"))
	for _, f := range files {
		left = append(left, "temporary file "+f.Name())
	}
	return left
}

// nodesOf lists the nodes that run in a folder.
func nodesOf(dir string) []process {
	return slices.DeleteFunc(processesOf(dir), func(p process) bool {
		return filepath.Base(strings.TrimSuffix(p.exe, " (deleted)")) != "proxima"
	})
}
