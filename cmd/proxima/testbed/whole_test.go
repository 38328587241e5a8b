package testbed

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"proxima/cmd/proxima/compare"
	"proxima/cmd/proxima/compare/report"
	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/terminal"
	"proxima/cmd/proxima/testbed/emulate"
	"proxima/cmd/proxima/testbed/sites"
)

// kept loads a built-in scenario.
func kept(t *testing.T, name string) Scenario {
	t.Helper()
	s, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// whole runs a scenario of complete nodes over the portable emulation, on a fake clock. It returns the folder of the run and what was printed.
func whole(t *testing.T, s Scenario, o Options) (dir, printed string) {
	t.Helper()
	// A bubble does not wait for a listener of the system. Nodes open none when their path is this long.
	o.Dir = filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	var out bytes.Buffer
	o.Emulation, o.FakeClock, o.Out = emulate.Portable, true, &out
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // until the last timers of memberlist have run out
		if err := Run(t.Context(), s, o); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
	})
	return o.Dir, out.String()
}

// compared reads the folder of a run and returns the comparison, also as text.
func compared(t *testing.T, dir string) (r *compare.Result, table string) {
	t.Helper()
	r, err := compare.Read(t.Context(), []string{dir}, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r, r.Text()
}

// says fails unless a text has all parts.
func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in:\n%s", p, text)
		}
	}
}

// A whole run loses no page, and compare can read its folder. Pages that nodes would serve on their own machines do not hinder it.
func TestAWholeRunOnThePortableEmulation(t *testing.T) {
	s, err := Load("ci", "node.console.listen=:8300", "node.metrics.listen=127.0.0.1:9100", "node.webmaster.listen=127.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	dir, out := whole(t, s, Options{Seed: 5})
	says(t, out, "scenario ci, seed 5", "3 of 3 nodes up", "ended by itself", "emulation portable")
	w, err := rundir.ReadWorld(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Nodes) != 3 || len(w.Servers) != 6 || w.Pages != 90 || w.Seed != 5 || w.Scenario != "ci" || w.Started.IsZero() {
		t.Errorf("world: %+v", w)
	}
	quality, err := rundir.ReadTestbed(dir)
	if err != nil {
		t.Fatal(err)
	}
	if quality.Emulation != emulate.Portable || quality.Calibrations != 18 || quality.CalibrationP50 < 0.8 || quality.CalibrationP50 > 1.25 ||
		quality.Packets == 0 {
		t.Errorf("testbed: %+v", quality)
	}
	if again, err := Load(filepath.Join(dir, rundir.ScenarioFile)); err != nil || again.Seed != 5 {
		t.Errorf("the effective scenario: seed %d, %v", again.Seed, err)
	}
	r, table := compared(t, dir)
	says(t, table, "90 of the generator's 90 pages found", "lost 0")
	if err := report.Write(io.Discard, r, ""); err != nil {
		t.Error(err)
	}
}

// A scenario may have servers whose pages take minutes.
func TestCalibrationWaitsForSlowServers(t *testing.T) {
	s := kept(t, "ci")
	s.Length = time.Second
	s.Sites[0].ThinkMs, s.Sites[0].UpMbit = 60_000, 0.001
	dir, _ := whole(t, s, Options{})
	if quality, err := rundir.ReadTestbed(dir); err != nil || quality.CalibrationP90 > 1.5 {
		t.Errorf("%+v, %v", quality, err)
	}
}

// A node that no other node can dial crawls its share.
func TestNodeBehindNAT(t *testing.T) {
	s := kept(t, "ci")
	s.Assigners = []string{"random"} // each node has about a quarter of the hosts
	s.Sites[0].Count, s.Sites[0].Pages = 24, 40
	s.Nodes = append(s.Nodes, NodeGroup{Name: "natted", Count: 1, Cities: []string{"Chicago"}, NAT: true})
	dir, _ := whole(t, s, Options{Seed: 5})
	_, table := compared(t, dir)
	says(t, table, "960 of the generator's 960 pages found", "lost 0")
	if !regexp.MustCompile(`\nnatted +Chicago +[1-9]`).MatchString(table) {
		t.Errorf("the node behind a NAT has no page:\n%s", table)
	}
}

// refuses is a listener that fails once it is served.
type refuses struct{ net.Listener }

func (refuses) Accept() (net.Conn, error) { return nil, errors.New("no more descriptors") }

// A run does not go on with dead servers.
func TestServersThatFailBreakTheRun(t *testing.T) {
	r := &run{plan: draw(t, kept(t, "ci"), 1), dir: t.TempDir(), out: terminal.New(io.Discard)}
	listen := func(network, _ string) (net.Listener, error) {
		l, err := net.Listen(network, "127.0.0.1:0")
		return refuses{l}, err
	}
	packets := func(network, _ string) (net.PacketConn, error) { return net.ListenPacket(network, "127.0.0.1:0") }
	broken := make(chan error, 1)
	in, err := newInternet(t.Context(), r, true, sites.Deps{Listen: listen, ListenPacket: packets}, func(err error) { broken <- err })
	if err != nil {
		t.Fatal(err)
	}
	if err := <-broken; !strings.Contains(err.Error(), "no more descriptors") {
		t.Error(err)
	}
	if err := in.close(); err == nil {
		t.Error("the failure is no error at the end")
	}
	// Those that have begun end where another one cannot begin.
	none := errors.New("no port is free")
	packets = func(string, string) (net.PacketConn, error) { return nil, none }
	var web net.Listener
	listen = func(network, _ string) (_ net.Listener, err error) {
		web, err = net.Listen(network, "127.0.0.1:0")
		return web, err
	}
	if _, err = newInternet(t.Context(), r, true, sites.Deps{Listen: listen, ListenPacket: packets}, nil); !errors.Is(err, none) {
		t.Error(err)
	}
	if err := web.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the web server runs on: %v", err)
	}
}

