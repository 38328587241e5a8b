package testbed

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"proxima/node"
	"proxima/node/strict"
)

// Scenario describes a run. Draw draws what it leaves open.
type Scenario struct {
	// Name is the name of the file, without .toml.
	Name string `toml:"-"`
	// Config is the default configuration of a node with the changes of the [node] tables.
	Config node.Config `toml:"-"`

	// Description is one sentence for the list of scenarios.
	Description string `toml:"description"`
	// Length limits the crawl, counted from the time when all nodes are up. The crawl ends earlier if nothing is left to do.
	Length time.Duration `toml:"length"`
	// Until says when the crawl ends before its length: with "idle", the default, when nothing is left to do; with "batches", when all batches
	// are handed off and no host is ready for another.
	Until string `toml:"until"`
	// Seed is the seed of all draws, unless the command line has another.
	Seed uint64 `toml:"seed"`
	// Assigners decide about each batch. The hosts go to the nodes that the first one chooses.
	Assigners []string `toml:"assigners"`
	// Separate makes one run after the other, each with one assigner.
	Separate bool `toml:"separate"`
	// Home is the node that is the home of all hosts. If it is empty, the overlay draws a home for each domain.
	Home string `toml:"home"`

	Matrix Matrix      `toml:"matrix"`
	Geo    Geo         `toml:"geo"`
	Nodes  []NodeGroup `toml:"nodes"`
	Sites  []SiteGroup `toml:"sites"`
	Events []Event     `toml:"events"`
	// Node has the keys of the nodes' configuration.
	Node map[string]any `toml:"node"`
}

// Matrix says where round trips come from: from two files or, if both are empty, from the built-in world.
type Matrix struct {
	RTT    string `toml:"rtt"`
	Cities string `toml:"cities"`
	// JitterMs is the mean of the packets' random delay, in ms. Loss is the share of packets that is lost.
	JitterMs float64 `toml:"jitter_ms"`
	Loss     float64 `toml:"loss"`
}

// Geo says how exact the location database is.
type Geo struct {
	// Wrong and Missing are the shares of the servers with a wrong location and without one.
	Wrong   float64 `toml:"wrong"`
	Missing float64 `toml:"missing"`
}

// NodeGroup is a node or several nodes with the same settings.
type NodeGroup struct {
	// Name is the name of the node. If Count is more than 1, the names are name-1, name-2 and so on. Without it, nodes are named after cities.
	Name  string `toml:"name"`
	Count int    `toml:"count"`
	// Cities are the cities and countries to draw from; empty for the whole world. No city is drawn twice until all were drawn.
	Cities []string `toml:"cities"`
	// UpMbit and DownMbit are the bandwidth in Mbit/s. 0 draws a typical one.
	UpMbit   float64 `toml:"up_mbit"`
	DownMbit float64 `toml:"down_mbit"`
	// CPU is the share of the time in which the node may run, 0 to 1. 0 means 1.
	CPU float64 `toml:"cpu"`
	// NAT puts the node behind a NAT, so that no other node can dial it.
	NAT bool `toml:"nat"`
}

// SiteGroup is a web server or several web servers with the same settings.
type SiteGroup struct {
	Name   string   `toml:"name"`
	Count  int      `toml:"count"`
	Cities []string `toml:"cities"`
	// Software is "pages" (the built-in server) or "nginx".
	Software string `toml:"software"`
	// Hosts is the number of hosts on each server.
	Hosts int `toml:"hosts"`
	// Pages is the number of pages of a host, PageKB their median size in kB, and Links the number of links on each.
	Pages  int     `toml:"pages"`
	PageKB float64 `toml:"page_kb"`
	Links  int     `toml:"links"`
	// CrossLinks is the mean number of links of a page to other hosts.
	CrossLinks float64 `toml:"cross_links"`
	// ThinkMs is the median time in ms from the request's arrival to the first byte of the answer. 0 draws it.
	ThinkMs float64 `toml:"think_ms"`
	// UpMbit is the server's bandwidth in Mbit/s. 0 means 100.
	UpMbit float64 `toml:"up_mbit"`
	// Misbehave is the share of pages that answer with an error or a redirect.
	Misbehave float64 `toml:"misbehave"`
	// CrawlDelayS is the Crawl-delay in robots.txt, in s. 0 states none.
	CrawlDelayS float64 `toml:"crawl_delay_s"`
	// RefuseEvery says that every n-th request is answered with 429 and a Retry-After of RetryAfterS seconds. 0 refuses none.
	RefuseEvery int     `toml:"refuse_every"`
	RetryAfterS float64 `toml:"retry_after_s"`
}

