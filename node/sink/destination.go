package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// destination takes files.
type destination interface {
	// put sends a file from dir, replacing one of the same name, and returns when the destination has confirmed as well as its
	// protocol allows that it has the complete file.
	put(ctx context.Context, dir string, f File) error
}

var errUnequal = errors.New("it has another size than what was sent")

// newDestination makes the destination that the configuration names.
func newDestination(cfg Config, d disk, deps Deps) (destination, error) {
	u, err := parseTarget(cfg.URL)
	if err != nil {
		return nil, err
	}
	transport := deps.Transport
	if transport == nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: stall,
			TLSHandshakeTimeout: stall, ExpectContinueTimeout: 2 * stall / 60}
	}
	switch u.Scheme {
	case "file":
		if err := os.MkdirAll(u.Path, 0o755); err != nil {
			return nil, err
		}
		return directory{disk: d, path: u.Path}, nil
	case "s3":
		words, err := secrets(cfg.Secret, deps.Env, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
		if err != nil {
			return nil, err
		}
		return newStore(u, transport, words[0], words[1])
	}
	words, err := secrets(cfg.Secret, deps.Env, "PROXIMA_SINK_TOKEN")
	if err != nil {
		return nil, err
	}
	return newCollector(u, transport, words[0]), nil
}

// secrets reads one secret per line from a file or, without a file, from environment variables.
func secrets(file string, env func(string) string, names ...string) ([]string, error) {
	words := make([]string, len(names))
	if file == "" {
		for i, name := range names {
			words[i] = env(name)
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
}

// put links the file into the directory, or copies it from another file system. A file under its final name is always complete.
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

// same reports whether two paths name the same file.
func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
