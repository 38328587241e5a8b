package compare

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"proxima/cmd/proxima/rundir"
	"proxima/node/runlog"
)

// edit rewrites the lines of a log.
func edit(t *testing.T, path string, change func(lines []string) []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, strings.Join(change(slices.Collect(strings.Lines(string(b)))), ""))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamage: what is torn, doubled or missing is counted, and costs itself alone. What can no longer be known is withheld.
func TestDamage(t *testing.T) {
	whole := read(t, small(t).write())
	without := func(line int) func([]string) []string {
		return func(lines []string) []string { return slices.Delete(lines, line, line+1) }
	}
	edited := func(path string, change func([]string) []string) func(dir string) {
		return func(dir string) { edit(t, filepath.Join(dir, path), change) }
	}
	// Files as they are collected from real machines. The last one is changed.
	packed := func(change func(sound string) string) func(dir string) {
		return func(dir string) {
			logs := filepath.Join(dir, "nodes/tokyo/logs")
			edit(t, filepath.Join(logs, "fetch.jsonl"), func(lines []string) []string {
				write(t, filepath.Join(logs, "fetch-000001.jsonl.gz"), pack(t, strings.Join(lines[:2], "")))
				write(t, filepath.Join(logs, "fetch-000002.jsonl.gz"), pack(t, strings.Join(lines[2:4], "")))
				write(t, filepath.Join(logs, "fetch-000002.jsonl"), strings.Join(lines[2:4], "")) // not packed, too: it counts once
				write(t, filepath.Join(logs, "fetch.jsonl.gz"), change(pack(t, strings.Join(lines[4:], ""))))
				return nil
			})
			remove(t, filepath.Join(logs, "fetch.jsonl"))
		}
	}
	older := func(name string) func(dir string) {
		return func(dir string) {
			logs := filepath.Join(dir, "nodes/tokyo/logs")
			old := filepath.Join(logs, name)
			if err := os.Mkdir(old, 0o755); err != nil {
				t.Fatal(err)
			}
			edit(t, filepath.Join(logs, "fetch.jsonl"), func(lines []string) []string {
				write(t, filepath.Join(old, "fetch.jsonl"), strings.Join(lines[:2], ""))
				return lines[2:]
			})
			node, err := os.ReadFile(filepath.Join(logs, "node.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(old, "node.jsonl"), string(node[:bytes.IndexByte(node, '\n')+1]))
		}
	}
	const header = 10 // of a packed file
	const all = -1
	gap := func(log string) Reading {
		return Reading{Missing: 1, Gaps: []Gap{{Node: "berlin", Log: log, Boot: 1, Lines: 1}}}
	}
	for _, c := range []struct {
		name      string
		damage    func(dir string)
		reading   Reading
		withheld  string
		attempted int64 // URLs; all, if the figures are those of the whole logs
	}{
		{"a line is missing", edited("nodes/berlin/logs/fetch.jsonl", without(2)), gap("fetch"),
			"1 lines are missing in the fetch log of berlin (boot 1)", 9},
		{"an older file is missing", edited("nodes/berlin/logs/fetch.jsonl", without(0)), gap("fetch"),
			"1 lines are missing in the fetch log of berlin (boot 1)", 9},
		{"a line about the node is missing", edited("nodes/berlin/logs/node.jsonl", without(1)), gap("node"),
			"1 lines are missing in the node log of berlin (boot 1)", 10},
		{"a decision is missing", edited("nodes/berlin/logs/assign.jsonl", without(1)), gap("assign"), "", 10}, // no reason to withhold
		{"the counts of a node are missing", func(dir string) { remove(t, filepath.Join(dir, "nodes/berlin/logs/queue.jsonl")) }, Reading{},
			"there is no queue log of berlin (boot 1)", 10},
		{"a node is missing", func(dir string) { remove(t, filepath.Join(dir, "nodes/tokyo")) }, Reading{}, "there are no logs of tokyo", 6},
		{"torn, foreign and doubled lines", edited("nodes/tokyo/logs/fetch.jsonl", func(lines []string) []string {
			return append([]string{"not JSON\n", lines[0], "{}\n\n"}, lines...)
		}), Reading{Damaged: 2, Repeated: 1}, "", all},
		{"the last line is cut", edited("nodes/tokyo/logs/fetch.jsonl", func(lines []string) []string { // nothing says that it is missing
			last := len(lines) - 1
			return append(lines[:last], lines[last][:len(lines[last])-40])
		}), Reading{Damaged: 1}, "", 9},
		{"a folder among the logs", func(dir string) {
			folder := filepath.Join(dir, "nodes/tokyo/logs/kept")
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(folder, "fetch.jsonl"), "")
		}, Reading{}, "", all},
		{"a folder of older logs", older("2026-11"), Reading{Repeated: 1}, "", all},
		{"a folder of older logs with a late name", older("old"), Reading{Repeated: 1}, "", all},
		{"packed", packed(func(sound string) string { return sound }), Reading{}, "", all},
		{"packed and cut", packed(func(sound string) string { return sound[:len(sound)-12] }), Reading{Cut: 1}, "1 packed files are cut off", 10},
		{"packed and corrupt", packed(func(sound string) string {
			return sound[:header] + "\x07" + sound[header+1:] // a block of a kind that there is not (RFC 1951, 3.2.3)
		}), Reading{Cut: 1}, "1 packed files are cut off", 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := small(t).write()
			c.damage(dir)
			r := read(t, dir)
			if d := cmp.Diff(c.reading, r.Reading, cmpopts.IgnoreFields(Reading{}, "Bytes", "Lines")); d != "" {
				t.Errorf("reading (-want +got):\n%s", d)
			}
			if !strings.Contains(r.Crawl.Withheld, c.withheld) || c.withheld == "" && r.Crawl.Withheld != "" {
				t.Errorf("withheld: %q, want %q", r.Crawl.Withheld, c.withheld)
			}
			if held := r.Crawl.Coverage == nil && r.Crawl.Lost == nil; held != (c.withheld != "") {
				t.Errorf("coverage %v, lost %v", r.Crawl.Coverage, r.Crawl.Lost)
			}
			if notes := strings.Join(r.Notes(), "\n"); regexp.MustCompile(`\b0 (damaged|packed)`).MatchString(notes) {
				t.Errorf("a note counts what is not there:\n%s", notes)
			}
			if r.Crawl.Overlap == nil || len(r.Assigners) != 2 {
				t.Error("what can be known is withheld too")
			}
			if c.attempted != all && r.Crawl.Attempted != c.attempted {
				t.Errorf("%d attempted, want %d", r.Crawl.Attempted, c.attempted)
			}
			if d := cmp.Diff([]any{whole.Assigners, whole.Crawl, whole.Statuses}, []any{r.Assigners, r.Crawl, r.Statuses}); c.attempted == all && d != "" {
				t.Errorf("(-whole +damaged):\n%s", d)
			}
		})
	}
}

