// Command coverage crawls real documentation with Proxima and with wget2, and explains every difference.
//
// It serves the sites of scripts/site.sh, lets both crawl them from the same seeds, and compares what each was given
// according to nginx's log. The check also follows the links itself, by a simple scan, to explain differences and to find
// pages that both crawlers miss. Exit codes: 0 every difference is explained, 1 some are not, 2 wrong usage, 3 something
// is not installed. Run it from the root of the repository: go run ./scripts/check/coverage
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"proxima/scripts/lab"
)

func main() {
	var at lab.Place
	at.Flags()
	limit := flag.Duration("limit", 2*time.Minute, "longest `time` of the whole check")
	flag.Parse()
	lab.Refuse(false)
	lab.Main("coverage", *limit, func(ctx context.Context) (bool, error) { return check(ctx, at) })
}

func check(ctx context.Context, at lab.Place) (ok bool, err error) {
	if _, err := exec.LookPath("wget2"); err != nil {
		return false, lab.Missing{Err: errors.New("wget2 is missing: apt-get install wget2")}
	}
	remove, err := at.Open(ctx, "coverage")
	if err != nil {
		return false, err
	}
	defer remove()
	s, err := startSite(ctx, filepath.Join(at.Dir, "site"))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()

	began := time.Now()
	if err := runProxima(ctx, at.Proxima, at.Dir, s); err != nil {
		return false, err
	}
	middle := time.Now()
	if err := runWget(ctx, at.Dir, s); err != nil {
		return false, err
	}
	end := time.Now()
	// nginx logs a request after its answer. Once it answers another request, all earlier lines are written.
	if _, _, err := s.get(ctx, &url.URL{Scheme: "http", Host: "nobody.test", Path: "/"}); err != nil {
		return false, err
	}
	log, err := s.log()
	if err != nil {
		return false, err
	}
	p, w := readingOf(log, "Proxima/"), readingOf(log, "wget2/")
	if len(p.pages) == 0 || len(w.pages) == 0 {
		return false, fmt.Errorf("compare crawls: %d pages by Proxima, %d by wget2: nothing to compare", len(p.pages), len(w.pages))
	}
	own, err := readLinks(ctx, s, p, w)
	if err != nil {
		return false, err
	}
	fmt.Printf("Proxima crawled for %.1f s, wget2 for %.1f s (not a comparison of speed: neither is tuned).\n\n",
		middle.Sub(began).Seconds(), end.Sub(middle).Seconds())
	return report(os.Stdout, p, w, own), nil
}
