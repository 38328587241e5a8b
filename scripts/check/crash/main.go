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
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	ok, err := check(ctx, s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func check(ctx context.Context, s settings) (ok bool, err error) {
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "proxima-crash-"); err != nil {
			return false, fmt.Errorf("make directory: %w", err)
		}
		defer os.RemoveAll(s.dir)
	} else if err := os.Mkdir(s.dir, 0o755); err != nil {
		return false, fmt.Errorf("make directory: %w", err)
	}
	if s.proxima == "" {
		s.proxima = filepath.Join(s.dir, "proxima")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", s.proxima, "./cmd/proxima").CombinedOutput(); err != nil {
			return false, fmt.Errorf("build proxima: %w\n%s", err, out)
		}
	}
	o, err := newOrigin(s.pages, s.think)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	began := time.Now()
	kills, crawlErr := runLives(ctx, s, o)
	// What is known is told even where the crawl broke off.
	log, err := readLog(filepath.Join(s.dir, "data", "logs"))
	if err != nil {
		return false, errors.Join(crawlErr, err)
	}
	ok = report(os.Stdout, s, time.Since(began), kills, o, log)
	return ok && crawlErr == nil, crawlErr
}
