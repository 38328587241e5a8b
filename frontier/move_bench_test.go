package frontier

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"proxima/frontier/identity"
)

// BenchmarkMove moves URLs from one node to another as a hand-off does, without the network between: freeze, chunks of
// 1,000, digests, commit, and the old node forgets. An iteration is a URL:
//
//	go test -run - -bench Move -benchtime 1000000x ./frontier
func BenchmarkMove(b *testing.B) {
	for _, perHost := range []int{500, 20_000, 1_000_000} {
		b.Run(fmt.Sprintf("%d_a_host", perHost), func(b *testing.B) {
			cfg, polite := Default(), DefaultPoliteness()
			cfg.MinFreeMiB, cfg.MaxHostURLs = 0, 0
			src := begin(b, b.TempDir(), cfg, polite, Deps{})
			dst := begin(b, b.TempDir(), cfg, polite, Deps{})
			ctx := context.Background()
			var hosts []string
			links := make([]Link, 0, 1000)
			for n := 0; n < b.N; {
				host := fmt.Sprintf("www.site-%d.example.org", len(hosts))
				hosts = append(hosts, host)
				for i := 0; i < perHost && n < b.N; i++ {
					links = append(links, Link{URL: identity.URL{Host: host,
						Path: fmt.Sprintf("/docs/section-%d/article-%x.html", i%50, i*7919)}})
					if n++; len(links) == cap(links) || n == b.N || i == perHost-1 {
						if _, err := src.Add(ctx, links); err != nil {
							b.Fatal(err)
						}
						links = links[:0]
					}
				}
			}
			runtime.GC()
			before := anonymousMiB()
			b.ResetTimer()
			moved := 0
			for _, host := range hosts {
				if err := src.SetRole(ctx, host, Leaving); err != nil {
					b.Fatal(err)
				}
				if err := dst.SetRole(ctx, host, Replica); err != nil {
					b.Fatal(err)
				}
				for at, end := (Cursor{}), false; !end; {
					var c Chunk
					var err error
					if c, at, end, err = src.Export(ctx, host, at, 1000, 1<<20); err != nil {
						b.Fatal(err)
					}
					n, err := dst.Import(ctx, host, c, Assigned)
					if err != nil {
						b.Fatal(err)
					}
					moved += n
				}
				if src.digest(host) != dst.digest(host) {
					b.Fatal("the digests differ")
				}
				if err := dst.SetRole(ctx, host, Owned); err != nil {
					b.Fatal(err)
				}
				if err := src.Remove(ctx, host); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if s := dst.Status(); moved != b.N || s.Pending != int64(b.N) {
				b.Errorf("%d moved, %d pending of %d", moved, s.Pending, b.N)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "URLs/s")
			b.ReportMetric(anonymousMiB()-before, "MiB_more")
		})
	}
}

// anonymousMiB is the resident memory that is not backed by files; 0 where /proc is missing.
func anonymousMiB() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "RssAnon: %f kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	return 0
}
