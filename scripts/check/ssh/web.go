//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"proxima/scripts/lab"
)

// The site. Hosts of the ring link to each other; late hosts are reached by seeds only.
const (
	subnet    = "198.18.1"
	firstHost = 11
	ringHosts = 24
	lateHosts = 6
	pages     = 600
)

// web is the running site. It listens in the network of the calling thread.
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

// seeds returns the front pages of a part of the site.
func seeds(of *lab.Site) (text string) {
	for h := range of.Hosts {
		text += of.URL(h, 0) + "\n"
	}
	return text
}

func (w *web) asked() map[string]int {
	n := map[string]int{}
	for _, r := range slices.Concat(w.ring.Requests(), w.late.Requests()) {
		if r.Path != "/robots.txt" {
			n[r.Page()]++
		}
	}
	return n
}

// config returns the common configuration, with short times for the overlay. It sets keys that fleet deploy must override, in forms that
// are hard to merge.
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
