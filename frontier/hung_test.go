package frontier

import (
	"sync/atomic"
	"testing"
	"time"
)

// A disk that answers a write, a sync or the question for free space only after a minute is hung until then.
func TestHungDisk(t *testing.T) {
	for what, call := range map[string]func(f *Frontier) error{
		"write": func(f *Frontier) error {
			return f.store.write(func(txn *tx) error { return txn.Txn.Set([]byte("k"), nil) })
		},
		"sync": func(f *Frontier) error {
			f.store.written.Add(1)
			return f.store.sync()
		},
		"free": func(f *Frontier) error { return f.checkDisk() },
	} {
		t.Run(what, func(t *testing.T) {
			var hangs atomic.Bool
			called, answer := make(chan struct{}, 1), make(chan struct{})
			wait := func() {
				if hangs.Load() {
					called <- struct{}{}
					<-answer
				}
			}
			cfg, polite := testConfig()
			cfg.MinFreeMiB = 1
			f, err := Open(t.TempDir(), cfg, polite, Deps{FreeBytes: func() (uint64, error) { wait(); return 1 << 40, nil }})
			must(t, err)
			defer f.store.close() //nolint:errcheck // it is not what is tested
			f.store.fault = func() error { wait(); return nil }
			soon := func() time.Time { return time.Now().Add(hungAfter) }
			if f.store.calls.hung(soon()) {
				t.Error("it is hung before anything is asked")
			}
			done := make(chan error)
			hangs.Store(true)
			go func() { done <- call(f) }()
			<-called
			if now := time.Now(); f.store.calls.hung(now) || !f.store.calls.hung(soon()) {
				t.Errorf("hung at once %v, after a minute %v", f.store.calls.hung(now), f.store.calls.hung(soon()))
			}
			hangs.Store(false)
			close(answer)
			if err := <-done; err != nil || f.store.calls.hung(soon()) {
				t.Errorf("it has answered with %v, and is hung", err)
			}
		})
	}
}
