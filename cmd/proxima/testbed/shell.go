package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// shellFile is in the folder of a run in namespaces. It holds the commands that open a shell in the namespace of each node.
const shellFile = "shell.json"

// latest returns the path of the file that names the folder of the latest run.
func latest() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "proxima", "testbed"), nil
}

// Remember notes the folder of a run for Shell. forget removes the note. Without a cache folder it does nothing.
func Remember(dir string) (forget func()) {
	path, err := latest()
	if err == nil {
		_ = os.MkdirAll(filepath.Dir(path), 0o700)
		_ = os.WriteFile(path, []byte(dir+"\n"), 0o600)
	}
	return func() {
		if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == dir {
			_ = os.Remove(path) // a stale note does no harm
		}
	}
}

// Shell returns a command that enters the namespace of a node while the run goes on. The caller appends the program to start there. dir is
// the folder of the run, or empty for the latest run.
func Shell(dir, node string) ([]string, error) {
	if dir == "" {
		path, err := latest()
		var text []byte
		if err == nil {
			text, err = os.ReadFile(path)
		}
		if err != nil {
			return nil, errors.New("no run in namespaces was found: name its folder (-out DIR)")
		}
		dir = strings.TrimSpace(string(text))
	}
	var commands map[string][]string
	text, err := os.ReadFile(filepath.Join(dir, shellFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no run in namespaces is going on in %s", dir)
	} else if err == nil {
		err = json.Unmarshal(text, &commands)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", shellFile, err)
	}
	argv, ok := commands[node]
	if !ok {
		names := slices.Sorted(maps.Keys(commands))
		return nil, fmt.Errorf("there is no node %q; the nodes are %s", node, strings.Join(names, ", "))
	}
	return argv, nil
}
