package frontier

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMappedFilesAreFound: those of a directory whose name has blanks, too, but not those of its neighbour.
func TestMappedFilesAreFound(t *testing.T) {
	const size = 4096
	for _, name := range []string{"data", "my data  of today"} {
		dir := filepath.Join(t.TempDir(), name)
		for _, in := range []string{dir, dir + " too"} {
			must(t, os.MkdirAll(in, 0o700))
			f, err := os.Create(filepath.Join(in, "file"))
			must(t, err)
			defer f.Close()
			must(t, f.Truncate(size))
			at, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
			must(t, err)
			defer unix.Munmap(at)
		}
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Skip(err)
		}
		if found := mapped(maps, dir); len(found) != 1 || found[0].end-found[0].start != size {
			t.Errorf("%q: %v", name, found)
		}
	}
}
