package frontier

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// sync writes what was committed before the call to the medium. Calls that wait for the one before share the next.
func (s *store) sync() error {
	committed := s.written.Load()
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if s.failure != nil || s.flushed >= committed || s.db.Opts().InMemory {
		return s.failure
	}
	written := s.written.Load()
	defer s.calls.begin()()
	if err := errors.Join(s.fault(), s.db.Sync(), s.syncLogs()); err != nil {
		s.failure = fmt.Errorf("sync store: %w", err)
		return s.failure
	}
	s.flushed = written
	return nil
}

// Sync returns when everything that was acknowledged before the call survives the death of the machine. Concurrent calls share the work.
func (f *Frontier) Sync(ctx context.Context) error {
	return f.store.view(ctx, func(*tx) error { return f.store.sync() })
}

// syncLogs syncs the logs of all memtables. Badger's Sync leaves out those that are full and have not become tables yet.
func (s *store) syncLogs() error {
	dir := s.db.Opts().Dir
	d, err := openPatiently(dir)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return filepath.Ext(name) != ".mem" })
	if len(names) == 1 {
		return nil // it is the memtable in use, which Sync did not leave out, or a later one
	}
	for _, name := range names {
		f, err := openPatiently(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // it has just become a table, which is synced
		}
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// openPatiently opens a file. While all file descriptors are in use, it waits: connections hold most of them, and end.
func openPatiently(path string) (*os.File, error) {
	for {
		f, err := os.Open(path)
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
			return f, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
