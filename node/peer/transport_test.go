package peer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/node/peer"
	"proxima/node/wire"
)

func TestCallReachesThePeerUnderItsName(t *testing.T) {
	betweenTwo(t, func(t *testing.T, w *world, a, b *testNode) {
		w.every = 20 * time.Millisecond
		id := uint64(0)
		b.handler.OnIdle = func(_ context.Context, from string, req *wire.IdleRequest) (*wire.IdleResponse, error) {
			id++
			want := &wire.Header{Version: peer.Version, Run: "test", Sender: "a", Boot: 7, Id: id}
			if from != "a" || !proto.Equal(req.Header, want) {
				t.Errorf("from %s, header %v, want %v", from, req.Header, want)
			}
			return &wire.IdleResponse{Why: "busy"}, nil
		}
		begin := time.Now()
		for range 3 {
			if res, err := a.ask("b"); err != nil || res.Why != "busy" {
				t.Fatalf("%v, %v", res, err)
			}
		}
		// One connection: TCP and TLS 1.3 take two round trips, and each call one.
		within(t, "three calls", time.Since(begin), 200*time.Millisecond, 250*time.Millisecond)
	})
}

// A call of each procedure reaches its own handler, and is counted alike at both ends.
func TestEveryProcedureHasItsHandler(t *testing.T) {
	betweenTwo(t, func(t *testing.T, w *world, a, b *testNode) {
		calls := reflect.ValueOf(a.client.Calls)
		for i := range calls.NumField() {
			name, call := calls.Type().Field(i).Name, calls.Field(i)
			req := reflect.New(call.Type().In(2).Elem())
			switch r := req.Interface().(type) {
			case *wire.DeliverRequest:
				r.Links = linksOf("example", 1000)
			case *wire.LoadRequest:
				r.Host = "http://example.org"
			}
			if err := call.Call([]reflect.Value{reflect.ValueOf(t.Context()), reflect.ValueOf("b"), req})[1]; !err.IsNil() {
				t.Errorf("%s: %v", name, err)
			}
			s, g := a.client.Counts().Procedures[name], b.server.Counts().Procedures[name]
			want := peer.Traffic{MessagesSent: 1, BytesSent: g.BytesReceived, MessagesReceived: 1, BytesReceived: g.BytesSent}
			if seen := b.handler.seen(); len(seen) != i+1 || seen[name] != 1 || s != want || g.MessagesReceived != 1 || g.MessagesSent != 1 {
				t.Errorf("%s: carried out %v, %+v sent, %+v received", name, seen, s, g)
			}
		}
		// Compressed: a link of 27 bytes takes less than two.
		if n := a.client.Counts().Procedures["Deliver"].BytesSent; n < 100 || n > 2000 {
			t.Errorf("1,000 links took %d bytes", n)
		}
	})
}

// Who is not of the crawl gets no call carried out, and both ends say why.
func TestStrangersAreRefused(t *testing.T) {
	for _, c := range []struct {
		name           string
		caller, callee who
		to             string
		kind           string // at the caller
		told           string // at the callee
	}{
		{"another secret", who{secret: secretOf(2)}, who{}, "b", peer.KindSecret, peer.KindHandshake},
		{"another node at the address", who{}, who{listens: "c"}, "c", peer.KindIdentity, peer.KindHandshake},
		{"another run", who{run: "other"}, who{}, "b", peer.KindRun, peer.KindRun},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				a, b := w.node("a", c.caller), w.node("b", c.callee)
				_, err := a.ask(c.to)
				if !errors.Is(err, peer.ErrRefused) || errors.Is(err, peer.ErrUnavailable) || peer.Kind(err) != c.kind {
					t.Errorf("%v of kind %q, want kind %q, refused", err, peer.Kind(err), c.kind)
				}
				synctest.Wait()
				if a.client.Counts().Failures[c.kind] != 1 || b.server.Counts().Failures[c.told] != 1 || len(b.handler.seen()) > 0 {
					t.Errorf("the caller counts %v, the callee %v; carried out %v", a.client.Counts().Failures, b.server.Counts().Failures, b.handler.seen())
				}
				caller := "a"
				if c.told == peer.KindHandshake { // nobody knows its name yet
					caller = w.addr("a").String()
				}
				if told := b.refused(); len(told) != 1 || told[0].Kind != c.told || told[0].Reason == "" || told[0].Peer != caller {
					t.Errorf("told %+v, want one of kind %s", told, c.told)
				}
			})
		})
	}
}

