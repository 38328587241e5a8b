package sink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// disk changes files in steps. Tests make steps fail, one by one like a full disk, or all from some point on like a crash.
type disk struct {
	fault func(step, path string) error // nil: none
	lazy  bool                          // skip syncs, in tests where only processes die
}

func (d disk) step(step, path string) error {
	if d.fault == nil {
		return nil
	}
	return d.fault(step, path)
}

// create makes a file, or truncates one that a crash left.
func (d disk) create(path string) (*os.File, error) {
	if err := d.step("create", path); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
}

// write appends to a file of the given size.
func (d disk) write(f *os.File, b []byte, size int64) error {
	if err := d.step("write", f.Name()); err != nil {
		return err
	}
	_, err := f.WriteAt(b, size)
	return err
}

func (d disk) sync(f *os.File) error {
	if err := d.step("sync", f.Name()); err != nil {
		return err
	}
	if d.lazy {
		return nil
	}
	return f.Sync()
}

// rename renames a file durably.
func (d disk) rename(from, to string) error {
	if err := d.step("rename", to); err != nil {
		return err
	}
	return errors.Join(os.Rename(from, to), d.syncDir(filepath.Dir(to)))
}

// remove removes a file durably. A missing file is no error.
func (d disk) remove(path string) error {
	if err := d.step("remove", path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return d.syncDir(filepath.Dir(path))
}

// store writes a file atomically, with the content that fill writes.
func (d disk) store(path string, fill func(f *os.File) error) error {
	next := path + suffixNew
	f, err := d.create(next)
	if err != nil {
		return err
	}
	if err = d.step("fill", next); err == nil {
		err = fill(f)
	}
	if err == nil {
		err = d.sync(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(next) // until the next try it would keep a full disk full; what stays is written anew
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return d.rename(next, path)
}

// syncDir syncs the entries of a directory.
func (d disk) syncDir(dir string) error {
	if err := d.step("sync entries", dir); err != nil {
		return err
	}
	if d.lazy {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
