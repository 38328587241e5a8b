package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

// ceiling downloads a list of URLs, n at a time, with net/http and discards the bodies. It shows what one core of this machine can download
// without parsing, lookups, queues or storage. No crawler that uses net/http can be faster on the same core.
func ceiling(file string, n int) error {
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
