package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"proxima/scripts/lab"
)

// collector receives packages as docs/sinks.md describes, and fails in every way it can.
type collector struct {
	dir, url, addr string

	// mu guards what follows.
	mu     sync.Mutex
	random *rand.Rand
	deaths int
	did    map[string]int // PUTs by what it did to them
}

func newCollector(dir string, seed uint64) (*collector, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	l, err := net.Listen("tcp", lab.Subnet+"1:0")
	if err != nil {
		return nil, fmt.Errorf("find a port: %w", err)
	}
	addr := l.Addr().String()
	return &collector{dir: dir, addr: addr, url: "http://" + addr + "/in", random: rand.New(rand.NewPCG(seed, 1)), did: map[string]int{}}, l.Close()
}

// draw returns a random number below n.
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
		server := &http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second}
		go server.Serve(l) //nolint:errcheck // it ends with Close
		_ = lab.Pause(ctx, time.Duration(500+c.draw(3000))*time.Millisecond)
		if err := server.Close(); err != nil { // breaks connections in the middle of transfers
			return fmt.Errorf("stop collector: %w", err)
		}
		if ctx.Err() != nil {
			return nil
		}
		c.mu.Lock()
		c.deaths++
		c.mu.Unlock()
		_ = lab.Pause(ctx, time.Duration(100+c.draw(1000))*time.Millisecond)
	}
}

// deed draws what happens to a PUT.
func (c *collector) deed() string {
	d := "kept"
	if bad := []string{"answer lost", "half kept", "refused", "dropped"}; c.draw(8) == 0 {
		d = bad[c.draw(len(bad))]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did[d]++
	return d
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file := filepath.Join(c.dir, path.Base(r.URL.Path))
	if r.Method == http.MethodHead {
		b, err := os.ReadFile(file)
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Repr-Digest", digest(b))
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		return
	}
	deed := c.deed()
	if deed == "refused" {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	b, err := io.ReadAll(r.Body)
	if err != nil || int64(len(b)) != r.ContentLength {
		return
	}
	switch deed {
	case "dropped":
		w.Header().Set("Repr-Digest", r.Header.Get("Content-Digest"))
		return
	case "half kept":
		b = b[:len(b)/2]
	}
	next := fmt.Sprintf("%s.%d.part", file, c.draw(1<<30))
	if err := errors.Join(os.WriteFile(next, b, 0o644), os.Rename(next, file)); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if deed == "answer lost" {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Repr-Digest", digest(b))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}
