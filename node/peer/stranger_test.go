package peer_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/peer"
)

// strangers connect to a node and say nothing, rate times a second, from so many places, until the test ends.
func (w *world) strangers(to string, rate, places int) (ended func()) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var open []net.Conn
		defer func() {
			for _, c := range open {
				_ = c.Close()
			}
		}()
		for i := 0; ctx.Err() == nil; i++ {
			c, err := w.place(fmt.Sprintf("stranger%d", i%places)).DialContext(ctx, "tcp", w.at(to))
			if err != nil {
				continue
			}
			if open = append(open, c); len(open) > 4000 {
				_ = open[0].Close()
				open = open[1:]
			}
			time.Sleep(time.Second / time.Duration(rate))
		}
	}()
	return func() { stop(); <-done }
}

// Connections that prove nothing keep nobody out, however many they are and wherever they come from.
func TestSilentStrangersKeepNoPeerOut(t *testing.T) {
	for _, c := range []struct {
		name         string
		rate, places int
		known        bool
	}{
		{"one after the other from one address", 300, 1, false},
		{"many at once from fifty addresses", 2000, 50, false},
		{"each from its own address", 2000, 4000, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.far("a", "b", 40*time.Millisecond)
				a := w.node("a", who{})
				w.node("b", who{known: func(host string) bool { return c.known && host == w.addr("a").String() }})
				end := w.strangers("b", c.rate, c.places)
				time.Sleep(6 * time.Second)
				for i := range 10 {
					a.client.Forget("b") // it has to connect anew
					begin := time.Now()
					if _, err := a.ask("b"); err != nil {
						t.Errorf("call %d: %v", i, err)
					}
					within(t, "a call", time.Since(begin), 0, time.Second)
				}
				end()
				if n := w.net.Ends(); n > 2*300 {
					t.Errorf("%d ends of connections are open", n)
				}
				synctest.Wait()
			})
		})
	}
}

// What has proved itself is counted apart: no flood ends it, and its own number is bounded.
func TestProvenConnectionsStay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		few := who{cfg: func(c *peer.Config) { c.Connections = 2 }}
		a, _, c, d := w.node("a", who{}), w.node("b", few), w.node("c", who{}), w.node("d", who{})
		for _, n := range []*testNode{a, c} {
			n.reaches("b")
		}
		end := w.strangers("b", 1000, 100)
		time.Sleep(3 * time.Second)
		sent := w.net.Stats().Bytes
		for _, n := range []*testNode{a, c} {
			n.reaches("b")
		}
		if n := w.net.Stats().Bytes - sent; n > 1500 {
			t.Errorf("two calls took %d bytes: they needed a handshake", n)
		}
		if _, err := d.ask("b"); err == nil {
			t.Error("a third connection was let in")
		}
		a.client.Forget("b")
		synctest.Wait()
		d.reaches("b") // after another has gone
		end()
	})
}
