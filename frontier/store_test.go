package frontier

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// A kill between the making of a file of the store and its first write leaves it empty. That is no damage.
func TestOpenAfterAKillThatLeftEmptyFiles(t *testing.T) {
	for _, names := range [][]string{{"000002.vlog"}, {"00099.mem"}, {"000002.vlog", "00099.mem", "00100.mem"}} {
		cfg, polite := testConfig()
		dir := t.TempDir()
		life := func(add bool) int64 {
			f, err := Open(dir, cfg, polite, Deps{})
			if err != nil {
				t.Fatalf("%v: %v", names, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- f.Run(ctx) }()
			if add {
				if _, err := f.Add(ctx, []Link{page("h1.test", 1), page("h2.test", 2)}); err != nil {
					t.Fatal(err)
				}
			}
			pending := f.Status().Pending
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			return pending
		}
		life(true)
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if n := life(false); n != 2 {
			t.Errorf("%v: %d of 2 URLs are left", names, n)
		}
	}
}
