package compare

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"proxima/cmd/proxima/rundir"
	"proxima/node/runlog"
)

// maxDepth is how far below a folder runs are looked for.
const maxDepth = 3

// source is a run on the disk.
type source struct {
	dir      string
	world    *rundir.World   // nil for logs of real machines
	testbed  *rundir.Testbed // nil if there is none
	scenario string          // its text, "" if there is none
	killed   bool            // it has a scenario, but ended before its world was written
	logs     []nodeLogs
}

type nodeLogs struct{ name, dir string }

// findAll lists the runs in all folders, each folder of logs once, and the folders of killed runs beside them.
func findAll(dirs []string) (all []source, killed []string, err error) {
	seen := map[string]bool{}
	for _, dir := range dirs {
		found, beside, err := find(dir)
		if err != nil {
			return nil, nil, err
		}
		killed = append(killed, beside...)
		for _, s := range found {
			var fresh []nodeLogs
			for _, logs := range s.logs {
				place, err := filepath.EvalSymlinks(logs.dir)
				if err == nil {
					place, err = filepath.Abs(place)
				}
				if err != nil {
					return nil, nil, fmt.Errorf("find logs: %w", err)
				}
				if !seen[place] {
					seen[place] = true
					fresh = append(fresh, logs)
				}
			}
			if s.logs = fresh; len(fresh) > 0 {
				all = append(all, s)
			}
		}
	}
	if len(all) == 0 {
		return nil, nil, errors.New("find logs: no folder was given")
	}
	slices.Sort(killed)
	return all, slices.Compact(killed), nil
}

// find lists the runs in a folder: the folder itself, those below it and the folders of killed ones, or else all logs below it as one run.
func find(dir string) (runs []source, killed []string, err error) {
	if st, err := os.Stat(dir); err != nil {
		return nil, nil, fmt.Errorf("find logs: %w", err)
	} else if !st.IsDir() {
		return nil, nil, fmt.Errorf("find logs: %s is not a folder", dir)
	}
	runs, killed, err = runsIn(dir, maxDepth)
	if err != nil || len(runs) > 0 {
		return runs, killed, err
	}
	s := source{dir: dir, killed: slices.Contains(killed, dir)}
	if s.logs, err = logsBelow(dir); err != nil {
		return nil, nil, err
	}
	if len(s.logs) == 0 {
		return nil, nil, fmt.Errorf("find logs: there are no logs of nodes (%s%s) in %s", runlog.LogFetch, suffix, dir)
	}
	return []source{s}, nil, nil
}

// runsIn lists the runs in a folder that came to their end, and the folders of those that did not.
func runsIn(dir string, depth int) (all []source, killed []string, err error) {
	if _, err := os.Stat(filepath.Join(dir, rundir.WorldFile)); err == nil {
		s, err := openRun(dir)
		return []source{s}, nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, rundir.ScenarioFile)); err == nil {
		killed = append(killed, dir)
	}
	if depth == 0 {
		return nil, killed, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("find logs: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			runs, more, err := runsIn(filepath.Join(dir, e.Name()), depth-1)
			if err != nil {
				return nil, nil, err
			}
			all, killed = append(all, runs...), append(killed, more...)
		}
	}
	return all, killed, nil
}

// openRun reads what the testbed says about a run, and lists its logs.
func openRun(dir string) (source, error) {
	s := source{dir: dir}
	w, err := rundir.ReadWorld(dir)
	if err != nil {
		return s, err
	}
	if len(w.RTTMs) != len(w.Nodes) && len(w.RTTMs) > 0 { // real machines have none
		return s, fmt.Errorf("read %s in %s: %d rows of round trips for %d nodes", rundir.WorldFile, dir, len(w.RTTMs), len(w.Nodes))
	}
	for i, row := range w.RTTMs {
		if len(row) != len(w.Servers) {
			return s, fmt.Errorf("read %s in %s: node %d has %d round trips for %d servers", rundir.WorldFile, dir, i, len(row), len(w.Servers))
		}
	}
	s.world = &w
	t, err := rundir.ReadTestbed(dir)
	if err == nil {
		s.testbed = &t
	} else if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if s.scenario, err = rundir.ReadScenario(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	nodes := filepath.Join(dir, rundir.NodesFolder)
	if s.logs, err = logsBelow(nodes); err == nil && len(s.logs) == 0 {
		err = fmt.Errorf("find logs: %s has no logs of any node", nodes)
	}
	return s, err
}

const suffix = ".jsonl"

var logForm = regexp.MustCompile(`^(fetch|queue|load|node|coord|proxy|assign|member)(-\d{6,9})?\.jsonl(\.gz)?$`)

// logsBelow lists the folders that hold logs. One below another, of older logs, comes before it.
func logsBelow(top string) (list []nodeLogs, err error) {
	seen := map[string]bool{}
	// With a separator at the end, a link to a folder is followed.
	err = filepath.WalkDir(top+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !logForm.MatchString(d.Name()) {
			return err
		}
		if dir := filepath.Dir(path); !seen[dir] { // a folder among the logs comes between them
			seen[dir] = true
			list = append(list, nodeLogs{nameOf(top, dir), dir})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find logs: %w", err)
	}
	slices.SortFunc(list, func(a, b nodeLogs) int { return strings.Compare(a.dir+"\xff", b.dir+"\xff") }) // behind a separator
	return list, nil
}

// nameOf names a node after the folder of its logs, without "logs" and "data".
func nameOf(top, dir string) string {
	rel, err := filepath.Rel(top, dir)
	parts := slices.DeleteFunc(strings.Split(rel, string(filepath.Separator)), func(p string) bool {
		return p == rundir.LogsFolder || p == "data" || p == "."
	})
	if err != nil || len(parts) == 0 {
		return filepath.Base(top)
	}
	return strings.Join(parts, "/")
}
