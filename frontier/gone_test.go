package frontier

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A disk that takes nothing any more does not hold up the end for ever, although Badger tries again for ever.
func TestEndWithoutDisk(t *testing.T) {
	for name, end := range map[string]func(l *life) error{"stopped": (*life).halt, "by itself": (*life).ends} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			cfg, polite := testConfig()
			l := beginWith(t, dir, cfg, polite, Deps{}, func(f *Frontier) { f.store.patience = 10 * time.Millisecond })
			l.add(page("http://h1.test", 1))
			lock, err := os.Open(dir)
			must(t, err)
			defer lock.Close()
			must(t, os.Rename(dir, dir+" gone"))
			if err := end(l); err == nil || !strings.Contains(err.Error(), "close store") {
				t.Errorf("it ends with %v", err)
			}
			must(t, os.Rename(dir+" gone", dir))
			must(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX)) // Badger closes now
			_ = lock.Close()
			l = begin(t, dir, cfg, polite, Deps{})
			if v, err := l.Add(t.Context(), pages("http://h1.test", 0, 2)); err != nil || count(v, Duplicate) != 1 {
				t.Errorf("afterwards: %v, %v", v, err)
			}
		})
	}
}
