package testbed

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"proxima/assign"
	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/testbed/emulate"
	"proxima/node/strict"
)

func (s *Scenario) candidates() (names []string) {
	batch, _ := s.Node["batch"].(map[string]any)
	list, _ := batch["candidate"].([]map[string]any)
	for _, one := range list {
		name, _ := one["name"].(string)
		names = append(names, name)
	}
	return names
}

func (s *Scenario) check(f *strict.File) {
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			f.Report(key, fmt.Sprintf(format, args...))
		}
	}
	within := func(v float64, key string, least, most float64) {
		check(v >= least && v <= most, key, "%v is not between %v and %v", v, least, most)
	}
	check(s.Seed <= math.MaxInt64, "seed", "%d is negative", int64(s.Seed))
	check(s.Length >= time.Second && s.Length <= 24*time.Hour, "length", "%v is not between 1s and 24h", s.Length)
	check(s.Until == UntilIdle || s.Until == UntilBatches, "until", "%q is neither %q nor %q", s.Until, UntilIdle, UntilBatches)
	check(len(s.Assigners) <= 8, "assigners", "%d is not between 1 and 8", len(s.Assigners))
	for i, a := range s.Assigners {
		check(slices.Contains(assign.Names(), a) || slices.Contains(s.candidates(), a), "assigners", "%q is neither one of %q nor a candidate of node.batch", a, assign.Names())
		check(!slices.Contains(s.Assigners[:i], a), "assigners", "%q is listed twice", a)
	}
	check(!f.Has("node.batch.assigners"), "node.batch.assigners", "who decides is said by assigners, at the top of the scenario")
	check((s.Matrix.RTT == "") == (s.Matrix.Cities == ""), "matrix", "rtt and cities need each other")
	within(s.Matrix.JitterMs, "matrix.jitter_ms", 0, 1000)
	check(s.Matrix.Loss >= 0 && s.Matrix.Loss < 1, "matrix.loss", "%v is not a share below 1", s.Matrix.Loss)
	within(s.Geo.Wrong, "geo.wrong", 0, 1)
	check(s.Geo.Missing >= 0 && s.Geo.Wrong+s.Geo.Missing <= 1, "geo.missing", "%v and geo.wrong, %v, add up to more than 1", s.Geo.Missing,
		s.Geo.Wrong)

	nodes, natted, servers := 0, 0, 0
	for i, g := range s.Nodes {
		key := fmt.Sprintf("nodes[%d].", i)
		check(g.Count > 0, key+"count", "%d is not positive", g.Count)
		nodes += g.Count
		if g.NAT {
			natted += g.Count
		}
		check(validName(g.Name), key+"name", "%q has other characters than small letters, digits and hyphens, or is too long", g.Name)
		within(g.UpMbit, key+"up_mbit", 0, mostMbit)
		within(g.DownMbit, key+"down_mbit", 0, mostMbit)
		within(g.CPU, key+"cpu", 0, 1)
	}
	check(nodes >= 1 && nodes <= maxNodes, "nodes", "%d is not between 1 and %d", nodes, maxNodes)
	check(natted < nodes || nodes < 2, "nodes", "all nodes are behind a NAT, so that no node can dial another")
	for i, g := range s.Sites {
		key := fmt.Sprintf("sites[%d].", i)
		check(g.Count > 0, key+"count", "%d is not positive", g.Count)
		servers += g.Count
		check(validName(g.Name), key+"name", "%q has other characters than small letters, digits and hyphens, or is too long", g.Name)
		check(g.Software == SoftwarePages || g.Software == SoftwareNginx, key+"software", "%q is neither %q nor %q", g.Software,
			SoftwarePages, SoftwareNginx)
		within(float64(g.Hosts), key+"hosts", 1, 100)
		within(float64(g.Pages), key+"pages", 1, 100_000)
		check(g.PageKB > 0 && g.PageKB <= 1000, key+"page_kb", "%v is not above 0 and at most 1000", g.PageKB)
		within(float64(g.Links), key+"links", 1, 1000)
		within(g.CrossLinks, key+"cross_links", 0, 100)
		within(g.ThinkMs, key+"think_ms", 0, 60_000)
		within(g.UpMbit, key+"up_mbit", 0, mostMbit)
		within(g.CrawlDelayS, key+"crawl_delay_s", 0, 3600)
		check(g.RefuseEvery >= 0 && (g.RefuseEvery == 0) == (g.RetryAfterS == 0), key+"refuse_every", "refuse_every and retry_after_s need each other")
		within(g.RetryAfterS, key+"retry_after_s", 0, 3600)
		within(g.Misbehave, key+"misbehave", 0, 1)
	}
	check(servers >= 1 && servers <= maxServers, "sites", "%d servers are not between 1 and %d", servers, maxServers)
	if f.Err() != nil {
		return
	}
	nodeNames, siteNames := s.nodeNames(), s.siteNames()
	for key, names := range map[string][]string{"nodes": nodeNames, "sites": siteNames} {
		for i, n := range names {
			check(n == "" || !slices.Contains(names[:i], n), key, "the name %q is used twice", n)
		}
	}
	check(s.Home == "" || slices.Contains(nodeNames, s.Home), "home", "no node has the name %q", s.Home)
	for i, e := range s.Events {
		s.checkEvent(e, nodeNames, siteNames, func(ok bool, key, format string, args ...any) {
			check(ok, fmt.Sprintf("events[%d]%s", i, key), format, args...)
		})
	}
}

