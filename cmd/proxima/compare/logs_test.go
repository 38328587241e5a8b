package compare

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"proxima/cmd/proxima/rundir"
	"proxima/node/runlog"
)

// edit rewrites the lines of a log; nil deletes one.
func edit(t *testing.T, path string, change func(i int, line string) *string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	i := 0
	for line := range strings.Lines(string(b)) {
		if l := change(i, line); l != nil {
			out.WriteString(*l)
		}
		i++
	}
	if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestGapsWithhold(t *testing.T) {
	for _, c := range []struct {
		log      string
		line     int
		withheld string // words
	}{
		{runlog.LogFetch, 2, "1 lines are missing in the fetch log of berlin (boot 1)"},
		{runlog.LogFetch, 0, "1 lines are missing in the fetch log of berlin (boot 1)"}, // an older file was deleted
		{runlog.LogNode, 1, "1 lines are missing in the node log of berlin (boot 1)"},
		{runlog.LogAssign, 1, ""}, // counted, but no reason to withhold
	} {
		t.Run(fmt.Sprint(c.log, c.line), func(t *testing.T) {
			dir := small(t).write()
			edit(t, filepath.Join(dir, "nodes/berlin/logs", c.log+suffix), func(i int, line string) *string {
				if i == c.line {
					return nil
				}
				return &line
			})
			r := read(t, dir)
			if r.Reading.Missing != 1 || len(r.Reading.Gaps) != 1 || r.Reading.Gaps[0].Node != "berlin" || r.Reading.Gaps[0].Log != c.log {
				t.Errorf("missing: %+v", r.Reading)
			}
			if r.Crawl.Withheld != c.withheld {
				t.Errorf("withheld: %q, want %q", r.Crawl.Withheld, c.withheld)
			}
			if held := r.Crawl.Coverage == nil && r.Crawl.Lost == nil; held != (c.withheld != "") {
				t.Errorf("coverage %v, lost %v", r.Crawl.Coverage, r.Crawl.Lost)
			}
			if r.Crawl.Overlap == nil || len(r.Assigners) != 2 {
				t.Error("what can be known is withheld too")
			}
		})
	}
}

func TestMissingLogsWithhold(t *testing.T) {
	dir := small(t).write()
	if err := os.RemoveAll(filepath.Join(dir, "nodes/tokyo")); err != nil {
		t.Fatal(err)
	}
	if r := read(t, dir); !strings.Contains(r.Crawl.Withheld, "there are no logs of tokyo") {
		t.Errorf("withheld: %q", r.Crawl.Withheld)
	}
}

// TestLossIsFound: a page of the generator's list that nobody asked for, without any gap.
func TestLossIsFound(t *testing.T) {
	for _, c := range []struct {
		name          string
		pages         int
		change        func(b *bed)
		lost          int64
		withheld, why string
	}{
		{name: "none", pages: 8, change: func(*bed) {}},
		{name: "one tried in vain", pages: 9, change: func(*bed) {}},
		{name: "two", pages: 11, change: func(*bed) {}, lost: 2},
		{name: "dropped with a reason", pages: 10, change: func(b *bed) {
			b.nodes[0].queue(26, runlog.Queue{Accepted: 7, Done: 5, Failed: 1, Dropped: 1, Drops: map[string]int64{"robots.txt": 1}})
		}},
		{name: "still waiting", pages: 50, change: func(b *bed) {
			b.nodes[0].queue(26, runlog.Queue{Accepted: 9, Done: 5, Failed: 1,
				Pending: 3})
		}},
		{name: "books that do not balance", pages: 8, change: func(b *bed) {
			b.nodes[0].queue(26, runlog.Queue{Accepted: 9, Done: 5,
				Failed: 1})
		},
			withheld: "the counts of berlin do not add up in 1 lines"},
		{name: "no list", change: func(*bed) {}},
		{name: "no list, and accepted twice or lost", change: func(b *bed) {
			b.nodes[0].queue(26, runlog.Queue{Accepted: 9, Done: 5, Failed: 1,
				Left: 3})
		},
			why: "at most 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := small(t)
			b.world.Pages = c.pages
			c.change(b)
			k := read(t, b.write()).Crawl
			if k.Withheld != c.withheld || !strings.HasPrefix(k.LostWhy, c.why) || c.why == "" && k.LostWhy != "" {
				t.Fatalf("withheld %q, %q", k.Withheld, k.LostWhy)
			}
			if c.withheld+c.why == "" && (k.Lost == nil || *k.Lost != c.lost) {
				t.Errorf("lost %v, want %d", k.Lost, c.lost)
			}
			if c.withheld+c.why != "" && k.Lost != nil {
				t.Errorf("lost %d is not withheld", *k.Lost)
			}
			if c.name == "still waiting" {
				near(t, "coverage", k.Coverage, 10./12) // one of the three was tried before
			}
		})
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

// TestDamageIsCounted: torn, foreign and doubled lines cost themselves alone.
func TestDamageIsCounted(t *testing.T) {
	dir := small(t).write()
	whole := read(t, dir)
	path := filepath.Join(dir, "nodes/tokyo/logs/fetch.jsonl")
	edit(t, path, func(i int, line string) *string {
		switch i {
		case 0:
			line = "not JSON\n" + line + line
		case 3:
			line = "{}\n\n" + line
		}
		return &line
	})
	r := read(t, dir)
	if r.Reading.Damaged != 2 || r.Reading.Repeated != 1 || r.Reading.Missing != 0 {
		t.Errorf("%+v", r.Reading)
	}
	if d := cmp.Diff(whole.Assigners, r.Assigners); d != "" {
		t.Errorf("(-whole +damaged):\n%s", d)
	}
	truncate(t, path, 40) // the last line is cut: nothing says that it is missing
	if r := read(t, dir); r.Reading.Damaged != 3 || r.Reading.Missing != 0 || r.Crawl.Attempted != 9 {
		t.Errorf("cut: %+v, %d attempted", r.Reading, r.Crawl.Attempted)
	}
}

// TestPackedAndRotated: files as they are collected from real machines give the same figures.
func TestPackedAndRotated(t *testing.T) {
	dir := small(t).write()
	whole := read(t, dir)
	logs := filepath.Join(dir, "nodes/tokyo/logs")
	b, err := os.ReadFile(filepath.Join(logs, "fetch.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(b), "\n")
	pack(t, filepath.Join(logs, "fetch-000001.jsonl.gz"), strings.Join(lines[:2], ""), 0)
	pack(t, filepath.Join(logs, "fetch-000002.jsonl.gz"), strings.Join(lines[2:4], ""), 0)
	pack(t, filepath.Join(logs, "fetch.jsonl.gz"), strings.Join(lines[4:], ""), 0)
	if err := os.Remove(filepath.Join(logs, "fetch.jsonl")); err != nil {
		t.Fatal(err)
	}
	r := read(t, dir)
	if d := cmp.Diff([]any{whole.Assigners, whole.Crawl, whole.Statuses}, []any{r.Assigners, r.Crawl, r.Statuses}); d != "" {
		t.Errorf("(-whole +packed):\n%s", d)
	}
	if r.Reading.Damaged+r.Reading.Cut+r.Reading.Missing > 0 {
		t.Errorf("%+v", r.Reading)
	}
	// The same file, not packed: it counts once.
	if err := os.WriteFile(filepath.Join(logs, "fetch-000002.jsonl"), []byte(strings.Join(lines[2:4], "")), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := read(t, dir); r.Reading.Repeated != 0 || r.Crawl.Attempted != whole.Crawl.Attempted {
		t.Errorf("%+v", r.Reading)
	}
	pack(t, filepath.Join(logs, "fetch.jsonl.gz"), strings.Join(lines[4:], ""), 12)
	if r := read(t, dir); r.Reading.Cut != 1 || !strings.Contains(r.Crawl.Withheld, "1 packed files are cut off") {
		t.Errorf("%+v, %q", r.Reading, r.Crawl.Withheld)
	}
	pack(t, filepath.Join(logs, "fetch.jsonl.gz"), strings.Join(lines[4:], ""), 0)
	corrupt(t, filepath.Join(logs, "fetch.jsonl.gz"))
	if r := read(t, dir); r.Reading.Cut != 1 || !strings.Contains(r.Crawl.Withheld, "1 packed files are cut off") {
		t.Errorf("%+v, %q", r.Reading, r.Crawl.Withheld)
	}
}

// corrupt makes the first block of a packed file one of a kind that there is not (RFC 1951, 3.2.3).
func corrupt(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	const header = 10
	if _, err := f.WriteAt([]byte{7}, header); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func pack(t *testing.T, path, text string, cut int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if cut > 0 {
		truncate(t, path, cut)
	}
}

// TestLogsWithoutWorld: figures without truth, nodes named after their folders.
func TestLogsWithoutWorld(t *testing.T) {
	dir := small(t).write()
	for _, name := range []string{rundir.WorldFile, rundir.TestbedFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r := read(t, dir)
	n := r.of(t, "nearest")
	near(t, "p50", n.P50Ms, 44)
	if n.ChoiceRatio != nil || n.BestShare != nil || r.Testbed.Trusted != nil || n.Difference == nil {
		t.Errorf("%+v, %+v", n, r.Testbed)
	}
	if len(r.Nodes) != 2 || r.Nodes[0].Name != "nodes/berlin" {
		t.Errorf("nodes %+v", r.Nodes)
	}
	// The run begins with its first node, though that is not the first to be read.
	edit(t, filepath.Join(dir, "nodes/berlin/logs/node.jsonl"), func(_ int, line string) *string {
		line = strings.Replace(line, "T12:00:00", "T12:00:20", 1)
		return &line
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
	// Logs without a description of the run, below a link.
	if r := read(t, nodes); len(r.Nodes) != 2 || r.of(t, "nearest").URLs != 3 {
		t.Errorf("%+v", r.Nodes)
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
	for _, want := range []string{"portable emulation", "from one run only: " + dirs[0] + "."} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not in:\n%s", want, notes)
		}
	}
	if notes := strings.Join(read(t, dirs[0]).Notes(), "\n"); strings.Contains(notes, "alone") {
		t.Error(notes)
	}
}

func TestFoldersThatCannotBe(t *testing.T) {
	empty, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	broken := small(t).write()
	if err := os.WriteFile(filepath.Join(broken, rundir.WorldFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	short := small(t)
	short.world.RTTMs = short.world.RTTMs[:1]
	for dir, words := range map[string]string{empty: "there are no logs", file: "is not a folder", filepath.Join(empty, "none"): "no such file",
		broken: rundir.WorldFile, short.write(): "1 rows of round trips for 2 nodes"} {
		if _, err := Read(t.Context(), []string{dir}, Options{}); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q", dir, err, words)
		}
	}
	if _, err := Read(t.Context(), nil, Options{}); err == nil {
		t.Error("no folder is no error")
	}
}
