package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Peers take what they hear of an earlier life for old news, so a later life must have a higher number: in a directory from a backup, too, and
// when the clock was set back.
func TestLaterLivesHaveHigherNumbers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "node.json")
	var last ID
	var backup []byte
	for i, at := range []time.Duration{0, time.Minute, time.Hour, -time.Hour, 2 * time.Hour} {
		if i == 2 {
			must(t, os.WriteFile(file, backup, 0o600))
		}
		id, err := nextLife(dir, time.Unix(1_000_000_000, 0).Add(at))
		if err != nil || id.Boot <= last.Boot || i > 0 && id.Node != last.Node {
			t.Errorf("start %d: %+v after %+v, %v", i, id, last, err)
		}
		if last = id; i == 0 {
			if backup, err = os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The voters of a run are read again, those of another are not, whatever its name.
func TestVotersAreOfTheirRun(t *testing.T) {
	data := t.TempDir()
	for _, run := range []string{"crawl", "a\nb"} {
		must(t, keepVoters(data, run, []byte("votes\n")))
		if votes, err := loadVoters(data, run); err != nil || string(votes) != "votes\n" {
			t.Errorf("of run %q: %q, %v", run, votes, err)
		}
		if votes, err := loadVoters(data, "another"); err != nil || votes != nil {
			t.Errorf("of another run: %q, %v", votes, err)
		}
	}
}
