package compare

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"proxima/node/runlog"
)

func TestDist(t *testing.T) {
	var d dist
	for _, v := range []float64{3, 1, math.NaN(), -1, 2, 1e300} {
		d.add(v)
	}
	near(t, "median", d.quantile(.5), 2)
	near(t, "mean", d.mean(), 2)
	if line := d.cdf(); len(line) != 201 || line[0] != (Point{1, 0}) || line[200] != (Point{3, 1}) {
		t.Errorf("%v", line)
	}
	var none dist
	if none.quantile(.5) != nil || none.mean() != nil || none.cdf() != nil {
		t.Error("a quantile of nothing")
	}
}

func TestTimelineStaysSmall(t *testing.T) {
	line, sum := &timeline[cell]{}, 0.0
	for s := 0.0; s < 100_000; s += 7 {
		line.at(s).add(s)
		sum += s
	}
	if len(line.cells) > maxCells || line.width != 256 {
		t.Errorf("%d cells of %v s", len(line.cells), line.width)
	}
	got, n := 0.0, int64(0)
	for i, c := range line.cells {
		got, n = got+c.sum, n+c.n
		if c.n > 0 && int(c.mean()/line.width) != i {
			t.Fatalf("cell %d has %v", i, c.mean())
		}
	}
	if got != sum || n != 14286 {
		t.Errorf("sum %v of %d, want %v", got, n, sum)
	}
	if line.at(-5) != &line.cells[0] {
		t.Error("before the start is not in the first cell")
	}
}

// TestDifferenceOfEqualsIsChance: of equal rows hardly more than one in twenty is called faster, however few the servers are.
func TestDifferenceOfEqualsIsChance(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	const tries = 400
	for _, servers := range []int{2, 5, 6, 10, 24} {
		clear := 0
		for try := range tries {
			c := newComparer(t.Context(), Options{Seed: uint64(try)})
			c.rows = []row{{name: "own"}, {name: "base"}}
			for server := range servers {
				l := &cluster{n: 1}
				l.ms[0], l.ms[1] = math.Exp(5+.7*random.NormFloat64()), math.Exp(5+.7*random.NormFloat64())
				c.clusters[clusterKey{server: uint32(server), rows: 3}] = l
			}
			if c.difference(0, 1).Clear() {
				clear++
			}
		}
		t.Logf("%d servers: %.1f %% of equal rows are called faster or slower", servers, 100*float64(clear)/tries)
		if clear > tries*9/100 {
			t.Errorf("%d servers: %d of %d equal rows are called faster or slower", servers, clear, tries)
		}
	}
}

// TestDifferenceKnowsItsUncertainty: the interval holds the true mean about as often as it says, where pages of a server go together.
func TestDifferenceKnowsItsUncertainty(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	held := 0
	const tries = 200
	for try := range tries {
		c := newComparer(t.Context(), Options{Seed: uint64(try)})
		c.rows = []row{{name: "own"}, {name: "base"}}
		for server := range uint32(40) {
			l := &cluster{n: 50}
			shift := 30 * random.NormFloat64()
			for range l.n {
				l.ms[1] += 500
				l.ms[0] += 500 - 10 + shift + 20*random.NormFloat64()
			}
			c.clusters[clusterKey{server: server, rows: 3}] = l
		}
		if d := c.difference(0, 1); d.LowMs <= -10 && d.HighMs >= -10 {
			held++
		}
	}
	if held < tries*88/100 || held > tries*99/100 {
		t.Errorf("the true difference is in %d of %d intervals of 95 %%", held, tries)
	}
	c := newComparer(t.Context(), Options{})
	c.rows = []row{{}, {}}
	c.clusters[clusterKey{seed: 1, rows: 3}] = &cluster{n: 5, ms: [maxRows]float64{1, 2}}
	c.clusters[clusterKey{seed: 2, rows: 3}] = &cluster{n: 5, ms: [maxRows]float64{1, 2}}
	if c.difference(0, 1) != nil {
		t.Error("an interval from one server")
	}
}

func TestColumnsCountCharacters(t *testing.T) {
	var b bytes.Buffer
	if grid(&b, [][]string{{"city", "ms"}, {"Zürich", dash}, {"Rome", "10"}}); b.String() != "city    ms\nZürich   "+dash+"\nRome    10\n" {
		t.Errorf("columns that do not fit:\n%s", b.String())
	}
}

// TestRecordsComeInOrder: those of one key come together, by run, batch and time, in whatever order the logs were read.
func TestRecordsComeInOrder(t *testing.T) {
	s := records{most: 100}
	want := []record{{key: 1, time: 9}, {key: 2, run: 0, batch: 1, time: 7}, {key: 2, run: 0, batch: 2, time: 3}, {key: 2, run: 0, batch: 2, time: 4},
		{key: 2, run: 0, batch: 2, time: 4, node: 1}, {key: 2, run: 1, time: 1}}
	for i := range want {
		if err := s.add(want[len(want)-1-i]); err != nil {
			t.Fatal(err)
		}
	}
	var got []record
	s.groups(func(g []record) { got = append(got, g...) })
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// FuzzFetchLine: no line of a fetch log stops the reading, or makes a record that is not given back as it was.
func FuzzFetchLine(f *testing.F) {
	f.Add([]byte(`{"v":1,"run":"r","node":"n","boot":1,"seq":1,"time":"2026-11-21T12:00:00.000Z","url":"http://a/","host":"a",` +
		`"server":"192.0.2.1","kind":"page","status":200,"total_ms":3.5,` +
		`"bytes":10,"label":"a,b","origin":"assigned","batch":"x.1"}`))
	f.Add([]byte(`{"v":1,"node":"n","boot":1,"seq":18446744073709551615,"kind":"page","status":-5,"total_ms":-1e300,"bytes":-9}`))
	f.Add([]byte(`{"v":2}`))
	f.Add([]byte(`{"v":1,"label":",,,a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s","kind":"page",` +
		`"seq":2,"total_ms":1e308,"time":"0001-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"v":1,"seq":1,"label":"a","kind":"page","status":200,"total_ms":1e308,` +
		`"bytes":9223372036854775807,"url":"u","time":"9999-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		c := newComparer(t.Context(), Options{Seed: 1, By: ByAssigner, Against: "random"})
		r := newRun(0, source{})
		c.runs = []*run{r}
		var e runlog.Fetch
		in := bytes.NewReader(append(append([]byte{}, line...), '\n'))
		err := c.lines.stream(in, "", runlog.LogFetch, &e, &e.Line, func() error { return c.download(r, r.own(e.Node, "n"), &e) })
		if err != nil {
			t.Fatal(err)
		}
		c.records.groups(c.join)
		res := c.result()
		if _, err := json.Marshal(res); err != nil {
			t.Fatal(err)
		}
		res.Text()
	})
}
