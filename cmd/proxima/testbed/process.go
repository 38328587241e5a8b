package testbed

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"proxima/cmd/proxima/testbed/sites"
	"proxima/node"
	"proxima/node/bell"
)

// process is a node as a process of this machine.
type process struct {
	ending
	dir     string
	cmd     *exec.Cmd
	share   atomic.Uint64 // in millionths
	told    atomic.Bool   // whether it was told to end
	changed bell.Bell     // share or told has changed
	seed    uint64
}

// startProcess starts `proxima node` of this program with the configuration in a folder. start starts the command in the right namespace.
func startProcess(dir string, seed uint64, start func(*exec.Cmd) error) (*process, error) {
	p := &process{ending: newEnding(), dir: dir, changed: bell.New(), seed: seed}
	p.share.Store(1e6)
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	out, err := os.OpenFile(filepath.Join(dir, outputFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd = exec.Command(program, "node", "-config", nodeFile)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	if err := start(p.cmd); err != nil {
		return nil, err
	}
	go p.run()
	return p, nil
}

// run throttles the process until it has ended.
func (p *process) run() {
	exited := make(chan struct{})
	var throttling sync.WaitGroup
	throttling.Go(func() { p.throttle(exited) })
	err := p.cmd.Wait()
	close(exited)
	throttling.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); ok && p.told.Load() {
		err = nil // its exit code does not matter, since it was told to end
	}
	p.end(err)
}

// throttle stops and continues the process so that it runs for its share of the time. A busy machine does the same to a process, but this
// way the processors stay free for the other nodes. A signal fails only when the process has ended.
func (p *process) throttle(exited <-chan struct{}) {
	turns := newDuty(p.seed)
	for {
		share := float64(p.share.Load()) / 1e6
		run, stopped := turns.turn(share)
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		if share >= 1 || p.told.Load() {
			select {
			case <-exited:
				return
			case <-p.changed:
			}
			continue
		}
		select {
		case <-exited:
			return
		case <-time.After(run):
		}
		_ = p.cmd.Process.Signal(syscall.SIGSTOP)
		select {
		case <-exited:
			return
		case <-p.changed:
		case <-time.After(stopped):
		}
	}
}

func (p *process) setShare(share float64) {
	p.share.Store(uint64(share * 1e6))
	p.changed.Ring()
}

func (p *process) stop() {
	p.told.Store(true)
	p.changed.Ring()
	_ = p.cmd.Process.Signal(syscall.SIGINT)
}

func (p *process) kill() {
	p.told.Store(true)
	_ = p.cmd.Process.Kill()
}

// socketPath is the length up to which the path of a folder leaves room for the name of its socket.
const socketPath = 90

func (p *process) status(ctx context.Context) (node.Status, error) {
	dir := p.dir
	if len(dir) > socketPath {
		f, err := os.Open(dir)
		if err != nil {
			return node.Status{}, err
		}
		defer f.Close()
		dir = fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	}
	return node.AskStatus(ctx, dir)
}

// meanTurn is the mean time in which a throttled node runs once and stops once.
const meanTurn = 100 * time.Millisecond

// duty draws the turns of a throttled node. Their lengths are exponential. With fixed lengths, the node's work would synchronise with the
// turns, and each download would wait for one or two stops regardless of the distance. Not safe for concurrent use.
type duty struct{ rnd *rand.Rand }

func newDuty(seed uint64) duty { return duty{rand.New(rand.NewPCG(seed, seed))} }

func (d duty) turn(share float64) (run, stopped time.Duration) {
	draw := func(share float64) time.Duration {
		return time.Duration(d.rnd.ExpFloat64() * share * float64(meanTurn))
	}
	return draw(share), draw(1 - share)
}

// loadMs returns the time in ms that throttling adds to a download. A packet arrives while the node is stopped with probability 1−share.
// It then waits for the rest of the stop. The mean rest is as long as a mean stop, since exponential times have no memory. A download on a
// fresh connection waits twice: at the handshake, before the request is sent, and at the last byte. It does not wait at the first byte,
// because the kernel receives the rest in the meantime.
func loadMs(share float64) float64 {
	stop := (1 - share) * float64(meanTurn.Milliseconds())
	return 2 * (1 - share) * stop
}

// The orders to Tend, one on each line.
const (
	orderStatus = "status"
	orderStop   = "stop"
	orderKill   = "kill"
	orderShare  = "share" // followed by the share of the time in which the node may run
)

// nodeReport is what Tend writes: the answer to an order for the status, or the end of the node.
type nodeReport struct {
	Status *node.Status `json:"status,omitempty"`
	Ended  bool         `json:"ended,omitempty"`
	Fault  string       `json:"fault,omitempty"`
}

// maxSilence is how long Tend waits for an order before it kills the node. The other side asks for the status every second.
const maxSilence = time.Minute

// Tend runs the node in the working directory. It reads orders from in and writes answers to out. It returns when the node has ended. When in
// ends, Tend kills the node, so that no node outlives a broken connection.
func Tend(ctx context.Context, seed uint64, in io.Reader, out io.Writer) error {
	p, err := startProcess(".", seed, (*exec.Cmd).Start)
	if err != nil {
		return fmt.Errorf("start node: %w", err)
	}
	orders := make(chan string)
	go func() { // in ends when this process ends, or before
		defer close(orders)
		for s := bufio.NewScanner(in); s.Scan(); {
			select {
			case orders <- s.Text():
			case <-p.over:
				return
			}
		}
	}()
	write := json.NewEncoder(out)
	end := func() {
		p.kill()
		<-p.over
	}
	for {
		select {
		case <-p.over:
			last := nodeReport{Ended: true}
			if p.err != nil {
				last.Fault = p.err.Error() + ": " + sites.LastLines(outputFile, 3)
			}
			return write.Encode(last)
		case <-ctx.Done():
			end()
		case <-time.After(maxSilence):
			end()
		case order, ok := <-orders:
			if !ok || p.obey(ctx, order, write) != nil {
				end()
			}
		}
	}
}

// obey executes an order. It returns an error only if it cannot write the answer.
func (p *process) obey(ctx context.Context, order string, write *json.Encoder) error {
	verb, word, _ := strings.Cut(order, " ")
	switch verb {
	case orderStop:
		p.stop()
	case orderKill:
		p.kill()
	case orderShare:
		if share, err := strconv.ParseFloat(word, 64); err == nil {
			p.setShare(share)
		}
	case orderStatus:
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		var answer nodeReport
		s, err := p.status(ctx)
		if answer.Status = &s; err != nil {
			answer = nodeReport{Fault: err.Error()}
		}
		return write.Encode(answer)
	}
	return nil
}
