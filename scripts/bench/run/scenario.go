package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"proxima/scripts/bench/origin/client"
)

// Scenario is what every crawler of one comparison meets. Equal scenarios give equal sites.
type Scenario struct {
	Addresses   int    `json:"addresses"`   // sites, each at its own loopback address
	Pages       int    `json:"pages"`       // pages a site
	Concurrency int    `json:"concurrency"` // requests in parallel, over all sites
	Port        int    `json:"port"`        // port of every site; the counts are at the port below
	Seed        uint64 `json:"seed"`        // seed of the generated sites
	ServerCPUs  string `json:"server_cpus"` // cores of the server, as taskset names them; any if empty
	CrawlerCPUs string `json:"crawler_cpus"`
}

// Validate reports the first field that cannot be run.
func (s Scenario) Validate() error {
	switch {
	case s.Addresses < 1 || s.Addresses > 250:
		return fmt.Errorf("addresses: %d is not within 1 to 250", s.Addresses)
	case s.Pages < 1 || s.Pages > 100_000:
		return fmt.Errorf("pages: %d is not within 1 to 100000", s.Pages)
	case s.Concurrency < 1 || s.Concurrency > 1024:
		return fmt.Errorf("concurrency: %d is not within 1 to 1024", s.Concurrency)
	case s.Port < 2 || s.Port > 65535:
		return fmt.Errorf("port: %d is no port with one below it", s.Port)
	}
	return nil
}

// hosts are the addresses of the sites, without port.
func (s Scenario) hosts() []string {
	var out []string
	for i := range s.Addresses {
		out = append(out, fmt.Sprintf("127.0.1.%d", i+1))
	}
	return out
}

// seeds are the front pages of all sites.
func (s Scenario) seeds() []string {
	var out []string
	for _, h := range s.hosts() {
		out = append(out, fmt.Sprintf("http://%s:%d/", h, s.Port))
	}
	return out
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

// startOrigin starts the server on its cores and waits until it has generated its sites.
func startOrigin(ctx context.Context, s Scenario, f Files) (*client.Origin, error) {
	control := fmt.Sprintf("127.0.0.1:%d", s.Port-1)
	argv := []string{
		f.bin("bench-origin"), "-addresses", strconv.Itoa(s.Addresses), "-pages", strconv.Itoa(s.Pages),
		"-port", strconv.Itoa(s.Port), "-seed", strconv.FormatUint(s.Seed, 10), "-control", control,
	}
	if s.ServerCPUs != "" {
		argv = append([]string{"taskset", "-c", s.ServerCPUs}, argv...)
	}
	return client.Start(ctx, control, argv...)
}
