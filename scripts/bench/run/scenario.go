package main

import (
	"fmt"
	"path/filepath"

	"proxima/scripts/bench/origin/client"
)

// Scenario is what every crawler of one comparison meets. Equal scenarios give equal sites.
type Scenario struct {
	client.Config
	Concurrency int    `json:"concurrency"` // requests in parallel, over all sites
	ServerCPUs  string `json:"server_cpus"` // cores of the server, as taskset names them; any if empty
	CrawlerCPUs string `json:"crawler_cpus"`
}

// Validate reports the first field that cannot be run.
func (s Scenario) Validate() error {
	if s.Addresses > 250 { // of one network, which Proxima takes for its own
		return fmt.Errorf("addresses: %d is not within 1 to 250", s.Addresses)
	}
	if s.Concurrency < 1 || s.Concurrency > 1024 {
		return fmt.Errorf("concurrency: %d is not within 1 to 1024", s.Concurrency)
	}
	return s.Config.Validate()
}

// Files are the paths that the runners of crawlers may use.
type Files struct {
	Bench string // the folder scripts/bench
	Seeds string // front pages, one URL a line
	URLs  string // all pages, one URL a line; for the ceiling alone
	Temp  string // an empty folder of this run, below TMPDIR; removed afterwards
	// Profile is where Proxima's processor time goes, "" for nowhere.
	Profile string
}

func (f Files) bin(name string) string { return filepath.Join(f.Bench, ".build", "bin", name) }
