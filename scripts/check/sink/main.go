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
	"os"
	"path/filepath"
	"time"

	"proxima/scripts/lab"
)

func main() {
	var s lab.Killed
	s.Flags(50, 2000)
	limit := flag.Duration("limit", 10*time.Minute, "longest `time` of the whole check")
	s.Parse()
	lab.Main("sink", *limit, func(ctx context.Context) (bool, error) { return check(ctx, &s) })
}

func check(ctx context.Context, s *lab.Killed) (ok bool, err error) {
	closeSite, err := s.Open(ctx, "sink")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, closeSite()) }()
	c, err := newCollector(filepath.Join(s.Dir, "packages"), s.Seed)
	if err != nil {
		return false, err
	}
	end := lab.Beside(ctx, c.live)
	began := time.Now()
	paused := map[int]bool{} // the lives that had to wait for the collector
	kills, err := s.Crawl(ctx, fmt.Sprintf(config, c.addr), 4*time.Second, func(life int) {
		if used(filepath.Join(s.Data(), "sink")) > 1<<20/2 {
			paused[life] = true
		}
	})
	if err = errors.Join(err, end()); err != nil {
		return false, err
	}
	return report(ctx, s, c, len(kills), len(paused), time.Since(began))
}

const config = `[sink]
url = "http://%s/in"
formats = ["warc", "pages"]
size_bytes = 131072
age = "2s"
disk_bytes = 1048576
`

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
