// Command crash kills a crawling node again and again and checks that it loses nothing.
//
// One crawl of a generated site is killed with SIGKILL at seeded random moments and resumed with the same data directory.
// The site is served by this program, which sees every request and when it ended. In the end every page must have been
// downloaded, and what was downloaded twice must have been under way, or just ended and not yet recorded, at a kill.
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

// subnet is where the site is.
const subnet = "127.0.3."

// settings are the flags.
type settings struct {
	proxima, dir           string
	kills, pages, fetchers int
	seed                   uint64
	think, slack           time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.proxima, "proxima", "", "`program` to check; built from ./cmd/proxima where empty")
	flag.StringVar(&s.dir, "dir", "", "`directory` for data and logs, kept afterwards; must be new; a temporary one where empty")
	flag.IntVar(&s.kills, "kills", 100, "`number` of kills")
	flag.IntVar(&s.pages, "pages", 4000, "`number` of pages of the site")
	flag.IntVar(&s.fetchers, "fetchers", 8, "`number` of downloads at once")
	flag.Uint64Var(&s.seed, "seed", 1, "`seed` of the kills' moments")
	flag.DurationVar(&s.think, "think", 20*time.Millisecond, "mean `time` the site takes for a page; up to twice as long")
	flag.DurationVar(&s.slack, "slack", 500*time.Millisecond, "longest `time` from the end of a download to a kill that may still make it be repeated")
	limit := flag.Duration("limit", 8*time.Minute, "longest `time` of the whole check")
	flag.Parse()
	if flag.NArg() > 0 || s.kills < 0 || s.pages < 1 || s.fetchers < 1 || s.kills > s.pages {
		flag.Usage()
		os.Exit(2)
	}
	lab.Main("crash", *limit, func(ctx context.Context) (bool, error) { return check(ctx, s) })
}

func check(ctx context.Context, s settings) (ok bool, err error) {
	var remove func()
	if s.dir, remove, err = lab.Folder(s.dir, "crash"); err != nil {
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
	began := time.Now()
	kills, crawlErr := runLives(ctx, s, site)
	// What is known is told even where the crawl broke off.
	log, err := readLog(filepath.Join(s.dir, "data", "logs"))
	if err != nil {
		return false, errors.Join(crawlErr, err)
	}
	ok = report(os.Stdout, s, time.Since(began), kills, expected(site), site.Requests(), log)
	return ok && crawlErr == nil, crawlErr
}

// expected lists every path that a crawl must ask for.
func expected(site *lab.Site) []string {
	list := []string{"/robots.txt"}
	for _, page := range append(site.Pages(), site.Redirected()...) {
		list = append(list, strings.TrimPrefix(page, site.Authority(0)))
	}
	return list
}
