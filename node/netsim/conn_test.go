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
	must(t, err)
	near = dialed(t, a, 2, 80)
	far, err = l.Accept()
	must(t, err)
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
		took := watch(t)
		fails(t, "to nobody", syscall.ECONNREFUSED, dial(t, a, 2))
		took("refused", 80*time.Millisecond)
		l, err := b.Listen("tcp", "0.0.0.0:80")
		must(t, err)
		_, err = b.Listen("tcp", "198.18.0.2:80")
		fails(t, "listened twice", syscall.EADDRINUSE, err)
		_, err = b.Listen("tcp", "198.18.0.1:80")
		fails(t, "listened at another's address", syscall.EADDRNOTAVAIL, err)
		took = watch(t)
		c := dialed(t, a, 2, 80)
		took("connected", 80*time.Millisecond)
		_, err = c.Write([]byte("hello"))
		must(t, err)
		far, err := l.Accept()
		must(t, err)
		took("accepted", 120*time.Millisecond)
		buf := make([]byte, 9)
		if k, err := far.Read(buf); string(buf[:k]) != "hello" {
			t.Errorf("read %q: %v", buf[:k], err)
		}
		took("read", 120*time.Millisecond)
		if far.RemoteAddr().String() != c.LocalAddr().String() || far.LocalAddr().String() != "198.18.0.2:80" {
			t.Errorf("from %v to %v", far.RemoteAddr(), far.LocalAddr())
		}
		must(t, l.Close())
		fails(t, "to a closed port", syscall.ECONNREFUSED, dial(t, a, 2))
	})
}

func TestNobodyAnswers(t *testing.T) {
	bubble(t, delays(40*time.Millisecond), func(t *testing.T, n *Network) {
		a, b := n.end(t, 1, 0, 0), n.end(t, 2, 0, 0)
		pages(t, b, 1, 0)
		n.Partition([]netip.Addr{addr(2)})
		for _, to := range []string{"198.18.0.2:80", "198.18.0.9:80"} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			took := watch(t)
			_, err := a.DialContext(ctx, "tcp", to)
			fails(t, to, context.DeadlineExceeded, err)
			took(to, 5*time.Second)
			cancel()
		}
		took := watch(t)
		fails(t, "without a deadline", syscall.ETIMEDOUT, dial(t, a, 9))
		took("without a deadline", 127*time.Second)
		// The second repetition, three seconds after the first request, gets through.
		took = watch(t)
		time.AfterFunc(2*time.Second, n.Heal)
		dialed(t, a, 2, 80).Close()
		took("after the partition began", 3080*time.Millisecond)
	})
}