// TestIrregularFilesAreLeftOut: nobody writes to the pipe, so that reading it would never end.
func TestIrregularFilesAreLeftOut(t *testing.T) {
	b := small(t)
	b.world.Pages = 6
	dir := b.write()
	pipe := filepath.Join(dir, "nodes/berlin/logs/fetch-000001.jsonl")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "nodes/tokyo/logs/coord-000001.jsonl")
	if err := os.Symlink(t.TempDir(), folder); err != nil {
		t.Fatal(err)
	}
	r := read(t, dir)
	want := []string{folder + " is no regular file", pipe + " is no regular file"}
	if d := cmp.Diff(want, r.Reading.Unread); d != "" || r.Crawl.Attempted != 10 || r.Crawl.Withheld != want[0] {
		t.Errorf("%d attempted, withheld: %q, not read (-want +got):\n%s", r.Crawl.Attempted, r.Crawl.Withheld, d)
	}
	if note := "2 files were not read: " + strings.Join(want, ", ") + "."; !slices.Contains(r.Notes(), note) {
		t.Errorf("%q is not in %q", note, r.Notes())
	}
}

func pack(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestNothingCrawledIsNothingLost: a run that was stopped before its first page knows of none.
func TestNothingCrawledIsNothingLost(t *testing.T) {
	b := newBed(t, t.TempDir(), twoNodes())
	b.world.Pages = 6
	for _, n := range b.nodes {
		n.queue(1, runlog.Queue{})
		n.stop()
	}
	r := read(t, b.write())
	if k := r.Crawl; k.Lost != nil || k.LostWhy != "nothing was crawled" {
		t.Errorf("%+v", k)
	}
	if s := r.Runs[0].Seconds; s != 0 {
		t.Errorf("it took %v s", s)
	}
}

// TestLossIsFound: a page of the generator's list that nobody asked for, without any gap.
func TestLossIsFound(t *testing.T) {
	for _, c := range []struct {
		name          string
		pages         int
		queue         runlog.Queue // of berlin at the end, unless all is done
		lost          int64
		withheld, why string
	}{
		{name: "none", pages: 8},
		{name: "one tried in vain", pages: 9},
		{name: "two", pages: 11, queue: runlog.Queue{Accepted: 5, Done: 4, Failed: 1}, lost: 2}, // what the nodes have done is in their logs
		{name: "the end of a fetch log is missing", pages: 11,
			withheld: "the nodes have done 12 pages, and their fetch logs have 11"},
		{name: "dropped with a reason", pages: 10, queue: runlog.Queue{Accepted: 7, Done: 5, Failed: 1, Dropped: 1}},
		{name: "still waiting", pages: 50, queue: runlog.Queue{Accepted: 9, Done: 5, Failed: 1, Pending: 3}},
		{name: "books that do not balance", pages: 8, queue: runlog.Queue{Accepted: 9, Done: 5, Failed: 1},
			withheld: "the counts of berlin do not add up in 1 lines"},
		{name: "no list"},
		{name: "no list, and accepted twice or lost", queue: runlog.Queue{Accepted: 9, Done: 5, Failed: 1, Left: 3}, why: "at most 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := small(t)
			if b.world.Pages = c.pages; c.queue.Accepted > 0 {
				b.nodes[0].queue(26, c.queue)
			}
			k := read(t, b.write()).Crawl
			if k.Withheld != c.withheld || !strings.HasPrefix(k.LostWhy, c.why) || c.why == "" && k.LostWhy != "" {
				t.Fatalf("withheld %q, %q", k.Withheld, k.LostWhy)
			}
			switch known := c.withheld+c.why == ""; {
			case known != (k.Lost != nil):
				t.Errorf("lost %v", k.Lost)
			case known && *k.Lost != c.lost:
				t.Errorf("lost %d, want %d", *k.Lost, c.lost)
			}
			if c.name == "still waiting" {
				near(t, "coverage", k.Coverage, 10./12) // one of the three was tried before
			}
		})
	}
}

