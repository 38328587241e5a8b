// Command frontier measures the frontier alone: how many URLs per second it accepts and gives out, and its peak memory.
// It prints every figure with the number of URLs in the frontier at that time.
//
//	go run ./scripts/bench/frontier -urls 1000000
//	go run ./scripts/bench/frontier -recrawl -urls 1000000 -hosts 10000
//
// It adds the links of pages: 50 on each, 70 % of them to the page's own host, the others to hosts of a Zipf distribution. All
// are new. With -repeat it adds each page several times more, so that those links are duplicates.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/scripts/lab"
)

func main() {
	urls := flag.Int("urls", 1_000_000, "URLs to add")
	hosts := flag.Int("hosts", 100_000, "hosts they belong to")
	take := flag.Int("take", 500_000, "URLs to take")
	workers := flag.Int("workers", 64, "fetchers that take; a quarter of them add")
	repeat := flag.Int("repeat", 0, "times each page is offered again")
	limit := flag.Int("memory-mib", 304, "soft limit of the Go heap, MiB")
	dir := flag.String("dir", "", "where to keep the store (default: a temporary folder)")
	recrawl := flag.Bool("recrawl", false, "measure that many pages that are visited again instead, a fifth of them due")
	flag.Parse()
	debug.SetMemoryLimit(int64(*limit) << 20)
	if err := run(*urls, *hosts, *take, *workers, *repeat, *dir, *recrawl); err != nil {
		log.Fatal(err)
	}
}

func run(urls, hosts, take, workers, repeat int, dir string, recrawl bool) error {
	if dir == "" {
		tmp, err := os.MkdirTemp("", "frontier")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		dir = tmp
	}
	cfg, polite := frontier.Default(), frontier.DefaultPoliteness()
	cfg.MaxHostURLs = 0
	polite.Own, polite.OwnGap = []string{"10.0.0.0/8"}, 0
	if recrawl {
		fmt.Println("| phase | pages before | pages | seconds | pages/s | peak RSS MiB | of it anonymous now MiB |")
		fmt.Println("|---|---|---|---|---|---|---|")
		return runRecrawl(urls, hosts, take, workers, dir, cfg, polite)
	}
	fmt.Println("| phase | URLs before | URLs | seconds | URLs/s | peak RSS MiB | of it anonymous now MiB |")
	fmt.Println("|---|---|---|---|---|---|---|")
	return during(dir, cfg, polite, func(ctx context.Context, f *frontier.Frontier, _ time.Duration) error {
		if err := add(ctx, f, urls, hosts, max(1, workers/4), repeat); err != nil {
			return err
		}
		return takeAll(ctx, f, take, workers)
	}, func(_ context.Context, f *frontier.Frontier, took time.Duration) error {
		pending := int(f.Status().Pending)
		row("resume", pending, pending, took)
		return nil
	})
}

// phase is what is done with a frontier that took a time to open.
type phase func(ctx context.Context, f *frontier.Frontier, took time.Duration) error

// during opens the frontier anew for each phase and runs it meanwhile.
func during(dir string, cfg frontier.Config, polite frontier.Politeness, phases ...phase) error {
	for _, do := range phases {
		start := time.Now()
		f, err := frontier.Open(dir, cfg, polite, frontier.Deps{})
		if err != nil {
			return err
		}
		took := time.Since(start)
		ctx := context.Background()
		end := lab.Beside(ctx, f.Run)
		if err := errors.Join(do(ctx, f, took), end()); err != nil {
			return err
		}
	}
	return nil
}

func row(phase string, before, n int, d time.Duration) {
	s := lab.StatusOf(os.Getpid())
	fmt.Printf("| %s | %d | %d | %.1f | %.0f | %d | %d |\n", phase, before, n, d.Seconds(), float64(n)/d.Seconds(), s.VmHWM>>20, s.RssAnon>>20)
}

