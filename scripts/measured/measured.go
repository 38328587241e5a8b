// Package measured finds the measured data that scripts/data.sh fetches, for tests.
package measured

import (
	"os"
	"path/filepath"
	"testing"
)

// File returns the path of a file or folder of measured data, such as "wondernetwork/cities.csv": below PROXIMA_DATA if that is set, else
// below the folder data at the root of the repository. Where there is none the test is skipped.
func File(t testing.TB, name string) string {
	t.Helper()
	folder := os.Getenv("PROXIMA_DATA")
	for dir := "."; folder == ""; dir = filepath.Join("..", dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			folder = filepath.Join(dir, "data")
		} else if here, err := filepath.Abs(dir); err != nil || filepath.Dir(here) == here {
			t.Fatalf("find the root of the repository: %v", err)
		}
	}
	path := filepath.Join(folder, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		t.Skipf("there is no measured %s: fetch it by scripts/data.sh; this is left out", name)
	}
	return path
}
