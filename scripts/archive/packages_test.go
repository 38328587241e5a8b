package archive

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFaultsAreSaid: what is wrong with packages is said, even where no function has failed.
func TestFaultsAreSaid(t *testing.T) {
	for name, want := range map[string]string{"other.json": "is no manifest", "stray.warc": "0 of 1 files belong to packages"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", name, err)
		}
	}
	script := filepath.Join(t.TempDir(), "complain")
	if err := os.WriteFile(script, []byte("echo wrong length >&2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := (Warcio{node: "/bin/sh"}).Run(t.Context(), script); err == nil || err.Error() != "warcio: wrong length\n" {
		t.Errorf("a complaint: %v", err)
	}
}
