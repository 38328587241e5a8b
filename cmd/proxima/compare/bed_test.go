package compare

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/cmd/proxima/rundir"
	"proxima/node/runlog"
)

var began = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// bed writes the folder of a run as nodes and the testbed would.
type bed struct {
	t     *testing.T
	dir   string
	world rundir.World
	nodes []*bedNode
}

type bedNode struct {
	*runlog.Writer
	bed  *bed
	id   string
	now  time.Time
	logs string
}

func newBed(t *testing.T, dir string, w rundir.World) *bed {
	t.Helper()
	w.Started = began
	b := &bed{t: t, dir: dir, world: w}
	for i, n := range w.Nodes {
		b.nodes = append(b.nodes, b.open(n.Name, fmt.Sprintf("%032x", i+1), 1))
	}
	return b
}

func (b *bed) open(name, id string, boot uint64) *bedNode {
	b.t.Helper()
	n := &bedNode{bed: b, id: id, now: began, logs: filepath.Join(b.dir, rundir.NodesFolder, name, rundir.LogsFolder)}
	cfg := runlog.Default()
	cfg.Logs, cfg.LogKeep = n.logs, 0
	j, err := runlog.Open(cfg, runlog.Meta{Run: "test", Node: id, Boot: boot}, runlog.Deps{Now: func() time.Time { return n.now }})
	if err != nil {
		b.t.Fatal(err)
	}
	n.Writer = j
	j.Events().Info(runlog.EventStart, runlog.KeyConfig, "")
	return n
}

// at sets the clock of a node to so many s after the start.
func (n *bedNode) at(second float64) *bedNode {
	n.now = began.Add(time.Duration(second * float64(time.Second)))
	return n
}

// assigned is a download of a page that a batch gave to the node, estimated one for an estimate of that batch.
func assigned(label, page string, ms float64) runlog.Fetch {
	return runlog.Fetch{URL: "http://" + page, TotalMs: ms, Bytes: 1000, Origin: runlog.OriginAssigned, Label: label, Batch: batchOne}
}

// single is such a download in a run of one assigner, where no batch gives pages to nodes.
func single(label, page string, ms float64) runlog.Fetch {
	f := assigned(label, page, ms)
	f.Batch = ""
	return f
}

func estimated(label, page string, ms float64) runlog.Fetch {
	f := assigned(label, page, ms)
	f.Origin = runlog.OriginEstimate
	return f
}

// fetch logs a download that ended so many s after the start. Fields that are not set get those of a sound page.
func (n *bedNode) fetch(endS float64, f runlog.Fetch) {
	f.Kind, f.Type = cmp.Or(f.Kind, runlog.KindPage), cmp.Or(f.Type, "text/html; charset=utf-8")
	if f.Status == 0 && f.Error == "" {
		f.Status = 200
	}
	f.Host, _, _ = strings.Cut(strings.TrimPrefix(f.URL, "http://"), "/")
	f.Server = cmp.Or(f.Server, n.bed.server(f.Host))
	f.Fresh, f.Attempt = true, max(1, f.Attempt)
	n.at(endS).Fetch(&f)
}

// decide logs a decision, of the first batch unless it names another.
func (n *bedNode) decide(atS float64, a runlog.Assign) {
	a.Decided, a.Batch, a.Server = true, cmp.Or(a.Batch, batchOne), cmp.Or(a.Server, n.bed.server(a.Host))
	n.at(atS).Assign(a)
}

const batchOne = "000000000001-1-1"

// server is the address of a host of the world, "" if it has none.
func (b *bed) server(host string) string {
	for _, s := range b.world.Servers {
		if slices.Contains(s.Hosts, host) {
			return s.Addr.String()
		}
	}
	return ""
}

func (n *bedNode) queue(atS float64, q runlog.Queue) { n.at(atS).Queue(q) }

// stop ends a node in order.
func (n *bedNode) stop() {
	n.Events().Info(runlog.EventStop, runlog.KeyReason, "idle")
}

// write closes the logs and writes what the testbed leaves.
func (b *bed) write() string {
	b.t.Helper()
	for _, n := range b.nodes {
		if err := n.Close(); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := rundir.WriteWorld(b.dir, b.world); err != nil {
		b.t.Fatal(err)
	}
	if err := rundir.WriteTestbed(b.dir, rundir.Testbed{Emulation: "tun", Trusted: true, DelayErrorP50Ms: .1,
		DelayErrorP99Ms: .4}); err != nil {
		b.t.Fatal(err)
	}
	return b.dir
}

func read(t *testing.T, dirs ...string) *Result {
	t.Helper()
	r, err := Read(context.Background(), dirs, Options{fewest: 2}) // most worlds of the tests have two
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *Result) of(t *testing.T, name string) Assigner {
	t.Helper()
	for _, a := range r.Assigners {
		if a.Name == name {
			return a
		}
	}
	t.Fatalf("no assigner %s", name)
	return Assigner{}
}

// near fails unless a figure is there and right within a thousandth.
func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: nothing, want %v", what, want)
	} else if !(math.Abs(*got-want) <= 1e-3*math.Max(1, math.Abs(want))) {
		t.Errorf("%s: %v, want %v", what, *got, want)
	}
}

// holds reports what a text lacks.
func holds(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

// twoNodes is a world of two nodes and two servers without any bandwidth: a page takes two round trips and the thought.
func twoNodes() rundir.World {
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 1, byte(i)}) }
	return rundir.World{Scenario: "two", Seed: 7, Assigners: []string{"nearest", "random"},
		Nodes: []rundir.Node{{Name: "berlin", City: "Berlin"}, {Name: "tokyo", City: "Tokyo"}},
		Servers: []rundir.Server{{Addr: addr(1), Hosts: []string{"a.test"}, City: "Paris", ThinkMs: 20},
			{Addr: addr(2), Hosts: []string{"b.test"}, City: "Seoul", ThinkMs: 20}},
		RTTMs:     [][]float64{{10, 200}, {240, 40}},
		NodeRTTMs: [][]float64{{0, 220}, {220, 0}},
	}
}
