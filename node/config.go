package node

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"proxima/assign"
	"proxima/fetch"
	"proxima/fetch/blocklist"
	"proxima/fetch/page"
	"proxima/fetch/resolve"
	"proxima/fetch/sitemap"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/console"
	"proxima/node/crawl"
	"proxima/node/lease"
	"proxima/node/member"
	"proxima/node/ownership"
	"proxima/node/peer"
	"proxima/node/placement"
	"proxima/node/runlog"
	"proxima/node/sink"
	"proxima/node/site"
	"proxima/node/strict"
	"proxima/node/termination"
	"proxima/node/webmaster"
)

// Config is everything about a node that its operator may choose. Each package has a section. The default file explains each key by the
// comment of its field.
type Config struct {
	Node        Identity            `toml:"node"`
	Crawl       crawl.Config        `toml:"crawl"`
	Scope       identity.Config     `toml:"scope"`
	Politeness  frontier.Politeness `toml:"politeness"`
	Fetch       Fetch               `toml:"fetch"`
	Page        page.Config         `toml:"-"`
	Sitemap     sitemap.Config      `toml:"-"`
	Blocklist   blocklist.Config    `toml:"blocklist"`
	Frontier    frontier.Config     `toml:"frontier"`
	Peer        peer.Config         `toml:"peer"`
	Member      member.Config       `toml:"member"`
	Geo         Geo                 `toml:"geo"`
	Ownership   ownership.Config    `toml:"-"`
	Lease       lease.Config        `toml:"-"`
	Batch       placement.Config    `toml:"batch"`
	Assign      assign.Knobs        `toml:"assign"`
	RemoteWait  time.Duration       `toml:"-"`
	Termination termination.Config  `toml:"termination"`
	Output      runlog.Config       `toml:"output"`
	Sink        sink.Config         `toml:"sink"`
	Recrawl     frontier.Recrawl    `toml:"recrawl"`
	Metrics     Metrics             `toml:"metrics"`
	Console     console.Config      `toml:"console"`
	WebMaster   webmaster.Config    `toml:"webmaster"`
	// Site are settings of single sites. Each entry applies to the hosts, domains or URL prefixes that it names, and
	// overrides, key by key, the settings of the crawl and those of earlier entries. `proxima config -for URL` prints what
	// applies to a URL.
	Site []site.Entry `toml:"site"`
}

// Identity is the node itself.
type Identity struct {
	// Data is the directory of everything that survives a restart: the node's id, the frontier, the logs.
	Data string `toml:"data"`
	// Run names the crawl. The name is in every log line, so that logs of several runs can be told apart.
	Run string `toml:"run"`
	// MemoryMiB is the soft limit of the Go heap, in MiB: close to it the garbage collector works harder. Every part of the
	// node has its own bound; below 256 little room is left beside them.
	MemoryMiB int `toml:"memory_mib"`
}

// Fetch is the section of downloads. It includes the section of DNS.
type Fetch struct {
	fetch.Config
	DNS resolve.Config `toml:"dns"`
}

// Default returns the default configuration.
func Default() Config {
	c := Config{
		Node:        Identity{Data: "proxima-data", Run: "crawl", MemoryMiB: 512},
		Crawl:       crawl.Default(),
		Scope:       identity.Default(),
		Politeness:  frontier.DefaultPoliteness(),
		Fetch:       Fetch{Config: fetch.Default(), DNS: resolve.Default()},
		Page:        page.Default(),
		Sitemap:     sitemap.Default(),
		Blocklist:   blocklist.Default(),
		Frontier:    frontier.Default(),
		Peer:        peer.Default(),
		Member:      member.Default(),
		Ownership:   ownership.Default(),
		Lease:       lease.Default(),
		Batch:       placement.Default(),
		Assign:      assign.DefaultKnobs(),
		RemoteWait:  placement.RemoteWait,
		Termination: termination.Default(),
		Output:      runlog.Default(),
		Sink:        sink.Default(),
		Recrawl:     frontier.DefaultRecrawl(),
	}
	c.Batch.Mode = placement.ModeCycle // one batch after the other, so that hosts go to their nearest nodes
	return c
}

