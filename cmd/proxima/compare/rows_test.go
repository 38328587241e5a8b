package compare

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"proxima/assign"
	"proxima/node/runlog"
)

// tuned writes a run of vivaldi and random with a configuration, in which every page takes vivaldi's node so many ms, and random's 100.
func tuned(t *testing.T, dir, run, theta string, seed uint64, servers int, ms float64) string {
	return tunedOf(t, dir, run, theta, seed, servers, ms, "vivaldi", "random")
}

// tunedOf is tuned with other assigners.
func tunedOf(t *testing.T, dir, run, theta string, seed uint64, servers int, ms float64, assigners ...string) string {
	w := twoNodes()
	w.Assigners, w.Seed, w.Servers, w.RTTMs = assigners, seed, w.Servers[:servers],
		[][]float64{w.RTTMs[0][:servers], w.RTTMs[1][:servers]}
	b := newBed(t, dir, w)
	for i, n := range b.nodes {
		n.Events().Info(runlog.EventStart, runlog.KeyVersion, "v1", runlog.KeyConfig, fmt.Sprintf("[node]\ndata = %q\nrun = %q\n"+
			"[assign]\nmargin = 0.1\n[assign.vivaldi]\ntheta = %s\n[politeness]\nlist = [\"%d\"]\n", dir, run, theta, i))
	}
	for _, s := range w.Servers {
		for i, label := range w.Assigners {
			b.nodes[0].decide(5, runlog.Assign{Batch: batchOne, Label: label, Host: s.Hosts[0], Server: s.Addr.String(), Owner: b.nodes[i].id})
			for page := range 4 {
				b.nodes[i].fetch(10+float64(page), runlog.Fetch{URL: fmt.Sprintf("http://%s/%d", s.Hosts[0], page), Host: s.Hosts[0],
					Server: s.Addr.String(), TotalMs: []float64{ms, 100}[i], Bytes: 1000, Origin: runlog.OriginAssigned, Label: label, Batch: batchOne})
			}
		}
	}
	return b.write()
}

func readBy(t *testing.T, by, against string, dirs ...string) *Result {
	t.Helper()
	r, err := Read(t.Context(), dirs, Options{By: by, Against: against})
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
	a, b := tuned(t, filepath.Join(top, "a"), "a", "0.15", 1, 2, 50), tuned(t, filepath.Join(top, "b"), "b", "0.25", 1, 2, 80)
	r := readBy(t, ByAssigner, "", a, b)
	if n := names(r); n != "vivaldi, random" {
		t.Errorf("by assigner: %s", n)
	}
	near(t, "mean of both", r.of(t, "vivaldi").MeanMs, 65)
	r = readBy(t, ByConfig, "vivaldi theta=0.25", a, b)
	if n := names(r); n != "vivaldi theta=0.15, random, vivaldi theta=0.25" {
		t.Errorf("by configuration: %s", n)
	}
	near(t, "mean", r.of(t, "vivaldi theta=0.15").MeanMs, 50)
	near(t, "difference", &r.of(t, "vivaldi theta=0.15").Difference.Ms, -30)
	near(t, "random's", &r.of(t, "random").Difference.Ms, 20)
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
	if _, err := Read(t.Context(), []string{a}, Options{Against: "hash"}); err == nil || !strings.Contains(err.Error(), "only vivaldi, random") {
		t.Errorf("against what is not there: %v", err)
	}
	if _, err := Read(t.Context(), []string{a}, Options{By: "host"}); err == nil || !strings.Contains(err.Error(), "assigner, candidate, run, config") {
		t.Errorf("by what there is not: %v", err)
	}
}

// TestTooManyRows: rows that find no room are named.
func TestTooManyRows(t *testing.T) {
	top := t.TempDir()
	var dirs []string
	for i := range 9 {
		run := fmt.Sprint("run", i)
		dirs = append(dirs, tuned(t, filepath.Join(top, run), run, "0.15", 1, 2, 50))
	}
	r := readBy(t, ByRun, "", dirs...)
	if notes := strings.Join(r.Notes(), "\n"); len(r.Assigners) != maxRows || !strings.Contains(notes, "2 rows are left out, since there is room for 16: random in "+dirs[8]+", vivaldi in "+dirs[8]) {
		t.Errorf("%d rows; notes: %s", len(r.Assigners), notes)
	}
	if notes := strings.Join(readBy(t, ByRun, "", dirs[:8]...).Notes(), "\n"); strings.Contains(notes, "left out") {
		t.Errorf("all rows have room: %s", notes)
	}
}

