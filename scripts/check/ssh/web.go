//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"proxima/scripts/lab"
)

// Numbers of hosts that name one another, of late ones, and pages of all.
const (
	subnet    = "198.18.1"
	ringHosts = 24
	lateHosts = 6
	pages     = 600
)

// web is the site: hosts of which each leads to all, and late ones that are named nowhere: only seeds lead there.
type web struct {
	prefix     string
	ring, late *lab.Site
}

func newWeb(loopback bool) (*web, error) {
	w := &web{prefix: subnet}
	if loopback {
		w.prefix = "127.0.4"
	}
	ring := lab.NewLayout(w.prefix+".", pages, ringHosts+lateHosts, ringHosts+lateHosts)
	late := lab.Layout{Hosts: ring.Hosts[ringHosts:]}
	ring.Hosts = ring.Hosts[:ringHosts]
	var err error
	if w.ring, err = lab.Serve(ring, 0); err != nil {
		return nil, err
	}
	late.Port = w.ring.Port
	if w.late, err = lab.Serve(late, 0); err != nil {
		return nil, errors.Join(err, w.ring.Close())
	}
	return w, nil
}

func (w *web) close() error { return errors.Join(w.ring.Close(), w.late.Close()) }

// seeds are the front pages of a part of the site.
func seeds(of *lab.Site) (text string) {
	for h := range of.Hosts {
		text += of.URL(h, 0) + "\n"
	}
	return text
}

// asked is how often each page was asked for.
func (w *web) asked() map[string]int {
	n := map[string]int{}
	for _, r := range slices.Concat(w.ring.Requests(), w.late.Requests()) {
		if r.Path != "/robots.txt" {
			n[r.Page()]++
		}
	}
	return n
}

// config is the common configuration: for this site, with the times of the overlay shortened. It has keys that each node
// gets its own of, in forms that a merge must get right.
func (w *web) config() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# The nodes of the check.
[node]
data = "elsewhere" # each node's own wins
memory_mib = 256

[crawl]
seeds = [
  "not-there.txt", # ]
  "nor-there.txt",
]
end = "never"
fetchers = 8

[politeness]
own = ["%[1]s.0/24"]
own_gap = "0s"

[fetch]
allow_prefixes = ["%[1]s.0/24"]

[frontier]
min_free_mib = 64

[peer]
listen = "127.0.0.1:1"

[member]
preset = "lan"
faster = 7.5
"settle_after" = "2s"

[batch]
mode = "crawl"

[output]
log_file_bytes = 65536

[fetch.dns.hosts]
`, w.prefix)
	for _, h := range slices.Concat(w.ring.Hosts, w.late.Hosts) {
		fmt.Fprintf(&b, "%q = [%q]\n", h.Name, h.Addr)
	}
	return b.String()
}
