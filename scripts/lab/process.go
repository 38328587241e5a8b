package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"proxima/node/bell"
)

// Process is a running program. Safe for concurrent use.
type Process struct {
	Started time.Time
	cmd     *exec.Cmd
	ended   chan struct{}
	err     error        // set before ended is closed
	out     bytes.Buffer // complete when ended is closed
}

// Start starts a program and keeps its output, unless that goes elsewhere.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{Started: time.Now(), cmd: cmd, ended: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout, cmd.Stderr = &p.out, &p.out
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Ended returns a channel that is closed when the process has ended and its output is complete.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Running reports whether it has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Wait waits for the end and returns how it ended.
func (p *Process) Wait() error {
	<-p.ended
	return p.err
}

// Kill sends SIGKILL, waits for the end, and reports whether the kill ended it.
func (p *Process) Kill() bool {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
	return !p.cmd.ProcessState.Exited()
}

func (p *Process) Pid() int { return p.cmd.Process.Pid }

func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// CPU returns the processor time that it used. It must have ended.
func (p *Process) CPU() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// Output returns what it has printed. It must have ended.
func (p *Process) Output() []byte { return p.out.Bytes() }

// Tail returns the end of the output, for error messages.
func (p *Process) Tail() []byte { return p.Output()[max(0, p.out.Len()-2000):] }

// StatusOf returns what the kernel says about a process, nothing if it has ended or there is no /proc.
func StatusOf(pid int) (s procfs.ProcStatus) {
	if p, err := procfs.NewProc(pid); err == nil {
		s, _ = p.NewStatus()
	}
	return s
}

// Other is a process that somebody else may have started.
type Other struct {
	Pid      int
	Exe, Cwd string
	Args     []string
}

// ProcessesOf lists the processes whose program, working directory or arguments are in a folder, without this one and "go run -dir".
func ProcessesOf(dir string) (list []Other) {
	all, _ := procfs.AllProcs()
	for _, one := range all {
		p := Other{Pid: one.PID}
		p.Exe, _ = one.Executable() // what cannot be read has ended
		p.Cwd, _ = one.Cwd()
		p.Args, _ = one.CmdLine()
		in := func(path string) bool { return path == dir || strings.Contains(path, dir+"/") }
		if p.Pid != os.Getpid() && p.Pid != os.Getppid() && slices.ContainsFunc(append(p.Args, p.Exe, p.Cwd), in) {
			list = append(list, p)
		}
	}
	return list
}

// Within waits until something holds, and reports whether it did in time and before the context ended.
func Within(ctx context.Context, most time.Duration, holds func() bool) bool {
	for end := time.Now().Add(most); !holds(); {
		if time.Now().After(end) || bell.Sleep(ctx, time.Millisecond) != nil {
			return false
		}
	}
	return true
}

// These ports are never assigned to outgoing connections (Linux starts at 32768, others at 49152, RFC 6335). So a free port remains free
// until a node listens on it.
const firstPort, ports = 15_000, 16_000

// Addresses finds n ports of an IP address that are free for both TCP and UDP.
func Addresses(ip string, n int) (addrs []string, err error) {
	begin := rand.IntN(ports)
	for i := 0; i < ports && len(addrs) < n; i++ {
		addr := net.JoinHostPort(ip, strconv.Itoa(firstPort+(begin+i)%ports))
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err != nil {
			continue
		}
		packets, e := net.ListenPacket("udp", addr)
		if err = errors.Join(e, l.Close()); e == nil {
			err = packets.Close()
		}
		if err == nil {
			addrs = append(addrs, addr)
		}
	}
	if len(addrs) < n {
		return nil, fmt.Errorf("find %d free ports of %s: %w", n, ip, err)
	}
	return addrs, nil
}
