// Package lab is what the checks and benchmarks of scripts share: the frame of a command, processes, verdicts, and a generated site that
// records every request.
package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// Missing is the error for something that is not installed. Main exits with 3.
type Missing struct{ Err error }

func (m Missing) Error() string { return m.Err.Error() }

// Main runs a command until it ends, is interrupted or exceeds the limit (0 for none). It exits with 0 if run was ok, 1 if it was not, and 3 if
// something is not installed.
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
	if _, missing := errors.AsType[Missing](err); missing {
		os.Exit(3)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// Installed returns an error that names the first of some programs that is not installed.
func Installed(names ...string) error {
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is not installed", name)
		}
	}
	return nil
}

// Beside runs something until end is called, which returns its error.
func Beside(ctx context.Context, run func(context.Context) error) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// Refuse ends the program with its usage if the flags are wrong, or if there are other arguments.
func Refuse(wrong bool) {
	if wrong || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
}

// Preset gives values to flags that have none from the command line or from an earlier preset.
func Preset(flags *flag.FlagSet, values map[string]string) {
	flags.Visit(func(f *flag.Flag) { delete(values, f.Name) })
	for name, value := range values {
		if err := flags.Set(name, value); err != nil {
			panic(fmt.Sprintf("preset of -%s: %v", name, err)) // the program is wrong
		}
	}
}

// Place is the program and the folder of a check.
type Place struct {
	Proxima, Dir string
	Kept         bool // whether the folder stays
}

func (p *Place) Flags() {
	flag.StringVar(&p.Proxima, "proxima", "", "`program` to check; built from ./cmd/proxima if empty")
	flag.StringVar(&p.Dir, "dir", "", "new `directory` for everything that the run leaves, kept afterwards; a temporary one if empty")
}

// Open makes the folder, which must be new and is kept, or a temporary one, and builds the program unless one is named. remove deletes a
// temporary folder.
func (p *Place) Open(ctx context.Context, name string, build ...string) (remove func(), err error) {
	p.Kept, remove = p.Dir != "", func() {}
	if p.Kept {
		p.Dir, err = filepath.Abs(p.Dir)
		err = errors.Join(err, os.Mkdir(p.Dir, 0o755))
	} else if p.Dir, err = os.MkdirTemp("", "proxima-"+name+"-"); err == nil {
		made := p.Dir // whoever asked may name it otherwise
		remove = func() { _ = os.RemoveAll(made) }
	}
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	if p.Proxima == "" {
		if p.Proxima, err = Build(ctx, p.Dir, "./cmd/proxima", build...); err != nil {
			remove()
		}
	}
	return remove, err
}

// Build builds a program of this repository into a folder. The file has an unusual name, so that nobody who kills all processes called
// proxima kills this one.
func Build(ctx context.Context, dir, source string, flags ...string) (path string, err error) {
	path = filepath.Join(dir, "checked-"+filepath.Base(source))
	args := append(append([]string{"build", "-o", path}, flags...), source)
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", source, err, out)
	}
	return path, nil
}