func TestGarbageInsteadOfTLS(t *testing.T) {
	betweenTwo(t, func(t *testing.T, w *world, a, b *testNode) {
		for _, text := range []string{"GET / HTTP/1.1\r\nHost: b\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
			strings.Repeat("\x16\x03\x01\xff\xff", 100), ""} {
			c, err := w.place("stranger").DialContext(t.Context(), "tcp", w.at("b"))
			must(t, err)
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			if _, err := io.Copy(io.Discard, c); err != nil && text == "" {
				t.Error(err)
			}
			within(t, "getting rid of garbage", time.Since(begin), 0, 6*time.Second)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if n := b.server.Counts().Failures[peer.KindHandshake]; n != 4 {
			t.Errorf("%v, want 4 handshakes", b.server.Counts().Failures)
		}
		a.reaches("b")
	})
}

func TestOversizedMessagesAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		small := func(c *peer.Config) { c.MessageBytes = 1 << 20 }
		a, b := w.node("a", who{cfg: func(c *peer.Config) { c.MessageBytes = 64 << 20 }}), w.node("b", who{cfg: small})
		send := func(from *testNode, to string, n int) error {
			_, err := from.client.Load(context.Background(), to, &wire.LoadRequest{Host: "http://a.example", Cursor: make([]byte, n)})
			return err
		}
		if err := send(a, "b", 1<<20-100); err != nil {
			t.Error(err)
		}
		// Compressed it is tiny: what counts is what it becomes.
		for _, n := range []int{1 << 20, 60 << 20} {
			if err := send(a, "b", n); !errors.Is(err, peer.ErrMalformed) || peer.Kind(err) != peer.KindOversized {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
		if n := b.server.Counts().Failures[peer.KindOversized]; n != 2 || len(b.refused()) != 1 {
			t.Errorf("counted %v, told %+v", b.server.Counts().Failures, b.refused())
		}
		if err := send(b, "a", 2<<20); err == nil && w.net.Stats().Bytes > 1<<20 {
			t.Errorf("%d bytes were sent", w.net.Stats().Bytes)
		}
		if err := send(a, "b", 10); err != nil {
			t.Errorf("and afterwards: %v", err)
		}
	})
}

// Whatever goes wrong in a handler, its caller learns what it can do about it, and the node goes on.
func TestErrorsOfHandlers(t *testing.T) {
	for _, c := range []struct {
		kind  string
		fails func() error
		is    error
		calls int
	}{
		{peer.KindMalformed, func() error { return fmt.Errorf("address of 3 bytes: %w", peer.ErrMalformed) }, peer.ErrMalformed, 1},
		{peer.KindUnavailable, func() error { return fmt.Errorf("view: %w", peer.ErrUnavailable) }, peer.ErrUnavailable, 3},
		{peer.KindUnavailable, func() error { return peer.Later("the node is starting") }, peer.ErrUnavailable, 3},
		{peer.KindInternal, func() error { return errors.New("disk is broken") }, nil, 1},
		{peer.KindInternal, func() error { return nil }, nil, 1}, // and no answer
		{peer.KindPanic, func() error { panic("oh\nno") }, nil, 1},
	} {
		betweenTwo(t, func(t *testing.T, w *world, a, b *testNode) {
			ids := map[uint64]bool{}
			b.handler.OnIdle = func(_ context.Context, _ string, r *wire.IdleRequest) (*wire.IdleResponse, error) {
				ids[r.Header.Id] = true
				return nil, c.fails()
			}
			_, err := a.ask("b")
			if err == nil || strings.Contains(err.Error(), "\n") || peer.Kind(err) != c.kind {
				t.Errorf("%v of kind %s, want %s", err, peer.Kind(err), c.kind)
			}
			for _, is := range []error{peer.ErrMalformed, peer.ErrUnavailable, peer.ErrRefused} {
				if errors.Is(err, is) != (is == c.is) {
					t.Errorf("%v is %v: %v", err, is, errors.Is(err, is))
				}
			}
			if calls := b.handler.seen()["Idle"]; calls != c.calls || len(ids) != 1 {
				t.Errorf("%s: %d calls under %d ids, want %d under one", c.kind, calls, len(ids), c.calls)
			}
			if told := b.refused(); len(told) != 1 || told[0].Kind != c.kind || strings.Contains(told[0].Reason, "\n") {
				t.Errorf("told %+v", told)
			}
			b.handler.OnIdle = nil
			a.reaches("b")
		})
	}
}

