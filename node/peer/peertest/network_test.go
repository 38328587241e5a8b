package peertest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/peer/peertest"
)

// connected is two ends of a connection between a and b.
func connected(t *testing.T, n *peertest.Network) (a, b net.Conn, l net.Listener) {
	t.Helper()
	l, err := n.Listen("b:1")
	if err != nil {
		t.Fatal(err)
	}
	if a, err = n.Dialer("a")(context.Background(), "tcp", "b:1"); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b, l
}

func TestBytesTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		n.SetLatency("b", "a", 30*time.Millisecond)
		begin := time.Now()
		a, b, _ := connected(t, n)
		if d := time.Since(begin); d != 60*time.Millisecond {
			t.Errorf("connected after %v", d)
		}
		sent := bytes.Repeat([]byte("0123456789"), 300_000) // more than is under way at once
		go func() {
			if _, err := a.Write(sent); err != nil {
				t.Error(err)
			}
			a.Close() //nolint:errcheck // it has none
		}()
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if d := time.Since(begin); d != 150*time.Millisecond { // three windows of a MiB
			t.Errorf("read after %v", d)
		}
		if n.Bytes() != 3_000_000 {
			t.Errorf("%d bytes", n.Bytes())
		}
	})
}

func TestCutHoldsBackAndHealLetsThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		a, b, _ := connected(t, n)
		n.Cut("a", "b")
		if _, err := a.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		buf := make([]byte, 10)
		if err := b.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Error(err)
		}
		if k, err := b.Read(buf); k != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes over a cut, %v", k, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := n.Dialer("a")(ctx, "tcp", "b:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dialled over a cut: %v", err)
		}
		if err := b.SetReadDeadline(time.Time{}); err != nil {
			t.Error(err)
		}
		time.AfterFunc(time.Hour, func() { n.Heal("b", "a") })
		begin := time.Now()
		if k, err := b.Read(buf); k != 1 || err != nil || time.Since(begin) != time.Hour {
			t.Errorf("%d bytes, %v after %v", k, err, time.Since(begin))
		}
	})
}

func TestKillAndResetBreakConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		a, b, l := connected(t, n)
		n.Reset("b", "a")
		for _, c := range []net.Conn{a, b} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Error(err)
			}
			if _, err := c.Write(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Error(err)
			}
		}
		if _, err := n.Listen("b:1"); !errors.Is(err, syscall.EADDRINUSE) {
			t.Error(err)
		}
		n.Kill("b")
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := n.Dialer("a")(context.Background(), "tcp", "b:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error(err)
		}
		if _, err := n.Listen("b:1"); err != nil {
			t.Errorf("after a death: %v", err)
		}
	})
}
