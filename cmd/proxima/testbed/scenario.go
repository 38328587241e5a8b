package testbed

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"proxima/node"
	"proxima/node/strict"
)

// Scenario is a run as it is written down. What it leaves open is drawn (Draw).
type Scenario struct {
	// Name is that of the file, without .toml.
	Name string `toml:"-"`
	// Config is what the [node] tables make of the default configuration of a node.
	Config node.Config `toml:"-"`

	// Description is one sentence for the list of scenarios.
	Description string `toml:"description"`
	// Length bounds the crawl, from the moment when all nodes are up. A crawl that has nothing left to do ends earlier.
	Length time.Duration `toml:"length"`
	// Until is "idle" (nothing is left to do, the default) or "batches": all batches that were begun are handed off, and no host is
	// ready for another.
	Until string `toml:"until"`
	// Seed draws what is open, unless the command line has another.
	Seed uint64 `toml:"seed"`
	// Assigners decide; the first owns the hosts.
	Assigners []string `toml:"assigners"`
	// Separate makes one run for each assigner, one after the other.
	Separate bool `toml:"separate"`
	// Home is the node that is the home of all hosts; empty: homes are hashed, as the overlay does.
	Home string `toml:"home"`

	Matrix Matrix      `toml:"matrix"`
	Geo    Geo         `toml:"geo"`
	Nodes  []NodeGroup `toml:"nodes"`
	Sites  []SiteGroup `toml:"sites"`
	Events []Event     `toml:"events"`
	// Node holds any key of a node's configuration.
	Node map[string]any `toml:"node"`
}

// Matrix is where round trips come from: two files, or, if both are empty, the built-in world.
type Matrix struct {
	RTT    string `toml:"rtt"`
	Cities string `toml:"cities"`
	// JitterMs is the mean of what packets are late at random, in ms; Loss the share of packets that is lost.
	JitterMs float64 `toml:"jitter_ms"`
	Loss     float64 `toml:"loss"`
}

// Geo is how good the location database is.
type Geo struct {
	// Wrong and Missing are shares of the servers.
	Wrong   float64 `toml:"wrong"`
	Missing float64 `toml:"missing"`
}

// NodeGroup is one node or several alike.
type NodeGroup struct {
	// Name of the node; with Count the beginning of the names: name-1, name-2. Empty takes that of the city.
	Name  string `toml:"name"`
	Count int    `toml:"count"`
	// Cities to draw from, each at most once as long as there are enough; empty is the whole world.
	Cities []string `toml:"cities"`
	// UpMbit and DownMbit are bandwidth in Mbit/s; 0 draws a class.
	UpMbit   float64 `toml:"up_mbit"`
	DownMbit float64 `toml:"down_mbit"`
	// CPU is the share of the time in which the node may run, 0 to 1; 0 is all of it.
	CPU float64 `toml:"cpu"`
	// NAT keeps away from the node what it has not asked for.
	NAT bool `toml:"nat"`
}

// SiteGroup is one web server address or several alike.
type SiteGroup struct {
	Name   string   `toml:"name"`
	Count  int      `toml:"count"`
	Cities []string `toml:"cities"`
	// Software is "pages" (the built-in server) or "nginx".
	Software string `toml:"software"`
	// Hosts are names at each address.
	Hosts int `toml:"hosts"`
	// Pages of a host, their median size in kB, and links on each.
	Pages  int     `toml:"pages"`
	PageKB float64 `toml:"page_kb"`
	Links  int     `toml:"links"`
	// CrossLinks is how many links lead to other hosts, on average.
	CrossLinks float64 `toml:"cross_links"`
	// ThinkMs is the median time to the first byte without the way, in ms; 0 draws it.
	ThinkMs float64 `toml:"think_ms"`
	// UpMbit is the server's bandwidth in Mbit/s; 0 is without limit.
	UpMbit float64 `toml:"up_mbit"`
	// Misbehave is the share of pages that answer wrongly.
	Misbehave float64 `toml:"misbehave"`
	// CrawlDelayS is the Crawl-delay in robots.txt, in s; 0 for none.
	CrawlDelayS float64 `toml:"crawl_delay_s"`
	// RefuseEvery is which page is answered by 429, each so many-th, and RetryAfterS its Retry-After in s; 0 for none.
	RefuseEvery int     `toml:"refuse_every"`
	RetryAfterS float64 `toml:"retry_after_s"`
}