// What a peer says of an error ends up in the status and the logs of who called it.
func TestWordsOfPeersAreBounded(t *testing.T) {
	betweenTwo(t, func(t *testing.T, w *world, a, b *testNode) {
		words := "\x1b[31m\n" + strings.Repeat("word ", 1<<18)
		bounded := func(said string, most int) {
			t.Helper()
			if !strings.Contains(said, "word") || len(said) > most || strings.ContainsAny(said, "\n\x1b") {
				t.Errorf("%d bytes: %.100q", len(said), said)
			}
		}
		b.handler.OnIdle = func(context.Context, string, *wire.IdleRequest) (*wire.IdleResponse, error) {
			return nil, errors.New(words)
		}
		_, err := a.ask("b")
		bounded(fmt.Sprint(err), 500)
		b.handler.OnDeliver = func(context.Context, string, *wire.DeliverRequest) (*wire.DeliverResponse, error) {
			return &wire.DeliverResponse{Answers: []*wire.Delivered{{Verdict: wire.Verdict_VERDICT_REFUSED, Reason: words}}}, nil
		}
		told := ""
		o, stop := running(t, peer.Default(), peer.OutboxDeps{Deliver: a.client.Deliver,
			Refused: func(_ string, _ *wire.Link, reason string) { told = reason }})
		add(t, o, "b", linksOf("b", 1))
		sleep(2 * time.Second)
		bounded(told, 300)
		stop()
	})
}

func TestTriesWhileThePeerRestarts(t *testing.T) {
	betweenTwo(t, func(t *testing.T, w *world, a, _ *testNode) {
		a.reaches("b")
		w.net.Reset(w.addr("a"), w.addr("b"))
		a.reaches("b") // after a reset
		delete(w.addrs, "b")
		w.net.Reset(w.addr("a"), w.addr("b"))
		begin := time.Now()
		a.fails("b", peer.ErrUnavailable) // without an address
		within(t, "three tries", time.Since(begin), 150*time.Millisecond, 450*time.Millisecond)
		w.addrs["b"] = netip.AddrPortFrom(w.addr("b"), 1).String()
		a.fails("b", peer.ErrUnavailable) // nobody listens
	})
}

