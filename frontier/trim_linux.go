package frontier

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// trim asks the kernel to take the pages of the store's files out of memory. Badger maps all its files, and what it has
// touched of them once counts as resident until memory is short on the whole machine: people and limits read that as the
// crawler's use. MADV_PAGEOUT (Linux 5.4; others refuse it, which changes nothing) writes and drops them; it cannot harm
// memory that took the place of a file meanwhile, as MADV_DONTNEED could.
func (s *store) trim() error {
	dir, err := filepath.EvalSymlinks(s.db.Opts().Dir)
	if err != nil {
		return fmt.Errorf("trim store: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("trim store: %w", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil // no /proc, no figures to keep small
	}
	prefix := []byte(dir + "/")
	for line := range bytes.Lines(maps) {
		// start-end perms offset dev inode path
		fields := bytes.Fields(line)
		if len(fields) < 6 || fields[1][3] != 's' || !bytes.HasPrefix(fields[5], prefix) {
			continue
		}
		from, to, ok := bytes.Cut(fields[0], []byte("-"))
		start, err1 := strconv.ParseUint(string(from), 16, 64)
		end, err2 := strconv.ParseUint(string(to), 16, 64)
		if !ok || err1 != nil || err2 != nil || end <= start {
			continue
		}
		// A range that is gone by now is no error.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_PAGEOUT)
	}
	return nil
}