// Event happens At after all nodes are up.
type Event struct {
	At   time.Duration `toml:"at"`
	Kind string        `toml:"kind"`
	// Node is whom it happens to; BusiestOf takes the node of that group that has downloaded most by then, and later events with the same
	// BusiestOf mean the same node.
	Node      string   `toml:"node"`
	BusiestOf string   `toml:"busiest_of"`
	Nodes     []string `toml:"nodes"`
	// Server is the name of a site or its address.
	Server string `toml:"server"`
	// Factor on the bandwidth (1 restores), or the share of the time in which the processor is left to the node (1 restores).
	Factor float64 `toml:"factor"`
	// AddMs is what the server thinks longer, in ms; 0 restores.
	AddMs float64 `toml:"add_ms"`
}

//go:embed scenarios/*.toml
var kept embed.FS

// List names the scenarios kept in the project.
func List() ([]Scenario, error) {
	files, err := fs.Glob(kept, "scenarios/*.toml")
	if err != nil {
		return nil, fmt.Errorf("list scenarios: %w", err)
	}
	var all []Scenario
	for _, f := range files {
		s, err := Load(strings.TrimSuffix(path.Base(f), ".toml"))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Load reads a scenario: one that is kept in the project, by its name, or a file. Each of set changes a key of it (Set).
func Load(name string, set ...string) (Scenario, error) {
	file, text, err := read(name)
	for _, one := range set {
		if err == nil {
			text, err = Set(text, one)
		}
	}
	if err != nil {
		return Scenario{}, err
	}
	return Parse(file, text)
}

// read is the text of a scenario, and the name of its file for errors.
func read(name string) (file, text string, err error) {
	if !strings.ContainsAny(name, "./\\") {
		text, err := kept.ReadFile("scenarios/" + name + ".toml")
		if err == nil {
			return name + ".toml", string(text), nil
		}
		if _, err := os.Stat(name); err != nil {
			return "", "", fmt.Errorf("there is no scenario %q (see proxima testbed list), and no file of that name", name)
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return "", "", fmt.Errorf("read scenario: %w", err)
	}
	return name, string(b), nil
}

// Parse reads a scenario from its text; file is for its name and for errors, which say file, line and key.
func Parse(file, text string) (Scenario, error) {
	s := Scenario{Name: strings.TrimSuffix(filepath.Base(file), ".toml")}
	f, err := strict.Parse(file, text)
	if err != nil {
		return Scenario{}, err
	}
	if err := errors.Join(f.Decode(&s), f.Err()); err != nil {
		return Scenario{}, err
	}
	if s.Config, err = nodeConfig(f, file, text, s); err != nil {
		return Scenario{}, err
	}
	s.fill()
	for _, fault := range s.faults() {
		f.Report(fault.key, fault.what)
	}
	return s, f.Err()
}

// nodeConfig reads the [node.SECTION] tables as a configuration of a node, in a text whose other lines are empty: lines keep
// their numbers.
func nodeConfig(f *strict.File, file, text string, s Scenario) (node.Config, error) {
	var b strings.Builder
	within := false
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "[") && !strings.HasPrefix(trimmed, "[[") && strings.Contains(trimmed, "]") ||
			strings.HasPrefix(trimmed, "[[") {
			var section string
			if section, within = strings.CutPrefix(trimmed, "[node."); within {
				line = "[" + section + "\n"
			} else if section, within = strings.CutPrefix(trimmed, "[[node."); within {
				line = "[[" + section + "\n"
			}
		}
		if !within {
			line = "\n"
		}
		b.WriteString(line)
	}
	var found map[string]any
	if _, err := toml.Decode(b.String(), &found); err != nil || len(found) != len(s.Node) {
		f.Report("node", "keys of a node's configuration stand in sections of their own: [node.batch]")
		return node.Config{}, f.Err()
	}
	return node.Parse(file, b.String())
}

// fill puts in what is usual where nothing stands.
func (s *Scenario) fill() {
	if s.Length == 0 {
		s.Length = time.Minute
	}
	if s.Until == "" {
		s.Until = UntilIdle
	}
	if s.Seed == 0 {
		s.Seed = 1
	}
	if len(s.Assigners) == 0 {
		s.Assigners = []string{"nearest"}
	}
	for i := range s.Nodes {
		s.Nodes[i].Count = max(s.Nodes[i].Count, 1)
	}
	for i := range s.Sites {
		g := &s.Sites[i]
		g.Count, g.Hosts = max(g.Count, 1), max(g.Hosts, 1)
		if g.Software == "" {
			g.Software = SoftwarePages
		}
		if g.Pages == 0 {
			g.Pages = 50
		}
		if g.PageKB == 0 {
			g.PageKB = 20
		}
		if g.Links == 0 {
			g.Links = 20
		}
	}
	slices.SortStableFunc(s.Events, func(a, b Event) int { return int(a.At - b.At) })
}

// When a run ends, unless its length is over before.
const (
	UntilIdle    = "idle"
	UntilBatches = "batches"
)

// The software of a site.
const (
	SoftwarePages = "pages"
	SoftwareNginx = "nginx"
)