func TestNoCallLastsLongerThanItsTimeout(t *testing.T) {
	betweenTwo(t, func(t *testing.T, w *world, a, b *testNode) {
		call := func() {
			t.Helper()
			begin := time.Now()
			a.fails("b", peer.ErrUnavailable)
			within(t, "the call", time.Since(begin), 9*time.Second, 10*time.Second)
		}
		w.net.Cut(w.addr("a"), w.addr("b"))
		call()
		w.net.Heal()
		a.reaches("b")
		w.net.Cut(w.addr("a"), w.addr("b"))
		call()
		// The connection was given up; a new one works as soon as the network does.
		time.Sleep(30 * time.Second)
		w.net.Heal()
		begin := time.Now()
		a.reaches("b")
		within(t, "the call after healing", time.Since(begin), 0, time.Second)
		b.handler.OnIdle = func(ctx context.Context, _ string, _ *wire.IdleRequest) (*wire.IdleResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		call()
	})
}

// TestConnectionsThatEnd: one that is not used for five minutes is closed, and so is one whose other end has been silent for 15 seconds.
func TestConnectionsThatEnd(t *testing.T) {
	betweenTwo(t, func(t *testing.T, w *world, a, _ *testNode) {
		open := func(what string, want int) {
			t.Helper()
			if n := w.net.Ends(); n != want {
				t.Errorf("%s: %d ends of connections, want %d", what, n, want)
			}
		}
		a.reaches("b")
		time.Sleep(4*time.Minute + 30*time.Second)
		open("unused for less than five minutes", 2)
		time.Sleep(time.Minute)
		open("unused for longer", 0)
		for silent, want := range map[time.Duration]int{9 * time.Second: 2, 16 * time.Second: 0} {
			a.reaches("b")
			w.net.Partition([]netip.Addr{w.addr("b")})
			time.Sleep(silent)
			w.net.Heal() // the network forgets no connection before its ends can tell each other
			time.Sleep(time.Second)
			open(fmt.Sprintf("silent for %v", silent), want)
		}
	})
}

func TestForgetEndsCalls(t *testing.T) {
	betweenTwo(t, func(t *testing.T, w *world, a, b *testNode) {
		b.handler.OnIdle = func(ctx context.Context, _ string, _ *wire.IdleRequest) (*wire.IdleResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		failed := a.asking("b")
		begin := time.Now()
		a.client.Forget("b")
		if err := <-failed; !errors.Is(err, peer.ErrUnavailable) || errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		within(t, "forgetting", time.Since(begin), 0, time.Millisecond)
		if synctest.Wait(); w.net.Ends() != 0 {
			t.Errorf("%d ends of connections are left", w.net.Ends())
		}
		b.handler.OnIdle = nil
		a.reaches("b")
		a.client.Close()
		a.fails("b", peer.ErrClosed)
	})
}

func TestCallsOfOnePeerDoNotStopOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		few := who{cfg: func(c *peer.Config) { c.Calls, c.CallsPerPeer = 4, 3 }}
		a, b, c := w.node("a", few), w.node("b", few), w.node("c", few)
		release := make(chan struct{})
		var now, most atomic.Int64
		b.handler.OnIdle = func(_ context.Context, from string, _ *wire.IdleRequest) (*wire.IdleResponse, error) {
			if from == "a" {
				most.Store(max(most.Load(), now.Add(1)))
				<-release
				now.Add(-1)
			}
			return &wire.IdleResponse{}, nil
		}
		var calls []<-chan error
		for range 10 {
			calls = append(calls, a.asking("b"))
		}
		c.reaches("b")
		close(release)
		for _, done := range calls {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if most.Load() != 3 {
			t.Errorf("%d calls of one peer at once, want 3", most.Load())
		}
	})
}

func TestCallToItselfNeedsNoNetwork(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.node("a", who{})
		delete(w.addrs, "a")
		req := &wire.DeliverRequest{Links: []*wire.Link{{Url: "http://a/"}}}
		a.handler.OnDeliver = func(_ context.Context, from string, r *wire.DeliverRequest) (*wire.DeliverResponse, error) {
			if from != "a" || r == req || r.Header.Sender != "a" {
				t.Errorf("from %s: %v", from, r)
			}
			r.Links[0].Url = "changed"
			return &wire.DeliverResponse{}, nil
		}
		if _, err := a.client.Deliver(context.Background(), "a", req); err != nil || req.Links[0].Url != "http://a/" {
			t.Errorf("%v, %v", err, req)
		}
	})
}

func TestServerEndsWhileCallsHang(t *testing.T) {
	betweenTwo(t, func(t *testing.T, w *world, a, b *testNode) {
		left := false
		b.handler.OnIdle = func(ctx context.Context, _ string, _ *wire.IdleRequest) (*wire.IdleResponse, error) {
			<-ctx.Done()
			time.Sleep(500 * time.Millisecond) // it cleans up
			left = true
			return nil, ctx.Err()
		}
		failed := a.asking("b")
		begin := time.Now()
		w.stop()
		w.ended.Wait()
		if within(t, "the end", time.Since(begin), time.Second, 3*time.Second); !left {
			t.Error("the server ended before its handler")
		}
		if err := <-failed; !errors.Is(err, peer.ErrUnavailable) {
			t.Error(err)
		}
	})
}
