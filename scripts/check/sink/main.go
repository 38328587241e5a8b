// Command sink kills a crawling node and the collector of its pages again and again, and checks that every page is in exactly one
// package.
//
// The crawl of a generated site is killed with SIGKILL at seeded random moments and resumed with the same data directory. Its pages go, in
// both formats, to a collector in this program. The collector stops and restarts, breaks connections, stores a package but loses its answer,
// stores only half, answers 500, or claims to have stored what it dropped. At the end each page and redirect must be in exactly one
// complete package of each format. If node and npm are installed, warcio reads the archives, too.
// Exit codes: 0 all held, 1 something did not, 2 wrong usage.
//
//	go run ./scripts/check/sink             50 kills, two minutes
//	go run ./scripts/check/sink -kills 5    seconds
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"proxima/scripts/lab"
)

// settings are the flags.
type settings struct{ lab.Killed }

func main() {
	var s settings
	s.Flags(50, 2000)
	limit := flag.Duration("limit", 10*time.Minute, "longest `time` of the whole check")
	s.Parse()
	lab.Main("sink", *limit, func(ctx context.Context) (bool, error) { return check(ctx, s) })
}

func check(ctx context.Context, s settings) (ok bool, err error) {
	site, closeSite, err := s.Open(ctx, "sink")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, closeSite()) }()
	c, err := newCollector(filepath.Join(s.Dir, "packages"), s.Seed)
	if err != nil {
		return false, err
	}
	living, end := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() { over <- c.live(living) }()
	began := time.Now()
	paused, err := crawl(ctx, s, site, c)
	end()
	if err = errors.Join(err, <-over); err != nil {
		return false, err
	}
	return report(ctx, s, site, c, paused, time.Since(began))
}

const config = `[sink]
url = "%s"
formats = ["warc", "pages"]
size_bytes = 131072
age = "2s"
disk_bytes = 1048576
`

// crawl runs the lives of the node. It returns how many of them had to wait for the collector.
func crawl(ctx context.Context, s settings, site *lab.Site, c *collector) (paused int, err error) {
	random := rand.New(rand.NewPCG(s.Seed, 0))
	marks := make([]int, s.Kills)
	for i := range marks {
		marks[i] = random.IntN(s.Pages * 19 / 20)
	}
	slices.Sort(marks)
	for life := range s.Kills + 1 {
		node, err := s.Start(ctx, site, life, fmt.Sprintf(config, c.url))
		if err != nil {
			return paused, err
		}
		if life == s.Kills {
			return paused, s.Last(ctx, node)
		}
		// One kill in four is aimed at the start, when spools are packed. The others wait for progress, or for some time if there is none
		// because the collector is down.
		wait, most := marks[life], time.Duration(random.Int64N(int64(4*time.Second)))
		if random.IntN(4) == 0 {
			wait, most = 1<<30, time.Duration(random.Int64N(int64(300*time.Millisecond)))
		}
		held := false
		for start := time.Now(); site.Finished() < wait && time.Since(start) < most; time.Sleep(time.Millisecond) {
			held = held || used(filepath.Join(s.Data(), "sink")) > 1<<20/2
		}
		time.Sleep(time.Duration(random.Int64N(int64(2*s.Think) + 1)))
		if held {
			paused++
		}
		if !node.Kill() && node.Wait() != nil {
			return paused, fmt.Errorf("life %d ended before it was killed: %w\n%s", life, errors.Join(node.Wait(), ctx.Err()), node.Tail())
		}
	}
	return paused, nil
}

// used is the size of the files in a directory.
func used(dir string) (n int64) {
	entries, _ := os.ReadDir(dir) // it may not be there yet
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}

// expected lists the URLs that each format must have.
func expected(site *lab.Site) (urls []string) {
	for _, page := range append(site.Pages(), site.Redirected()...) {
		urls = append(urls, "http://"+strings.TrimPrefix(page, "http://"))
	}
	return urls
}
