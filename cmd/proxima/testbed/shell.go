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

// Shell returns a command that enters the namespace of a node while the run goes on. The caller appends the program to start there. dir is
// the folder of the run.
func Shell(dir, node string) ([]string, error) {
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
