// Package lab is what the checks and benchmarks of scripts share: the frame of a command, nodes as processes, and a generated site that sees
// every request. It judges nothing.
package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// Missing is the error of something that is not installed: exit code 3.
type Missing struct{ Err error }

func (m Missing) Error() string { return m.Err.Error() }

// Main runs a command until it is done, is interrupted or has taken too long (0 for no limit), and exits: 0 where all held, 1 where something
// did not, 3 where something is not installed.
func Main(name string, limit time.Duration, run func(ctx context.Context) (ok bool, err error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	ok, err := run(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	var m Missing
	switch {
	case errors.As(err, &m):
		os.Exit(3)
	case err != nil || !ok:
		os.Exit(1)
	}
}

// Folder makes the folder of a run: one that must be new and stays, or a temporary one where none is named.
func Folder(dir, name string) (path string, remove func(), err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "proxima-"+name+"-"); err != nil {
			return "", nil, fmt.Errorf("make directory: %w", err)
		}
		return dir, func() { _ = os.RemoveAll(dir) }, nil
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", nil, fmt.Errorf("make directory: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, fmt.Errorf("find directory: %w", err)
	}
	return dir, func() {}, nil
}

// Build builds a program of this repository into a folder. Its name there is not the common one: who ends all processes of that name does
// not end these.
func Build(ctx context.Context, dir, source string, flags ...string) (path string, err error) {
	path = filepath.Join(dir, "checked-"+filepath.Base(source))
	args := append(append([]string{"build", "-o", path}, flags...), source)
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", source, err, out)
	}
	return path, nil
}

// Keygen makes the secret of an overlay.
func Keygen(proxima, path string) error {
	if out, err := exec.Command(proxima, "keygen", path).CombinedOutput(); err != nil {
		return fmt.Errorf("make secret: %w\n%s", err, out)
	}
	return nil
}
