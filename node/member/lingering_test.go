package member

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// A node waits for the goroutines that memberlist has started for it, but not for ever.
func TestWaitForGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, end := newLabel(7), make(chan struct{})
		if err := l.do(func() error { go func() { <-end }(); return io.EOF }); err != io.EOF {
			t.Error(err)
		}
		begun := time.Now()
		if err := l.wait(time.Second); err == nil || time.Since(begun) < time.Second || time.Since(begun) > 1300*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		if newLabel(8).left() {
			t.Error("a goroutine counts for a node that has not started it")
		}
		close(end)
		synctest.Wait()
		if err := l.wait(0); err != nil {
			t.Error(err)
		}
	})
	for preset, want := range map[string]time.Duration{PresetLAN: 15 * time.Second, PresetWAN: 25 * time.Second} {
		if got := (*carrier)(nil).timeout(preset); got != want {
			t.Errorf("%s: the goroutines may take %v, want %v", preset, got, want)
		}
	}
}
