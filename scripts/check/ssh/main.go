//go:build linux

// Command ssh checks the scripts for nodes on real machines (select, deploy, start, status, stop, collect) against real
// sshd: several hosts, each with its own network, home directory and load, one that does not answer, one that refuses the
// key and one whose own key is not the known one. The nodes crawl a small site. All is done twice.
//
// As root on Linux it runs in network, mount and process namespaces of its own: nothing leaves them, and the kernel ends
// whatever is left in them, also when this program is killed. Otherwise the hosts are several sshd of this user on
// addresses of loopback, which it says. Exit codes: 0 all held, 1 something did not, 2 wrong usage, 3 something is not
// installed. Run it from the root of the repository:
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
	"strings"
	"time"

	"proxima/scripts/lab"
)

// settings are the flags. Those of the part inside the namespaces are set by the part outside.
type settings struct {
	dir      string
	loopback bool
	limit    time.Duration
	inside   bool // this is the part inside
	hold     bool // only start nodes, say so, and wait for the end
}

func main() {
	var s settings
	flag.StringVar(&s.dir, "dir", "", "`directory` for everything, kept afterwards; must be new; a temporary one where empty")
	flag.BoolVar(&s.loopback, "loopback", false, "no namespaces even where they are to be had")
	flag.DurationVar(&s.limit, "limit", 8*time.Minute, "longest `time` of the whole check")
	flag.BoolVar(&s.inside, "inside", false, "for its own use")
	flag.BoolVar(&s.hold, "hold", false, "for its own use")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	run := outside
	if s.inside {
		run = inside
	}
	lab.Main("ssh", s.limit, func(ctx context.Context) (bool, error) { return true, run(ctx, s) })
}

// outside prepares, runs the part inside twice, the second time to be interrupted, and sees that nothing is left of it.
func outside(ctx context.Context, s settings) error {
	began := time.Now()
	if err := prerequisites(); err != nil {
		return err
	}
	dir, remove, err := lab.Folder(s.dir, "ssh")
	if err != nil {
		return err
	}
	defer remove()
	if s.dir, err = filepath.EvalSymlinks(dir); err != nil {
		return fmt.Errorf("find directory: %w", err)
	}
	if why := namespaces(ctx); why != nil && !s.loopback {
		fmt.Printf("no namespaces: %v; the hosts are on loopback, and their loads are all those of this machine\n", why)
		s.loopback = true
	}
	if err := runInside(ctx, s, "all", false); err != nil {
		return err
	}
	if err := runInside(ctx, s, "interrupted", true); err != nil {
		return err
	}
	fmt.Printf("PASS in %.0f s\n", time.Since(began).Seconds())
	return nil
}

// runInside runs the part inside in a folder of its own, and looks for what it left.
func runInside(ctx context.Context, s settings, name string, interrupt bool) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	dir := filepath.Join(s.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	args := []string{"-inside", "-dir", dir, fmt.Sprintf("-loopback=%v", s.loopback), fmt.Sprintf("-hold=%v", interrupt)}
	held := &watcher{want: holding, seen: make(chan struct{})}
	c := exec.Command(self, args...)
	c.Stdout, c.Stderr = held, os.Stderr
	end, err := start(c, !s.loopback)
	if err != nil {
		return err
	}
	var runErr error
	select {
	case runErr = <-end:
		if interrupt && runErr == nil {
			runErr = errors.New("it ended before it was interrupted")
		}
	case <-held.seen:
		fmt.Println("interrupting it")
		if err := c.Process.Signal(os.Interrupt); err != nil {
			return fmt.Errorf("interrupt: %w", err)
		}
		if err := <-end; err == nil {
			runErr = errors.New("it was interrupted and says that all is well")
		}
	case <-ctx.Done():
		// Ctrl-C reached it as well; a kill of this program alone did not.
		_ = c.Process.Signal(os.Interrupt)
		select {
		case <-end:
		case <-time.After(30 * time.Second):
			_ = c.Process.Kill()
			<-end
		}
		runErr = ctx.Err()
	}
	left := leftovers(dir)
	for deadline := time.Now().Add(10 * time.Second); len(left) > 0 && time.Now().Before(deadline); left = leftovers(dir) {
		time.Sleep(50 * time.Millisecond) // who was killed may take a moment to die
	}
	if len(left) > 0 {
		return errors.Join(runErr, fmt.Errorf("%s: left behind: %s", name, strings.Join(left, ", ")))
	}
	if runErr != nil {
		return fmt.Errorf("%s: %w", name, runErr)
	}
	fmt.Printf("%s: nothing is left behind\n", name)
	return nil
}

// watcher passes output on, and says when a text went by.
type watcher struct {
	want string
	text strings.Builder
	seen chan struct{}
	done bool
}

func (w *watcher) Write(p []byte) (int, error) {
	w.text.Write(p)
	if !w.done && strings.Contains(w.text.String(), w.want) {
		w.done = true
		close(w.seen)
	}
	return os.Stdout.Write(p)
}

// prerequisites installs an sshd where it may, and says what is missing.
func prerequisites() error {
	for _, name := range []string{"bash", "ssh", "ssh-keygen", "go", "timeout", "tar", "gzip", "sha256sum"} {
		if _, err := exec.LookPath(name); err != nil {
			return lab.Missing{Err: fmt.Errorf("SKIPPED, nothing was checked: %s is not installed", name)}
		}
	}
	if sshdPath() != "" {
		return nil
	}
	if os.Getuid() != 0 {
		return lab.Missing{Err: errors.New("SKIPPED, nothing was checked: install openssh-server first")}
	}
	fmt.Println("installing openssh-server with apt-get")
	// A new sshd would start as a service of its own: the policy forbids it where there is none.
	const policy = "/usr/sbin/policy-rc.d"
	if f, err := os.OpenFile(policy, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755); err == nil {
		_, err = f.WriteString("#!/bin/sh\nexit 101\n")
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("write %s: %w", policy, err)
		}
		defer os.Remove(policy)
	}
	c := exec.Command("sh", "-c", "apt-get update -qq; apt-get install -y -qq --no-install-recommends openssh-server")
	c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := c.CombinedOutput(); err != nil || sshdPath() == "" {
		return lab.Missing{Err: fmt.Errorf("SKIPPED, nothing was checked: openssh-server cannot be installed: %v: %.500s", err, out)}
	}
	return nil
}

// sshdPath finds sshd where the path of an ordinary user does not lead.
func sshdPath() string {
	for _, name := range []string{"sshd", "/usr/sbin/sshd", "/usr/local/sbin/sshd"} {
		if path, err := exec.LookPath(name); err == nil && filepath.IsAbs(path) { // sshd wants to be called by its whole path
			return path
		}
	}
	return ""
}
