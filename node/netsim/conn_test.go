package netsim

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/nettest"
	"golang.org/x/sync/errgroup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is both ends of a connection between hosts 1 and 2.
func pair(t *testing.T, n *Network) (near, far net.Conn) {
	t.Helper()
	a, b := n.end(t, 1, 0, 0), n.end(t, 2, 0, 0)
	l, err := b.Listen("tcp", ":80")
	if err != nil {
		t.Fatal(err)
	}
	near = dialed(t, a, 2, 80)
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

func TestConnectionsDoAsTheStandardLibraryWants(t *testing.T) {
	for _, delay := range []time.Duration{0, 200 * time.Microsecond} {
		t.Run(delay.String(), func(t *testing.T) {
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				n := New(delays(delay))
				near, far := pair(t, n)
				return near, far, func() {
					near.Close()
					far.Close()
					n.Close()
				}, nil
			})
		})
	}
}

func TestConnectingTakesARoundTrip(t *testing.T) {
	bubble(t, delays(40*time.Millisecond), func(t *testing.T, n *Network) {
		a, b := n.end(t, 1, 0, 0), n.end(t, 2, 0, 0)
		begin := time.Now()
		_, err := a.DialContext(t.Context(), "tcp", "198.18.0.2:80")
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Since(begin) != 80*time.Millisecond {
			t.Errorf("refused after %v: %v", time.Since(begin), err)
		}
		l, err := b.Listen("tcp", "0.0.0.0:80")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Listen("tcp", "198.18.0.2:80"); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("listened twice: %v", err)
		}
		if _, err := b.Listen("tcp", "198.18.0.1:80"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Errorf("listened at another's address: %v", err)
		}
		begin = time.Now()
		c := dialed(t, a, 2, 80)
		if time.Since(begin) != 80*time.Millisecond {
			t.Errorf("connected after %v", time.Since(begin))
		}
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Error(err)
		}
		far, err := l.Accept()
		if err != nil || time.Since(begin) != 120*time.Millisecond {
			t.Errorf("accepted after %v: %v", time.Since(begin), err)
		}
		buf := make([]byte, 9)
		if k, err := far.Read(buf); string(buf[:k]) != "hello" || time.Since(begin) != 120*time.Millisecond {
			t.Errorf("read %q after %v: %v", buf[:k], time.Since(begin), err)
		}
		if far.RemoteAddr().String() != c.LocalAddr().String() || far.LocalAddr().String() != "198.18.0.2:80" {
			t.Errorf("from %v to %v", far.RemoteAddr(), far.LocalAddr())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := a.DialContext(t.Context(), "tcp", "198.18.0.2:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("connected to nobody: %v", err)
		}
	})
}

func TestNobodyAnswers(t *testing.T) {
	bubble(t, delays(40*time.Millisecond), func(t *testing.T, n *Network) {
		a, b := n.end(t, 1, 0, 0), n.end(t, 2, 0, 0)
		pages(t, b, 1, 0)
		n.Partition([]netip.Addr{addr(2)})
		for _, to := range []string{"198.18.0.2:80", "198.18.0.9:80"} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			begin := time.Now()
			_, err := a.DialContext(ctx, "tcp", to)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 5*time.Second {
				t.Errorf("%s: after %v: %v", to, time.Since(begin), err)
			}
			cancel()
		}
		begin := time.Now()
		_, err := a.DialContext(t.Context(), "tcp", "198.18.0.9:80")
		if !errors.Is(err, syscall.ETIMEDOUT) || time.Since(begin) != 127*time.Second {
			t.Errorf("without a deadline: after %v: %v", time.Since(begin), err)
		}
		// The second repetition, three seconds after the first request, gets through.
		begin = time.Now()
		time.AfterFunc(2*time.Second, n.Heal)
		dialed(t, a, 2, 80).Close()
		if time.Since(begin) != 3080*time.Millisecond {
			t.Errorf("connected %v after the partition began", time.Since(begin))
		}
	})
}

func TestHalfClose(t *testing.T) {
	bubble(t, delays(40*time.Millisecond), func(t *testing.T, n *Network) {
		near, far := pair(t, n)
		_, _ = near.Write([]byte("question"))
		if err := near.(*conn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := near.Write([]byte("more")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("wrote after the end: %v", err)
		}
		if got, err := io.ReadAll(far); string(got) != "question" || err != nil {
			t.Errorf("read %q: %v", got, err)
		}
		if _, err := far.Write([]byte("answer")); err != nil {
			t.Error(err)
		}
		if err := far.Close(); err != nil {
			t.Error(err)
		}
		if got, err := io.ReadAll(near); string(got) != "answer" || err != nil {
			t.Errorf("read %q: %v", got, err)
		}
		if err := near.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if synctest.Wait(); len(n.conns) != 0 {
			t.Errorf("%d ends are still known", len(n.conns))
		}
	})
}

func TestClosingTooEarlyResets(t *testing.T) {
	bubble(t, delays(40*time.Millisecond), func(t *testing.T, n *Network) {
		near, far := pair(t, n)
		_, _ = near.Write(make([]byte, 100_000))
		time.Sleep(50 * time.Millisecond)
		far.Close() // with something unread
		begin := time.Now()
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) || time.Since(begin) != 40*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("wrote to nobody: %v", err)
		}
		near.Close()
		if len(n.conns) != 0 {
			t.Errorf("%d ends are still known", len(n.conns))
		}
	})
}

