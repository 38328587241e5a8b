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

	"proxima/node/peer"
	"proxima/node/wire"
)

func TestCallReachesThePeerUnderItsName(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.every = 20 * time.Millisecond
		a, b := w.node("a", who{}), w.node("b", who{})
		b.handler.OnLease = func(_ context.Context, from string, req *wire.LeaseRequest) (*wire.LeaseResponse, error) {
			h := req.Header
			if from != "a" || h.Version != peer.Version || h.Run != "test" || h.Sender != "a" || h.Boot != 7 {
				t.Errorf("from %s, header %v", from, h)
			}
			return &wire.LeaseResponse{Answers: []*wire.LeaseAnswer{{RetryMs: int64(h.Id)}}}, nil
		}
		begin := time.Now()
		for want := int64(1); want < 4; want++ {
			res, err := a.client.Lease(context.Background(), "b", &wire.LeaseRequest{})
			if err != nil || len(res.Answers) != 1 || res.Answers[0].RetryMs != want {
				t.Fatalf("%v, %v; want the id %d", res, err, want)
			}
		}
		// One connection: TCP and TLS 1.3 take two round trips, and each call one.
		within(t, "three calls", time.Since(begin), 200*time.Millisecond, 250*time.Millisecond)
	})
}

// A call of each procedure reaches its own handler, and is counted alike at both ends.
func TestEveryProcedureHasItsHandler(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.node("a", who{}), w.node("b", who{})
		procedures := reflect.TypeFor[peer.Handler]()
		for i := range procedures.NumMethod() {
			name := procedures.Method(i).Name
			call := reflect.ValueOf(a.client).MethodByName(name)
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
			if seen := b.handler.seen(); len(seen) != i+1 || seen[name] != 1 || s.MessagesSent != 1 || s.MessagesReceived != 1 || g.MessagesReceived != 1 || g.MessagesSent != 1 ||
				s.BytesSent != g.BytesReceived || s.BytesReceived != g.BytesSent {
				t.Errorf("%s: carried out %v, %+v sent, %+v received", name, seen, s, g)
			}
		}
		// Compressed: a link of 27 bytes takes less than two.
		if n := a.client.Counts().Procedures["Deliver"].BytesSent; n < 100 || n > 2000 {
			t.Errorf("1,000 links took %d bytes", n)
		}
	})
}

func TestStrangersAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		caller who
		callee who
		id     string
		kind   string // at the caller
		told   string // at the callee, "" for nothing
	}{
		{name: "another secret", caller: who{secret: secretOf(2)}, kind: peer.KindSecret, told: peer.KindHandshake},
		{name: "another node at the address", callee: who{listens: "c"}, id: "c", kind: peer.KindIdentity,
			told: peer.KindHandshake},
		{name: "another run", caller: who{run: "other"}, kind: peer.KindRun, told: peer.KindRun},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				a, b := w.node("a", c.caller), w.node("b", c.callee)
				b.handler.OnIdle = func(context.Context, string, *wire.IdleRequest) (*wire.IdleResponse, error) {
					t.Error("the handler was called")
					return nil, nil
				}
				if c.id == "" {
					c.id = "b"
				}
				_, err := a.ask(c.id)
				if !errors.Is(err, peer.ErrRefused) || errors.Is(err, peer.ErrUnavailable) || peer.Kind(err) != c.kind {
					t.Errorf("%v of kind %q, want kind %q, refused", err, peer.Kind(err), c.kind)
				}
				if n := a.client.Counts().Failures[c.kind]; n != 1 {
					t.Errorf("the caller counts %v", a.client.Counts().Failures)
				}
				synctest.Wait()
				caller := "a"
				if c.told == peer.KindHandshake { // nobody knows its name yet
					caller = w.addr("a").String()
				}
				told := b.refused()
				if len(told) != 1 || told[0].Kind != c.told || told[0].Reason == "" || told[0].Peer != caller {
					t.Errorf("told %+v, want one of kind %s", told, c.told)
				}
				if n := b.server.Counts().Failures[c.told]; n != 1 {
					t.Errorf("the callee counts %v", b.server.Counts().Failures)
				}
			})
		})
	}
}

