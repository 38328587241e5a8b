package testbed

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/terminal"
	"proxima/node"
)

// parsed reads the text of a scenario, in which ' stands for ".
func parsed(t *testing.T, text string) Scenario {
	t.Helper()
	s, err := Parse("x.toml", strings.ReplaceAll(text, "'", `"`))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Each error names the line of its key, whatever the order of the events' times.
func TestBrokenScenarios(t *testing.T) {
	for text, want := range map[string][]string{
		"length='1m'\n[[nodes]]\ncount=2\n[[nodes]]\ncitty='Paris'\n[[sites]]": {"x.toml:5: nodes[1].citty: unknown key", "cities"},
		"length=60\n[[nodes]]\n[[sites]]":                                      {"x.toml:1: length: want a duration in quotes with its unit", "got 60"},
		"[[nodes]]\n[[sites]]\n[node.batch]\nhosts=10\nurlss=5":                {"x.toml:5: batch.urlss: unknown key"},
		"[[nodes]]\n[[sites]]\n\n[node.batch]\n\nhosts=0":                      {"x.toml:6: batch.hosts:"},
		"[[nodes]]\n[[sites]]\n[node]\nbatch.hosts=10":                         {"x.toml:3: node: ", "[node.batch]"},
		"length='1m'\n[[nodes]]\nname='a'\n[[sites]]\n[[events]]\nat='2m'\nkind='kill'\nnode='b'\n[[events]]\nat='3s'\nkind='hea'": {
			"x.toml:6: events[0].at: 2m0s is not between 0 and the length, 1m0s", `x.toml:8: events[0].node: no node has the name "b"`,
			`x.toml:11: events[1].kind: "hea" is none of`},
		"assigners=['nearest','best']\n[[nodes]]\n[[sites]]\nsoftware='apache'": {
			`x.toml:1: assigners: "best" is neither one of`, `x.toml:4: sites[0].software: "apache" is neither`},
		"[[nodes]]\n[[sites]]\n[node.batch]\nhosts=10\nassigners=['random']": {
			"x.toml:5: node.batch.assigners: who decides is said by assigners, at the top of the scenario"},
		"length='1m'\n[[nodes]\n":                 {"x.toml:3: syntax"},
		"length='1m'":                             {"x.toml:1: nodes: 0 is not between 1 and", "x.toml:1: sites: 0 servers are not"},
		"[[nodes]]\ncount=2\nnat=true\n[[sites]]": {"x.toml:1: nodes: all nodes are behind a NAT"},
		"[[nodes]]\nname='a'\n[[sites]]\nname='a'\n[[sites]]\nname='a'": {`x.toml:3: sites: the name "a" is used twice`}, // not that of nodes
		"seed=-1\n[[nodes]]\ncount=-2\n[[nodes]]\n[[sites]]\ncount=-3\nhosts=-4": {"x.toml:1: seed: -1 is negative",
			"x.toml:2: nodes: -1 is not between", "x.toml:3: nodes[0].count: -2 is not positive", "x.toml:5: sites: -3 servers are not",
			"x.toml:6: sites[0].count: -3 is not positive", "x.toml:7: sites[0].hosts: -4 is not between"},
		// Who writes 0 does not want the default.
		"length='0s'\n[[nodes]]\n[[nodes]]\ncount=0\n[[sites]]\ncount=0\nhosts=0\npages=0\npage_kb=0.0\nlinks=0": {"x.toml:1: length: 0s is not between",
			"x.toml:4: nodes[1].count: 0 is not positive", "x.toml:5: sites: 0 servers are not", "x.toml:6: sites[0].count: 0 is not positive",
			"x.toml:7: sites[0].hosts: 0 is not", "x.toml:8: sites[0].pages: 0 is not", "x.toml:9: sites[0].page_kb: 0 is not above 0 and at most 1000", "x.toml:10: sites[0].links: 0 is not"},
		// JSON has no such number, so that the world of the run could not be written down.
		"[[nodes]]\nup_mbit=inf\ndown_mbit=inf\n[[sites]]\nup_mbit=inf": {"x.toml:2: nodes[0].up_mbit: +Inf is not between",
			"x.toml:3: nodes[0].down_mbit: +Inf is not between", "x.toml:5: sites[0].up_mbit: +Inf is not between"},
	} {
		_, err := Parse("x.toml", strings.ReplaceAll(text, "'", `"`))
		if err == nil {
			t.Errorf("%s is taken for a scenario", text)
			continue
		}
		says(t, err.Error(), want...)
		if lines := strings.Count(err.Error(), "x.toml:"); lines != strings.Count(strings.Join(want, " "), "x.toml:") {
			t.Errorf("not only %q:\n%v", want, err)
		}
	}
	if _, err := Load("none"); err == nil || !strings.Contains(err.Error(), "proxima testbed list") {
		t.Errorf("a scenario that is not there: %v", err)
	}
}

// TestAScenarioFromAnyEditor: a byte order mark and line ends of two characters are no part of it.
func TestAScenarioFromAnyEditor(t *testing.T) {
	if s := parsed(t, "\uFEFF[node.crawl]\r\nfetchers=3\r\n[[nodes]]\r\n[[sites]]\r\n"); s.Config.Crawl.Fetchers != 3 {
		t.Errorf("%+v", s.Config.Crawl)
	}
}

func TestSet(t *testing.T) {
	for setting, want := range map[string]func(Scenario) bool{
		"length=3h":                             func(s Scenario) bool { return s.Length == 3*time.Hour },
		"node.assign.vivaldi.theta=0.4":         func(s Scenario) bool { return s.Config.Assign.Vivaldi.Theta == .4 },
		"node.batch.candidate.theta-15.theta=2": func(s Scenario) bool { return s.Config.Batch.Candidates[1]["theta"] == int64(2) },
		"node.batch.candidate.0.estimates=1":    func(s Scenario) bool { return s.Config.Batch.Candidates[0]["estimates"] == int64(1) },
		"nodes.0.count=2":                       func(s Scenario) bool { return s.Nodes[0].Count == 2 },
	} {
		if s, err := Load("tunings", setting); err != nil || !want(s) {
			t.Errorf("%s: %v, %+v", setting, err, s)
		}
	}
	for _, setting := range []string{"length", "=3", "node.batch.candidate.nobody.theta=1", "nodes.0=1", "length.x=1", "node.batch.what=1"} {
		if _, err := Load("tunings", setting); err == nil {
			t.Errorf("%s was taken", setting)
		}
	}
	if _, err := Load("tunings", "lenght=3h"); err == nil || !strings.HasPrefix(err.Error(), "-set: lenght: unknown key") {
		t.Errorf("the fault is in a setting, and not in the file: %v", err)
	}
}

// TestASettingMovesNoLines: a fault of the file has its line there, although a setting writes the text anew.
func TestASettingMovesNoLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.toml")
	if err := os.WriteFile(path, []byte("# a\n# comment\n[[nodes]]\n[[sites]]\npagse = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, "length=2s"); err == nil || !strings.Contains(err.Error(), "x.toml:5: sites[0].pagse: unknown key") {
		t.Error(err)
	}
}

func TestKeptScenarios(t *testing.T) {
	all, err := List()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
		if s.Description == "" {
			t.Errorf("%s has no description", s.Name)
		}
		for _, assigner := range s.Assigners {
			batch := s.Config.Batch
			v := s.Config.Assign.Vivaldi
			if ticks := v.Tick * time.Duration(v.MaxTicks); assigner == "vivaldi" && batch.Deadline < ticks {
				t.Errorf("%s: vivaldi may need %v, and the deadline is %v", s.Name, ticks, batch.Deadline)
			}
		}
		plan := draw(t, s, 7)
		r := &run{plan: plan, dir: t.TempDir()}
		for i := range plan.Nodes {
			if errs := r.config(i).Validate(); errs != nil {
				t.Errorf("%s: node %s: %v", s.Name, plan.Nodes[i].Name, errs)
			}
			if _, err := node.Parse("node.toml", r.config(i).Text()); err != nil {
				t.Errorf("%s: node %s: %v", s.Name, plan.Nodes[i].Name, err)
			}
		}
		// The effective scenario is one that can be run again.
		again, err := Parse(s.Name+".toml", s.Text())
		if err != nil {
			t.Fatalf("%s: what is written down of it: %v", s.Name, err)
		}
		if diff := cmp.Diff(s, again); diff != "" {
			t.Errorf("%s: written down and read again it differs:\n%s", s.Name, diff)
		}
	}
	if want := []string{"bandwidth", "churn", "ci", "comparison", "demo", "field", "fourteen", "load", "nat", "pacing",
		"server", "single", "tunings"}; !slices.Equal(names, want) {
		t.Errorf("kept are %q, want %q", names, want)
	}
}

