package lab

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Process is a life of a program. Safe for concurrent use.
type Process struct {
	Started time.Time
	cmd     *exec.Cmd
	ended   chan struct{}
	err     error // once ended is closed
	out     output
}

// Start begins a life, whose output is kept.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{Started: time.Now(), cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Ended is closed when the life has ended, and everything that it printed is known.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Running says whether it has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Wait returns how it ended.
func (p *Process) Wait() error {
	<-p.ended
	return p.err
}

// Kill ends it by SIGKILL, and says whether it had not ended by itself.
func (p *Process) Kill() bool {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
	return !p.cmd.ProcessState.Exited()
}

// Pid is its number.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// CPU is the processor time of a life that has ended.
func (p *Process) CPU() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// Output is what it has printed.
func (p *Process) Output() []byte { return p.out.text() }

// Tail is the end of that, for people.
func (p *Process) Tail() []byte {
	b := p.out.text()
	return b[max(0, len(b)-2000):]
}

// output keeps what is written while others read it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) text() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.b.Bytes())
}

// Addresses finds free TCP ports of an IP address, all at once so that no two are the same.
func Addresses(ip string, n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
		if err != nil {
			return nil, fmt.Errorf("find free port: %w", err)
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