func TestGarbageInsteadOfTLS(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.node("a", who{}), w.node("b", who{})
		for _, text := range []string{"GET / HTTP/1.1\r\nHost: b\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
			strings.Repeat("\x16\x03\x01\xff\xff", 100), ""} {
			c := w.dialRaw("b")
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
		if _, err := a.ask("b"); err != nil {
			t.Error(err)
		}
	})
}

func TestOversizedMessagesAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		small := func(c *peer.Config) { c.MessageMiB = 1 }
		a, b := w.node("a", who{cfg: func(c *peer.Config) { c.MessageMiB = 64 }}), w.node("b", who{cfg: small})
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
		name  string
		fails func() error
		is    error
		kind  string
		calls int64
	}{
		{"malformed", func() error { return fmt.Errorf("address of 3 bytes: %w", peer.ErrMalformed) }, peer.ErrMalformed, peer.KindMalformed, 1},
		{"unavailable", func() error { return fmt.Errorf("view: %w", peer.ErrUnavailable) }, peer.ErrUnavailable, peer.KindUnavailable, 3},
		{"another", func() error { return errors.New("disk is broken") }, nil, peer.KindInternal, 1},
		{"none and no answer", func() error { return nil }, nil, peer.KindInternal, 1},
		{"panic", func() error { panic("oh\nno") }, nil, peer.KindPanic, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				a, b := w.node("a", who{}), w.node("b", who{})
				var calls atomic.Int64
				ids := map[uint64]bool{}
				b.handler.OnIdle = func(_ context.Context, _ string, r *wire.IdleRequest) (*wire.IdleResponse, error) {
					calls.Add(1)
					ids[r.Header.Id] = true
					return nil, c.fails()
				}
				_, err := a.ask("b")
				if err == nil || strings.Contains(err.Error(), "\n") || c.is != nil && !errors.Is(err, c.is) || peer.Kind(err) != c.kind {
					t.Errorf("%v of kind %s, want %v of %s", err, peer.Kind(err), c.is, c.kind)
				}
				for _, other := range []error{peer.ErrMalformed, peer.ErrUnavailable, peer.ErrRefused} {
					if other != c.is && errors.Is(err, other) {
						t.Errorf("%v is %v", err, other)
					}
				}
				if calls.Load() != c.calls || len(ids) != 1 {
					t.Errorf("%d calls under %d ids, want %d under one", calls.Load(), len(ids), c.calls)
				}
				if told := b.refused(); len(told) != 1 || told[0].Kind != c.kind || strings.Contains(told[0].Reason, "\n") {
					t.Errorf("told %+v", told)
				}
				b.handler.OnIdle = nil
				if _, err := a.ask("b"); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

func TestTriesWhileThePeerRestarts(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.node("a", who{})
		w.node("b", who{})
		if _, err := a.ask("b"); err != nil {
			t.Fatal(err)
		}
		w.net.Reset(w.addr("a"), w.addr("b"))
		if _, err := a.ask("b"); err != nil {
			t.Errorf("after a reset: %v", err)
		}
		delete(w.addrs, "b")
		w.net.Reset(w.addr("a"), w.addr("b"))
		begin := time.Now()
		if _, err := a.ask("b"); !errors.Is(err, peer.ErrUnavailable) {
			t.Errorf("without an address: %v", err)
		}
		within(t, "three tries", time.Since(begin), 150*time.Millisecond, 450*time.Millisecond)
		w.addrs["b"] = netip.AddrPortFrom(w.addr("b"), 1).String()
		if _, err := a.ask("b"); !errors.Is(err, peer.ErrUnavailable) {
			t.Errorf("nobody listens: %v", err)
		}
	})
}

func TestNoCallLastsLongerThanItsTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.node("a", who{}), w.node("b", who{})
		call := func(low, high time.Duration) {
			t.Helper()
			begin := time.Now()
			if _, err := a.ask("b"); !errors.Is(err, peer.ErrUnavailable) {
				t.Errorf("%v", err)
			}
			within(t, "the call", time.Since(begin), low, high)
		}
		w.net.Cut(w.addr("a"), w.addr("b"))
		call(9*time.Second, 10*time.Second)
		w.net.Heal()
		if _, err := a.ask("b"); err != nil {
			t.Fatal(err)
		}
		w.net.Cut(w.addr("a"), w.addr("b"))
		call(9*time.Second, 10*time.Second)
		// The connection was given up; a new one works as soon as the network does.
		time.Sleep(30 * time.Second)
		w.net.Heal()
		begin := time.Now()
		if _, err := a.ask("b"); err != nil {
			t.Error(err)
		}
		within(t, "the call after healing", time.Since(begin), 0, time.Second)
		b.handler.OnIdle = func(ctx context.Context, _ string, _ *wire.IdleRequest) (*wire.IdleResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		call(9*time.Second, 10*time.Second)
	})
}

// TestConnectionsThatEnd: one that is not used for five minutes is closed, and so is one whose other end has been silent for 15 seconds.
func TestConnectionsThatEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.node("a", who{})
		w.node("b", who{})
		open := func(what string, want int) {
			t.Helper()
			if n := w.net.Ends(); n != want {
				t.Errorf("%s: %d ends of connections, want %d", what, n, want)
			}
		}
		ask := func() {
			t.Helper()
			if _, err := a.ask("b"); err != nil {
				t.Fatal(err)
			}
		}
		ask()
		time.Sleep(4*time.Minute + 30*time.Second)
		open("unused for less than five minutes", 2)
		time.Sleep(time.Minute)
		open("unused for longer", 0)
		for silent, want := range map[time.Duration]int{9 * time.Second: 2, 16 * time.Second: 0} {
			ask()
			w.net.Partition([]netip.Addr{w.addr("b")})
			time.Sleep(silent)
			w.net.Heal() // the network forgets no connection before its ends can tell each other
			time.Sleep(time.Second)
			open(fmt.Sprintf("silent for %v", silent), want)
		}
	})
}

func TestForgetEndsCalls(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.node("a", who{}), w.node("b", who{})
		entered := make(chan struct{})
		b.handler.OnRenew = func(ctx context.Context, _ string, _ *wire.RenewRequest) (*wire.RenewResponse, error) {
			close(entered)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		failed := make(chan error)
		go func() {
			_, err := a.client.Renew(context.Background(), "b", &wire.RenewRequest{})
			failed <- err
		}()
		<-entered
		begin := time.Now()
		a.client.Forget("b")
		if err := <-failed; !errors.Is(err, peer.ErrUnavailable) || errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		within(t, "forgetting", time.Since(begin), 0, time.Millisecond)
		if synctest.Wait(); w.net.Ends() != 0 {
			t.Errorf("%d ends of connections are left", w.net.Ends())
		}
		if _, err := a.ask("b"); err != nil {
			t.Errorf("dialled anew: %v", err)
		}
		a.client.Close()
		if _, err := a.ask("b"); !errors.Is(err, peer.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestCallsOfOnePeerDoNotStopOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		few := who{cfg: func(c *peer.Config) { c.Calls, c.CallsPerPeer = 4, 3 }}
		a, b, c := w.node("a", few), w.node("b", few), w.node("c", few)
		release := make(chan struct{})
		var now, most atomic.Int64
		b.handler.OnRenew = func(context.Context, string, *wire.RenewRequest) (*wire.RenewResponse, error) {
			most.Store(max(most.Load(), now.Add(1)))
			<-release
			now.Add(-1)
			return &wire.RenewResponse{}, nil
		}
		done := make(chan error, 10)
		for range 10 {
			go func() {
				_, err := a.client.Renew(context.Background(), "b", &wire.RenewRequest{})
				done <- err
			}()
		}
		synctest.Wait()
		if _, err := c.ask("b"); err != nil {
			t.Error(err)
		}
		close(release)
		for range 10 {
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
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.node("a", who{}), w.node("b", who{})
		entered, left := make(chan struct{}), false
		b.handler.OnIdle = func(ctx context.Context, _ string, _ *wire.IdleRequest) (*wire.IdleResponse, error) {
			close(entered)
			<-ctx.Done()
			time.Sleep(500 * time.Millisecond) // it cleans up
			left = true
			return nil, ctx.Err()
		}
		failed := make(chan error, 1)
		go func() { _, err := a.ask("b"); failed <- err }()
		<-entered
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
