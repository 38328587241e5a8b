// Command sink kills a crawling node again and again while the collector of its pages dies again and again, and checks that every
// page is in exactly one package.
//
// One crawl of a generated site is killed with SIGKILL at seeded random moments and resumed with the same data directory. Its pages go, in
// both formats, to a collector of this program that is up and down by turns: it breaks connections, loses answers to what it has stored,
// stores halves, answers 500, or says nothing. In the end each page and redirect must be in exactly one package of each format that
// the collector has whole. The archives are read by warcio, too, which is not ours, where node and npm are installed.
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
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"proxima/scripts/lab"
)

// subnet is where the site is.
const subnet = "127.0.3."

// settings are the flags.
type settings struct {
	proxima, dir           string
	kills, pages, fetchers int
	seed                   uint64
	think                  time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.proxima, "proxima", "", "`program` to check; built from ./cmd/proxima where empty")
	flag.StringVar(&s.dir, "dir", "", "`directory` for data, logs and packages, kept afterwards; must be new; a temporary one where empty")
	flag.IntVar(&s.kills, "kills", 50, "`number` of kills")
	flag.IntVar(&s.pages, "pages", 2000, "`number` of pages of the site")
	flag.IntVar(&s.fetchers, "fetchers", 8, "`number` of downloads at once")
	flag.Uint64Var(&s.seed, "seed", 1, "`seed` of the kills' moments and of what the collector does")
	flag.DurationVar(&s.think, "think", 20*time.Millisecond, "mean `time` the site takes for a page; up to twice as long")
	limit := flag.Duration("limit", 10*time.Minute, "longest `time` of the whole check")
	flag.Parse()
	if flag.NArg() > 0 || s.kills < 0 || s.pages < 1 || s.fetchers < 1 || s.kills > s.pages {
		flag.Usage()
		os.Exit(2)
	}
	lab.Main("sink", *limit, func(ctx context.Context) (bool, error) { return check(ctx, s) })
}

func check(ctx context.Context, s settings) (ok bool, err error) {
	var remove func()
	if s.dir, remove, err = lab.Folder(s.dir, "sink"); err != nil {
		return false, err
	}
	defer remove()
	if s.proxima == "" {
		if s.proxima, err = lab.Build(ctx, s.dir, "./cmd/proxima"); err != nil {
			return false, err
		}
	}
	l := lab.NewLayout(subnet, s.pages, 1, 1)
	l.Redirects = 25
	site, err := lab.Serve(l, s.think)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, site.Close()) }()
	c, err := newCollector(filepath.Join(s.dir, "packages"), s.seed)
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

const config = `# Written by the sink check for one life of the node: the version in the User-Agent tells the lives apart.
[crawl]
fetchers = %d
patience = "5s"

[scope]
seed_scope = "host"

[politeness]
own = ["127.0.3.0/24"]
own_gap = "0s"
own_parallel = %d

[fetch]
user_agent = "Proxima/0.%d"
allow_prefixes = ["127.0.3.0/24"]

[sink]
url = "%s"
formats = ["warc", "pages"]
size_bytes = 131072
age = "2s"
disk_bytes = 1048576
`

// crawl runs the lives of the node, and says how many of them had to pause.
func crawl(ctx context.Context, s settings, site *lab.Site, c *collector) (paused int, err error) {
	random := rand.New(rand.NewPCG(s.seed, 0))
	marks := make([]int, s.kills)
	for i := range marks {
		marks[i] = random.IntN(s.pages * 19 / 20)
	}
	slices.Sort(marks)
	for life := range s.kills + 1 {
		file := filepath.Join(s.dir, "node.toml")
		if err := os.WriteFile(file, fmt.Appendf(nil, config, s.fetchers, s.fetchers, life, c.url), 0o644); err != nil {
			return paused, fmt.Errorf("write config: %w", err)
		}
		cmd := exec.CommandContext(ctx, s.proxima, "node", "-quiet", "-config", file, "-data", filepath.Join(s.dir, "data"), site.URL(0, 0))
		node, err := lab.Start(cmd)
		if err != nil {
			return paused, err
		}
		if life == s.kills {
			if err := node.Wait(); err != nil {
				return paused, fmt.Errorf("life %d, which was not killed: %w\n%s", life, errors.Join(err, ctx.Err()), node.Tail())
			}
			return paused, nil
		}
		// One kill in four meets the start, when spools are packed. Progress and not the clock spaces the others; where nothing goes on,
		// for the collector is down, they come after a while all the same.
		wait, most := marks[life], time.Duration(random.Int64N(int64(4*time.Second)))
		if random.IntN(4) == 0 {
			wait, most = 1<<30, time.Duration(random.Int64N(int64(300*time.Millisecond)))
		}
		held := false
		for start := time.Now(); site.Finished() < wait && time.Since(start) < most; time.Sleep(time.Millisecond) {
			held = held || used(filepath.Join(s.dir, "data", "sink")) > 1<<20/2
		}
		time.Sleep(time.Duration(random.Int64N(int64(2*s.think) + 1)))
		if held {
			paused++
		}
		if !node.Kill() && node.Wait() != nil {
			return paused, fmt.Errorf("life %d ended before it was killed: %w\n%s", life, errors.Join(node.Wait(), ctx.Err()), node.Tail())
		}
	}
	return paused, nil
}

// used is what lies in a directory, in bytes.
func used(dir string) (n int64) {
	entries, _ := os.ReadDir(dir) // it may not be there yet
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}

// expected lists what each format must have, as URLs.
func expected(site *lab.Site) (urls []string) {
	for _, page := range append(site.Pages(), site.Redirected()...) {
		urls = append(urls, "http://"+strings.TrimPrefix(page, "http://"))
	}
	return urls
}
