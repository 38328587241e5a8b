package fetch

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLargeBodiesTakeTurns downloads ten bodies that are cut at 10 MiB, from servers that would all send at once: two at a
// time go beyond 1 MiB. To wait for that is no slowness of a server, and a small body waits for nothing.
func TestLargeBodiesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		large, most := 0, 0
		handle := func(c net.Conn) {
			head, err := requestHeadOf(bufio.NewReader(c))
			if err != nil {
				return
			}
			if strings.HasPrefix(head, "GET /small ") {
				_, _ = io.WriteString(c, okHead+"hello")
				return
			}
			_, _ = io.WriteString(c, openHead)
			block := make([]byte, 64<<10)
			for sent := 0; ; sent += len(block) {
				time.Sleep(50 * time.Millisecond)
				if _, err := c.Write(block); err != nil {
					break
				}
				if sent == 30*len(block) { // more than 1 MiB and what buffers hold; by then those that ended are gone
					mu.Lock()
					large++
					most = max(most, large)
					mu.Unlock()
					defer func() {
						mu.Lock()
						large--
						mu.Unlock()
					}()
				}
			}
		}
		cfg := testConfig()
		cfg.LargeBodies = 2
		c := newClient(t, cfg, Deps{Dial: serve(0, handle)})
		defer c.Close()
		begin := time.Now()
		var g sync.WaitGroup
		for range 10 {
			g.Go(func() {
				res := c.Get(t.Context(), Request{URL: "http://a.example/large", Addr: testAddr, Fresh: true})
				defer res.Release()
				if res.Err != nil || len(res.Body) != int(cfg.MaxBodyBytes) || res.Truncated != "length" {
					t.Errorf("%d bytes, %q, %v", len(res.Body), res.Truncated, res.Err)
				}
			})
		}
		time.Sleep(5 * time.Second)
		small := time.Now()
		if res := c.Get(t.Context(), Request{URL: "http://a.example/small", Addr: testAddr, Fresh: true}); res.Err != nil || string(res.Body) != "hello" {
			t.Errorf("small: %q, %v", res.Body, res.Err)
		}
		if took := time.Since(small); took > time.Second {
			t.Errorf("a small body took %v", took)
		}
		g.Wait()
		if took := time.Since(begin); took < 3*cfg.GraceTime || most != 2 {
			t.Errorf("%d large bodies at a time, %v for all: the test shows nothing", most, took)
		}
		c.Close()
		time.Sleep(time.Second)
	})
}

// TestWaitForTheBudgetEnds takes all of the budget with a body that comes just fast enough. The download that waits for it ends by TotalTimeout.
func TestWaitForTheBudgetEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.LargeBodies = 1
		c := newClient(t, cfg, Deps{Dial: serve(0, func(c net.Conn) {
			if _, err := requestHeadOf(bufio.NewReader(c)); err != nil {
				return
			}
			_, _ = io.WriteString(c, openHead+strings.Repeat("a", 2<<20))
			for {
				time.Sleep(time.Second)
				if _, err := c.Write(make([]byte, 2048)); err != nil {
					return
				}
			}
		})})
		defer c.Close()
		var g sync.WaitGroup
		for i := range 2 {
			g.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Fresh: true})
				defer res.Release()
				if res.Class != TimeoutTotal || res.Truncated != "time" || res.Timing.Total != cfg.TotalTimeout {
					t.Errorf("%d: %q after %v: %v", i, res.Class, res.Timing.Total, res.Err)
				}
			})
		}
		g.Wait()
		if !c.large.bodies.TryAcquire(1) {
			t.Error("the budget is not given back")
		}
		c.Close()
		time.Sleep(time.Second)
	})
}

// TestCapturesTakeTurns: a body may decode to nothing, and its capture is large all the same.
func TestCapturesTakeTurns(t *testing.T) {
	const empty = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" // the head of gzip
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		large, most := 0, 0
		cfg := testConfig()
		cfg.LargeBodies = 2
		c := newClient(t, cfg, Deps{Dial: serve(0, func(c net.Conn) {
			if _, err := requestHeadOf(bufio.NewReader(c)); err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"+empty)
			block := []byte(strings.Repeat("\x00\x00\x00\xff\xff", 13<<10)) // stored blocks of no bytes
			for sent := 0; ; sent++ {
				time.Sleep(50 * time.Millisecond)
				if _, err := c.Write(block); err != nil {
					return
				}
				if sent == 30 {
					mu.Lock()
					large++
					most = max(most, large)
					mu.Unlock()
					defer func() {
						mu.Lock()
						large--
						mu.Unlock()
					}()
				}
			}
		})})
		defer c.Close()
		var g sync.WaitGroup
		for range 6 {
			g.Go(func() {
				res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Fresh: true, Capture: true})
				defer res.Release()
				if res.Err != nil || len(res.Body) != 0 || len(res.RawBody) < int(cfg.MaxBodyBytes) || res.Truncated != "length" {
					t.Errorf("%d bytes, capture of %d, %q, %v", len(res.Body), len(res.RawBody), res.Truncated, res.Err)
				}
			})
		}
		g.Wait()
		if most != 2 {
			t.Errorf("%d large captures at a time", most)
		}
		c.Close()
		time.Sleep(time.Second)
	})
}
