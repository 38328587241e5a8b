package compare

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"proxima/cmd/proxima/rundir"
	"proxima/node/runlog"
)

// tuned writes a run of vivaldi and random with a configuration, in which every page takes the first one's node so many ms, the
// second one's 100. Others may take the place of the two.
func tuned(t *testing.T, dir, run, theta string, servers int, ms float64, assigners ...string) string {
	if assigners == nil {
		assigners = []string{"vivaldi", "random"}
	}
	w := twoNodes()
	w.Assigners, w.Seed, w.Servers = assigners, 1, w.Servers[:servers]
	for i := range w.RTTMs {
		w.RTTMs[i] = w.RTTMs[i][:servers]
	}
	b := newBed(t, dir, w)
	for i, n := range b.nodes {
		n.Events().Info(runlog.EventStart, runlog.KeyVersion, "v1", runlog.KeyConfig, fmt.Sprintf("[node]\ndata = %q\nrun = %q\n"+
			"[assign]\nmargin = 0.1\n[assign.vivaldi]\ntheta = %s\n[politeness]\nlist = [\"%d\"]\n", dir, run, theta, i))
	}
	for _, s := range w.Servers {
		for i, label := range w.Assigners {
			b.nodes[0].decide(5, runlog.Assign{Label: label, Host: s.Hosts[0], Owner: b.nodes[i].id})
			for page := range 4 {
				b.nodes[i].fetch(10+float64(page), assigned(label, fmt.Sprintf("%s/%d", s.Hosts[0], page), []float64{ms, 100}[i]))
			}
		}
	}
	return b.write()
}

// nine writes nine runs, of which the first may have other assigners.
func nine(t *testing.T, first ...string) (dirs []string) {
	top := t.TempDir()
	for i := range 9 {
		run, assigners := fmt.Sprint("run", i), []string(nil)
		if i == 0 {
			assigners = first
		}
		dirs = append(dirs, tuned(t, filepath.Join(top, run), run, "0.15", 2, 50, assigners...))
	}
	return dirs
}

