package compare

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"proxima/node/journal"
)

func TestSketch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 2, 100, sketchExact, 10 * sketchExact} {
		var s, a, b sketch
		var all []float64
		for i := range n {
			v := math.Exp(5 + 1.5*random.NormFloat64())
			all = append(all, v)
			s.add(v)
			if i%3 == 0 {
				a.add(v)
			} else {
				b.add(v)
			}
		}
		a.merge(&b)
		slices.Sort(all)
		for _, p := range []float64{0, .01, .5, .9, .99, 1} {
			want := all[max(0, int(math.Ceil(p*float64(n)-1e-9))-1)]
			for _, got := range []*float64{s.quantile(p), a.quantile(p)} {
				if math.Abs(*got-want) > .0011*want {
					t.Errorf("%d values, share %v: %v, want %v", n, p, *got, want)
				}
			}
		}
		if a.n != uint64(n) || math.Abs(*a.mean()-*s.mean()) > 1e-6**s.mean() {
			t.Errorf("merged %d, mean %v and %v", a.n, *a.mean(), *s.mean())
		}
	}
	var counts sketch // of estimates: most servers had none
	for i := range 2 * sketchExact {
		counts.add(float64(i % 4 / 3))
	}
	if p50, p90 := *counts.quantile(.5), *counts.quantile(.9); p50 != 0 || math.Abs(p90-1) > .0011 {
		t.Errorf("median %v, p90 %v, want 0 and 1", p50, p90)
	}
	var none sketch
	none.add(math.NaN())
	if none.quantile(.5) != nil || none.mean() != nil {
		t.Error("a quantile of nothing")
	}
}

func TestTimelineStaysSmall(t *testing.T) {
	line, sum := newSums(), 0.0
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
		if c.n > 0 && int(c.last/line.width) != i {
			t.Fatalf("cell %d ends with %v", i, c.last)
		}
	}
	if got != sum || n != 14286 {
		t.Errorf("sum %v of %d, want %v", got, n, sum)
	}
	if line.at(-5) != &line.cells[0] {
		t.Error("before the start is not in the first cell")
	}
}

func TestSpillGivesEverythingBackJoined(t *testing.T) {
	dir := t.TempDir()
	s := newSpill(dir)
	random := rand.New(rand.NewPCG(1, 1))
	want := map[uint64]int{}
	const n = 200_000 // 36 times what stays in memory
	for i := range n {
		k := random.Uint64N(n/4) * 0x9e3779b97f4a7c15
		want[k]++
		r := record{key: k, batch: uint64(i % 3), time: -int64(i), ms: float32(i), bytes: uint32(i), server: 7, run: uint16(i % 2), node: 9,
			labels: 5, status: 200,
			class: class(k % 3), flags: 255}
		if err := s.add(r); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	err := s.groups(func(g []record) error {
		if !slices.IsSortedFunc(g, compareRecords) {
			t.Fatal("not in order")
		}
		for _, r := range g {
			if i := int(r.bytes); r.key != g[0].key || r.class != class(r.key%3) || r.time != -int64(i) || r.ms != float32(i) || r.server != 7 ||
				r.run != uint16(i%2) ||
				r.node != 9 || r.labels != 5 || r.status != 200 || r.flags != 255 || r.batch != uint64(i%3) {
				t.Fatalf("changed: %+v", r)
			}
		}
		if want[g[0].key] != len(g) {
			t.Fatalf("%d of %d records together", len(g), want[g[0].key])
		}
		delete(want, g[0].key)
		seen += len(g)
		return nil
	})
	if err != nil || seen != n || len(want) != 0 {
		t.Errorf("%v, %d seen, %d keys left", err, seen, len(want))
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestDifferenceKnowsItsUncertainty: the interval holds the true mean about as often as it says, where pages of a server go together.
func TestDifferenceKnowsItsUncertainty(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	held := 0
	const tries = 200
	for try := range tries {
		clusters := map[uint64]*cluster{}
		for server := range uint64(40) {
			c := &cluster{}
			shift := 30 * random.NormFloat64()
			for range 50 {
				c.n++
				c.base += 500
				c.own += 500 - 10 + shift + 20*random.NormFloat64()
			}
			clusters[server] = c
		}
		if d := difference(clusters, uint64(try)); d.LowMs <= -10 && d.HighMs >= -10 {
			held++
		}
	}
	if held < tries*88/100 || held > tries*99/100 {
		t.Errorf("the true difference is in %d of %d intervals of 95 %%", held, tries)
	}
	if difference(map[uint64]*cluster{1: {n: 5, own: 1, base: 2}}, 1) != nil {
		t.Error("an interval from one server")
	}
}

func TestVariation(t *testing.T) {
	if v := variation([]float64{2, 4, 4, 4, 5, 5, 7, 9}); v != .4 {
		t.Errorf("%v", v)
	}
	if !math.IsNaN(variation(nil)) || !math.IsNaN(variation([]float64{0, 0})) {
		t.Error("a variation of nothing")
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
		c := &comparer{spill: newSpill(t.TempDir()), bits: map[string]uint16{}, reference: -1, index: map[string]uint32{}}
		r := newRun(0, source{})
		c.runs = []*run{r}
		c.lines = &lineReader{ctx: t.Context(), seqs: map[life]uint64{}, gaps: map[life]uint64{}}
		var e journal.Fetch
		in := bytes.NewReader(append(append([]byte{}, line...), '\n'))
		err := c.lines.stream(in, logFile{}, journal.LogFetch, &e, &e.Line, func() error { return c.download(r, r.own(e.Node, "n"), &e) })
		if err != nil {
			t.Fatal(err)
		}
		if err := c.spill.groups(c.join); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		res := c.result(nil, Options{Seed: 1})
		if err := res.JSON(&out); err != nil {
			t.Fatal(err)
		}
		if err := res.Text(&out); err != nil {
			t.Fatal(err)
		}
		if err := c.spill.close(); err != nil {
			t.Fatal(err)
		}
	})
}