// TestLossOverARestart: what waited at the end of a life waits at the start of the next one. It counts once, and what is missing then is told.
func TestLossOverARestart(t *testing.T) {
	for waits, why := range map[int64]string{3: "", 1: "at most 2 URLs"} {
		b := small(t)
		b.world.Pages = 0
		berlin := b.nodes[0]
		berlin.queue(26, runlog.Queue{Accepted: 9, Done: 5, Failed: 1, Pending: 3})
		again := b.open("berlin", berlin.id, 2)
		again.queue(30, runlog.Queue{AtStart: waits, Done: waits})
		again.stop()
		b.nodes = append(b.nodes, again)
		if k := read(t, b.write()).Crawl; !strings.HasPrefix(k.LostWhy, why) || (why == "") != (k.Lost != nil) {
			t.Errorf("%d wait: lost %v, %q", waits, k.Lost, k.LostWhy)
		}
	}
}

// TestKilledNode: its last counts are not known; with a list and everything done elsewhere, losses are.
func TestKilledNode(t *testing.T) {
	for _, listed := range []bool{true, false} {
		b := small(t)
		if b.world.Pages = 0; listed {
			b.world.Pages = 8
		}
		dead := b.open("lima", strings.Repeat("9", 32), 1)
		dead.queue(3, runlog.Queue{Accepted: 5, Pending: 5})
		b.nodes = append(b.nodes, dead)
		b.world.Nodes = append(b.world.Nodes, rundir.Node{Name: "lima"})
		b.world.RTTMs = append(b.world.RTTMs, []float64{1, 1})
		b.world.Events = []rundir.Event{{AtS: 4, Kind: rundir.EventKill, Node: "lima"}}
		r := read(t, b.write())
		k := r.Crawl
		if listed && (k.Lost == nil || *k.Lost != 0) {
			t.Errorf("lost %v: %s", k.Lost, k.LostWhy)
		}
		if !listed && (k.Lost != nil || !strings.Contains(k.LostWhy, "lima ended without a last line")) {
			t.Errorf("lost %v: %q", k.Lost, k.LostWhy)
		}
		near(t, "coverage", k.Coverage, 1)
		near(t, "choice among the nodes that live", r.of(t, "nearest").ChoiceRatio, 1)
	}
}