func TestAReaderThatDoesNotReadStopsTheWriter(t *testing.T) {
	bubble(t, delays(5*time.Millisecond), func(t *testing.T, n *Network) {
		near, far := pair(t, n)
		_ = near.SetWriteDeadline(time.Now().Add(time.Minute))
		sent, err := near.Write(make([]byte, 3*buffer))
		if !errors.Is(err, os.ErrDeadlineExceeded) || sent > buffer+sendBuffer || sent < buffer {
			t.Fatalf("wrote %d: %v", sent, err)
		}
		_ = near.SetWriteDeadline(time.Time{})
		go func() {
			_, _ = near.Write(make([]byte, 3*buffer-sent))
			_ = near.Close()
		}()
		if got, err := io.Copy(io.Discard, far); got != 3*buffer || err != nil {
			t.Errorf("read %d: %v", got, err)
		}
	})
}

// What is sent into a cut comes when it ends, in order; what the application waits for meanwhile ends by its deadline.
func TestConnectionsOutliveCuts(t *testing.T) {
	for name, cut := range map[string]func(n *Network){
		"cut":       func(n *Network) { n.Cut(addr(2), addr(1)) },
		"partition": func(n *Network) { n.Partition([]netip.Addr{addr(1)}, []netip.Addr{addr(3)}) },
	} {
		bubble(t, delays(40*time.Millisecond), func(t *testing.T, n *Network) {
			near, far := pair(t, n)
			if _, err := near.Write([]byte("under way, ")); err != nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Millisecond)
			cut(n)
			if _, err := near.Write([]byte("and later")); err != nil {
				t.Error(err)
			}
			_ = far.SetReadDeadline(time.Now().Add(time.Second))
			if k, err := far.Read(make([]byte, 1)); k != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %d bytes came: %v", name, k, err)
			}
			_ = far.SetReadDeadline(time.Time{})
			near.Close()
			time.AfterFunc(time.Hour, n.Heal)
			begin := time.Now()
			if got, err := io.ReadAll(far); string(got) != "under way, and later" || err != nil || time.Since(begin).Round(time.Second) != time.Hour {
				t.Errorf("%s: read %q after %v: %v", name, got, time.Since(begin), err)
			}
		})
	}
}

func TestReset(t *testing.T) {
	bubble(t, delays(40*time.Millisecond), func(t *testing.T, n *Network) {
		near, far := pair(t, n)
		n.Reset(addr(3), addr(1))
		n.Reset(addr(2), addr(1))
		for _, c := range []net.Conn{near, far} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Error(err)
			}
		}
		if n.Ends() != 0 {
			t.Errorf("%d ends are left", n.Ends())
		}
	})
}

func TestOneLifeAfterAnother(t *testing.T) {
	bubble(t, delays(40*time.Millisecond), func(t *testing.T, n *Network) {
		a, b := n.end(t, 1, 0, 0), n.end(t, 2, 0, 0)
		pages(t, b, 10_000, 0)
		c := dialed(t, a, 2, 80)
		ask(t, c, 10_000)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) || time.Since(begin) != 40*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		if _, err := b.DialContext(t.Context(), "tcp", "198.18.0.1:80"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the dead dialled: %v", err)
		}
		if _, err := b.Listen("tcp", ":80"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the dead listens: %v", err)
		}
		if _, err := a.DialContext(t.Context(), "tcp", "198.18.0.2:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("connected to the dead: %v", err)
		}
		next, err := n.Open(addr(2))
		if err != nil {
			t.Fatal(err)
		}
		pages(t, next, 10, 0)
		download(t, a, 2, 10)
	})
}

// What is under way ends with its network, and nothing remains.
func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(delays(time.Millisecond))
		near, _ := pair(t, n)
		lonely := n.end(t, 3, 0, 0)
		socket, err := lonely.ListenPacket("udp", ":53")
		if err != nil {
			t.Fatal(err)
		}
		l, err := lonely.Listen("tcp", ":80")
		if err != nil {
			t.Fatal(err)
		}
		errs := make(chan error)
		for _, wait := range []func() error{
			func() error { _, err := near.Read(make([]byte, 1)); return err },
			func() error { _, err := near.Write(make([]byte, 3*buffer)); return err },
			func() error { _, _, err := socket.ReadFrom(make([]byte, 1)); return err },
			func() error { _, err := l.Accept(); return err },
			func() error { _, err := lonely.DialContext(context.Background(), "tcp", "198.18.0.9:1"); return err },
		} {
			go func() { errs <- wait() }()
		}
		synctest.Wait()
		n.Close()
		for range 5 {
			if err := <-errs; !errors.Is(err, net.ErrClosed) {
				t.Errorf("%v", err)
			}
		}
		if _, err := n.Open(addr(1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("opened: %v", err)
		}
	})
}

// The network runs in real time with a better timer and without one, and through the change.
func TestRun(t *testing.T) {
	n := New(delays(time.Millisecond))
	defer n.Close()
	server, node := n.end(t, 1, 0, 0), n.end(t, 2, 0, 0)
	pages(t, server, 10_000, 0)
	for range 3 {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- n.Run(ctx) }()
		for range 20 {
			if took := download(t, node, 1, 10_000); took < 4 {
				t.Errorf("it took %.3f ms, less than two round trips", took)
			}
		}
		stop()
		download(t, node, 1, 10_000) // while it ends
		if err := <-done; err != nil {
			t.Error(err)
		}
		download(t, node, 1, 10_000)
	}
	if got := n.Stats(); got.LateP99 < got.LateP50 || got.LateP99 == 0 {
		t.Errorf("%+v", got)
	}
}

// Several fetchers of a node may be the first to dial from its host.
func TestEnterAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(func(_, _ netip.Addr) time.Duration { return 0 })
		defer n.Close()
		for k := range 500 {
			var g errgroup.Group
			for range 8 {
				g.Go(func() error {
					_, err := n.Enter(Place(k))
					return err
				})
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