// The location database states for each server what the plan records: the right place, a wrong one, or none.
func TestLocationsAreThoseOfThePlan(t *testing.T) {
	p := draw(t, kept(t, "demo"), 2)
	if err := writeGeo(p, filepath.Join(t.TempDir(), geoFile)); err != nil {
		t.Fatal(err)
	}
	stated := map[string]int{}
	for _, server := range p.Servers {
		stated[server.Stated]++
	}
	if sum := stated["right"] + stated["wrong"] + stated["missing"]; sum != len(p.Servers) || len(stated) != 3 {
		t.Errorf("stated: %v", stated)
	}
}

func TestShellsAreFoundByTheFolderOfTheRun(t *testing.T) {
	dir := t.TempDir()
	if _, err := Shell(dir, "a"); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("of a run that has no shells: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, shellFile), []byte(`{"a":["nsenter","-t","1"],"b":["x"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if argv, err := Shell(dir, "a"); err != nil || strings.Join(argv, " ") != "nsenter -t 1" {
		t.Errorf("%q, %v", argv, err)
	}
	if _, err := Shell(dir, "c"); err == nil || !strings.Contains(err.Error(), "the nodes are a, b") {
		t.Errorf("of a node that is not there: %v", err)
	}
}

// Separate runs have one folder for each assigner and the same world.
func TestSeparateRuns(t *testing.T) {
	s := kept(t, "ci")
	dir, _ := whole(t, s, Options{Separate: true})
	var rtts [2][][]float64
	for i, a := range s.Assigners {
		w, err := rundir.ReadWorld(filepath.Join(dir, a))
		if err != nil || len(w.Assigners) != 1 || w.Assigners[0] != a {
			t.Fatalf("%s: %q, %v", a, w.Assigners, err)
		}
		rtts[i] = w.RTTMs
	}
	if diff := cmp.Diff(rtts[0], rtts[1]); diff != "" {
		t.Errorf("the worlds differ:\n%s", diff)
	}
	compared(t, dir)
}

// A crawl goes through every kind of event and loses no page.
func TestAllEventsOnThePortableEmulation(t *testing.T) {
	s := kept(t, "ci")
	s.Length, s.Assigners = 3*time.Minute, []string{"nearest"}
	s.Sites[0].Pages, s.Config.Politeness.OwnGap = 60, 500*time.Millisecond
	s.Config.Crawl.Patience = 20 * time.Second
	at := func(seconds int, e Event) Event { e.At = time.Duration(seconds) * time.Second; return e }
	s.Events = []Event{
		at(14, Event{Kind: rundir.EventBandwidth, Node: "paris", Factor: 0.2}),
		at(15, Event{Kind: rundir.EventCPU, Node: "tokyo", Factor: 0.5}),
		at(16, Event{Kind: rundir.EventSlow, Server: "s1", AddMs: 500}),
		at(18, Event{Kind: rundir.EventKill, Node: "new-york"}),
		at(20, Event{Kind: rundir.EventRestart, Node: "new-york"}),
		at(30, Event{Kind: rundir.EventPartition, Nodes: []string{"paris"}}),
		at(35, Event{Kind: rundir.EventHeal}),
	}
	dir, out := whole(t, s, Options{})
	says(t, out, "new-york: kill -9", "new-york: restart", "paris: partition", "s1: +0.5 s", "ended by itself")
	w, err := rundir.ReadWorld(dir)
	if err != nil || len(w.Events) != len(s.Events) {
		t.Errorf("%d events in the world: %v", len(w.Events), err)
	}
	_, table := compared(t, dir)
	says(t, table, "360 of the generator's 360 pages found", "lost 0")
}