// TestAllKilledBeforeTheyCounted: counts from before the first page do not tell what waits. Where a node stopped in order it waits there.
func TestAllKilledBeforeTheyCounted(t *testing.T) {
	for _, c := range []struct {
		last     runlog.Queue // of tokyo
		stops    bool
		withheld string
	}{
		{withheld: "tokyo was killed before it counted its pages"},
		{last: runlog.Queue{Accepted: 5, Done: 3, Pending: 2}},
		{stops: true},
	} {
		b := newBed(t, t.TempDir(), twoNodes())
		b.world.Pages = 0
		for _, n := range b.nodes {
			n.queue(1, runlog.Queue{})
		}
		b.nodes[1].fetch(2, assigned("nearest", "b.test/1", 50))
		if b.nodes[1].queue(11, c.last); c.stops {
			b.nodes[0].stop()
		}
		if k := read(t, b.write()).Crawl; k.Withheld != c.withheld || (k.Coverage == nil) != (c.withheld != "") {
			t.Errorf("%+v: coverage %v, withheld %q", c, k.Coverage, k.Withheld)
		}
	}
}

// TestStoppedBeforeTheOthers: what waited at a node that stopped in order came with its hosts to another one, and waits at most there.
func TestStoppedBeforeTheOthers(t *testing.T) {
	for waits, coverage := range map[int64]float64{0: 1, 2: 10. / 11} { // one of the two was tried before
		b := small(t)
		b.world.Pages = 0
		b.nodes[0].queue(26, runlog.Queue{Accepted: 9, Done: 5, Failed: 1, Pending: 3})
		b.nodes[1].queue(30, runlog.Queue{Arrived: 3, Done: 3 - waits, Pending: waits})
		k := read(t, b.write()).Crawl
		near(t, "coverage", k.Coverage, coverage)
		if k.Lost != nil || !strings.HasPrefix(k.LostWhy, "3 URLs are in the counts of two nodes") {
			t.Errorf("lost %v: %q", k.Lost, k.LostWhy)
		}
	}
}

