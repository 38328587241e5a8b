// Command bench-colly crawls the benchmark's sites with colly, tuned for speed by its documented options.
//
// Usage: bench-colly SEEDS CONCURRENCY, where SEEDS is a file of one URL a line.
package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gocolly/colly/v2"
)

func main() {
	if err := crawl(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "bench-colly:", err)
		os.Exit(1)
	}
}

func crawl(seeds, concurrency string) error {
	n, err := strconv.Atoi(concurrency)
	if err != nil {
		return fmt.Errorf("parse concurrency: %w", err)
	}
	// Async: requests run in parallel. Neither cache nor cookies on disk: the default storage is in memory.
	// Allowed domains stay open, since the generated sites link only to each other.
	c := colly.NewCollector(colly.Async(true))
	// colly ignores robots.txt unless told otherwise.
	c.IgnoreRobotsTxt = false
	// One rule for all hosts: n requests in all, no delay.
	if err := c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: n}); err != nil {
		return fmt.Errorf("limit: %w", err)
	}
	// The default transport keeps 2 idle connections a host and 100 in all, so that parallel requests to one host would
	// dial anew; this one keeps every connection. No compression, as for all crawlers here.
	c.WithTransport(&http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		MaxIdleConns:        0, // no limit
		MaxIdleConnsPerHost: n,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
	})
	// Each link of a page once, without fragment: colly takes a URL with a fragment for another page and would fetch most
	// pages twice.
	c.OnHTML("html", func(page *colly.HTMLElement) {
		seen := map[string]bool{"": true}
		page.ForEach("a[href]", func(_ int, a *colly.HTMLElement) {
			href, _, _ := strings.Cut(a.Attr("href"), "#")
			if seen[href] {
				return
			}
			seen[href] = true
			// Visit refuses what was visited, disallowed or is not HTTP; those errors are the expected case.
			_ = a.Request.Visit(href)
		})
	})
	f, err := os.Open(seeds)
	if err != nil {
		return fmt.Errorf("open seeds: %w", err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		_ = c.Visit(s.Text())
	}
	c.Wait()
	return nil
}
