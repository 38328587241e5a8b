package node

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"proxima/frontier"
)

// ID is the identity of a node. It is kept in node.json of the data directory.
type ID struct {
	// V is the version of the file.
	V int `json:"v"`
	// Node is 128 random bits in hex. It is the name of the node, whatever its address.
	Node string `json:"node"`
	// Boot tells the lives of the node apart. The first is 1, and later ones are the time of their start in seconds (Unix), or more. So it
	// grows even if the directory is an old copy, as after the restore of a backup or of a virtual machine.
	Boot uint64 `json:"boot"`
}

const idVersion = 1

// nextLife reads the identity, or makes one, and begins a life. The file is on disk before the node sends or logs anything. Otherwise a
// power failure could give two starts one number, and peers and readers of logs would take news of the second for old.
func nextLife(dir string, now time.Time) (ID, error) {
	path := filepath.Join(dir, "node.json")
	id := ID{V: idVersion}
	text, err := readIfThere(path)
	switch {
	case err != nil:
		return ID{}, fmt.Errorf("read node id: %w", err)
	case text == nil:
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		id.Node = hex.EncodeToString(b[:])
	case json.Unmarshal(text, &id) != nil || id.V != idVersion || len(id.Node) != 32:
		return ID{}, fmt.Errorf("read node id: %w: %s is not readable or of another version; no URLs are lost: "+
			"delete the file and the node gets a new id", frontier.ErrDamaged, path)
	}
	if id.Boot++; id.Boot > 1 {
		id.Boot = max(id.Boot, uint64(max(0, now.Unix())))
	}
	if text, err = json.Marshal(id); err != nil {
		return ID{}, fmt.Errorf("write node id: %w", err)
	}
	if err := replaceFile(path, append(text, '\n')); err != nil {
		return ID{}, fmt.Errorf("write node id: %w", err)
	}
	return id, nil
}

// readIfThere reads a file. It returns nil if there is none.
func readIfThere(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// replaceFile writes a file that only its owner can read. When it returns, the file is on disk. A crash leaves the old file or the new
// one.
func replaceFile(path string, text []byte) error {
	next := path + ".new"
	for _, step := range []func() error{
		func() error { return os.WriteFile(next, text, 0o600) },
		func() error { return syncFile(next) },
		func() error { return os.Rename(next, path) },
		func() error { return syncFile(filepath.Dir(path)) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// syncFile writes a file or directory to disk.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Version returns the version of the program: that of its module, which names the commit that it was built from. "+dirty" means that files
// differed from the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "unknown"
	}
	return info.Main.Version
}