// TestLogsWithoutWorld: figures without truth, nodes named after their folders.
func TestLogsWithoutWorld(t *testing.T) {
	dir := small(t).write()
	remove(t, filepath.Join(dir, rundir.WorldFile), filepath.Join(dir, rundir.TestbedFile))
	r := read(t, dir)
	n := r.of(t, "nearest")
	near(t, "p50", n.P50Ms, 44)
	if n.ChoiceRatio != nil || n.BestShare != nil || r.Testbed.Trusted != nil || n.Difference == nil {
		t.Errorf("%+v, %+v", n, r.Testbed)
	}
	if len(r.Nodes) != 2 || r.Nodes[0].Name != "nodes/berlin" {
		t.Errorf("nodes %+v", r.Nodes)
	}
	// A scenario is there from the beginning of a testbed's run, its world at the end.
	if err := os.WriteFile(filepath.Join(dir, rundir.ScenarioFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	holds(t, strings.Join(read(t, dir).Notes(), "\n"), "NOT TO BE TRUSTED: "+dir+": the run did not come to its end")
	// Beside a run that came to its end it is left out, and a note says so once.
	ended := newBed(t, filepath.Join(filepath.Dir(dir), "ended"), small(t).world).write()
	both := read(t, filepath.Dir(dir), filepath.Dir(dir))
	if holds(t, strings.Join(both.Notes(), "\n"), "Unfinished runs are left out: "+dir+"."); len(both.Runs) != 1 || both.Runs[0].Dir != ended {
		t.Errorf("%+v", both.Runs)
	}
	// The run begins with its first node, though that is not the first to be read.
	edit(t, filepath.Join(dir, "nodes/berlin/logs/node.jsonl"), func(lines []string) []string {
		return []string{strings.ReplaceAll(strings.Join(lines, ""), "T12:00:00", "T12:00:20")}
	})
	if info := read(t, dir).Runs[0]; info.Seconds != 24 || !info.Started.Equal(began) {
		t.Errorf("%v s from %v, want 24 from %v", info.Seconds, info.Started, began)
	}
}

// TestFoldersNamedTwice: a run counts once however it is named, by a link too; twice the pairs would feign a smaller interval.
func TestFoldersNamedTwice(t *testing.T) {
	dir := small(t).write()
	links := t.TempDir()
	run, nodes := filepath.Join(links, "run"), filepath.Join(links, "nodes")
	for name, to := range map[string]string{run: dir, nodes: filepath.Join(dir, rundir.NodesFolder)} {
		if err := os.Symlink(to, name); err != nil {
			t.Skip(err)
		}
	}
	r := read(t, dir, run, filepath.Dir(dir))
	if len(r.Runs) != 1 || r.of(t, "nearest").URLs != 3 {
		t.Errorf("%d runs, %+v", len(r.Runs), r.of(t, "nearest"))
	}
	// Logs without a description of the run, below a link, and again some of them.
	if r := read(t, nodes, filepath.Join(nodes, "berlin")); len(r.Runs) != 1 || len(r.Nodes) != 2 || r.of(t, "nearest").URLs != 3 {
		t.Errorf("%d runs, %+v", len(r.Runs), r.Nodes)
	}
}

// TestSeveralRunsSayWhatIsOfOne: of several testbeds the worst is told, with its own count; and whose nodes the tables show.
func TestSeveralRunsSayWhatIsOfOne(t *testing.T) {
	var dirs []string
	for _, b := range []rundir.Testbed{
		{Trusted: true, Emulation: "tun", Calibrations: 10, CalibrationP10: .9, CalibrationP50: 1.1, CalibrationP90: 1.5},
		{Trusted: true, Emulation: "portable", Calibrations: 20, CalibrationP10: .7, CalibrationP50: .8, CalibrationP90: .9},
		{Trusted: true, Emulation: "tun", Calibrations: 40, CalibrationP10: 1, CalibrationP50: 1, CalibrationP90: 1},
	} {
		dir := small(t).write()
		if err := rundir.WriteTestbed(dir, b); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	r := read(t, dirs...)
	b := r.Testbed
	if got := [4]float64{b.CalibrationP10, b.CalibrationP50, b.CalibrationP90, float64(b.Calibrations)}; got != [4]float64{.7, .8, .9, 20} {
		t.Errorf("calibration %v", got)
	}
	notes := strings.Join(r.Notes(), "\n")
	holds(t, notes, "portable emulation", "from one run only: "+dirs[0]+".")
	if notes := strings.Join(read(t, dirs[0]).Notes(), "\n"); strings.Contains(notes, "one run only") {
		t.Error(notes)
	}
}

func TestFoldersThatCannotBe(t *testing.T) {
	empty, file, broken, short := t.TempDir(), filepath.Join(t.TempDir(), "file"), small(t).write(), small(t)
	write(t, file, "")
	write(t, filepath.Join(broken, rundir.WorldFile), "{")
	short.world.RTTMs = short.world.RTTMs[:1]
	for dir, words := range map[string]string{
		empty:                        "there are no logs",
		file:                         "is not a folder",
		filepath.Join(empty, "none"): "no such file",
		broken:                       rundir.WorldFile,
		short.write():                "1 rows of round trips for 2 nodes",
	} {
		if _, err := Read(t.Context(), []string{dir}, Options{}); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q", dir, err, words)
		}
	}
	if _, err := Read(t.Context(), nil, Options{}); err == nil {
		t.Error("no folder is no error")
	}
}

// TestTruncatedWithoutTimes: where no page has times for both assigners, as with the logs of one node alone, the text says all the same what
// the star at a name means.
func TestTruncatedWithoutTimes(t *testing.T) {
	b := newBed(t, t.TempDir(), twoNodes())
	for i, label := range b.world.Assigners {
		b.nodes[0].decide(1, runlog.Assign{Label: label, Host: "a.test", Owner: b.nodes[i].id, Estimates: 9})
	}
	b.nodes[0].fetch(2, assigned("nearest", "a.test/1", 40))
	r := read(t, b.write())
	if text := r.Text(); !strings.Contains(text, "nearest *") || strings.Count(text, "truncated: 1 of 1 servers had") != 2 {
		t.Errorf("%q is above\n%s", r.Explain(), text)
	}
}

// TestRunWhoseBeginningIsGone: a run whose first log files were deleted begins with the first page of those that are left, not with a later event.
func TestRunWhoseBeginningIsGone(t *testing.T) {
	b := newBed(t, t.TempDir(), twoNodes())
	b.nodes[0].fetch(10, single("", "a.test/1", 1000))
	b.nodes[0].fetch(30, single("", "a.test/2", 1000))
	b.nodes[0].at(40).Events().Info(runlog.EventStop)
	logs := b.nodes[0].logs
	b.write()
	log := filepath.Join(logs, "node.jsonl")
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	_, left, _ := strings.Cut(string(text), "\n") // without the event of the start
	if err := os.WriteFile(log, []byte(left), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := read(t, logs); len(r.Runs) != 1 || r.Runs[0].Seconds != 21 {
		t.Errorf("%+v", r.Runs)
	}
}
