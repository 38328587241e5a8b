package main

import (
	"context"
	"fmt"
	"strconv"

	"proxima/scripts/bench/origin/client"
)

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
