package relay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/view"
)

// inner is a relay that does not run.
func inner(t *testing.T) *Relay {
	t.Helper()
	r, err := New(Deps{ID: fmt.Sprintf("%032x", 1), Way: func(string) (view.Way, bool) { return view.Way{Reach: view.Outbound}, true }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRoomForLinks: there are 512 links at most, whoever dials.
func TestRoomForLinks(t *testing.T) {
	r := inner(t)
	for i := range 512 {
		r.links[fmt.Sprint(i)] = newLink(t.Context(), fmt.Sprint(i))
	}
	if l := r.open("another"); l != nil {
		t.Error("a 513th link was dialled")
	}
	here, there := net.Pipe()
	r.accept(here, "another")
	if _, err := there.Read(make([]byte, 1)); err != io.EOF || len(r.links) != 512 {
		t.Errorf("a 513th link was taken: %v, %d links", err, len(r.links))
	}
}

// TestRoomForCalls: 256 connections are carried at once, 64 of one member at either end.
func TestRoomForCalls(t *testing.T) {
	for name, c := range map[string]struct {
		from, to func(i int) string
		most     int
	}{
		"of all":         {func(i int) string { return fmt.Sprint("a", i) }, func(i int) string { return fmt.Sprint("b", i) }, 256},
		"of one caller":  {func(int) string { return "a" }, func(i int) string { return fmt.Sprint("b", i) }, 64},
		"to one member":  {func(i int) string { return fmt.Sprint("a", i) }, func(int) string { return "b" }, 64},
		"there and back": {func(i int) string { return []string{"a", "b"}[i%2] }, func(i int) string { return []string{"b", "a"}[i%2] }, 64},
	} {
		r, n := inner(t), 0
		for n < 1000 && r.enter(c.from(n), c.to(n)) {
			n++
		}
		if n != c.most {
			t.Errorf("%s: %d connections, want %d", name, n, c.most)
		}
		if r.leave(c.from(0), c.to(0)); !r.enter(c.from(0), c.to(0)) {
			t.Errorf("%s: no room after one has ended", name)
		}
	}
}

// TestRoomForFrames: 64 frames wait for a link, of packets up to 2 KiB. More are dropped; a longer packet goes to the port.
func TestRoomForFrames(t *testing.T) {
	r, peer := inner(t), fmt.Sprintf("%032x", 2)
	l := newLink(r.ctx, peer)
	l.open.Store(true)
	r.links[peer] = l
	if r.Send(peer, make([]byte, 2049)) {
		t.Error("a packet of more than 2 KiB went by a link")
	}
	for range 100 {
		if !r.Send(peer, make([]byte, 2048)) {
			t.Fatal("a packet of 2 KiB went to the port")
		}
	}
	if n := len(l.out); n != 64 {
		t.Errorf("%d frames wait, want 64", n)
	}
}

// TestWhatIsNoFrame: what the protocol does not know is refused. So is a length that a type cannot have.
func TestWhatIsNoFrame(t *testing.T) {
	for name, f := range map[string]frame{
		"type 0":                {kind: 0},
		"type 6":                {kind: 6},
		"a ping with a payload": {kind: framePing, payload: []byte{1}},
		"a check with one":      {kind: frameCheck, payload: []byte{1}},
		"a call without a kind": {kind: frameCall},
		"a call of two kinds":   {kind: frameCall, payload: []byte{0, 1}},
		"a call of kind 2":      {kind: frameCall, payload: []byte{2}},
		"a long packet":         {kind: framePacket, payload: make([]byte, 2049)},
	} {
		if got, err := readFrame(bytes.NewReader(f.append(nil))); err == nil {
			t.Errorf("%s is read as %+v", name, got)
		}
	}
	if f, err := readFrame(bytes.NewReader(frame{kind: framePacket, payload: make([]byte, 2048)}.append(nil))); err != nil || len(f.payload) != 2048 {
		t.Errorf("a packet of 2 KiB: %v", err)
	}
	for name, head := range map[string][3]byte{"version 2": {2, roleLink, 0}, "role 0": {1, 0, 0}, "role 5": {1, 5, 0}, "kind 2": {1, roleCall, 2}} {
		if h, err := readHello(bytes.NewReader(append(head[:], make([]byte, 16)...))); err == nil {
			t.Errorf("%s is read as %+v", name, h)
		}
	}
}

// TestConnectionThatComesLate: one that comes when another one is in use is closed: it would hold a place at its other end.
func TestConnectionThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inner(t)
		r.links["peer"] = newLink(r.ctx, "peer")
		r.links["peer"].open.Store(true)
		r.deps.Connect = func(context.Context, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				_, _ = io.ReadFull(there, make([]byte, len(hello{}.append(nil))))
				r.mu.Lock() // so that the link is still asked when the relay has answered
				_, _ = there.Write([]byte{accepted})
			}()
			return here, nil
		}
		conn, err := r.race(t.Context(), "peer", id{}, Calls, []string{"relay"})
		if err != nil || len(r.waiting) != 1 {
			t.Fatalf("%v, the link is asked for %d connections", err, len(r.waiting))
		}
		late, there := net.Pipe()
		for _, come := range r.waiting {
			come <- late
		}
		r.mu.Unlock()
		_ = there.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := there.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the late one: %v", err)
		}
		_ = conn.Close()
		r.stop()
		r.work.Wait()
	})
}

// TestRoomForAnswers: 64 connections are made at once at the request of members. One that only asks whether it can be dialled waits three
// seconds, so its place is free then: many nodes behind NATs may ask at once.
func TestRoomForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, dialled := inner(t), 0
		r.deps.Connect = func(ctx context.Context, _ string) (net.Conn, error) {
			r.mu.Lock()
			dialled++
			r.mu.Unlock()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		asks := func(f frame, want int) {
			t.Helper()
			r.take(newLink(r.ctx, "peer"), f)
			if synctest.Wait(); dialled != want {
				t.Errorf("%d are dialled, want %d", dialled, want)
			}
		}
		call := frame{kind: frameCall, payload: []byte{byte(Calls)}}
		for i := range 64 {
			asks(frame{kind: frameCheck}, i+1)
		}
		asks(call, 64)
		time.Sleep(answerTime)
		synctest.Wait()
		asks(call, 65)
		r.stop()
		r.work.Wait()
	})
}
