package fetch

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// turns counts the servers that have sent more than 1 MiB and what buffers hold, and are still sending.
type turns struct {
	mu        sync.Mutex
	now, most int
}

func (s *turns) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += n
	s.most = max(s.most, s.now)
}

// peak returns how many were sending at once at most.
func (s *turns) peak() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// send answers with head and then with blocks of some 64 KiB until the client has gone.
func (s *turns) send(c net.Conn, head, block string) {
	_, _ = io.WriteString(c, head)
	for sent := 0; ; sent++ {
		time.Sleep(50 * time.Millisecond)
		if _, err := io.WriteString(c, block); err != nil {
			return
		}
		if sent == 30 { // by now those that ended are gone
			s.add(1)
			defer s.add(-1)
		}
	}
}

// TestLargeBodiesTakeTurns downloads ten bodies that are cut at 10 MiB, from servers that would all send at once: two at a
// time go beyond 1 MiB. To wait for that is no slowness of a server, and a small body waits for nothing.
func TestLargeBodiesTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var large turns
		cfg := testConfig()
		cfg.LargeBodies = 2
		c := newClient(t, cfg, Deps{Dial: serve(0, func(c net.Conn) {
			switch head, err := requestHeadOf(bufio.NewReader(c)); {
			case err != nil:
			case strings.HasPrefix(head, "GET /small "):
				_, _ = io.WriteString(c, okHead+"hello")
			default:
				large.send(c, openHead, strings.Repeat("a", 64<<10))
			}
		})})
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
		if took := time.Since(begin); took < 3*cfg.GraceTime || large.peak() != 2 {
			t.Errorf("%d large bodies at a time, %v for all: the test shows nothing", large.peak(), took)
		}
	})
}

// TestWaitForTheBudgetEnds takes all of the budget with a body that comes just fast enough. The download that waits for it ends by TotalTimeout.
func TestWaitForTheBudgetEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.LargeBodies = 1
		justFastEnough := endless(openHead+strings.Repeat("a", 2<<20), strings.Repeat("a", 2*giveWay*1024), time.Second)
		c := newClient(t, cfg, Deps{Dial: serve(0, justFastEnough)})
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
	})
}

// TestSlowBodiesGiveWay: a large body that drips ends soon once others wait for its place, whether it is its text or the window of its decoder
// that takes it. While nobody waits, it may come as slowly as any other.
func TestSlowBodiesGiveWay(t *testing.T) {
	dripping := map[string]string{"/body": openHead + strings.Repeat("a", 2<<20),
		"/window": "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n" + string(wideBrotli)}
	for path, head := range dripping {
		for _, waits := range []bool{false, true} {
			bubble(t, func(t *testing.T) {
				cfg := testConfig()
				cfg.LargeBodies = 1
				c := newClient(t, cfg, Deps{Dial: serve(0, func(nc net.Conn) {
					switch asked, err := requestHeadOf(bufio.NewReader(nc)); {
					case err != nil:
					case strings.HasPrefix(asked, "GET /quick "):
						_, _ = io.WriteString(nc, head+strings.Repeat("a", 2<<20))
					default:
						_, _ = io.WriteString(nc, head)
						for {
							time.Sleep(time.Second)
							if _, err := io.WriteString(nc, strings.Repeat("a", 2048)); err != nil {
								return
							}
						}
					}
				})})
				var g sync.WaitGroup
				if waits {
					g.Go(func() {
						time.Sleep(5 * time.Second)
						begin := time.Now()
						res := c.Get(t.Context(), Request{URL: "http://a.example/quick", Addr: testAddr, Fresh: true})
						res.Release()
						if took := time.Since(begin); took > 2*cfg.GraceTime {
							t.Errorf("%s: the next one waited %v, %v", path, took, res.Err)
						}
					})
				}
				res := c.Get(t.Context(), Request{URL: "http://a.example" + path, Addr: testAddr, Fresh: true})
				res.Release()
				if want := map[bool]Class{false: TimeoutTotal, true: TooSlow}[waits]; res.Class != want {
					t.Errorf("%s, and another waits: %v: %q after %v: %v", path, waits, res.Class, res.Timing.Total, res.Err)
				}
				g.Wait()
			})
		}
	}
}

// TestCapturesTakeTurns: a body may decode to nothing, and its capture is large all the same.
func TestCapturesTakeTurns(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
	bubble(t, func(t *testing.T) {
		var large turns
		cfg := testConfig()
		cfg.LargeBodies = 2
		c := newClient(t, cfg, Deps{Dial: serve(0, func(c net.Conn) {
			if _, err := requestHeadOf(bufio.NewReader(c)); err == nil {
				large.send(c, head, strings.Repeat("\x00\x00\x00\xff\xff", 13<<10)) // stored blocks of no bytes
			}
		})})
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
		if large.peak() != 2 {
			t.Errorf("%d large captures at a time", large.peak())
		}
	})
}
