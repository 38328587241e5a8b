package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// directory is a destination on this machine, or mounted there.
type directory struct {
	disk disk
	path string
}

// put links the file into the directory, or copies it where that is on another file system. What is there under its name is
// whole at any time.
func (d directory) put(_ context.Context, dir string, f File) error {
	from, to := filepath.Join(dir, f.Name), filepath.Join(d.path, f.Name)
	if err := d.disk.step("link", to); err != nil {
		return err
	}
	if err := os.Link(from, to); err == nil {
		return d.disk.syncDir(d.path)
	}
	if same(from, to) {
		return d.disk.syncDir(d.path)
	}
	err := d.disk.store(to, func(out *os.File) error {
		in, err := os.Open(from)
		if err != nil {
			return err
		}
		defer in.Close()
		_, err = io.Copy(out, in)
		return err
	})
	if err != nil {
		return err
	}
	if got, err := os.Stat(to); err != nil || got.Size() != f.Bytes {
		return fmt.Errorf("check %s: %w", f.Name, errors.Join(err, errUnequal))
	}
	return nil
}

// same says whether two names are those of one file.
func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
