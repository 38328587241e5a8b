package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"proxima/node/bell"
	"proxima/scripts/archive"
	"proxima/scripts/lab"
)

// collector receives packages and fails in every way it can.
type collector struct {
	dir, addr string

	// mu guards what follows.
	mu     sync.Mutex
	random *rand.Rand
	deaths int
	paused map[int]bool          // the lives that had to wait for it
	did    map[archive.Fault]int // PUTs by what it did to them
}

func newCollector(dir string, seed uint64) (*collector, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	addrs, err := lab.Addresses(subnet+"1", 1)
	if err != nil {
		return nil, err
	}
	return &collector{dir: dir, addr: addrs[0], random: rand.New(rand.NewPCG(seed, 1)), did: map[archive.Fault]int{}, paused: map[int]bool{}}, nil
}

func (c *collector) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

// live starts and stops the collector until the context ends.
func (c *collector) live(ctx context.Context) error {
	for {
		l, err := net.Listen("tcp", c.addr)
		if err != nil {
			return fmt.Errorf("serve collector: %w", err)
		}
		server := &http.Server{Handler: &archive.Collector{Dir: c.dir, Fault: c.fault}, ReadHeaderTimeout: 10 * time.Second}
		go server.Serve(l) //nolint:errcheck // it ends with Close
		_ = bell.Sleep(ctx, time.Duration(500+c.draw(3000))*time.Millisecond)
		if err := server.Close(); err != nil { // breaks connections in the middle of transfers
			return fmt.Errorf("stop collector: %w", err)
		}
		if ctx.Err() != nil {
			return nil
		}
		c.mu.Lock()
		c.deaths++
		c.mu.Unlock()
		_ = bell.Sleep(ctx, time.Duration(100+c.draw(1000))*time.Millisecond)
	}
}

// fault draws what happens to a request. Only PUTs go wrong.
func (c *collector) fault(r *http.Request) archive.Fault {
	if r.Method == http.MethodHead {
		return ""
	}
	d := archive.Fault("kept")
	if bad := []archive.Fault{archive.AnswerLost, archive.Half, archive.Refused, archive.Dropped}; c.draw(8) == 0 {
		d = bad[c.draw(len(bad))]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did[d]++
	return d
}

// watch notes whether the node waits for the collector.
func (c *collector) watch(of *crawl) {
	if used(filepath.Join(of.node.Data(), "sink")) > 1<<20/2 {
		c.paused[of.node.Life] = true
	}
}

const sinkConfig = `[sink]
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
