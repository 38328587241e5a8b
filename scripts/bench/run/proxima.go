package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// proximaConfig is the node's configuration for this benchmark: a single node without a cluster, robots on, no politeness gap
// towards the benchmark's own servers, as many requests in parallel as the others make.
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

// proximaCommand writes config and seeds; the node ends by itself, with exit code 0, when the finite crawl is idle.
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

// proximaVersion names the commit that the binary was built from.
func proximaVersion(ctx context.Context, f Files) (string, error) {
	if _, err := os.Stat(f.bin("proxima")); err != nil {
		return "", fmt.Errorf("find the built program: %w", err)
	}
	commit, err := output(ctx, "git", "-C", f.Bench, "rev-parse", "--short", "HEAD")
	if err != nil {
		return "unknown", nil // built from an export of the tree: still worth measuring
	}
	return strings.TrimSpace(commit), nil
}
