package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// proximaConfig is the node's configuration: a single node without peers, with robots.txt, without gaps between requests, and with as many
// parallel requests as the other crawlers.
const proximaConfig = `# Written by the benchmark for one run.
[fetch]
allow_prefixes = ["127.0.0.0/8"] # the sites are on loopback, which pages may not reach otherwise

[crawl]
fetchers = %d

[politeness]
min_gap = "0s"
factor = 0
own = ["127.0.1.0/24"] # one's own servers: no gap, requests in parallel
own_parallel = %d
`

// proximaCommand writes the configuration. The node ends with exit code 0 when nothing is left to crawl.
func proximaCommand(s Scenario, f Files) ([]string, error) {
	config := filepath.Join(f.Temp, "bench.toml")
	perServer := 1
	if s.Addresses == 1 {
		perServer = s.Concurrency
	}
	if err := os.WriteFile(config, fmt.Appendf(nil, proximaConfig, s.Concurrency, perServer), 0o644); err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	command := []string{f.bin("proxima"), "node", "-config", config, "-data", filepath.Join(f.Temp, "data"), "-seeds", f.Seeds}
	if f.Profile != "" {
		command = append(command, "-cpuprofile", f.Profile)
	}
	return command, nil
}

// proximaVersion returns the commit that the program was built from.
func proximaVersion(ctx context.Context, f Files) (string, error) {
	if _, err := os.Stat(f.bin("proxima")); err != nil {
		return "", fmt.Errorf("find the built program: %w", err)
	}
	commit, err := output(ctx, "git", "-C", f.Bench, "rev-parse", "--short", "HEAD")
	if err != nil {
		return "unknown", nil // it was built without version control
	}
	return strings.TrimSpace(commit), nil
}
