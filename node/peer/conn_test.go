package peer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/peer"
	"proxima/node/wire"
)

// TestConnect: members get connections that carry no calls, and both ends know the other; who has another secret gets none, and neither
// does who pretends to be another node.
func TestConnect(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		came := make(chan string, 10)
		w.node("b", who{link: func(c net.Conn, id string) {
			came <- id
			_, _ = io.WriteString(c, "hello "+id)
			_ = c.Close()
		}})
		a := w.node("a", who{})
		c, err := a.client.Connect(context.Background(), "b")
		must(t, err)
		if said, err := io.ReadAll(c); string(said) != "hello a" || <-came != "a" {
			t.Errorf("said %q: %v", said, err)
		}
		_ = c.Close()
		stranger := w.node("s", who{secret: secretOf(2)})
		if c, err := stranger.client.Connect(context.Background(), "b"); err == nil {
			t.Error("a stranger is connected")
			_ = c.Close()
		}
		w.node("d", who{listens: "c"})
		if _, err := a.client.Connect(context.Background(), "c"); err == nil || !strings.Contains(err.Error(), "not c") {
			t.Errorf("connected to another node than was wanted: %v", err)
		}
		if n := len(came); n > 0 {
			t.Errorf("%d connections of strangers came", n)
		}
	})
}

// TestThrough: a call to a peer that is not to be dialled, or that does not answer a dial, goes over the connection that is given for it, and the
// TLS is that of its two ends: a relay that is somebody else's end of it gets nothing.
func TestThrough(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		b := w.node("b", who{})
		b.handler.OnIdle = func(_ context.Context, from string, _ *wire.IdleRequest) (*wire.IdleResponse, error) {
			return &wire.IdleResponse{Why: from}, nil
		}
		w.node("m", who{}) // a member in the middle, which claims to be the peer
		to, outbound := "b", true
		a := w.node("a", who{through: func(ctx context.Context, _ string, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
			if !outbound {
				if conn, err := dial(ctx); err == nil {
					return conn, nil
				}
			}
			return w.place("a").DialContext(ctx, "tcp", w.at(to))
		}})
		at := w.addrs["b"]
		delete(w.addrs, "b") // it cannot be dialled
		for _, outbound = range []bool{true, false} {
			if res, err := a.ask("b"); err != nil || res.GetWhy() != "a" {
				t.Errorf("call through a connection that was given, outbound only is %v: %v, %v", outbound, res, err)
			}
			a.client.Forget("b")
		}
		w.addrs["b"], to = at, "m"
		if res, err := a.ask("b"); err != nil || res.GetWhy() != "a" {
			t.Errorf("a peer that answers a dial is called through another: %v, %v", res, err)
		}
		a.client.Forget("b")
		outbound = true
		to = "m"
		if _, err := a.ask("b"); err == nil {
			t.Error("a member in the middle answers for the peer")
		}
	})
}

// TestConnectionsWithoutCallsEndWithTheirSecret: when a node drops a secret, its connections to a node that has no other one end, whoever has
// dialled.
func TestConnectionsWithoutCallsEndWithTheirSecret(t *testing.T) {
	s := steps(t)
	inBubble(t, func(t *testing.T, w *world) {
		echo := func(c net.Conn, _ string) {
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
		a, old := w.node("a", who{secret: s[0], link: echo}), w.node("old", who{secret: s[0], link: echo})
		links := map[string]net.Conn{}
		for name, ends := range map[string][2]*testNode{"dialled": {a, old}, "accepted": {old, a}} {
			c, err := ends[0].client.Connect(t.Context(), ends[1].id)
			must(t, err)
			defer c.Close() //nolint:errcheck // it may be closed already
			links[name] = c
		}
		for _, secret := range s[1:] {
			must(t, errors.Join(a.server.Rekey(secret), a.client.Rekey(secret)))
			for name, c := range links {
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				_, err := io.WriteString(c, "x")
				if err == nil {
					_, err = io.ReadFull(c, make([]byte, 1))
				}
				if stands := err == nil; stands != (secret != s[3]) {
					t.Errorf("%s, with secret %s: stands is %v, %v", name, secret.Describe(), stands, err)
				}
			}
		}
	})
}

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
