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

	"proxima/node"
)

// What is said to Tend, a line each.
const (
	orderStatus = "status"
	orderStop   = "stop"
	orderKill   = "kill"
	orderShare  = "share" // and how much of the time the node may run
)

// tended is an answer of Tend: to an order for the status, or at the end of the node.
type tended struct {
	Status *node.Status `json:"status,omitempty"`
	Ended  bool         `json:"ended,omitempty"`
	Fault  string       `json:"fault,omitempty"`
}

// silence is for how long nobody may say anything before the node is killed: they ask for its status all the time.
const silence = time.Minute

// Tend runs the node of a folder with a program, as the lines of in say, and answers on out. It returns when the node has ended. When
// in ends the node is killed: a broken connection leaves nothing behind.
func Tend(ctx context.Context, dir, program string, seed uint64, in io.Reader, out io.Writer) error {
	p, err := startProcess(dir, program, seed, (*exec.Cmd).Start)
	if err != nil {
		return fmt.Errorf("start node: %w", err)
	}
	orders := make(chan string)
	go func() { // it ends with in, which ends with this process
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
			last := tended{Ended: true}
			if p.err != nil {
				last.Fault = p.err.Error() + ": " + tail(filepath.Join(dir, outputFile), 3)
			}
			return write.Encode(last)
		case <-ctx.Done():
			end()
		case <-time.After(silence):
			end()
		case order, ok := <-orders:
			if !ok || p.obey(ctx, order, write) != nil {
				end()
			}
		}
	}
}

// obey does what a line says. Its error is one of writing the answer.
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
		var answer tended
		s, err := p.status(ctx)
		if answer.Status = &s; err != nil {
			answer = tended{Fault: err.Error()}
		}
		return write.Encode(answer)
	}
	return nil
}