// Event happens at a time after all nodes are up.
type Event struct {
	At   time.Duration `toml:"at"`
	Kind string        `toml:"kind"`
	// Node is the node that the event applies to. BusiestOf names a group instead. Its node with the most downloads at the time of the first
	// such event is the one that all events of the group apply to.
	Node      string   `toml:"node"`
	BusiestOf string   `toml:"busiest_of"`
	Nodes     []string `toml:"nodes"`
	// Server is the name of a server.
	Server string `toml:"server"`
	// Factor multiplies the bandwidth or the node's share of the processor. 1 restores it.
	Factor float64 `toml:"factor"`
	// AddMs is added to the server's think time, in ms. 0 restores it.
	AddMs float64 `toml:"add_ms"`
}

//go:embed scenarios/*.toml
var bundled embed.FS

// List returns the built-in scenarios.
func List() ([]Scenario, error) {
	files, err := fs.Glob(bundled, "scenarios/*.toml")
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

// Load reads a built-in scenario by its name, or a file. Each of set changes a key (Set).
func Load(name string, set ...string) (Scenario, error) {
	file, text, err := read(name)
	if err == nil && len(set) > 0 { // a fault has its line here: settings write the text anew
		_, err = Parse(file, text)
	}
	for _, one := range set {
		if err == nil {
			text, err = strict.Set(text, one)
		}
	}
	if err != nil {
		return Scenario{}, err
	}
	s, err := Parse(file, text)
	if err != nil && len(set) > 0 {
		return Scenario{}, errors.New(regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(file)+`:\d+: `).ReplaceAllString(err.Error(), "-set: "))
	}
	return s, err
}

// read returns the text of a scenario, and a file name for errors.
func read(name string) (file, text string, err error) {
	if !strings.ContainsAny(name, "./\\") {
		text, err := bundled.ReadFile("scenarios/" + name + ".toml")
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

// Parse parses a scenario. Its name comes from file. Errors have file, line and key.
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
	s.fill(f)
	s.check(f)
	slices.SortStableFunc(s.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return s, f.Err()
}

// nodeConfig parses the [node.SECTION] tables as a node's configuration. It empties all other lines, so that errors have the right line
// numbers.
func nodeConfig(f *strict.File, file, text string, s Scenario) (node.Config, error) {
	var b strings.Builder
	within := false
	for line := range strings.Lines(strings.TrimPrefix(text, "\uFEFF")) {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "[[") || strings.HasPrefix(trimmed, "[") && strings.Contains(trimmed, "]") {
			within = strings.HasPrefix(strings.TrimLeft(trimmed, "["), "node.")
			line = strings.Replace(trimmed, "node.", "", 1) + "\n"
		}
		if !within {
			line = "\n"
		}
		b.WriteString(line)
	}
	var found map[string]any
	if _, err := toml.Decode(b.String(), &found); err != nil || len(found) != len(s.Node) {
		f.Report("node", "keys of a node's configuration belong in sections such as [node.batch]")
		return node.Config{}, f.Err()
	}
	return node.Parse(file, b.String())
}

// fill sets what the text leaves open. A 0 that it has is no default, and check refuses it.
func (s *Scenario) fill(f *strict.File) {
	s.Until, s.Seed = cmp.Or(s.Until, UntilIdle), cmp.Or(s.Seed, 1)
	or(f, "length", &s.Length, time.Minute)
	if len(s.Assigners) == 0 {
		s.Assigners = []string{"nearest"}
	}
	for i := range s.Nodes {
		or(f, fmt.Sprintf("nodes[%d].count", i), &s.Nodes[i].Count, 1)
	}
	for i := range s.Sites {
		g, key := &s.Sites[i], fmt.Sprintf("sites[%d].", i)
		g.Software = cmp.Or(g.Software, SoftwarePages)
		or(f, key+"count", &g.Count, 1)
		or(f, key+"hosts", &g.Hosts, 1)
		or(f, key+"pages", &g.Pages, 50)
		or(f, key+"page_kb", &g.PageKB, 20)
		or(f, key+"links", &g.Links, 20)
	}
}

// or sets a value that is 0 because the text lacks its key.
func or[T comparable](f *strict.File, key string, v *T, value T) {
	if !f.Has(key) {
		*v = cmp.Or(*v, value)
	}
}

// When a run ends before its length is over.
const (
	UntilIdle    = "idle"
	UntilBatches = "batches"
)

// The software of a site.
const (
	SoftwarePages = "pages"
	SoftwareNginx = "nginx"
)
