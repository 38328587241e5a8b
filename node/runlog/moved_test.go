package runlog

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Logs that somebody moves, or deletes to make room, begin anew within a sample of the load, even those without lines. Without that their lines
// would go into files that nobody finds, and whose room is not free.
func TestMovedAndDeleted(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "logs")
	var reports []error
	deps := testDeps()
	deps.OnError = func(err error) { reports = append(reports, err) }
	j := openWith(t, testConfig(dir), meta, deps)
	n := 0
	fetch := func() {
		n++
		j.Fetch(page(fmt.Sprintf("http://a/%d", n)))
	}
	fetch()
	moved := filepath.Join(top, "moved")
	must(t, os.Mkdir(moved, 0o700))
	must(t, os.Rename(j.logs[LogFetch].path(), filepath.Join(moved, "fetch.jsonl")))
	fetch()
	j.Load(Load{})
	fetch()
	fetched(t, moved, 0, "3.1 /1", "3.2 /2")
	fetched(t, dir, 0, "3.3 /3")

	must(t, os.RemoveAll(dir))
	j.Load(Load{})
	for _, name := range names {
		if _, err := os.Stat(j.logs[name].path()); err != nil {
			t.Error(err)
		}
	}
	fetch()
	fetched(t, dir, 0, "3.4 /4")
	if len(reports) > 0 {
		t.Errorf("reports %v", reports)
	}

	// A directory whose own is gone is not made: it may be that of a data directory that was deleted. That is said once.
	must(t, os.Rename(top, top+".away"))
	j.Load(Load{})
	j.Load(Load{})
	if len(reports) != len(names) {
		t.Errorf("reports %v", reports)
	}
	must(t, os.Rename(top+".away", top))
	fetch()
	j.Load(Load{})
	fetched(t, dir, 0, "3.4 /4", "3.5 /5")
	if err := j.Err(); err != nil {
		t.Error(err)
	}
}
