package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

type destination interface {
	// put sends a file, which is at from and whose content body has. It replaces one of the same name.
	put(ctx context.Context, f File, from string, body io.Reader) error
	// check confirms, as well as the protocol allows, that the destination has the complete file.
	check(ctx context.Context, f File) error
}

// send sends a file from dir, and returns when the destination has confirmed that it has it.
func send(ctx context.Context, to destination, dir string, f File) error {
	path := filepath.Join(dir, f.Name)
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	err = guarded(ctx, func(ctx context.Context, moved func()) error { return to.put(ctx, f, path, &watched{in, moved}) })
	if err != nil {
		return err
	}
	if err := guarded(ctx, func(ctx context.Context, _ func()) error { return to.check(ctx, f) }); err != nil {
		return fmt.Errorf("the file it has just acknowledged: %w", err)
	}
	return nil
}

// stall is how long a destination may go without taking a byte or answering.
const stall = time.Minute

var errStalled = fmt.Errorf("nothing went on for %v", stall)

// guarded breaks do off when it does not call moved for the duration stall.
func guarded(ctx context.Context, do func(ctx context.Context, moved func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(stall, func() { cancel(errStalled) })
	defer timer.Stop()
	err := do(ctx, func() { timer.Reset(stall) })
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		return errStalled
	}
	return err
}

// watched calls moved on each read.
type watched struct {
	io.Reader
	moved func()
}

func (w *watched) Read(p []byte) (int, error) {
	w.moved()
	return w.Reader.Read(p)
}

// unequal is the error of a file that has another size than what was sent.
func unequal(f File, has int64) error {
	return fmt.Errorf("check %s: it has %d of %d bytes", f.Name, has, f.Bytes)
}

// newDestination makes the destination that the configuration names.
func newDestination(cfg Config, d disk, deps Deps) (destination, error) {
	u, err := parseTarget(cfg.URL)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "file":
		return directory{disk: d, path: u.Path, busy: make(chan struct{}, 1)}, nil
	case "s3":
		words, err := secrets(cfg.Secret, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
		if err != nil {
			return nil, err
		}
		return newStore(u, deps.Transport, words[0], words[1])
	}
	words, err := secrets(cfg.Secret, "PROXIMA_SINK_TOKEN")
	if err != nil {
		return nil, err
	}
	return newCollector(u, deps.Transport, words[0]), nil
}

// secrets reads one secret per line from a file or, without a file, from environment variables.
func secrets(file string, names ...string) ([]string, error) {
	words := make([]string, len(names))
	if file == "" {
		for i, name := range names {
			words[i] = os.Getenv(name)
		}
		return words, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read sink.secret: %w", err)
	}
	lines := strings.Fields(string(text))
	if len(lines) != len(names) {
		return nil, fmt.Errorf("read sink.secret: %s has %d words, not %d", file, len(lines), len(names))
	}
	return lines, nil
}

// directory is a destination in this machine's file system.
type directory struct {
	disk disk
	path string
	busy chan struct{} // holds a value while an operation is under way
}

// open makes the directory. It must be another one than that of the sink: what is delivered is removed from there.
func (d directory) open(sink string) error {
	if err := d.disk.step("open", d.path); err != nil {
		return err
	}
	if err := os.MkdirAll(d.path, 0o755); err != nil {
		return err
	}
	if same(d.path, sink) {
		return fmt.Errorf("packages wait in %s until they are delivered: give another directory", sink)
	}
	return nil
}

// patiently does something with files, and leaves it behind when ctx ends: on a network's file system it may hang. Nothing else is begun
// before it has ended.
func (d directory) patiently(ctx context.Context, do func() error) error {
	select {
	case d.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-d.busy }()
		done <- do()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d directory) put(ctx context.Context, f File, from string, body io.Reader) error {
	return d.patiently(ctx, func() error { return d.take(f, from, body) })
}

// take links the file into the directory, or copies it from another file system. A file under its final name is always complete.
func (d directory) take(f File, from string, body io.Reader) error {
	to := filepath.Join(d.path, f.Name)
	if err := d.disk.step("link", to); err != nil {
		return err
	}
	if err := os.Link(from, to); err == nil {
		return d.disk.syncDir(d.path)
	}
	// One that is there was put before: names are unique. It may have taken longer than anybody waited, and would again.
	if has, err := os.Stat(to); err == nil && has.Size() == f.Bytes {
		return d.disk.syncDir(d.path)
	}
	return d.disk.store(to, func(out *os.File) error {
		_, err := io.Copy(out, body)
		return err
	})
}

// check looks at the size of the file. One that is gone was there, and synced: somebody has moved it out since.
func (d directory) check(ctx context.Context, f File) error {
	return d.patiently(ctx, func() error {
		got, err := os.Stat(filepath.Join(d.path, f.Name))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && got.Size() != f.Bytes {
			err = unequal(f, got.Size())
		}
		return err
	})
}

// same reports whether two paths name the same file.
func same(a, b string) bool {
	x, missing := os.Stat(a)
	y, absent := os.Stat(b)
	return missing == nil && absent == nil && os.SameFile(x, y)
}
