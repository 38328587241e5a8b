package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"proxima/assign"
	"proxima/cmd/proxima/world"
	"proxima/scripts/measured"
)

// small is a world that is simulated in a moment.
func small() Config {
	cfg := Default()
	cfg.Nodes, cfg.Servers, cfg.Seeds, cfg.Pages, cfg.Estimates = 6, 12, 2, 10, 3
	return cfg
}

func mustRun(t testing.TB, cfg Config) *Report {
	t.Helper()
	r, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *Report) of(t testing.TB, name string) Assigner {
	t.Helper()
	i := slices.IndexFunc(r.Assigners, func(a Assigner) bool { return a.Name == name })
	if i < 0 {
		t.Fatalf("the report lacks %q", name)
	}
	return r.Assigners[i]
}

// lacks reports what a text should hold and does not.
func lacks(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

func cities(t testing.TB) []*world.Matrix {
	t.Helper()
	m, err := world.Read(measured.File(t, "wondernetwork/cities.csv"), measured.File(t, "wondernetwork/rtt.csv.gz"), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// nearest reaches its goals over real round trips, and over synthetic ones.
func TestNearestReachesItsGoals(t *testing.T) {
	reaches := func(t *testing.T, matrices []*world.Matrix, all []setting) {
		for _, s := range all {
			cfg := Default()
			cfg.Matrices, cfg.Seeds, cfg.Pages, cfg.Assigners = matrices, 5, 1, []string{assign.Nearest}
			s.set(&cfg)
			got := mustRun(t, cfg).Assigners[0].ChoiceRatio.Median
			t.Logf("%s: choice ratio %.3f", s.what, got)
			if got > s.most {
				t.Errorf("%s: choice ratio %.3f, want at most %.2f", s.what, got, s.most)
			}
		}
	}
	t.Run("synthetic", func(t *testing.T) { reaches(t, nil, settings(nil)[:4]) })
	t.Run("cities", func(t *testing.T) { reaches(t, cities(t), settings(cities(t))) })
}

// What is shared among equals costs next to no choice.
func TestBalanceCostsNoChoice(t *testing.T) {
	var makespan, choice [2]float64
	for i, balance := range []float64{0, assign.Default().Nearest.Balance} {
		cfg := Default()
		cfg.Seeds, cfg.Pages, cfg.Estimates, cfg.Assigners, cfg.Assign.Nearest.Balance = 20, 1, 6, []string{assign.Nearest}, balance
		a := mustRun(t, cfg).Assigners[0]
		makespan[i], choice[i] = a.MakespanRatio, a.ChoiceRatio.Median
	}
	t.Logf("makespan %.2f at choice ratio %.3f without balance, %.2f at %.3f with it", makespan[0], choice[0], makespan[1], choice[1])
	if makespan[1] > 1.02*makespan[0] || choice[1] > choice[0]+0.004 {
		t.Error("balance costs choice, or makes nodes less equal")
	}
}

// vivaldi converges after some 90 ticks, but never without windows.
func TestVivaldiConvergesOnlyWithWindows(t *testing.T) {
	cfg := Default()
	cfg.Matrices, cfg.Seeds, cfg.Pages, cfg.Homes, cfg.Assigners = cities(t), 8, 1, 1, []string{assign.Vivaldi}
	a := mustRun(t, cfg).Assigners[0]
	if ticks, ratio := a.EstimatesMean, a.ChoiceRatio.Median; ticks < 50 || ticks > 110 || ratio < 1.15 || ratio > 1.9 {
		t.Errorf("%.0f ticks, want 50 to 110; choice ratio %.2f, want 1.15 to 1.9", ticks, ratio)
	}
	cfg.Assign.Vivaldi.Window = 1
	if a := mustRun(t, cfg).Assigners[0]; a.EstimatesMean < float64(cfg.Assign.Vivaldi.MaxTicks) {
		t.Errorf("%.0f ticks without windows, want all %d", a.EstimatesMean, cfg.Assign.Vivaldi.MaxTicks)
	}
}

// The medians that another simulation of the same world gave.
func TestLandsOnTheReference(t *testing.T) {
	cfg := Default()
	cfg.Matrices, cfg.Seeds, cfg.Pages = cities(t), 60, 1
	want := map[string]float64{assign.Random: 2.19, assign.Geographic: 1.25, TrueRTT: 1.11, "direct-1": 1.18, "direct-2": 1.11,
		"direct-4": 1.06}
	cfg.Assigners = []string{assign.Random, assign.Geographic, TrueRTT, "direct-1", "direct-2", "direct-4", Best}
	r := mustRun(t, cfg)
	for name, ratio := range want {
		got := r.of(t, name).ChoiceRatio.Median
		t.Logf("%s: %.3f, reference %.2f", name, got, ratio)
		if math.Abs(got/ratio-1) > 0.05 {
			t.Errorf("%s: choice ratio %.3f, want %.2f within 5 %%", name, got, ratio)
		}
	}
	if b := r.of(t, Best); b.ChoiceRatio.Median != 1 || b.BestShare < 1-1e-9 || b.LossMs != 0 {
		t.Errorf("the best choices: %+v, want ratio 1, no loss", b)
	}
}

// The order of the assigners, without any data.
func TestOrderOfAssigners(t *testing.T) {
	cfg := Default()
	cfg.Seeds, cfg.Pages, cfg.Estimates = 8, 20, 6
	r := mustRun(t, cfg)
	ratio := func(name string) float64 { return r.of(t, name).ChoiceRatio.Median }
	order := []string{assign.Random, assign.Geographic, assign.Nearest, Best}
	for i := range order[1:] {
		if ratio(order[i]) <= ratio(order[i+1]) {
			t.Errorf("%s %.3f, %s %.3f: want the second lower", order[i], ratio(order[i]), order[i+1], ratio(order[i+1]))
		}
	}
	if one, two, four := ratio("direct-1"), ratio("direct-2"), ratio("direct-4"); one <= two || two <= four {
		t.Errorf("direct-1, 2, 4: %.3f, %.3f, %.3f: want more downloads to choose better", one, two, four)
	}
	if d := r.of(t, "direct-2"); d.EstimatesMax != 28 || math.Abs(d.EstimatesMean-28) > 1e-9 {
		t.Errorf("direct-2 made %d estimates, want two from each of 14 nodes", d.EstimatesMax)
	}
	for _, a := range r.Assigners {
		if a.EstimatesMax > 6 && !strings.HasPrefix(a.Name, DirectPrefix) || a.MakespanRatio < 1 || a.MakespanSameSum < 0.999 ||
			a.MakespanSameSum > a.MakespanRatio+1e-9 || a.TotalRatio < a.ChoiceRatio.Median {
			t.Errorf("%+v: want at most 6 estimates, makespans of at least 1, the total above the choice ratio", a)
		}
	}
	if n := r.of(t, assign.Nearest); n.EstimatesMax < 4 || n.EstimatesMean <= 0 || n.TotalWith <= n.TotalRatio {
		t.Errorf("nearest: %+v: want estimates, and their cost", n)
	}
}

// What one assigner does changes nothing for another, and the same seeds give the same figures.
func TestAssignersDoNotDisturbEachOther(t *testing.T) {
	cfg := small()
	all := mustRun(t, cfg)
	for _, name := range cfg.Assigners {
		one := cfg
		one.Assigners = []string{name}
		got, want := mustRun(t, one).Assigners[0], all.of(t, name)
		got.More, want.More = More{}, More{} // this is beside another one
		if got != want {
			t.Errorf("%s alone: %+v, among others: %+v", name, got, want)
		}
	}
	cfg.First += 100
	if others := mustRun(t, cfg); slices.Equal(all.Assigners, others.Assigners) {
		t.Error("other seeds give the same figures")
	}
}

func TestBudgetIsHard(t *testing.T) {
	for _, budget := range []int{0, 1, 2, 5} {
		cfg := small()
		cfg.Estimates, cfg.Assigners = budget, []string{assign.Vivaldi, assign.Nearest}
		r := mustRun(t, cfg)
		for name, most := range map[string]int{assign.Nearest: budget, assign.Vivaldi: max(budget, 1)} { // vivaldi makes one tick at least
			if n := r.of(t, name).EstimatesMax; n > most {
				t.Errorf("budget %d: %s made %d estimates", budget, name, n)
			}
		}
	}
}

// Every node is a home by default, and each knows only what was published.
func TestHomesShareTheServers(t *testing.T) {
	cfg := Default()
	w := newWorld(cfg, 5)
	count, seeds := 0, map[uint64]bool{}
	for i, h := range share(w) {
		if seeds[h.batch.Seed] {
			t.Errorf("home %d draws as another one does", i)
		}
		seeds[h.batch.Seed] = true
		if h.node != i {
			t.Errorf("home %d is node %d", i, h.node)
		}
		if n := len(h.batch.Servers); n > 20 {
			t.Errorf("home %d has %d of 80 servers", i, n)
		}
		for _, s := range h.batch.Servers {
			if s.Hosts[0].PageBytes != 0 || !s.Memory.Empty() {
				t.Errorf("home %d knows %+v before it has seen anything", i, s)
			}
		}
		count += len(h.batch.Servers)
	}
	if count != 80 {
		t.Errorf("%d servers have a home, want 80", count)
	}
	cfg.Homes = 1
	if homes := share(newWorld(cfg, 5)); len(homes) != 1 || len(homes[0].batch.Servers) != 80 {
		t.Errorf("%d homes, want one with all servers", len(homes))
	}
}

func TestFactorsArePublished(t *testing.T) {
	cfg := Default()
	w := newWorld(cfg, 3)
	d, err := decide(context.Background(), w, assign.Nearest)
	if err != nil {
		t.Fatal(err)
	}
	asked := make([]int, cfg.Nodes)
	for _, e := range d.estimates {
		for _, i := range e {
			asked[i]++
		}
	}
	d.overlay.publish() // what the last round brought, too
	for i, n := range d.overlay.view.Nodes {
		if n.Factors.Samples != asked[i] {
			t.Errorf("%s has published factors from %d downloads and made %d", n.ID, n.Factors.Samples, asked[i])
		}
		if n.Coord.Error <= 0 || n.Coord.Error > 0.6 {
			t.Errorf("%s has published %v after %d pings", n.ID, n.Coord, warmUpPings)
		}
	}
}

func TestLocationsWrongAndMissing(t *testing.T) {
	type counts struct{ right, wrong, missing, nodes int } // of 20 worlds
	for _, c := range []struct {
		wrong, missing float64
		want           counts
	}{
		{0, 0, counts{right: 1600}},
		{0.3, 0, counts{right: 1120, wrong: 480}},
		{1, 0, counts{wrong: 1600}},
		{0, 1, counts{missing: 1600, nodes: 280}},
	} {
		cfg := Default()
		cfg.LocationWrong, cfg.LocationMissing = c.wrong, c.missing
		var got counts
		for seed := range uint64(20) {
			w := newWorld(cfg, seed)
			for _, s := range w.servers {
				switch s.location {
				case nil:
					got.missing++
				case w.matrix.Cities[s.city].At:
					got.right++
				default:
					got.wrong++
				}
			}
			for _, n := range w.nodes {
				if n.location == nil {
					got.nodes++
				}
			}
		}
		if off := got.wrong - c.want.wrong; c.wrong == 0.3 && off > -80 && off < 80 { // drawn
			got.right, got.wrong = got.right+off, c.want.wrong
		}
		if got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

// The laws that the default world is pinned to, by their medians and sigmas.
func TestPinnedWorld(t *testing.T) {
	var load, width, think, page, size, factor, connect []float64
	slow := 0
	for seed := range uint64(60) {
		w := newWorld(Default(), seed)
		for _, n := range w.nodes {
			load, width = append(load, math.Log(n.loadMs)), append(width, math.Log(n.bytesPerMs))
		}
		for j, s := range w.servers {
			think, page = append(think, math.Log(s.thinkMs)), append(page, math.Log(s.pageBytes))
			if s.accessMs != 0 && j < 50 {
				t.Fatalf("server %d stands alone in its city and has an access delay", j)
			}
			d := w.download(0, j, int(seed))
			size = append(size, math.Log(float64(d.Bytes)/s.pageBytes))
			f := math.Log(float64(d.FirstByte) / 1e6 / (w.trip(0, j) + s.thinkMs + w.nodes[0].loadMs))
			if whole := math.Log(float64(d.Total) / 1e6 / w.took(0, j, float64(d.Bytes))); whole < f-1e-3 || d.Total < d.Connect+d.FirstByte {
				t.Fatalf("a download's noise is %.3f and its first byte's %.3f; %+v", whole, f, d)
			}
			if f > 0.8 {
				slow++
			} else {
				factor = append(factor, f)
			}
			connect = append(connect, float64(d.Connect)/1e6/(w.trip(0, j)+0.3*w.nodes[0].loadMs)-1)
		}
	}
	check := func(what string, v []float64, mean, sd, off float64) {
		t.Helper()
		m, s := stat.PopMeanStdDev(v, nil)
		if math.Abs(m-mean) > off || math.Abs(s-sd) > off {
			t.Errorf("%s: mean %.3f, sigma %.3f; want %.3f and %.3f", what, m, s, mean, sd)
		}
	}
	check("load", load, math.Log(15), 1.2, 0.12)
	check("bandwidth", width, math.Log(1250), 1, 0.12)
	check("think time", think, math.Log(60), 1, 0.05)
	check("typical page", page, math.Log(30_000), 0.7, 0.05)
	check("page", size, 0, 0.6, 0.03)
	check("noise", factor, 0, 0.25, 0.02)
	check("connect time's excess", connect, 0.15*math.Sqrt(2/math.Pi), 0.15*math.Sqrt(1-2/math.Pi), 0.01)
	if share := float64(slow) / 4800; share < 0.02 || share > 0.042 {
		t.Errorf("%.1f %% of the downloads are slow, want 3 %%", 100*share)
	}
}

// The expectation that choices are judged by is the mean over the pages' sizes.
func TestExpectedIsTheMeanOverPages(t *testing.T) {
	w := newWorld(Default(), 2)
	for j := range 5 {
		rnd := stream(1, uint64(j))
		var mean float64
		const n = 200_000
		for range n {
			mean += w.took(3, j, w.servers[j].pageBytes*math.Exp(sizeSD*rnd.NormFloat64())) / n
		}
		if e := w.expected(3, j); math.Abs(e/mean-1) > 0.005 {
			t.Errorf("server %d: expected %.1f ms, mean %.1f", j, e, mean)
		}
	}
	// 30 kB: the connection, and two rounds of slow start; 14,600 bytes: one.
	for bytes, want := range map[float64]float64{1: 2, 14_600: 2, 14_601: 3, 30_000: 3, 43_801: 4} {
		if got := rounds(bytes); got != want {
			t.Errorf("%v bytes take %v rounds, want %v", bytes, got, want)
		}
	}
}

func TestSquareMatrixAndMoreServersThanCities(t *testing.T) {
	cfg := small()
	n := 8
	m := &world.Matrix{RTT: make([][]float64, n), Cities: make([]world.City, n)}
	for i := range n {
		m.RTT[i] = make([]float64, n)
		for j := range n {
			m.RTT[i][j] = 0.5 + 10*math.Abs(float64(i-j))
		}
	}
	cfg.Matrices, cfg.Nodes, cfg.Servers = []*world.Matrix{m}, 4, 40
	r := mustRun(t, cfg)
	if r.World.Cities != n || r.of(t, assign.Geographic).ChoiceRatio.Median < 1 {
		t.Errorf("%+v", r)
	}
	w := newWorld(cfg, 1)
	seen := map[float64]bool{}
	for j, s := range w.servers[4:] {
		if s.accessMs <= 0 || seen[s.accessMs] {
			t.Errorf("server %d shares its city and has the access delay %v ms", j+4, s.accessMs)
		}
		seen[s.accessMs] = true
	}
}

// Programs depend on these names.
func TestJSON(t *testing.T) {
	text, err := json.Marshal(mustRun(t, small()))
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Assigners []map[string]any
		World     map[string]any
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	names := func(of any) string { return strings.Join(slices.Sorted(maps.Keys(of.(map[string]any))), " ") }
	for _, a := range r.Assigners {
		if got, want := names(a), "balance_cv best_share choice_ratio estimates_max estimates_mean loss_ms makespan_ratio "+
			"makespan_same_sum_ratio more more_error name p50_ms p90_ms total_ratio total_ratio_with_estimates"; got != want {
			t.Errorf("%v has\n%s, want\n%s", a["name"], got, want)
		}
		if got := names(a["choice_ratio"]); got != "median p10 p90" {
			t.Errorf("a choice ratio has %s", got)
		}
	}
	if len(r.Assigners) != 9 || r.World["seeds"] != 2.0 || r.World["estimates"] != 3.0 || r.World["homes"] != 6.0 {
		t.Errorf("%s", text)
	}
}

// TestFewWorldsLeaveDoubt: what is printed as the doubt holds the true mean in 19 of 20 cases, also of two worlds.
func TestFewWorldsLeaveDoubt(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, worlds := range []int{2, 3, 5, 30} {
		const cases = 2000
		held, zero := 0, make([]score, worlds)
		for range cases {
			var a []score
			for range worlds {
				a = append(a, score{choice: 100 * rnd.NormFloat64()})
			}
			var mean, half float64
			if _, err := fmt.Sscanf(more(a, zero).cell(), "%f±%f", &mean, &half); err != nil {
				t.Fatal(err)
			}
			if math.Abs(mean) <= half {
				held++
			}
		}
		if share := float64(held) / cases; share < .935 || share > .965 {
			t.Errorf("%d worlds: it holds the true mean in %.3f of the cases", worlds, share)
		}
	}
}

// TestMoreIsPaired: assigners are compared world by world with nearest or the first one, values of a sweep with the first value.
func TestMoreIsPaired(t *testing.T) {
	one := score{choice: 1}
	m := more([]score{{choice: 2}, {choice: 4}, {choice: 6}}, []score{one, one, one})
	if m.Mean != 3 || m.Error == nil || math.Abs(*m.Error-2/math.Sqrt(3)) > 1e-12 || m.cell() != "+3.000±4.968" {
		t.Errorf("%v, %+v; want a mean of 3 and a standard error of 2/√3", m, m)
	}
	if m := more([]score{{choice: 2}}, []score{one}); m.cell() != "+1.000±–" {
		t.Errorf("%v of one world, want a mean of 1 and no error", m)
	}
	cfg := small()
	cfg.Assigners = []string{assign.Geographic, Best}
	r := mustRun(t, cfg)
	if first, best := r.Assigners[0], r.Assigners[1]; first.Mean != 0 || *first.Error != 0 || best.Mean >= 0 || *best.Error <= 0 {
		t.Errorf("geographic beside itself %v, the best nodes beside geographic %v", first.More, best.More)
	}
	cfg.Assigners = append(cfg.Assigners, assign.Nearest)
	if r := mustRun(t, cfg); r.Assigners[2].Mean != 0 || r.Assigners[0].Mean <= 0 {
		t.Errorf("nearest beside itself %v, geographic beside nearest %v", r.Assigners[2].More, r.Assigners[0].More)
	}
	s, err := ParseSweep("location-wrong=0,1")
	if err == nil {
		err = s.Run(t.Context(), cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range s.Reports {
		g, want := r.Assigners[0], r.scores[0][0].choice/2+r.scores[0][1].choice/2-s.Reports[0].scores[0][0].choice/2-s.Reports[0].scores[0][1].choice/2
		if math.Abs(g.Mean-want) > 1e-12 || (i == 0) != (g.Mean == 0) {
			t.Errorf("%s of the locations wrong: %v beside none, want a mean of %+.3f", s.Values[i], g.More, want)
		}
	}
}

// TestReportSaysWhatWasSet: figures of another tuning, or of a world with prefixes, do not look like those of the standard one.
func TestReportSaysWhatWasSet(t *testing.T) {
	cfg := small()
	cfg.Prefixed = true
	for _, one := range [][2]string{{"nearest.estimates", "2"}, {"noise", "0"}, {"nearest.balance", "0.1"}} {
		if err := cfg.Set(one[0], one[1]); err != nil {
			t.Fatal(err)
		}
	}
	other := cfg
	if err := errors.Join(cfg.Set("vivaldi.theta", "0.15"), other.Set("vivaldi.theta", "0.25")); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := mustRun(t, cfg).Print(&out); err != nil {
		t.Fatal(err)
	}
	if want := "; addresses prefixed; set nearest.estimates=2, nearest.balance=0.1, vivaldi.theta=0.15\n\n"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is not in\n%s", want, &out)
	}
	out.Reset()
	if err := mustRun(t, small()).Print(&out); err != nil || strings.Contains(out.String(), "set ") || strings.Contains(out.String(), "prefixed") {
		t.Errorf("nothing was set (%v):\n%s", err, &out)
	}
}