// The sizes that these scenarios are known for.
func TestSizesOfKeptScenarios(t *testing.T) {
	for _, c := range []struct {
		name                  string
		nodes, servers, pages int
		mode                  string
	}{
		{"demo", 6, 24, 0, "cycle"}, {"comparison", 10, 80, 300, "cycle"}, {"bandwidth", 8, 17, 0, "persistent"},
		{"load", 8, 30, 0, "persistent"}, {"server", 8, 17, 0, "persistent"},
		{"nat", 8, 64, 0, "cycle"}, {"single", 10, 40, 600, "single"}, {"fourteen", 14, 112, 0, "cycle"},
	} {
		s := kept(t, c.name)
		p := draw(t, s, s.Seed)
		if len(p.Nodes) != c.nodes || len(p.Servers) != c.servers || s.Config.Batch.Mode != c.mode {
			t.Errorf("%s: %d nodes, %d servers, mode %s", c.name, len(p.Nodes), len(p.Servers), s.Config.Batch.Mode)
		}
		for _, server := range p.Servers {
			if server.Site.Pages < c.pages {
				t.Errorf("%s: %s has %d pages", c.name, server.Name, server.Site.Pages)
			}
			if c.mode == "persistent" && server.Country != "United States" {
				t.Errorf("%s: server %s is in %s", c.name, server.Name, server.City)
			}
		}
	}
}