// TestRowWithoutRoomIsNoRunOfItsOwn: a run of two assigners remains one when there is room for one of their rows only.
func TestRowWithoutRoomIsNoRunOfItsOwn(t *testing.T) {
	top := t.TempDir()
	var dirs []string
	for i := range 9 {
		run, assigners := fmt.Sprint("run", i), []string{"vivaldi", "random"}
		if i == 0 {
			assigners = assigners[:1]
		}
		dirs = append(dirs, tunedOf(t, filepath.Join(top, run), run, "0.15", 1, 2, 50, assigners...))
	}
	r := readBy(t, ByRun, "", dirs...)
	alone := r.Assigners[0].Name
	for _, a := range r.Assigners {
		if (a.Balance != nil) != (a.Name == alone) {
			t.Errorf("%s counts as a run with one assigner", a.Name)
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
		h := read(t, tuned(t, t.TempDir(), "r", "1", 1, c.servers, c.ms)).Headline()
		if !strings.Contains(h, c.want) || strings.Contains(h, c.not) {
			t.Errorf("%d servers, %v ms: %s", c.servers, c.ms, h)
		}
	}
	// Of three, one is slow and two are not told apart.
	even := &Difference{To: "b", Ms: -1, LowMs: -9, HighMs: 3, Rel: -.01, Low: -.09, High: .03}
	mean := 5.
	r := Result{Reference: assign.Random, Assigners: []Assigner{
		{Name: "random", MeanMs: &mean, Lead: &Difference{To: "random", HighMs: -3, Rel: -.5}},
		{Name: "a", MeanMs: &mean, Difference: &Difference{To: "random", HighMs: -3, Rel: -.5, Low: -.6, High: -.4}},
		{Name: "b", MeanMs: &mean, Lead: even, Difference: &Difference{To: "random", HighMs: -3, Rel: -.49}}}}
	small := &Difference{To: "b", Ms: -.4, LowMs: -.6, HighMs: -.3, Rel: -.004, Low: -.006, High: -.003}
	if got := versus(small) + ", " + span95(small); got != "0.4 % less time per page than b, -0.6 to -0.3 %" {
		t.Errorf("a small difference that is clear: %q", got)
	}
	const want = "a cannot be told apart from b: it needed 1 % less time per page than b, which may be chance (95 % interval -9 to +3 %); " +
		"a needed 50 % less time per page than random (95 % interval -60 to -40 %)."
	if h := r.Headline(); h != want {
		t.Errorf("%s", h)
	}
	// What is said of a row has that row's figures, whatever is between it and the first.
	slow, level := &Difference{To: "b", Ms: -2, LowMs: -3, HighMs: -1, Rel: -.2, Low: -.3, High: -.1}, &Difference{To: "c"}
	few := &Difference{To: "c", Ms: -3, LowMs: -9, HighMs: 3, Rel: -.3, Low: -.9, High: .3}
	for want, leads := range map[string][2]*Difference{
		"a cannot be told apart from c: it needed 30 % less time per page than c, which may be chance (95 % interval -90 to +30 %).":                     {slow, few},
		"a and c are equal, and cannot be told apart from b.":                                                                                            {even, level},
		"a comes before c, with a mean time per page of 5 and 5 ms; chance cannot be judged, since both got the same pages from fewer than two servers.": {slow, nil},
	} {
		r := Result{Assigners: []Assigner{{Name: "a", MeanMs: &mean}, {Name: "b", MeanMs: &mean, Lead: leads[0]}, {Name: "c", MeanMs: &mean, Lead: leads[1]}}}
		if h := r.Headline(); h != want {
			t.Errorf("%s\nwant %s", h, want)
		}
	}
}
