package testbed

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"proxima/cmd/proxima/testbed/sites"
	"proxima/node"
)

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

// Tend runs the node in a folder. It reads orders from in and writes answers to out. It returns when the node has ended. When in ends, Tend
// kills the node, so that no node outlives a broken connection.
func Tend(ctx context.Context, dir, program string, seed uint64, in io.Reader, out io.Writer) error {
	p, err := startProcess(dir, program, seed, (*exec.Cmd).Start)
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
				last.Fault = p.err.Error() + ": " + sites.LastLines(filepath.Join(dir, outputFile), 3)
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
