package emulate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// insideVariable tells the program that it runs inside; its value is insideUser where there is a user namespace, else insideRoot.
	insideVariable = "PROXIMA_EMULATE"
	insideUser     = "user"
	insideRoot     = "root"
	// pidVariable holds the inside's process id as seen from outside.
	pidVariable = "PROXIMA_EMULATE_PID"
	// Hidden subcommands.
	routerCommand = "emulate-router"
	probeCommand  = "emulate-probe"
	// stopPatience is how long the inside may take to stop in order.
	stopPatience = 2 * time.Minute
)

// Child does the work of this process if the package started it for a purpose of its own, and then says with which code to exit.
// It must be called first thing in main, with os.Args[1:].
func Child(args []string) (handled bool, code int) {
	var err error
	switch {
	case len(args) > 0 && args[0] == routerCommand:
		handled, err = true, runRouter()
	case len(args) > 0 && args[0] == probeCommand:
		handled, err = true, probe(os.Stdout)
	case Inside():
		if err = settle(); err == nil {
			return false, 0
		}
		handled = true
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "emulated network:", err)
		return true, 1
	}
	return handled, 0
}

// Inside says whether this process was started by Reexec and so has namespaces of its own.
func Inside() bool { return os.Getpid() == 1 && os.Getenv(insideVariable) != "" }

// Reexec runs this program again inside new namespaces, with those arguments (without the program's name) and the standard
// streams of this process, and returns its exit code. A terminal is not passed as input: the inside is no foreground process, so
// that Ctrl-C reaches it once. When ctx ends the inside gets an interrupt and two minutes to stop in order. Everything inside
// ends with the inside, and the inside with this process.
func Reexec(ctx context.Context, args ...string) (code int, err error) {
	program, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find this program: %w", err)
	}
	// The kernel ends the inside when the thread that started it ends, so this thread is kept.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd, err := startInside(func() *exec.Cmd {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if _, err := unix.IoctlGetTermios(0, unix.TCGETS); err != nil {
			cmd.Stdin = os.Stdin
		}
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = stopPatience
		return cmd
	})
	if err != nil {
		return 0, err
	}
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 0, fmt.Errorf("run in namespaces: ended by signal: %v", status.Signal())
		}
		return exit.ExitCode(), nil
	}
	if err != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("run in namespaces: %w", err)
	}
	return cmd.ProcessState.ExitCode(), nil
}

// startInside starts a command in new namespaces: as root without a user namespace, if that is allowed, else with one in which
// this user is root.
func startInside(command func() *exec.Cmd) (*exec.Cmd, error) {
	const spaces = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
	user := &syscall.SysProcAttr{
		Cloneflags: spaces | syscall.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL, Setpgid: true,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	start := func(attr *syscall.SysProcAttr, kind string) (*exec.Cmd, error) {
		cmd := command()
		cmd.SysProcAttr = attr
		cmd.Env = append(cmd.Environ(), insideVariable+"="+kind)
		return cmd, cmd.Start()
	}
	if os.Geteuid() == 0 {
		root := &syscall.SysProcAttr{Cloneflags: spaces, Pdeathsig: syscall.SIGKILL, Setpgid: true}
		if cmd, err := start(root, insideRoot); err == nil {
			return cmd, nil
		}
	}
	cmd, err := start(user, insideUser)
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err // the program is there: what failed are the namespaces
	}
	if err != nil {
		return nil, fmt.Errorf("start a process in new namespaces: %w", err)
	}
	return cmd, nil
}

// settle gives the mount namespace a /proc of its own pid namespace. Where the kernel refuses (a container that hides parts of its
// /proc) the old one stays: then only the waits for a core are unknown.
func settle() error {
	outside, err := os.Readlink("/proc/self")
	if err != nil {
		return fmt.Errorf("read the process id: %w", err)
	}
	if err := os.Setenv(pidVariable, outside); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to itself: %w", err)
	}
	_ = mountProc()
	return nil
}

func mountProc() error {
	err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	if err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// ownProc says whether /proc shows the processes of this pid namespace.
func ownProc() bool {
	pid, err := os.Readlink("/proc/self")
	return err == nil && pid == fmt.Sprint(os.Getpid())
}

// ShellCommand is the command line with which another terminal of the same user enters a namespace while the testbed is up; the
// command to run there is to be appended. Its program is nsenter of util-linux.
func (n *Net) ShellCommand(namespace string) ([]string, error) {
	ns, err := n.namespace(namespace)
	if err != nil {
		return nil, err
	}
	pid := os.Getenv(pidVariable)
	command := []string{"nsenter", "--target", pid}
	if os.Getenv(insideVariable) == insideUser {
		command = append(command, "--user", "--preserve-credentials")
	}
	return append(command, "--mount", "--pid", fmt.Sprintf("--net=/proc/%s/fd/%d", pid, ns.fd)), nil
}
