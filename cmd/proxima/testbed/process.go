package testbed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

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

// startProcess starts `proxima node` with the configuration in a folder. start starts the command in the right namespace.
func startProcess(dir, program string, seed uint64, start func(*exec.Cmd) error) (*process, error) {
	p := &process{ending: newEnding(), dir: dir, changed: bell.New(), seed: seed}
	p.share.Store(1e6)
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
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && p.told.Load() {
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

// turn returns how long the node runs and how long it then stops.
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
