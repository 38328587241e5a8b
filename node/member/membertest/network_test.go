package membertest

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func delays(from, to int) time.Duration { return time.Duration(10*from+to) * time.Millisecond }

func TestPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(delays)
		a, b := n.Transport(1), n.Transport(2)
		send := func() {
			if _, err := a.WriteTo([]byte("hello"), Addr(2)); err != nil {
				t.Fatal(err)
			}
		}
		got := func() bool {
			select {
			case p := <-b.PacketCh():
				if string(p.Buf) != "hello" || p.From.String() != Addr(1) {
					t.Errorf("got %q from %v", p.Buf, p.From)
				}
				return true
			case <-time.After(time.Second):
				return false
			}
		}
		begin := time.Now()
		send()
		if !got() || time.Since(begin) != 12*time.Millisecond {
			t.Errorf("it took %v", time.Since(begin))
		}
		for name, lose := range map[string]func(){
			"cut":       func() { n.Cut(2, 1) },
			"partition": func() { n.Partition([]int{1}) },
		} {
			lose()
			if send(); got() {
				t.Errorf("it came in spite of a %s", name)
			}
			n.Heal()
			if send(); !got() {
				t.Errorf("it did not come after a %s", name)
			}
		}
		send()
		n.Kill(2) // on the way
		if got() {
			t.Error("the dead got it")
		}
		if c := n.Counts(1); c.Packets != 6 || c.PacketBytes != 30 || n.Counts(2).Lost != 3 {
			t.Errorf("counts: %+v, %+v", c, n.Counts(2))
		}
	})
}

func TestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(delays)
		a, b := n.Transport(1), n.Transport(2)
		begin := time.Now()
		near, err := a.DialTimeout(Addr(2), time.Second)
		if err != nil || time.Since(begin) != 33*time.Millisecond {
			t.Fatalf("dialled in %v: %v", time.Since(begin), err)
		}
		far := <-b.StreamCh()
		begin = time.Now()
		_, _ = near.Write([]byte("hel"))
		_, _ = near.Write([]byte("lo"))
		buf := make([]byte, 5)
		if _, err := io.ReadFull(far, buf); err != nil || string(buf) != "hello" || time.Since(begin) != 12*time.Millisecond {
			t.Errorf("read %q after %v: %v", buf, time.Since(begin), err)
		}
		_ = far.SetDeadline(time.Now().Add(time.Second))
		if _, err := far.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the deadline: %v", err)
		}
		_ = far.SetDeadline(time.Time{})
		_, _ = near.Write([]byte("end"))
		_ = near.Close()
		if rest, err := io.ReadAll(far); err != nil || string(rest) != "end" {
			t.Errorf("at the end: %q, %v", rest, err)
		}
		if _, err := far.Write([]byte("x")); err == nil {
			t.Error("wrote to a closed stream")
		}

		n.Cut(1, 2)
		begin = time.Now()
		if _, err := a.DialTimeout(Addr(2), 3*time.Second); err == nil || time.Since(begin) != 3*time.Second {
			t.Errorf("dialled through a cut in %v: %v", time.Since(begin), err)
		}
		n.Heal()
		if err := b.Shutdown(); err != nil {
			t.Fatal(err)
		}
		if _, err := a.DialTimeout(Addr(2), time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dialled nobody: %v", err)
		}
	})
}

func TestIDsAreInOrder(t *testing.T) {
	for i := range 1000 {
		if ID(i) >= ID(i+1) || len(ID(i)) != 32 || number(AddrPort(i)) != i {
			t.Fatalf("place %d: %s %v", i, ID(i), AddrPort(i))
		}
	}
}
