package main

import (
	"crypto/rand"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	addresses = 50
	workers   = 16
	// held is the number of connections that each worker keeps open.
	held = 300
)

// floods connects to the addresses in turn, from fifty addresses. A third of the connections sends nothing, a third sends random bytes,
// and a third announces a gossip message and sends its beginning.
func floods(to []string, rate int, last time.Duration) error {
	var made, failed atomic.Int64
	began := time.Now()
	var g errgroup.Group
	for w := range workers {
		g.Go(func() error {
			noise := make([]byte, 2<<10)
			if _, err := rand.Read(noise); err != nil {
				return err
			}
			announced := append([]byte{10, 0, 15, 0, 0}, noise...) // 960 KiB
			var open []net.Conn
			defer func() { shut(open) }()
			pause := time.Duration(workers) * time.Second / time.Duration(rate)
			for i := w; time.Since(began) < last; i += workers {
				if ahead := pause*time.Duration(i/workers) - time.Since(began); ahead > 0 {
					time.Sleep(ahead)
				}
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%addresses))}, Timeout: time.Second}
				c, err := d.Dial("tcp", to[i/addresses%len(to)])
				if err != nil {
					failed.Add(1)
					continue
				}
				made.Add(1)
				switch i / workers % 3 {
				case 1:
					_, _ = c.Write(noise)
				case 2:
					_, _ = c.Write(announced)
				}
				if open = append(open, c); len(open) > held {
					shut(open[:1])
					open = open[1:]
				}
			}
			return nil
		})
	}
	err := g.Wait()
	fmt.Printf("strangers: %.0f connects a second from %d addresses, %d failed\n", float64(made.Load())/time.Since(began).Seconds(),
		addresses, failed.Load())
	return err
}

// shut closes connections immediately, so that ports do not run out.
func shut(conns []net.Conn) {
	for _, c := range conns {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		_ = c.Close()
	}
}
