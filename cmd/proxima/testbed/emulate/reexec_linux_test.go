package emulate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The roles of the test binary other than testing.
const (
	roleTest      = "test"      // outside, Reexec with the same arguments; inside, test
	roleCopy      = "copy"      // inside, copy the input to the output and exit with 7
	roleStop      = "stop"      // inside, say "ready", wait for an interrupt, exit with 130
	roleHold      = "hold"      // inside, build a network with a process in it, print how to get there and wait for ever
	rolePreflight = "preflight" // print what Preflight says
	roleClosed    = "closed"    // Preflight where /dev/net is hidden
	roleForbidden = "forbidden" // Preflight where no network namespace may be made
)

func role(name string) (code int, handled bool, err error) {
	switch {
	case name == "" || Inside() && name == roleTest:
		return 0, false, nil
	case name == rolePreflight || name == roleClosed || name == roleForbidden:
		return 0, true, preflight(name)
	case !Inside():
		ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
		defer stop()
		code, err := Reexec(ctx, os.Args[1:]...)
		return code, true, err
	case name == roleCopy:
		_, err := io.Copy(os.Stdout, os.Stdin)
		return 7, true, err
	case name == roleStop:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		fmt.Println("ready")
		<-ctx.Done()
		return 130, true, nil
	case name == roleHold:
		return 0, true, hold()
	}
	return 0, true, fmt.Errorf("no role %q", name)
}

// preflight prints what Preflight says in a role.
func preflight(role string) (err error) {
	switch role {
	case roleClosed:
		err = errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("tmpfs", "/dev/net", "tmpfs", 0, ""))
	case roleForbidden:
		err = os.WriteFile("/proc/sys/user/max_net_namespaces", []byte("0"), 0)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(Preflight(context.Background()))
}

func hold() error {
	cfg := two(0, 0, Path{})
	cfg.Emulation = os.Getenv(emulationVariable)
	n, err := New(cfg)
	if err != nil {
		return err
	}
	if err := n.Start("a", exec.Command("sleep", "1000")); err != nil {
		return err
	}
	command, err := n.ShellCommand("b")
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(command, " "))
	return n.Run(context.Background())
}

// play starts the binary in a role and returns the first line that it prints.
func play(t *testing.T, w way, role string) (cmd *exec.Cmd, line string) {
	t.Helper()
	cmd = outer(t, w, role)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		line, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		t.Fatalf("printed %q: %v", line, err)
	}
	return cmd, line
}

func TestStreamsAndExitCodePass(t *testing.T) {
	needs(t, way{})
	cmd := outer(t, way{}, roleCopy)
	cmd.Stdin = strings.NewReader("as it went in")
	out, err := cmd.Output()
	if string(out) != "as it went in" || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("printed %q and exited with %d: %v", out, cmd.ProcessState.ExitCode(), err)
	}
}

func TestStopsInOrder(t *testing.T) {
	needs(t, way{})
	cmd, _ := play(t, way{}, roleStop) // it is ready
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exited with %d", code)
	}
}

// Another process of the same user can enter the namespaces. When the outer process is killed, nothing remains.
func TestShellAndKill(t *testing.T) {
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		t.Skip("SKIPPED: nsenter (util-linux) is not installed")
	}
	for _, w := range allWays {
		t.Run(w.name, func(t *testing.T) {
			needs(t, w)
			cmd, line := play(t, w, roleHold)
			command := strings.Fields(line)
			if len(command) < 3 || command[0] != "nsenter" {
				t.Fatalf("printed %q", line)
			}
			shell := exec.Command(nsenter, append(command[1:], "cat", "/proc/net/fib_trie")...)
			shell.SysProcAttr, shell.Dir = cmd.SysProcAttr, "/"
			if out, err := shell.CombinedOutput(); err != nil || !strings.Contains(string(out), addr(2).String()) ||
				strings.Contains(string(out), addr(1).String()) {
				t.Errorf("%s: %v: %s", line, err, out)
			}
			space, err := os.Readlink("/proc/" + command[2] + "/ns/pid")
			if err != nil {
				t.Fatal(err)
			}
			// The inner process, its router, and the processes that it started.
			if left := processes(space); len(left) != 3 {
				t.Errorf("%d processes are inside: %q", len(left), left)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
				left := processes(space)
				if len(left) == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("left behind: %q", left)
				}
			}
		})
	}
}

// processes returns the processes of a pid namespace by name.
func processes(space string) []string {
	var names []string
	all, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, path := range all {
		if link, err := os.Readlink(path); err == nil && link == space {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(path)), "comm"))
			names = append(names, strings.TrimSpace(string(name)))
		}
	}
	return names
}

// Preflight recognises a machine without TUN devices and one that forbids namespaces. Namespaces emulate both.
func TestPreflightOfPoorerMachines(t *testing.T) {
	needs(t, way{})
	for role, want := range map[string]struct{ emulation, says string }{
		roleClosed:    {Veth, "/dev/net/tun does not exist"},
		roleForbidden: {Portable, "sysctl -w user.max_net_namespaces=1000"},
	} {
		cmd := outer(t, way{}, role)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		}
		ready := preflighted(t, cmd)
		t.Logf("%s: %q", role, ready)
		if ready.Emulation != want.emulation || !strings.Contains(strings.Join(ready.Missing, "\n"), want.says) {
			t.Errorf("%s: %q does not say %q", role, ready, want.says)
		}
	}
}
