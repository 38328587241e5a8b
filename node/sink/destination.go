package sink

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// destination takes files.
type destination interface {
	// put sends a file of this directory and returns when the destination has shown, as well as it can be asked to, that it has all
	// of it. A file that it has already is replaced.
	put(ctx context.Context, dir string, f File) error
}

var errUnequal = errors.New("it has another size than what was sent")

// newDestination makes the one that the configuration names.
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

// secrets reads a line a secret from a file or, where none is named, the variables of the environment.
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