func readBy(t *testing.T, by, against string, dirs ...string) *Result {
	t.Helper()
	r, err := Read(t.Context(), dirs, Options{By: by, Against: against, fewest: 2})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func names(r *Result) string {
	var list []string
	for _, a := range r.Assigners {
		list = append(list, a.Name)
	}
	return strings.Join(list, ", ")
}

// TestRowsBy: two tunings of one assigner are one row by assigner, and two by run and by configuration, which names what differs and
// pairs them page by page.
func TestRowsBy(t *testing.T) {
	top := t.TempDir()
	a, b := tuned(t, filepath.Join(top, "a"), "a", "0.15", 2, 50), tuned(t, filepath.Join(top, "b"), "b", "0.25", 2, 80)
	r := readBy(t, ByAssigner, "", a, b)
	if n := names(r); n != "vivaldi, random" {
		t.Errorf("by assigner: %s", n)
	}
	near(t, "mean of both", r.of(t, "vivaldi").MeanMs, 65)
	const mixed = "Runs in one row differ in assign.vivaldi.theta: -by config has a row for each setting."
	if notes := r.Notes(); !slices.Contains(notes, mixed) {
		t.Errorf("%q is not in %q", mixed, notes)
	}
	r = readBy(t, ByConfig, "vivaldi theta=0.25", a, b)
	if n := names(r); n != "vivaldi theta=0.15, random, vivaldi theta=0.25" {
		t.Errorf("by configuration: %s", n)
	}
	near(t, "mean", r.of(t, "vivaldi theta=0.15").MeanMs, 50)
	near(t, "difference", &r.of(t, "vivaldi theta=0.15").Difference.Ms, -30)
	near(t, "random's", &r.of(t, "random").Difference.Ms, 20)
	if notes := strings.Join(append(r.Notes(), readBy(t, ByRun, "", a, b).Notes()...), "\n"); strings.Contains(notes, "Runs in one row") {
		t.Errorf("each row has one setting: %s", notes)
	}
	c := tuned(t, filepath.Join(top, "c"), "c", "0.25", 2, 80, "hash", "random")
	if notes := strings.Join(readBy(t, ByAssigner, "", a, c).Notes(), "\n"); strings.Contains(notes, "Runs in one row") {
		t.Errorf("vivaldi was in one run only: %s", notes)
	}
	if i := r.Runs[1]; i.Differs != "assign.vivaldi.theta = 0.25" || i.Version != "v1" {
		t.Errorf("%+v", i)
	}
	// Two runs have the name test in their lines: their folders tell them apart.
	r = readBy(t, ByRun, "", a, b)
	if n := names(r); n != fmt.Sprintf("vivaldi in %s, random in %[1]s, vivaldi in %s, random in %[2]s", a, b) {
		t.Errorf("by run: %s", n)
	}
	for i, want := range map[int]float64{0: -50, 2: -20} {
		if d := r.Assigners[i].Difference; d == nil || d.To != r.Assigners[i+1].Name {
			t.Errorf("%s is compared with another run's random: %+v", r.Assigners[i].Name, d)
		} else {
			near(t, "difference", &d.Ms, want)
		}
	}
	if _, err := Read(t.Context(), []string{a}, Options{Against: "hash"}); err == nil || !strings.Contains(err.Error(), "there are vivaldi, random") {
		t.Errorf("against what is not there: %v", err)
	}
	if _, err := Read(t.Context(), []string{a}, Options{By: "host"}); err == nil || !strings.Contains(err.Error(), "assigner, candidate, run, config") {
		t.Errorf("by what there is not: %v", err)
	}
}

// TestRowsOfAScenariosSettings: runs that differ in what the scenario says, not in what it has nodes do, are rows of their own, too.
func TestRowsOfAScenariosSettings(t *testing.T) {
	top, dirs := t.TempDir(), []string(nil)
	for i, wrong := range []string{"0.0", "0.9"} {
		dir := tuned(t, filepath.Join(top, wrong), wrong, "0.15", 2, 50+30*float64(i))
		text := fmt.Sprintf("seed = %d\nassigners = [\"a%[1]d\"]\n[geo]\nwrong = %s\n[[nodes]]\ncount = 2\n[[nodes]]\nname = \"slow\"\nnat = %v\n"+
			"[node.assign.vivaldi]\nwindow = %[1]d\n", i, wrong, i == 1)
		if err := os.WriteFile(filepath.Join(dir, rundir.ScenarioFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	r := readBy(t, ByConfig, "", dirs...)
	const far, near0 = " geo.wrong=0.9 nodes.slow.nat=true", " geo.wrong=0 nodes.slow.nat=false"
	if n := names(r); n != "vivaldi"+near0+", random"+near0+", vivaldi"+far+", random"+far {
		t.Error(n)
	}
	near(t, "difference", &r.of(t, "vivaldi"+far).Difference.Ms, -20)
	if d := r.Runs[1].Differs; d != "geo.wrong = 0.9, nodes.slow.nat = true" {
		t.Error(d)
	}
}

// TestTooManyRows: rows that find no room are named.
func TestTooManyRows(t *testing.T) {
	dirs := nine(t)
	r := readBy(t, ByRun, "", dirs...)
	const says = "2 rows are left out, since there is room for 16: random in %s, vivaldi in %[1]s"
	if notes := strings.Join(r.Notes(), "\n"); len(r.Assigners) != maxRows || !strings.Contains(notes, fmt.Sprintf(says, dirs[8])) {
		t.Errorf("%d rows; notes: %s", len(r.Assigners), notes)
	}
	if notes := strings.Join(readBy(t, ByRun, "", dirs[:8]...).Notes(), "\n"); strings.Contains(notes, "left out") {
		t.Errorf("all rows have room: %s", notes)
	}
}

// TestRowWithoutRoomIsNoRunOfItsOwn: a run of two assigners remains one when there is room for one of their rows only.
func TestRowWithoutRoomIsNoRunOfItsOwn(t *testing.T) {
	r := readBy(t, ByRun, "", nine(t, "vivaldi")...)
	for i, a := range r.Assigners {
		if alone := i == 0; (a.Balance != nil) != alone {
			t.Errorf("%s counts as a run with one assigner: %v", a.Name, !alone)
		}
	}
}

// TestHeadlineClaimsNothingThatTheFiguresDoNot: no winner in a tie, or with one server.
func TestHeadlineClaimsNothingThatTheFiguresDoNot(t *testing.T) {
	for _, c := range []struct {
		servers   int
		ms        float64
		want, not string
	}{
		{2, 100, "vivaldi and random are equal", "faster"},
		{1, 50, "chance cannot be judged", "faster"},
		{2, 50, "vivaldi was faster than all others: it needed 50 % less time per page than random (95 % interval -50 to -50 %)", "chance"},
		{2, 150, "random was faster than all others", "vivaldi was"},
	} {
		h := read(t, tuned(t, t.TempDir(), "r", "1", c.servers, c.ms)).Headline()
		if !strings.Contains(h, c.want) || strings.Contains(h, c.not) {
			t.Errorf("%d servers, %v ms: %s", c.servers, c.ms, h)
		}
	}
}

// TestHeadlineWithoutPairs: who decided, though no page came of it, did decide; who was run, though nothing came of it, was run.
func TestHeadlineWithoutPairs(t *testing.T) {
	w := twoNodes()
	b := newBed(t, t.TempDir(), w)
	for i, label := range w.Assigners {
		b.nodes[0].decide(5, runlog.Assign{Label: label, Host: "a.test", Owner: b.nodes[i].id})
	}
	b.nodes[0].fetch(9, assigned("nearest", "a.test/1", 50))
	b.nodes[1].fetch(9, runlog.Fetch{URL: "http://a.test/1", Error: "refused", Origin: runlog.OriginAssigned, Label: "random", Batch: batchOne})
	if h := read(t, b.write()).Headline(); h != "No page was downloaded by the nodes of all assigners, so there is nothing to compare." {
		t.Error(h)
	}
	top := t.TempDir()
	for _, label := range w.Assigners {
		w.Assigners = []string{label}
		b := newBed(t, filepath.Join(top, label), w)
		if label == "random" {
			b.nodes[0].fetch(9, runlog.Fetch{URL: "http://a.test/1", TotalMs: 50, Label: label})
		}
		b.write()
	}
	if h := read(t, top).Headline(); !strings.HasPrefix(h, "Only random has downloads to compare, choosing") {
		t.Error(h)
	}
}

// TestHeadlineOfSeveralRows: what is said of a row has that row's figures, whatever is between it and the first.
func TestHeadlineOfSeveralRows(t *testing.T) {
	const perCent = .01
	d := func(to string, rel, low, high float64) *Difference { // of rows that took 100 ms
		return &Difference{To: to, Ms: rel, LowMs: low, HighMs: high, Rel: rel * perCent, Low: low * perCent, High: high * perCent}
	}
	clear := d("random", -50, -60, -40)
	for _, c := range []struct {
		want  string
		ofA   *Difference            // to random
		leads map[string]*Difference // of a to the others
	}{
		{"a cannot be told apart from b: it needed 1 % less time per page than b, which may be chance (95 % interval -9 to +3 %); " +
			"a needed 50 % less time per page than random (95 % interval -60 to -40 %).",
			clear, map[string]*Difference{"b": d("b", -1, -9, 3), "random": clear}},
		{"a cannot be told apart from c: it needed 30 % less time per page than c, which may be chance (95 % interval -90 to +30 %).",
			nil, map[string]*Difference{"b": d("b", -20, -30, -10), "c": d("c", -30, -90, 30)}},
		{"a and c are equal, and cannot be told apart from b.", nil, map[string]*Difference{"b": d("b", -1, -9, 3), "c": d("c", 0, 0, 0)}},
		{"a comes before c, with a mean time per page of 5 and 6 ms; chance cannot be judged, since both got the same pages from fewer " +
			"than 6 servers.", nil, map[string]*Difference{"b": d("b", -20, -30, -10), "c": nil}},
		{"a and d are equal, with a mean time per page of 5 ms; chance cannot be judged, since both got the same pages from fewer than 6 " +
			"servers.", nil, map[string]*Difference{"b": d("b", -20, -30, -10), "d": nil}},
		{"a and b are equal, and cannot be told apart from c; a cannot be compared with d and e, with which it shares pages of fewer than 6 " +
			"servers.", nil, map[string]*Difference{"b": d("b", 0, 0, 0), "c": d("c", -1, -9, 3), "d": nil, "e": nil}},
		{"a cannot be told apart from b: it needed 1 % less time per page than b, which may be chance (95 % interval -9 to +3 %); a cannot be " +
			"compared with c, with which it shares pages of fewer than 6 servers; a needed 50 % less time per page than random (95 % " +
			"interval -60 to -40 %).", clear, map[string]*Difference{"b": d("b", -1, -9, 3), "c": nil, "random": clear}},
	} {
		r := Result{Assigners: []Assigner{{Name: "a", MeanMs: new(5.), Difference: c.ofA}}}
		for _, name := range slices.Sorted(maps.Keys(c.leads)) {
			r.Assigners = append(r.Assigners, Assigner{Name: name, MeanMs: new(map[string]float64{"b": 5, "c": 6, "d": 5, "e": 6, "random": 5}[name]), Lead: c.leads[name]})
		}
		if h := r.Headline(); h != c.want {
			t.Errorf("%s\nwant %s", h, c.want)
		}
	}
	small := d("b", -.4, -.6, -.3)
	if got := versus(small) + ", " + span95(small); got != "0.4 % less time per page than b, -0.6 to -0.3 %" {
		t.Errorf("a small difference that is clear: %q", got)
	}
	var table bytes.Buffer
	(&Result{Assigners: []Assigner{{Name: "a", Difference: small}}}).assignersText(&table)
	holds(t, table.String(), "-0.4 % (-0.6 to -0.3)")
}

// TestFiguresOfSeedsAreApart: each seed is named beside its figures, and does not run into those of the seed before.
func TestFiguresOfSeedsAreApart(t *testing.T) {
	share := func(seed uint64, choice float64) SeedShare {
		return SeedShare{Seed: seed, Choice: new(choice), P50Ms: new(90.)}
	}
	r := Result{Assigners: []Assigner{{Name: "nearest", Seeds: []SeedShare{share(1, 1.5), share(12, 1.25)}}}}
	var text bytes.Buffer
	r.seedsText(&text)
	holds(t, text.String(), "by seed: choice ratio / total ratio / p50 ms\nnearest: seed 1 1.500 / – / 90, seed 12 1.250 / – / 90\n")
}
