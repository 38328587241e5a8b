package sink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// disk makes the changes of files, each a step. Tests let steps fail, as a full disk does, or all from one on, as a crash does.
type disk struct {
	fault func(step, path string) error // nil: none
	lazy  bool                          // nothing is synced: enough where processes die and machines do not
}

func (d disk) step(step, path string) error {
	if d.fault == nil {
		return nil
	}
	return d.fault(step, path)
}

// create makes a file, or empties one that a crash left.
func (d disk) create(path string) (*os.File, error) {
	if err := d.step("create", path); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
}

// write appends to a file of this size.
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

// rename gives a file its name, for good.
func (d disk) rename(from, to string) error {
	if err := d.step("rename", to); err != nil {
		return err
	}
	return errors.Join(os.Rename(from, to), d.syncDir(filepath.Dir(to)))
}

// remove removes a file for good; that it is not there is no error.
func (d disk) remove(path string) error {
	if err := d.step("remove", path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return d.syncDir(filepath.Dir(path))
}

// store writes a file that is there whole or not at all, once fill has written it.
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
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return d.rename(next, path)
}

// syncDir takes the names in a directory to the disk.
func (d disk) syncDir(dir string) error {
	if d.lazy {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
