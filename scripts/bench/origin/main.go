// Command origin serves the benchmark's generated sites on loopback addresses and counts what crawlers ask for.
//
// site.go generates the sites, and count.go counts. The program in ../run starts crawlers and reads the counts through the
// control port.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"proxima/scripts/bench/origin/client"
	"proxima/scripts/lab"
)

func main() {
	var cfg client.Config
	flag.IntVar(&cfg.Addresses, "addresses", 64, "number of sites, at 127.0.1.1, 127.0.1.2 and so on to 127.0.1.250, 127.0.2.1 and so on")
	flag.IntVar(&cfg.Pages, "pages", 400, "pages a site")
	flag.IntVar(&cfg.Port, "port", 8080, "port of every site")
	flag.Uint64Var(&cfg.Seed, "seed", 1, "seed of the generated sites")
	flag.BoolVar(&cfg.Brief, "brief", false, "small pages, so that many fit into memory")
	flag.DurationVar(&cfg.Think, "think", 0, "`time` before each page")
	control := flag.String("control", "127.0.0.1:8079", "address of the counts: GET /_stats, GET /_urls, POST /_reset")
	flag.Parse()
	lab.Main("origin", 0, func(ctx context.Context) (bool, error) { return true, run(ctx, cfg, *control) })
}

func run(ctx context.Context, cfg client.Config, control string) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	world := NewWorld(cfg)
	// The pages are a large heap without pointers, so collect garbage rarely.
	debug.SetGCPercent(400)
	counts := NewCounts(world)
	var wg sync.WaitGroup
	serve := func(what, at string, s *http.Server) error {
		l, err := net.Listen("tcp4", at)
		if err != nil {
			return fmt.Errorf("listen for %s: %w", what, err)
		}
		context.AfterFunc(ctx, func() { s.Close() })
		wg.Go(func() {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				fmt.Fprintln(os.Stderr, "origin: serve:", err)
			}
		})
		return nil
	}
	for i := range world.Sites {
		s := &http.Server{Handler: counts.Site(i), ConnState: counts.Connection, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
		if err := serve(fmt.Sprintf("site %d", i), cfg.Host(i), s); err != nil {
			return err
		}
	}
	if err := serve("control", control, &http.Server{Handler: counts.Control(), ReadHeaderTimeout: 5 * time.Second}); err != nil {
		return err
	}
	wg.Wait()
	return nil
}