func add(ctx context.Context, f *frontier.Frontier, urls, hosts, workers, repeat int) error {
	var g errgroup.Group
	var left atomic.Int64
	left.Store(int64(urls))
	start := time.Now()
	for w := range workers {
		g.Go(func() error {
			rnd := rand.New(rand.NewPCG(1, uint64(w)))
			zipf := rand.NewZipf(rnd, 1.1, 10, uint64(hosts-1))
			links := make([]frontier.Link, 50)
			for left.Add(-50) >= 0 {
				own := rnd.IntN(hosts)
				for i := range links {
					host := own
					if i%10 >= 7 {
						host = int(zipf.Uint64())
					}
					links[i] = frontier.Link{Depth: 1, URL: identity.URL{
						Host: "https://www.site-" + strconv.Itoa(host) + ".example.org",
						Path: "/docs/section-" + strconv.Itoa(rnd.IntN(50)) + "/article-" + strconv.FormatUint(rnd.Uint64()>>16, 16) + ".html"}}
				}
				for range 1 + repeat {
					if _, err := f.Add(ctx, links); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	err := g.Wait()
	row("add", 0, urls*(1+repeat), time.Since(start))
	return err
}

// takeAll takes n URLs and ends them immediately. So it measures the frontier and its disk, but no network.
func takeAll(parent context.Context, f *frontier.Frontier, n, workers int) error {
	before := int(f.Status().Pending)
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			for {
				u, err := f.Resolve(ctx)
				if err != nil {
					return nil
				}
				// Each host has its own address, so that only the frontier limits the speed.
				h := identity.URL{Host: u.Host, Path: "/"}.Hash()
				f.Place(u, []netip.Addr{netip.AddrFrom4([4]byte{10, byte(h), byte(h >> 8), byte(h >> 16)})}, time.Hour, 0)
			}
		})
	}
	var taken atomic.Int64
	start := time.Now()
	for range workers {
		g.Go(func() error {
			for {
				t, err := f.Take(ctx)
				if err != nil {
					return nil
				}
				out := frontier.Outcome{Ending: frontier.Done, Asked: true, Elapsed: time.Millisecond}
				if t.Page != nil {
					out.Visit = &frontier.Visit{Found: frontier.Unchanged}
				}
				if t.Kind == frontier.Robots {
					out.Robots = &frontier.RobotsOutcome{Lifetime: time.Hour}
				}
				if _, err := f.Finish(parent, t, out); err != nil {
					return err
				}
				if t.Kind == frontier.Page && taken.Add(1) == int64(n) {
					cancel()
				}
			}
		})
	}
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-f.Quiet():
				if f.Idle(0) {
					cancel()
				}
			}
		}
	})
	err := g.Wait()
	row("take", before, int(taken.Load()), time.Since(start))
	return err
}

// runRecrawl measures pages that are visited again. It adds pages of many hosts to a frontier, a fifth of them due, opens the frontier
// anew, and then takes due pages and ends them.
func runRecrawl(pages, hosts, take, workers int, dir string, cfg frontier.Config, polite frontier.Politeness) error {
	cfg.Recrawl.Enabled, cfg.Recrawl.Budget, cfg.Recrawl.Share = true, 0, 1
	return during(dir, cfg, polite, func(ctx context.Context, f *frontier.Frontier, _ time.Duration) error {
		if f.Status().Pages > 0 { // the folder was filled before
			return nil
		}
		return fill(ctx, f, pages, hosts)
	}, func(ctx context.Context, f *frontier.Frontier, took time.Duration) error {
		s := f.Status()
		row("start", pages, int(s.Pages), took)
		return takeAll(ctx, f, min(take, int(s.Due)), workers)
	})
}

// fill adds hosts to the frontier as if another node handed them over.
func fill(ctx context.Context, f *frontier.Frontier, pages, hosts int) error {
	var g errgroup.Group
	var left atomic.Int64
	left.Store(int64(hosts))
	each := max(1, pages/hosts)
	start, now := time.Now(), time.Now()
	for w := range 8 {
		g.Go(func() error {
			rnd := rand.New(rand.NewPCG(2, uint64(w)))
			for {
				i := left.Add(-1)
				if i < 0 {
					return nil
				}
				host := "https://www.site-" + strconv.Itoa(int(i)) + ".example.org"
				c := frontier.Chunk{Pages: make([]frontier.PageRecord, each)}
				for k := range c.Pages {
					due := time.Duration(rnd.IntN(10*24)-2*24) * time.Hour
					c.Pages[k] = frontier.PageRecord{Seen: now.Add(-100 * time.Hour), Due: now.Add(due), Digest: rnd.Uint64() | 1, Simhash: rnd.Uint64(),
						ETag: `"` + strconv.FormatUint(rnd.Uint64(), 16) + `"`,
						Path: "/docs/section-" + strconv.Itoa(rnd.IntN(50)) + "/article-" + strconv.FormatUint(rnd.Uint64()>>16, 16) + ".html"}
				}
				if _, err := f.Import(ctx, host, c, frontier.Discovered); err != nil {
					return err
				}
				if err := f.SetRole(ctx, host, frontier.Owned); err != nil {
					return err
				}
			}
		})
	}
	err := g.Wait()
	row("fill", 0, each*hosts, time.Since(start))
	return err
}