// Validate reports invalid values, at least the first of each section: "section.key: what is wrong".
func (c Config) Validate() []error {
	errs := validated("", reflect.ValueOf(c))
	if c.Fetch.SignatureAgent != "" && c.Peer.Secret == "" {
		errs = append(errs, fmt.Errorf("fetch.signature_agent: %q: the key is made from peer.secret, which is missing: proxima keygen FILE makes one", c.Fetch.SignatureAgent))
	}
	if c.Peer.Secret == "" {
		const missing = "need a common secret, and peer.secret names none: proxima keygen FILE makes one"
		if len(c.Member.Join) > 0 {
			errs = append(errs, fmt.Errorf("member.join: peers %s", missing))
		}
		if n := c.Termination.ExpectedNodes; n > 1 {
			errs = append(errs, fmt.Errorf("termination.expected_nodes: %d nodes %s", n, missing))
		}
	}
	for _, err := range each(site.Check(c.Site)) {
		errs = append(errs, fmt.Errorf("site%w", err))
	}
	return append(errs, c.clashes()...)
}

// clashes returns an error for each address at which the node could not listen, because an earlier one takes the same port.
func (c Config) clashes() (errs []error) {
	keys := []string{"console.listen", "metrics.listen", "webmaster.listen"}
	addresses := []string{c.Console.Address(), c.Metrics.Listen, c.WebMaster.Listen}
	if c.Peer.Secret != "" {
		keys, addresses = append([]string{"peer.listen", "member.bind"}, keys...), append([]string{c.Peer.Listen, c.Member.Bind}, addresses...)
	}
	for i, address := range addresses {
		if first := slices.IndexFunc(addresses[:i], func(a string) bool { return strict.SamePort(a, address) }); first >= 0 {
			errs = append(errs, fmt.Errorf("%s: %q is the port of %s, too", keys[i], address, keys[first]))
		}
	}
	return errs
}

// validated returns the errors of all sections in a struct.
func validated(in string, of reflect.Value) (errs []error) {
	for f, section := range of.Fields() {
		key := f.Tag.Get("toml")
		if f.Type.Kind() != reflect.Struct || key == "" || key == "-" {
			continue
		}
		if s, ok := section.Interface().(interface{ Validate() error }); ok {
			for _, err := range each(s.Validate()) {
				errs = append(errs, fmt.Errorf("%s%s.%w", in, key, err))
			}
		}
		errs = append(errs, validated(in+key+".", section)...)
	}
	return errs
}

// each returns the errors that were joined into one.
func each(err error) []error {
	switch e := err.(type) {
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		if !strings.Contains(err.Error(), "\n") {
			break // it was not joined: it is one error with two causes
		}
		var all []error
		for _, err := range e.Unwrap() {
			all = append(all, each(err)...)
		}
		return all
	}
	return []error{err}
}

// Validate reports the first invalid value.
func (i Identity) Validate() error {
	switch {
	case i.Data == "":
		return fmt.Errorf("data: a node needs a directory")
	case i.Run == "" || len(i.Run) > 100:
		return fmt.Errorf("run: %q is not 1 to 100 bytes", i.Run)
	case i.MemoryMiB < 64 || i.MemoryMiB > 1<<20:
		return fmt.Errorf("memory_mib: %d is not between 64 and %d", i.MemoryMiB, 1<<20)
	}
	return nil
}

// Hasten divides the default times of the overlay by a number, which is member.faster in a file. They keep their proportions. Each has a
// least value, because some times do not change: members are still probed once a second.
func (c *Config) Hasten(by float64) {
	shorter := func(least time.Duration, times ...*time.Duration) {
		for _, t := range times {
			*t = max(min(least, *t), time.Duration(float64(*t)/by).Round(time.Millisecond))
		}
	}
	m, o, l := &c.Member, &c.Ownership, &c.Lease
	m.Faster = by
	shorter(time.Second, &m.SettleAfter, &m.ForgetAfter, &m.MajorityWindow, &m.Redial, &m.RedialMax)
	shorter(2*time.Second, &m.AnnounceEvery)
	shorter(100*time.Millisecond, &o.RenewEvery, &o.SuspendAfter, &o.TakeAfter, &o.Collect)
	shorter(50*time.Millisecond, &o.ReplicateEvery)
	shorter(3*time.Second, &m.HearWithin)
	shorter(m.HearWithin+time.Second, &l.Skew)
	shorter(l.Skew+time.Second, &l.Time)
	shorter(500*time.Millisecond, &o.SilentAfter)
	shorter(time.Second, &l.Founding)
	shorter(20*time.Second, &c.RemoteWait)                              // web servers are not faster
	shorter(50*time.Millisecond, &c.Peer.OutboxWait, &c.Peer.CopyAfter) // a replica counts a page as done once its links are acknowledged
	shorter(time.Second, &c.Peer.OutboxBackoff, &c.Termination.RoundEvery)
}
