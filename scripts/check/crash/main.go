// Command crash kills a crawling node again and again and checks that it loses nothing.
//
// The crawl of a generated site is killed with SIGKILL at seeded random moments and resumed with the same data directory. This program serves
// the site and records every request. At the end every page must have been downloaded, and any page that was downloaded twice must have been in
// progress, or just ended and not yet recorded, at a kill.
//
// With -sink the pages go, in both formats, to a collector in this program. It stops and restarts, breaks connections, stores a package but
// loses its answer, stores only half, answers 500, or claims to have stored what it dropped. At the end each page and redirect must be in
// exactly one complete package of each format. If node and npm are installed, warcio reads the archives, too.
// Exit codes: 0 all held, 1 something did not, 2 wrong usage.
//
//	go run ./scripts/check/crash             100 kills, a minute or two
//	go run ./scripts/check/crash -kills 5    seconds
//	go run ./scripts/check/crash -sink       50 kills, two minutes
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"proxima/scripts/lab"
)

type settings struct {
	lab.Place
	kills, pages, fetchers int
	seed                   uint64
	think, slack           time.Duration
	sink                   bool
}

func main() {
	var s settings
	s.Flags()
	flag.IntVar(&s.kills, "kills", 100, "`number` of kills; 50 with -sink")
	flag.IntVar(&s.pages, "pages", 4000, "`number` of pages of the site; 2000 with -sink")
	flag.IntVar(&s.fetchers, "fetchers", 8, "`number` of downloads at once")
	flag.Uint64Var(&s.seed, "seed", 1, "`seed` of the kills' moments")
	flag.DurationVar(&s.think, "think", 20*time.Millisecond, "mean `time` until the site answers; at most twice as long")
	flag.DurationVar(&s.slack, "slack", 500*time.Millisecond, "longest `time` between the end of a download and a kill that may have lost it")
	flag.BoolVar(&s.sink, "sink", false, "deliver the pages to a collector that dies and misbehaves")
	limit := flag.Duration("limit", 10*time.Minute, "longest `time` of the whole check")
	flag.Parse()
	if s.sink {
		lab.Preset(flag.CommandLine, map[string]string{"kills": "50", "pages": "2000"})
	}
	lab.Refuse(s.kills < 0 || s.pages < 1 || s.fetchers < 1 || s.kills > s.pages)
	lab.Main("crash", *limit, func(ctx context.Context) (bool, error) { return check(ctx, s) })
}

func check(ctx context.Context, s settings) (ok bool, err error) {
	remove, err := s.Open(ctx, "crash")
	if err != nil {
		return false, err
	}
	defer remove()
	c, err := newCrawl(s)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.site.Close()) }()
	began := time.Now()
	var packages *collector
	var kills []killed
	if s.sink {
		if packages, err = newCollector(filepath.Join(s.Dir, "packages"), s.seed); err != nil {
			return false, err
		}
		end := lab.Beside(ctx, packages.live)
		kills, err = c.run(ctx, fmt.Sprintf(sinkConfig, packages.addr), 4*time.Second, func() { packages.watch(c) })
		err = errors.Join(err, end())
	} else {
		kills, err = c.run(ctx, "", 0, func() {})
	}
	// Report what is known even if the crawl failed.
	log, readErr := readLog(filepath.Join(c.node.Data(), "logs"))
	if err = errors.Join(err, readErr); readErr != nil {
		return false, err
	}
	verdicts := report(os.Stdout, s, time.Since(began), kills, expected(c.site), c.site.Requests(), log)
	if s.sink && err == nil {
		var more []lab.Verdict
		more, err = packages.judge(ctx, c)
		verdicts = append(verdicts, more...)
	}
	return lab.Show(os.Stdout, verdicts) && err == nil, err
}

// expected lists every path that a crawl must request.
func expected(site *lab.Site) []string {
	list := []string{"/robots.txt"}
	for _, page := range site.Pages() {
		list = append(list, strings.TrimPrefix(page, site.Authority(0)))
	}
	return list
}
