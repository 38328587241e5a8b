package node

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// A full disk is named by the directory that the node has there: it need not be that of its data.
func TestWhichDiskIsFull(t *testing.T) {
	n := &Node{}
	n.cfg.Node.Data = t.TempDir()
	if dir, free, err := n.fullest(); dir != n.cfg.Node.Data || free == 0 || err != nil {
		t.Errorf("the data: %s has %d bytes, %v", dir, free, err)
	}
	for _, put := range []func(){func() { n.cfg.Output.Logs = "/proc" }, func() { n.cfg.Output.Logs, n.cfg.Sink.URL = "", "file:///proc" }} {
		put()
		if dir, free, err := n.fullest(); dir != "/proc" || free != 0 || err != nil {
			t.Errorf("%s has %d bytes, %v", dir, free, err)
		}
	}
}

// Who looks at the disks does not wait for a destination that hangs, and goes by what it last said.
func TestRoomAtADestinationThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d sinkRoom
		answers := make(chan struct{})
		says := func(room uint64, err error) func() (uint64, error) {
			return func() (uint64, error) { return room, err }
		}
		hangs := func() (uint64, error) { <-answers; return 7, nil }
		for i, c := range []struct {
			ask  func() (uint64, error)
			want uint64
		}{{says(5, nil), 5}, {hangs, 5}, {says(6, nil), 5}, {nil, 7}, {says(0, errors.New("gone")), math.MaxUint64}} {
			if c.ask == nil {
				close(answers)
				synctest.Wait()
				c.ask = says(7, nil)
			}
			begun := time.Now()
			if got := d.ask(c.ask); got != c.want || time.Since(begun) > time.Second {
				t.Errorf("question %d is answered with %d after %v, want %d", i, got, time.Since(begun), c.want)
			}
		}
	})
}