func TestEventsComeInTheirOrder(t *testing.T) {
	s := parsed(t, "[[nodes]]\nname='a'\n[[sites]]\n[[events]]\nat='9s'\nkind='heal'\n[[events]]\nat='3s'\nkind='kill'\nnode='a'")
	if len(s.Events) != 2 || s.Events[0].Kind != rundir.EventKill {
		t.Errorf("events: %+v", s.Events)
	}
}

func TestFolderOfARunIsItsOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	if err := emptyFolder(dir); err != nil {
		t.Fatal(err)
	}
	if err := emptyFolder(dir); err != nil {
		t.Fatalf("an empty folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := emptyFolder(dir); err == nil {
		t.Error("a folder with something in it is taken")
	}
}

// TestOverruledKeys: keys of a node that the run sets itself are named, and no others.
func TestOverruledKeys(t *testing.T) {
	const says = "[node.*] of the scenario has keys that the run sets itself: "
	for text, want := range map[string]string{
		"[node.scope]\nseed_scope='host'\n": "",
		"[node.scope]\nseed_scope='any'\nmax_depth=3\n[node.scope.include]\nhosts=['a.example']\n[node.geo]\nlatitude=1.0\nlongitude=2.0\n": says +
			"geo.latitude, geo.longitude, scope.include.hosts, scope.seed_scope\n",
		"[node.crawl]\nseeds=['mine.txt']\nfetchers=3\n[node.member]\nfaster=2.0\n": says + "crawl.seeds\n",
	} {
		var out bytes.Buffer
		r := &run{plan: draw(t, parsed(t, "[[nodes]]\ncount=2\n[[sites]]\n"+text), 1), dir: t.TempDir(), out: terminal.New(&out)}
		if err := r.prepare(); err != nil || out.String() != want {
			t.Errorf("%s\n%v, told %q, want %q", text, err, &out, want)
		}
	}
}
