package emulate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// insideVariable tells the program that it is the inner process. Its value is insideUser with a user namespace, and otherwise insideRoot.
	insideVariable = "PROXIMA_EMULATE"
	insideUser     = "user"
	insideRoot     = "root"
	// pidVariable has the process id of the inner process as the outer process sees it.
	pidVariable = "PROXIMA_EMULATE_PID"
	// Subcommands for internal use.
	routerCommand = "emulate-router"
	probeCommand  = "emulate-probe"
	// stopPatience is the time limit for an orderly stop of the inner process.
	stopPatience = 2 * time.Minute
)

// Child does the work of a process that this package started, and returns its exit code. In other processes it returns false. main must call
// it first, with os.Args[1:].
func Child(args []string) (handled bool, code int) {
	var err error
	switch {
	case len(args) > 0 && args[0] == routerCommand:
		handled, err = true, runRouter()
	case len(args) > 0 && args[0] == probeCommand:
		handled, err = true, probe(os.Stdout)
	case Inside():
		err = settle()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "emulated network:", err)
		return true, 1
	}
	return handled, 0
}

// Inside reports whether this process was started by Reexec, and so has its own namespaces.
func Inside() bool { return os.Getpid() == 1 && os.Getenv(insideVariable) != "" }

// Reexec runs this program again in new namespaces, with these arguments and the standard streams of this process. It returns the exit code.
// It does not pass a terminal as input: the inner process is not in the foreground, so that Ctrl-C interrupts only this process. When ctx
// ends, the inner process is interrupted and has two minutes to stop. When the inner process ends, the kernel ends everything inside. When
// this process ends, the kernel ends the inner process.
func Reexec(ctx context.Context, args ...string) (code int, err error) {
	// The kernel ends the inner process when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd, err := startInside(func(program string) *exec.Cmd {
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
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
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

// startInside starts a command of this program in new namespaces. It adds a user namespace, in which this user is root, unless the process
// is root and needs none.
func startInside(command func(program string) *exec.Cmd) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	const spaces = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
	user := &syscall.SysProcAttr{
		Cloneflags: spaces | syscall.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL, Setpgid: true,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	start := func(attr *syscall.SysProcAttr, kind string) (*exec.Cmd, error) {
		cmd := command(program)
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
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err // the program exists, so the namespaces failed
	}
	if err != nil {
		return nil, fmt.Errorf("start a process in new namespaces: %w", err)
	}
	return cmd, nil
}

// settle mounts a /proc that shows this pid namespace. The kernel refuses this in a container that hides parts of its /proc. In that case the
// statistics lack the waits for a core. SIGPIPE becomes an error of the write: it does not end the first process of a namespace, and the runtime
// would then end it as if its flags were wrong, with 2.
func settle() error {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	outside, err := os.Readlink("/proc/self")
	if err != nil {
		return fmt.Errorf("read the process id: %w", err)
	}
	if err := os.Setenv(pidVariable, outside); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	_ = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	return nil
}

// ownProc reports whether /proc shows the processes of this pid namespace.
func ownProc() bool {
	pid, err := os.Readlink("/proc/self")
	return err == nil && pid == fmt.Sprint(os.Getpid())
}

// ShellCommand returns a command with which another terminal of the same user can enter a namespace while the testbed is up. The caller
// appends the command to run there. It uses nsenter of util-linux.
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
