package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"proxima/ncoord/quantile"
	"proxima/node/bell"
	"proxima/scripts/bench/origin/client"
	"proxima/scripts/lab"
)

type crawl struct {
	kind         string
	nodes, ended int
	wall, cpu    time.Duration
	stats        client.Stats
}

func (c crawl) perPage() float64 { return c.cpu.Seconds() * 1e6 / float64(max(1, c.stats.Distinct)) }

// crawlAll lets some nodes crawl all pages, as one overlay or apart.
func (b *bench) crawlAll(ctx context.Context, nodes int, apart bool) (crawl, error) {
	c, err := b.crew(ctx, nodes, apart)
	if err != nil {
		return crawl{}, err
	}
	began := time.Now()
	if err := c.startAll(ctx); err != nil {
		return crawl{}, err
	}
	kind := fmt.Sprint(nodes)
	if apart {
		kind += " apart"
	}
	r := crawl{kind: kind, nodes: nodes, ended: c.wait(ctx), wall: time.Since(began), cpu: c.cpu()}
	if r.stats, err = b.web.Stats(ctx); err != nil {
		return r, err
	}
	var most int64
	for _, a := range r.stats.Agents {
		most = max(most, a.Pages)
	}
	fmt.Fprintf(os.Stderr, "nodes %s: %.1f CPU s, %.0f µs a page, %.1f s, first to last page %.1f s, %d of %d pages, %d repeats, %d pages at the busiest node, %d ended\n",
		kind, r.cpu.Seconds(), r.perPage(), r.wall.Seconds(), r.stats.Seconds, r.stats.Distinct, r.stats.Total, r.stats.Repeats, most, r.ended)
	return r, c.remove()
}

// cost compares the CPU per page of the overlay with that of one node, and with that of as many nodes apart: so many processes on few
// cores are dearer than one, whatever they do.
func cost(ctx context.Context, b *bench) error {
	var alone, apart, together, ratios, apartRatios, late []float64
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "nodes\tCPU s\tCPU µs a page\twall s\tpages\trepeats\tratio\n")
	whole := true
	for range b.s.runs {
		one, err := b.crawlAll(ctx, 1, false)
		if err != nil {
			return err
		}
		many, err := b.crawlAll(ctx, b.s.nodes, true)
		if err != nil {
			return err
		}
		all, err := b.crawlAll(ctx, b.s.nodes, false)
		if err != nil {
			return err
		}
		for _, r := range []crawl{one, many, all} {
			whole = whole && r.ended == r.nodes && r.stats.Distinct == int64(r.stats.Total)
			fmt.Fprintf(table, "%s\t%.1f\t%.0f\t%.1f\t%d\t%d\t%.2f\n", r.kind, r.cpu.Seconds(), r.perPage(), r.wall.Seconds(), r.stats.Distinct,
				r.stats.Repeats, r.perPage()/one.perPage())
		}
		alone, apart, together = append(alone, one.perPage()), append(apart, many.perPage()), append(together, all.perPage())
		ratios, apartRatios = append(ratios, all.perPage()/one.perPage()), append(apartRatios, all.perPage()/many.perPage())
		late = append(late, (all.wall - one.wall).Seconds())
	}
	table.Flush()
	fmt.Printf("median CPU a page: alone %.0f µs, %d nodes apart %.0f µs, as an overlay %.0f µs: %s of alone, %s of apart; wall time beyond one node's %.1f s\n",
		quantile.Median(alone), b.s.nodes, quantile.Median(apart), quantile.Median(together), lab.Spread(ratios, "%.2f"), lab.Spread(apartRatios, "%.2f"), quantile.Median(late))
	if !whole {
		return errors.New("a crawl was incomplete")
	}
	return nil
}

// end counts the nodes that end without being stopped.
func end(ctx context.Context, b *bench) error {
	bad := 0
	for range b.s.runs {
		r, err := b.crawlAll(ctx, b.s.nodes, false)
		if err != nil {
			return err
		}
		fmt.Printf("%d of %d nodes ended, after %.0f s; %d of %d pages, %d repeats\n", r.ended, r.nodes, r.wall.Seconds(), r.stats.Distinct, r.stats.Total, r.stats.Repeats)
		if r.ended < r.nodes || r.stats.Distinct < int64(r.stats.Total) {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d crawls were incomplete", bad, b.s.runs)
	}
	return nil
}

// await waits until each of these nodes has downloaded a page. It returns the times since their starts in seconds, or the limit for nodes
// without a page.
func (b *bench) await(ctx context.Context, list ...*lab.Node) ([]float64, error) {
	deadline := time.Now().Add(b.s.limit)
	for {
		stats, err := b.web.Stats(ctx)
		if err != nil {
			return nil, err
		}
		var took []float64
		for _, p := range list {
			if a, ok := stats.Agents[p.Agent()]; ok {
				took = append(took, a.First.Sub(p.Now.Started).Seconds())
			} else if time.Now().After(deadline) {
				fmt.Fprintf(os.Stderr, "node %d has no page\n", p.Index)
				took = append(took, b.s.limit.Seconds())
			}
		}
		if len(took) == len(list) {
			return took, nil
		}
		if err := bell.Sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// start measures the first pages of nodes that are started together.
func start(ctx context.Context, b *bench) error {
	var firsts, lasts []float64
	for i := range b.s.starts {
		took, err := b.once(ctx, func(c *crew) ([]float64, error) { return b.await(ctx, c.Nodes...) })
		if err != nil {
			return err
		}
		slices.Sort(took)
		fmt.Fprintf(os.Stderr, "start %d: %.1f s\n", i+1, took)
		firsts, lasts = append(firsts, took[0]), append(lasts, took[len(took)-1])
	}
	fmt.Printf("%d nodes, %d starts: first page on one node after %s s, on every node after %s s\n", b.s.nodes, b.s.starts, lab.Spread(firsts, "%.1f"), lab.Spread(lasts, "%.1f"))
	return nil
}

// restart measures the first page of a node that is killed and started again, while the others crawl.
func restart(ctx context.Context, b *bench) error {
	var all []float64
	for i := range b.s.starts {
		took, err := b.once(ctx, func(c *crew) ([]float64, error) {
			if _, err := b.await(ctx, c.Nodes...); err != nil {
				return nil, err
			}
			p := c.Nodes[i%len(c.Nodes)]
			p.Now.Kill()
			p.Life++
			if err := c.start(ctx, p); err != nil {
				return nil, err
			}
			return b.await(ctx, p)
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "restart %d: %.1f s\n", i+1, took[0])
		all = append(all, took[0])
	}
	fmt.Printf("%d nodes, %d restarts: first page after %s s\n", b.s.nodes, b.s.starts, lab.Spread(all, "%.1f"))
	return nil
}

// once starts all nodes, measures and kills them.
func (b *bench) once(ctx context.Context, measure func(*crew) ([]float64, error)) ([]float64, error) {
	c, err := b.crew(ctx, b.s.nodes, false)
	if err != nil {
		return nil, err
	}
	if err := c.startAll(ctx); err != nil {
		return nil, err
	}
	took, err := measure(c)
	c.kill()
	return took, errors.Join(err, c.remove())
}
