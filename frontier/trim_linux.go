package frontier

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// trim asks the kernel to take the pages of the store's files out of memory. Badger maps all its files. A page that it has touched counts
// as resident until the whole machine is short of memory, and people and limits count that as memory of the crawler. MADV_PAGEOUT writes
// the pages and drops them. An older kernel than Linux 5.4 refuses it, which does no harm. Unlike MADV_DONTNEED, it is also harmless if
// other memory has taken the place of a file.
func (s *store) trim() error {
	dir, err := filepath.EvalSymlinks(s.db.Opts().Dir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return fmt.Errorf("trim store: %w", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil // without /proc the maps are unknown, and nobody sees the figures
	}
	for _, r := range mapped(maps, dir) {
		// The range may be gone by now, so an error does not matter.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, r.start, r.end-r.start, unix.MADV_PAGEOUT)
	}
	return nil
}

type addresses struct{ start, end uintptr }

// mapped returns where shared mappings of files below a directory are, according to the text of /proc/self/maps.
func mapped(maps []byte, dir string) (all []addresses) {
	prefix := []byte(dir + "/")
	for line := range bytes.Lines(maps) {
		// start-end perms offset dev inode path, which may have blanks
		fields, path := bytes.Fields(line), bytes.IndexByte(line, '/')
		if path < 0 || fields[1][3] != 's' || !bytes.HasPrefix(line[path:], prefix) {
			continue
		}
		var r addresses
		if _, err := fmt.Sscanf(string(fields[0]), "%x-%x", &r.start, &r.end); err == nil && r.end > r.start {
			all = append(all, r)
		}
	}
	return all
}
