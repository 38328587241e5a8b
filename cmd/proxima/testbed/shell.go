package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// shellFile names, in the folder of a run in namespaces, the command that opens a shell beside each node.
const shellFile = "shell.json"

// latest is where the folder of the run that was started last stands.
func latest() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "proxima", "testbed"), nil
}

// Remember notes the folder of a run for Shell; forget takes the note back. Without a folder for such notes there is none.
func Remember(dir string) (forget func()) {
	path, err := latest()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(dir+"\n"), 0o600)
	}
	if err != nil {
		return func() {}
	}
	return func() {
		if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == dir {
			_ = os.Remove(path) // a note too many does no harm
		}
	}
}

// Shell is the command, to which what is to be started is appended, that enters the place of a node in a run that is going on. dir
// is its folder, or empty for the run that was started last.
func Shell(dir, node string) ([]string, error) {
	if dir == "" {
		path, err := latest()
		var text []byte
		if err == nil {
			text, err = os.ReadFile(path)
		}
		if err != nil {
			return nil, errors.New("no run in namespaces seems to go on: name its folder (-out DIR)")
		}
		dir = strings.TrimSpace(string(text))
	}
	text, err := os.ReadFile(filepath.Join(dir, shellFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no run in namespaces is going on in %s", dir)
	} else if err != nil {
		return nil, fmt.Errorf("read how to enter: %w", err)
	}
	var commands map[string][]string
	if err := json.Unmarshal(text, &commands); err != nil {
		return nil, fmt.Errorf("read how to enter: %w", err)
	}
	argv, ok := commands[node]
	if !ok {
		names := make([]string, 0, len(commands))
		for name := range commands {
			names = append(names, name)
		}
		slices.Sort(names)
		return nil, fmt.Errorf("there is no node %q; there are %s", node, strings.Join(names, ", "))
	}
	return argv, nil
}

// writeShells writes what Shell reads.
func (b *spaces) writeShells() error {
	commands := map[string][]string{}
	for _, n := range b.plan.Nodes {
		argv, err := b.net.ShellCommand(nodeSpace(n.Name))
		if err != nil {
			return fmt.Errorf("find how to enter %s: %w", n.Name, err)
		}
		commands[n.Name] = argv
	}
	text, err := json.Marshal(commands)
	if err != nil {
		return fmt.Errorf("write how to enter: %w", err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, shellFile), text, 0o600); err != nil {
		return fmt.Errorf("write how to enter: %w", err)
	}
	return nil
}
