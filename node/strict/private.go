package strict

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Private returns an error for a file that other users may read. systemd grants a service its credentials by an access list, which looks like
// a group permission and is allowed.
func Private(path string, info fs.FileInfo) error {
	mode := info.Mode().Perm()
	credential := filepath.Dir(path) == os.Getenv("CREDENTIALS_DIRECTORY")
	if mode&0o077 == 0 || credential && mode&0o037 == 0 || runtime.GOOS == "windows" {
		return nil
	}
	return fmt.Errorf("%s is open to others (%v): chmod 600 %[1]s", path, mode)
}
