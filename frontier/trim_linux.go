package frontier

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

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
		from, to, ok := bytes.Cut(fields[0], []byte("-"))
		start, err1 := strconv.ParseUint(string(from), 16, 64)
		end, err2 := strconv.ParseUint(string(to), 16, 64)
		if ok && err1 == nil && err2 == nil && end > start {
			all = append(all, addresses{uintptr(start), uintptr(end)})
		}
	}
	return all
}
