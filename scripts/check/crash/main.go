// Command crash kills a crawling node again and again and checks that it loses nothing.
//
// The crawl of a generated site is killed with SIGKILL at seeded random moments and resumed with the same data directory.
// This program serves the site and records every request. At the end every page must have been downloaded, and any page
// that was downloaded twice must have been in progress, or just ended and not yet recorded, at a kill.
// Exit codes: 0 all held, 1 something did not, 2 wrong usage.
//
//	go run ./scripts/check/crash             100 kills, a minute or two
//	go run ./scripts/check/crash -kills 5    seconds
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"time"

	"proxima/scripts/lab"
)

type settings struct {
	lab.Killed
	slack time.Duration
}

func main() {
	var s settings
	s.Flags(100, 4000)
	flag.DurationVar(&s.slack, "slack", 500*time.Millisecond, "longest `time` between the end of a download and a kill that may have lost it")
	limit := flag.Duration("limit", 8*time.Minute, "longest `time` of the whole check")
	s.Parse()
	lab.Main("crash", *limit, func(ctx context.Context) (bool, error) { return check(ctx, s) })
}

func check(ctx context.Context, s settings) (ok bool, err error) {
	end, err := s.Open(ctx, "crash")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, end()) }()
	began := time.Now()
	kills, crawlErr := s.Crawl(ctx, "", 0, func(int) {})
	// Report what is known even if the crawl failed.
	log, err := readLog(filepath.Join(s.Data(), "logs"))
	if err != nil {
		return false, errors.Join(crawlErr, err)
	}
	ok = report(os.Stdout, s, time.Since(began), kills, expected(s.Site), s.Site.Requests(), log)
	return ok && crawlErr == nil, crawlErr
}

// expected lists every path that a crawl must request.
func expected(site *lab.Site) []string {
	list := []string{"/robots.txt"}
	for _, page := range site.Pages() {
		list = append(list, strings.TrimPrefix(page, site.Authority(0)))
	}
	return list
}
