package testbed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/node"
)

// process is a life of a node as a process of this machine.
type process struct {
	dir   string
	cmd   *exec.Cmd
	over  chan struct{}
	err   error // once over is closed
	share atomic.Uint64
	told  atomic.Bool   // to end
	turns chan struct{} // the share has changed
	seed  uint64        // of the turns
}

// startProcess starts `proxima node` with the configuration of a folder; start says where.
func startProcess(dir, program string, seed uint64, start func(*exec.Cmd) error) (*process, error) {
	p := &process{dir: dir, over: make(chan struct{}), turns: make(chan struct{}, 1), seed: seed}
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
	go p.live()
	return p, nil
}

// live waits for the end of the process, and deals out its turns until then.
func (p *process) live() {
	defer close(p.over)
	var g errgroup.Group
	ended := make(chan struct{})
	g.Go(func() error { p.duty(ended); return nil })
	err := p.cmd.Wait()
	close(ended)
	_ = g.Wait() // it returns nothing
	var exited *exec.ExitError
	if errors.As(err, &exited) && p.told.Load() {
		return // whatever the code is: it was told to
	}
	p.err = err
}

// duty stops the process and lets it run by turns, as its share of the processor says. It is what a busy machine does to a process,
// without burning the processors that the others need.
func (p *process) duty(ended <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	turns := newDuty(p.seed)
	for {
		share := float64(p.share.Load()) / 1e6
		run, stopped := turns.turn(share)
		_ = p.cmd.Process.Signal(syscall.SIGCONT) // it has ended where this fails
		if share < 1 && !p.told.Load() {
			timer.Reset(run)
			select {
			case <-ended:
				return
			case <-timer.C:
			}
			_ = p.cmd.Process.Signal(syscall.SIGSTOP)
			timer.Reset(stopped)
			select {
			case <-ended:
				return
			case <-p.turns:
			case <-timer.C:
			}
			continue
		}
		select {
		case <-ended:
			return
		case <-p.turns:
		}
	}
}

func (p *process) setShare(share float64) {
	p.share.Store(uint64(share * 1e6))
	p.turn()
}

func (p *process) turn() {
	select {
	case p.turns <- struct{}{}:
	default:
	}
}

func (p *process) stop() {
	p.told.Store(true)
	p.turn()
	_ = p.cmd.Process.Signal(syscall.SIGINT) // it has ended where this fails
}

func (p *process) kill() {
	p.told.Store(true)
	_ = p.cmd.Process.Kill()
}

func (p *process) done() <-chan struct{} { return p.over }

func (p *process) ended() error {
	select {
	case <-p.over:
		return p.err
	default:
		return nil
	}
}

// socketPath is the most that the path of a socket may have, with room for its name.
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

// slice is the time in which a node with a share of the processor runs once and is stopped once, in the mean.
const slice = 100 * time.Millisecond

// duty deals out the turns of a node that has a share of the processor. Running and stopping last for exponential times: with
// turns of one length, whatever a node does after it was stopped falls into step with them, so that a download costs one
// stop or two, whatever its way. Not safe for concurrent use.
type duty struct{ rnd *rand.Rand }

func newDuty(seed uint64) duty { return duty{rand.New(rand.NewPCG(seed, seed))} }

// turn is for how long the node runs, and is stopped then.
func (d duty) turn(share float64) (run, stopped time.Duration) {
	some := func(share float64) time.Duration { return time.Duration(d.rnd.ExpFloat64() * share * float64(slice)) }
	return some(share), some(1 - share)
}

// loadMs is what a share of the processor adds to a download, in ms. Whatever arrives while the node is stopped, which happens
// with the probability 1−share, waits for what is left of the stop, a whole one in the mean as these times have no memory. On a
// fresh connection two such waits count: that the connection stands, which holds back the request, and the last byte. The
// first byte's does not, as the kernel takes the rest in meanwhile.
func loadMs(share float64) float64 {
	stop := (1 - share) * float64(slice.Milliseconds())
	return 2 * (1 - share) * stop
}
