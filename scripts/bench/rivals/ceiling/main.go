// Command ceiling downloads a list of URLs with net/http and discards the bodies. It shows what one core of this machine can download
// without parsing, lookups, queues or storage. No crawler that uses net/http can be faster on the same core.
//
// Usage: ceiling URLS CONCURRENCY, where URLS is a file of one URL a line.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

func main() {
	if err := fetch(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "ceiling:", err)
		os.Exit(1)
	}
}

func fetch(file, concurrency string) error {
	n, err := strconv.Atoi(concurrency)
	if err != nil {
		return fmt.Errorf("parse concurrency: %w", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read URLs: %w", err)
	}
	urls := strings.Fields(string(text))
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConns:        0, // no limit
		MaxIdleConnsPerHost: n,
		DisableCompression:  true,
	}}
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(len(urls)) {
					return
				}
				resp, err := client.Get(urls[i])
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if err != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if f := failed.Load(); f > 0 {
		return fmt.Errorf("%d of %d URLs failed", f, len(urls))
	}
	return nil
}
