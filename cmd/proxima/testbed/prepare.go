package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"proxima/cmd/proxima/rundir"
	"proxima/node"
	"proxima/node/peer"
	"proxima/node/strict"
)

// Files in the folder of a run that only this package reads.
const (
	secretFile = "secret"
	geoFile    = "geo.mmdb"
	nodeFile   = "node.toml"
	seedsFile  = "seeds.txt"
	outputFile = "output.txt"
)

// prepare creates the folder of the run. It writes the effective scenario, the secret, and each node's configuration and identity.
func (r *run) prepare() error {
	if err := emptyFolder(r.dir); err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(filepath.Join(r.dir, rundir.ScenarioFile), []byte(r.plan.Scenario.Text()), 0o644),
		peer.Keygen(filepath.Join(r.dir, secretFile))); err != nil {
		return fmt.Errorf("write scenario and secret: %w", err)
	}
	for i, p := range r.plan.Nodes {
		dir := r.nodeDir(i)
		id, err := json.Marshal(node.ID{V: 1, Node: p.ID})
		err = errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, nodeFile), []byte(r.config(i).Text()), 0o600),
			os.WriteFile(filepath.Join(dir, "node.json"), append(id, '\n'), 0o600))
		if err != nil {
			return fmt.Errorf("prepare node %s: %w", p.Name, err)
		}
	}
	if keys := r.overruled(); len(keys) > 0 {
		r.out.Say("[node.*] of the scenario has keys that the run sets itself: %s", strings.Join(keys, ", "))
	}
	return nil
}

// overruled lists the keys of the scenario's [node.*] that have other values at the nodes.
func (r *run) overruled() (keys []string) {
	s := r.plan.Scenario
	var errs [3]error
	var given, asked, set map[string]any
	given, errs[0] = strict.Flat(s.Text())
	asked, errs[1] = strict.Flat(s.Config.Text())
	set, errs[2] = strict.Flat(r.config(0).Text())
	if errors.Join(errs[:]...) != nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		key, ok := strings.CutPrefix(key, "node.")
		if ok && !reflect.DeepEqual(asked[key], set[key]) {
			keys = append(keys, key)
		}
	}
	return keys
}

// writeSeeds distributes the seeds over the nodes.
func (r *run) writeSeeds(seeds []string) error {
	lines := make([]strings.Builder, len(r.plan.Nodes))
	for n, url := range seeds {
		fmt.Fprintln(&lines[n%len(lines)], url)
	}
	for i, p := range r.plan.Nodes {
		if err := os.WriteFile(filepath.Join(r.nodeDir(i), seedsFile), []byte(lines[i].String()), 0o600); err != nil {
			return fmt.Errorf("write seeds of node %s: %w", p.Name, err)
		}
	}
	return nil
}

// emptyFolder creates a folder if it is absent. It fails if the folder is not empty.
func emptyFolder(dir string) error {
	err := os.MkdirAll(dir, 0o755)
	var entries []os.DirEntry
	if err == nil {
		entries, err = os.ReadDir(dir)
	}
	if err != nil {
		return fmt.Errorf("create folder of the run: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty: a run needs a new folder", dir)
	}
	return nil
}

func (r *run) nodeDir(i int) string {
	return filepath.Join(r.dir, rundir.NodesFolder, r.plan.Nodes[i].Name)
}

// Text returns the scenario as a TOML file.
func (s Scenario) Text() string { return strict.Text(s) }

// The ports of nodes.
const (
	gossipPort = 7946
	peerPort   = 7947
)

func gossipAddr(a netip.Addr) string { return netip.AddrPortFrom(a, gossipPort).String() }

// config returns the configuration of a node: the scenario's keys, limits for a machine that many nodes share, and what the plan determines.
// Paths are relative to the node's folder, in which its process runs, because the path of a socket must be short.
func (r *run) config(i int) node.Config {
	s := r.plan.Scenario
	c := s.Config
	setDefault := func(section, key string, set func()) {
		if table, ok := s.Node[section].(map[string]any); ok {
			if _, ok := table[key]; ok {
				return
			}
		}
		set()
	}
	setDefault("node", "memory_mib", func() { c.Node.MemoryMiB = 128 })
	setDefault("frontier", "min_free_mib", func() { c.Frontier.MinFreeMiB = 64 })
	setDefault("crawl", "fetchers", func() { c.Crawl.Fetchers = 16 })
	setDefault("member", "preset", func() { c.Member.Preset = "testbed" })
	setDefault("output", "log_keep", func() { c.Output.LogKeep = 0 })

	c.Node.Data, c.Node.Run = ".", fmt.Sprintf("%s-%d", s.Name, s.Seed)
	c.Crawl.Seeds = []string{seedsFile}
	c.Member.Join = nil
	for k := 1; k <= 3 && k < len(r.plan.Nodes); k++ {
		c.Member.Join = append(c.Member.Join, gossipAddr(r.plan.Nodes[(i+k)%len(r.plan.Nodes)].Addr))
	}
	c.Batch.Assigners = s.Assigners
	c.Termination.ExpectedNodes = len(r.plan.Nodes)
	if r.keep {
		c.Termination.ExpectedNodes++ // so that the nodes never agree that the crawl is finished
	}
	if r.configure == nil {
		r.plan.Nodes[i].inInternet(&c)
	} else {
		r.configure(i, &c)
	}
	return c
}

// inInternet sets the keys that depend on the emulated Internet.
func (p PlannedNode) inInternet(c *node.Config) {
	// Real documentation links to the real web, which does not exist here.
	c.Scope.SeedScope, c.Scope.Include.Hosts = "host", []string{"*." + topDomain}
	c.Fetch.AllowPrefixes = []string{ServerPrefix.String()}
	c.Fetch.DNS.Servers = []string{nameServer.String()}
	up := filepath.Join("..", "..") // from DIR/nodes/NAME to DIR
	c.Peer.Secret = filepath.Join(up, secretFile)
	c.Peer.Listen = netip.AddrPortFrom(p.Addr, peerPort).String()
	c.Member.Bind = gossipAddr(p.Addr)
	c.Geo.Database, c.Geo.Latitude, c.Geo.Longitude = filepath.Join(up, geoFile), p.Lat, p.Lon
}

func absolute(c node.Config, dir string) node.Config {
	c.Node.Data = dir
	c.Peer.Secret, c.Geo.Database = filepath.Join(dir, c.Peer.Secret), filepath.Join(dir, c.Geo.Database)
	c.Crawl.Seeds = []string{filepath.Join(dir, seedsFile)}
	return c
}

// machine returns the name of the processor, if the system tells it, and of the system.
func machine() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // other systems do not have this file
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value) + ", " + runtime.GOOS + "/" + runtime.GOARCH
		}
	}
	return runtime.GOOS + "/" + runtime.GOARCH
}