// Limits of a run on one machine.
const (
	maxNodes   = 200
	maxServers = 10_000
	mostMbit   = 100_000
)

// Room returns an error if namespaces have no room for the scenario.
func (s *Scenario) Room() error {
	if nodes, servers := len(s.nodeNames()), len(s.siteNames()); nodes+servers >= emulate.EndpointsMost { // the name server is one more
		return fmt.Errorf("scenario %s: %d nodes and %d servers are more than the %d that namespaces have room for; -portable takes them", s.Name,
			nodes, servers, emulate.EndpointsMost-1)
	}
	return nil
}

func (s *Scenario) checkEvent(e Event, nodes, sites []string, check func(ok bool, key, format string, args ...any)) {
	check(e.At >= 0 && e.At <= s.Length, ".at", "%v is not between 0 and the length, %v", e.At, s.Length)
	aNode := func() {
		check((e.Node == "") != (e.BusiestOf == ""), "", "needs node or busiest_of")
		check(e.Node == "" || slices.Contains(nodes, e.Node), ".node", "no node has the name %q", e.Node)
		check(e.BusiestOf == "" || slices.ContainsFunc(s.Nodes, func(g NodeGroup) bool { return g.Name == e.BusiestOf }), ".busiest_of",
			"no group of nodes has the name %q", e.BusiestOf)
	}
	switch e.Kind {
	case rundir.EventBandwidth:
		aNode()
		check(e.Factor > 0 && e.Factor <= 10, ".factor", "%v is not above 0 and at most 10", e.Factor)
	case rundir.EventCPU:
		aNode()
		check(e.Factor >= 0.02 && e.Factor <= 1, ".factor", "%v is not a share between 0.02 and 1", e.Factor)
	case rundir.EventKill, rundir.EventRestart:
		aNode()
	case rundir.EventSlow:
		check(slices.Contains(sites, e.Server), ".server", "no site has the name %q", e.Server)
		check(!slices.ContainsFunc(s.Sites, func(g SiteGroup) bool {
			return g.Software == SoftwareNginx && slices.Contains(groupNames(g.Name, g.Count), e.Server)
		}), ".server", "%s is served by nginx, which sends files as fast as it can", e.Server)
		check(e.AddMs >= 0 && e.AddMs <= 60_000, ".add_ms", "%v is not between 0 and 60000", e.AddMs)
	case rundir.EventPartition:
		check(len(e.Nodes) > 0 && len(e.Nodes) < len(nodes), ".nodes", "neither no node nor all nodes can be cut off from the others")
		for _, n := range e.Nodes {
			check(slices.Contains(nodes, n), ".nodes", "no node has the name %q", n)
		}
	case rundir.EventHeal:
	default:
		check(false, ".kind", "%q is none of %q", e.Kind, []string{rundir.EventBandwidth, rundir.EventCPU, rundir.EventSlow,
			rundir.EventKill, rundir.EventRestart, rundir.EventPartition, rundir.EventHeal})
	}
}

// validName reports whether a name is empty or can be the name of a folder and of a host.
func validName(name string) bool {
	return len(name) <= 40 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && !strings.HasPrefix(name, "-")
}

// nodeNames returns the names of all nodes, "" for those that will be drawn.
func (s *Scenario) nodeNames() []string {
	var names []string
	for _, g := range s.Nodes {
		names = append(names, groupNames(g.Name, g.Count)...)
	}
	return names
}

// siteNames returns the names of all web servers, "" for those that will be drawn.
func (s *Scenario) siteNames() []string {
	var names []string
	for _, g := range s.Sites {
		names = append(names, groupNames(g.Name, g.Count)...)
	}
	return names
}

func groupNames(name string, count int) []string {
	names := make([]string, count)
	for i := range names {
		switch {
		case name != "" && count > 1:
			names[i] = fmt.Sprintf("%s-%d", name, i+1)
		case name != "":
			names[i] = name
		}
	}
	return names
}
