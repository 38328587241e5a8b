package sink

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Others than the user of the node may read what is delivered, if the system lets them.
func TestModeOfADirectory(t *testing.T) {
	dir := t.TempDir()
	like, made := filepath.Join(dir, "like"), filepath.Join(dir, "made")
	must(t, os.Mkdir(like, 0o755))
	must(t, directory{path: made}.open(dir))
	want, err := os.Stat(like)
	must(t, err)
	if got, err := os.Stat(made); err != nil || got.Mode() != want.Mode() {
		t.Errorf("%v, %v; want %v", got.Mode(), err, want.Mode())
	}
}

// A secret of another destination, with more or fewer words, is not taken for that of this one.
func TestSecretsHaveTheirWords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	for text, good := range map[string]bool{"key": false, "key\nword\n": true, "key\nword\nmore": false} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		if got, err := secrets(file, "A", "B"); (err == nil) != good || good && !slices.Equal(got, []string{"key", "word"}) {
			t.Errorf("%q is read as %q, %v", text, got, err)
		}
	}
}

// A file that is renamed is in its directory after a power failure, too.
func TestRenamesAreDurable(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	must(t, os.WriteFile(from, nil, 0o600))
	var steps []string
	d := disk{fault: func(step, path string) error { steps = append(steps, step+" "+path); return nil }}
	must(t, d.rename(from, to))
	if want := []string{"rename " + to, "sync entries " + dir}; !slices.Equal(steps, want) {
		t.Errorf("%q, want %q", steps, want)
	}
}
