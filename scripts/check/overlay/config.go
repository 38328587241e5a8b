package main

import (
	"time"

	"proxima/node"
	"proxima/node/member"
	"proxima/node/placement"
	"proxima/scripts/lab"
)

const subnet = "127.0.3."

// configure makes the configuration of one life of one node. The version in the User-Agent identifies node and life. All times of the
// overlay are the defaults divided by s.faster.
func configure(s settings, l *lab.Layout, n *lab.Node) node.Config {
	c := node.Default()
	c.Crawl.Fetchers = s.fetch
	c.Scope.SeedScope = "any"
	prefix := subnet + "0/24"
	if s.inside {
		prefix = natSubnet + "0/24"
	}
	c.Fetch.UserAgent = n.Agent()
	c.Fetch.AllowPrefixes = []string{prefix}
	c.Fetch.DNS.Hosts = map[string][]string{}
	for _, h := range l.Hosts {
		c.Fetch.DNS.Hosts[h.Name] = []string{h.Addr}
	}
	// No gap between requests, but one at a time.
	c.Politeness.Own, c.Politeness.OwnGap, c.Politeness.OwnParallel = []string{prefix}, 0, 1

	shorter := func(least time.Duration, times ...*time.Duration) {
		for _, t := range times {
			*t = max(least, time.Duration(float64(*t)/s.faster).Round(time.Millisecond))
		}
	}
	c.Hasten(s.faster)
	c.Member.Preset = member.PresetLAN
	b := &c.Batch
	b.Mode, b.URLs, b.Hosts = placement.ModeCycle, 20, 5
	shorter(time.Second, &c.Crawl.Patience)
	shorter(100*time.Millisecond, &b.Check, &b.LongestWait)
	return c
}