func TestHalfClose(t *testing.T) {
	bubble(t, delays(40*time.Millisecond), func(t *testing.T, n *Network) {
		near, far := pair(t, n)
		_, _ = near.Write([]byte("question"))
		must(t, near.(*conn).CloseWrite())
		_, err := near.Write([]byte("more"))
		fails(t, "wrote after the end", net.ErrClosed, err)
		all(t, far, "question")
		_, err = far.Write([]byte("answer"))
		must(t, err)
		must(t, far.Close())
		all(t, near, "answer")
		must(t, near.Close())
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
		took := watch(t)
		fails(t, "read", syscall.ECONNRESET, read(near))
		took("reset", 40*time.Millisecond)
		_, err := near.Write([]byte("x"))
		fails(t, "wrote to nobody", syscall.ECONNRESET, err)
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
			_, err := near.Write([]byte("under way, "))
			must(t, err)
			time.Sleep(10 * time.Millisecond)
			cut(n)
			_, err = near.Write([]byte("and later"))
			must(t, err)
			_ = far.SetReadDeadline(time.Now().Add(time.Second))
			fails(t, name+": read", os.ErrDeadlineExceeded, read(far))
			_ = far.SetReadDeadline(time.Time{})
			near.Close()
			time.AfterFunc(time.Hour, n.Heal)
			begin := time.Now()
			all(t, far, "under way, and later")
			if took := time.Since(begin).Round(time.Second); took != time.Hour {
				t.Errorf("%s: it took %v", name, took)
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
			fails(t, "read", syscall.ECONNRESET, read(c))
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
		must(t, b.Close())
		took := watch(t)
		fails(t, "read", syscall.ECONNRESET, read(c))
		took("reset", 40*time.Millisecond)
		fails(t, "the dead dials", net.ErrClosed, dial(t, b, 1))
		_, err := b.Listen("tcp", ":80")
		fails(t, "the dead listens", net.ErrClosed, err)
		fails(t, "to the dead", syscall.ECONNREFUSED, dial(t, a, 2))
		next, err := n.Open(addr(2))
		must(t, err)
		pages(t, next, 10, 0)
		download(t, a, 2, 10)
	})
}

// What is under way ends with its network, and nothing remains.
// A process that is stopped in the first half of each second sees in the second half what has come meanwhile. Its system goes on.
func TestAProcessThatStops(t *testing.T) {
	bubble(t, delays(10*time.Millisecond), func(t *testing.T, n *Network) {
		took := watch(t)
		until := func(at time.Duration) { time.Sleep(at - time.Since(n.start)) }
		a, b := n.end(t, 1, 0, 0), n.end(t, 2, 0, 0)
		a.Hold(func(at time.Duration) time.Duration { return max(0, 500*time.Millisecond-at%time.Second) })
		far, err := b.Listen("tcp", ":80")
		must(t, err)
		near, err := a.Listen("tcp", ":80")
		must(t, err)
		to, err := a.Gossip(7946)
		must(t, err)
		from, err := b.Gossip(7946)
		must(t, err)

		c := dialed(t, a, 2, 80)
		took("connected", 500*time.Millisecond)
		d, err := far.Accept()
		must(t, err)
		until(1100 * time.Millisecond)
		_, err = d.Write([]byte("x"))
		must(t, err)
		must(t, read(c))
		took("read", 1500*time.Millisecond)
		_, err = d.Write([]byte("x"))
		must(t, err)
		must(t, read(c))
		took("read while it runs", 1510*time.Millisecond)
		until(2100 * time.Millisecond)
		_, err = from.WriteTo([]byte("x"), to.at.String())
		must(t, err)
		if p := <-to.PacketCh(); p.Timestamp.Sub(n.start) != 2500*time.Millisecond {
			t.Errorf("the packet came at %v", p.Timestamp.Sub(n.start))
		}
		took("heard", 2500*time.Millisecond)
		until(3 * time.Second)
		must(t, dial(t, b, 1))
		took("connected from without", 3020*time.Millisecond)
		_, err = near.Accept()
		must(t, err)
		took("accepted", 3500*time.Millisecond)
	})
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(delays(time.Millisecond))
		near, _ := pair(t, n)
		lonely := n.end(t, 3, 0, 0)
		socket, err := lonely.ListenPacket("udp", ":53")
		must(t, err)
		l, err := lonely.Listen("tcp", ":80")
		must(t, err)
		errs := make(chan error)
		for _, wait := range []func() error{
			func() error { return read(near) },
			func() error { _, err := near.Write(make([]byte, 3*buffer)); return err },
			func() error { _, _, err := socket.ReadFrom(make([]byte, 1)); return err },
			func() error { _, err := l.Accept(); return err },
			func() error { return dial(t, lonely, 9) },
		} {
			go func() { errs <- wait() }()
		}
		synctest.Wait()
		n.Close()
		for range 5 {
			fails(t, "what was under way", net.ErrClosed, <-errs)
		}
		_, err = n.Open(addr(1))
		fails(t, "opened", net.ErrClosed, err)
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
		must(t, <-done)
		download(t, node, 1, 10_000)
	}
	if got := n.Stats(); got.LateP99 < got.LateP50 || got.LateP99 == 0 {
		t.Errorf("%+v", got)
	}
}

// Several fetchers of a node may be the first to dial from its host.
func TestOpenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(func(_, _ netip.Addr) time.Duration { return 0 })
		defer n.Close()
		for k := range 500 {
			var g errgroup.Group
			for range 8 {
				g.Go(func() error {
					_, err := n.Open(Place(k))
					return err
				})
			}
			must(t, g.Wait())
		}
	})
}
