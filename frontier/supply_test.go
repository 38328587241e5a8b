package frontier

import "testing"

// A fetcher that waits wakes nobody where no host on disk may come in.
func TestWaitersAskForHostsThatMayComeIn(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(a *activation)
		want    bool
	}{
		"nobody is there":            {func(*activation) {}, false},
		"a candidate":                {func(a *activation) { a.candidates.push("a.example") }, true},
		"some on disk":               {func(a *activation) { a.scan = true }, true},
		"a scan has found none":      {func(a *activation) { a.scan, a.wrapped = true, true }, false},
		"a candidate after the scan": {func(a *activation) { a.scan, a.wrapped = true, true; a.candidates.push("a.example") }, true},
		"pages may be due":           {func(a *activation) { a.bench.recrawl.done = false }, true},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Open("", Default(), DefaultPoliteness(), Deps{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.store.close() //nolint:errcheck // in memory
			c.prepare(f.activation)
			f.mu.Lock()
			f.starveLocked()
			f.mu.Unlock()
			if got := len(f.hungry) == 1; got != c.want {
				t.Errorf("asked for hosts: %v, want %v", got, c.want)
			}
		})
	}
}
