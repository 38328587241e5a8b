package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"time"
)

// label marks the goroutines that memberlist starts, and those that they start. Shutdown does not wait for them; they
// end when their timers run out.
type label struct{ value string }

const labelKey = "proxima_gossip"

func newLabel(nonce uint64) label { return label{fmt.Sprintf("%016x", nonce)} }

// do runs f so that every goroutine it starts carries the label.
func (l label) do(f func() error) (err error) {
	pprof.Do(context.Background(), pprof.Labels(labelKey, l.value), func(context.Context) { err = f() })
	return err
}

// left reports whether goroutines with the label still run.
func (l label) left() bool {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return false
	}
	return bytes.Contains(b.Bytes(), fmt.Appendf(nil, "%q:%q", labelKey, l.value))
}

// wait waits until none is left, at most for the timeout.
func (l label) wait(timeout time.Duration) error {
	step := 10 * time.Millisecond
	for waited := time.Duration(0); l.left(); waited += step {
		if waited >= timeout {
			return errors.New("stop gossip: its goroutines have not ended")
		}
		step = min(2*step, 250*time.Millisecond) // each check is expensive
		time.Sleep(step)
	}
	return nil
}
