package node

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

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
