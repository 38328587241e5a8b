package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/frontier"
)

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
