package member

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"proxima/node/lobby"
	"proxima/node/relay"
)

// ports is a transport that counts what goes to ports.
type ports struct {
	memberlist.Transport
	came           chan *memberlist.Packet
	streams        chan net.Conn
	packets, dials int
}

func (p *ports) WriteTo([]byte, string) (time.Time, error) {
	p.packets++
	return time.Time{}, nil
}

func (p *ports) DialTimeout(string, time.Duration) (net.Conn, error) {
	p.dials++
	return nil, errors.New("nobody listens")
}

func (p *ports) PacketCh() <-chan *memberlist.Packet { return p.came }
func (p *ports) StreamCh() <-chan net.Conn           { return p.streams }
func (p *ports) Shutdown() error                     { return nil }

// oneLink reaches the member "linked", and counts what goes there.
type oneLink struct {
	came           chan *memberlist.Packet
	streams        chan net.Conn
	packets, dials int
}

func (l *oneLink) Send(id string, _ []byte) bool {
	if id == "linked" {
		l.packets++
	}
	return id == "linked"
}

func (l *oneLink) Dial(ctx context.Context, id string, kind relay.Kind) (net.Conn, error) {
	if _, bounded := ctx.Deadline(); id != "linked" || !bounded || kind != relay.Gossip {
		return nil, nil
	}
	l.dials++
	return nil, errors.New("the link is broken")
}

func (l *oneLink) Packets() <-chan *memberlist.Packet { return l.came }
func (l *oneLink) Streams() <-chan net.Conn           { return l.streams }
func (l *oneLink) Knocked(packet []byte) bool         { return string(packet) == "knock" }

// anybody is a prover whom nobody has met.
func anybody() *prover { return &prover{lobby: lobby.New(1, 0, nil)} }

// Packets and streams go by a link where there is one, otherwise to the port. Both are counted alike.
func TestLinksBeforePorts(t *testing.T) {
	for _, k := range []struct {
		what, name string
		links      bool
		byLink     int
	}{
		{"a member with a link", "linked", true, 1},
		{"a member without one", "other", true, 0},
		{"an address without a name", "", true, 0},
		{"a node without links", "linked", false, 0},
	} {
		p, l := &ports{}, &oneLink{}
		var links Links
		if k.links {
			links = l
		}
		c := newCarrier(p, anybody(), links, nil)
		to := memberlist.Address{Name: k.name, Addr: "192.0.2.1:7"}
		if _, err := c.WriteToAddress([]byte("four"), to); err != nil {
			t.Error(err)
		}
		if _, err := c.DialAddressTimeout(to, time.Second); err == nil {
			t.Errorf("%s: a stream came about", k.what)
		}
		if l.packets != k.byLink || l.dials != k.byLink || p.packets != 1-k.byLink || p.dials != 1-k.byLink {
			t.Errorf("%s: by links %d packets and %d streams, to ports %d and %d", k.what, l.packets, l.dials, p.packets, p.dials)
		}
		if c.sent.Load() != 1 || c.bytes.Load() != 4 {
			t.Errorf("%s: %d packets of %d bytes are counted", k.what, c.sent.Load(), c.bytes.Load())
		}
		if err := c.Shutdown(); err != nil {
			t.Error(err)
		}
		if _, err := c.WriteToAddress([]byte("four"), to); !errors.Is(err, net.ErrClosed) || l.packets+p.packets != 1 {
			t.Errorf("%s: after the end: %v, %d packets", k.what, err, l.packets+p.packets)
		}
		if _, err := c.DialAddressTimeout(to, time.Second); !errors.Is(err, net.ErrClosed) || l.dials+p.dials != 1 {
			t.Errorf("%s: after the end: %v, %d streams", k.what, err, l.dials+p.dials)
		}
	}
}

// Packets that came to the port or by links are passed on, unless the links keep one that came to the port. One that nobody takes any more
// holds up no end.
func TestPacketsOfLinksAndPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := &ports{came: make(chan *memberlist.Packet)}, &oneLink{came: make(chan *memberlist.Packet)}
		c := newCarrier(p, anybody(), l, nil)
		for _, k := range []struct {
			from   chan *memberlist.Packet
			packet string
			passed bool
		}{{p.came, "gossip", true}, {p.came, "knock", false}, {l.came, "knock", true}, {p.came, "gossip", true}} {
			k.from <- &memberlist.Packet{Buf: []byte(k.packet)}
			if !k.passed {
				continue // the next packet comes out in its place
			}
			if got := <-c.PacketCh(); string(got.Buf) != k.packet {
				t.Errorf("%q came out, not %q", got.Buf, k.packet)
			}
		}
		p.came <- &memberlist.Packet{Buf: []byte("late")}
		if err := c.Shutdown(); err != nil {
			t.Error(err)
		}
	})
}

// A node that is to be silent loses its packets, makes no streams, and closes those of members, until it may speak again.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := &ports{streams: make(chan net.Conn)}, &oneLink{}
		m := lone(t)
		m.Silence(true) // before it runs it has nothing to say
		key := bytes.Repeat([]byte{1}, 32)
		c := newCarrier(p, &prover{keys: func() [][]byte { return [][]byte{key} }, lobby: lobby.New(1, 0, nil)}, l, nil)
		m.carrier = c
		for i, silent := range []bool{true, false} {
			m.Silence(silent)
			for _, name := range []string{"linked", "other"} {
				to := memberlist.Address{Name: name, Addr: "192.0.2.1:7"}
				if _, err := c.WriteToAddress([]byte("four"), to); err != nil {
					t.Error(err)
				}
				if _, err := c.DialAddressTimeout(to, time.Second); errors.Is(err, net.ErrClosed) != silent {
					t.Errorf("silent %v: %v", silent, err)
				}
			}
			if packets, _ := m.Traffic(); l.packets != i || p.packets != i || l.dials != i || p.dials != i || packets != uint64(2*i) {
				t.Errorf("silent %v: %d and %d packets went, %d and %d streams; %d are counted", silent, l.packets, p.packets, l.dials, p.dials, packets)
			}
			here, there := net.Pipe()
			p.streams <- here
			if _, err := there.Write(sealed(t, key, "", []byte{markPing})); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			select {
			case s := <-c.StreamCh():
				_ = s.Close()
				if silent {
					t.Error("a stream was taken")
				}
			default:
				if !silent {
					t.Error("no stream was taken")
				}
			}
			if _, err := there.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("silent %v: the stream is open: %v", silent, err)
			}
		}
		if err := c.Shutdown(); err != nil {
			t.Error(err)
		}
	})
}

// A stream of a stranger is told and closed, whether it came to the port or by a link. One that says nothing does not delay the end.
func TestStreamsOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan error, 1)
		p, l := &ports{streams: make(chan net.Conn)}, &oneLink{streams: make(chan net.Conn)}
		c := newCarrier(p, anybody(), l, func(_ string, err error) { told <- err })
		for _, from := range []chan net.Conn{p.streams, l.streams} {
			here, there := net.Pipe()
			from <- here
			if _, err := there.Write([]byte("hello")); err != nil {
				t.Error(err)
			}
			if err := <-told; !strings.Contains(err.Error(), "not encrypted") {
				t.Error(err)
			}
			if _, err := there.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("it is open: %v", err)
			}
		}
		here, _ := net.Pipe()
		p.streams <- here
		begin := time.Now()
		if err := c.Shutdown(); err != nil || time.Since(begin) > 0 {
			t.Errorf("the end took %v, %v", time.Since(begin), err)
		}
	})
}

// A dial to a port takes no longer than it may. This one may take no time at all.
func TestDialsAreBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := newCarrier(&memberlist.NetTransport{}, anybody(), nil, nil)
	if _, err := c.DialAddressTimeout(memberlist.Address{Addr: l.Addr().String()}, -1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the dial ended with %v", err)
	}
	if err := errors.Join(c.Shutdown(), l.Close()); err != nil {
		t.Error(err)
	}
}

// A stream gives first what was read of it already, and maxStream bytes in all. After the end it is closed.
func TestStreamsAreBounded(t *testing.T) {
	p := &ports{}
	c := newCarrier(p, anybody(), nil, nil)
	here, there := net.Pipe()
	s := c.newStream(here, []byte("head"))
	if s.left != maxStream {
		t.Errorf("%d bytes may come", s.left)
	}
	s.left = 7
	go func() { _, _ = there.Write([]byte("tail")) }()
	tail := io.LimitReader(s, 3) // asks for more at once than may come
	if b, err := io.ReadAll(io.MultiReader(io.LimitReader(iotest.OneByteReader(s), 5), tail)); string(b) != "headtai" || err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("%q came, %v", b, err)
	}
	go func() { _, _ = io.Copy(io.Discard, there) }()
	if n, err := s.Write([]byte("five!")); n != 5 || err != nil || c.bytes.Load() != 5 {
		t.Errorf("%d bytes of %d are counted, %v", c.bytes.Load(), n, err)
	}
	if err := s.Close(); err != nil || s.unhook() {
		t.Errorf("closed, but remembered, or %v", err)
	}
	if _, err := s.Write([]byte("five!")); err == nil || c.bytes.Load() != 5 {
		t.Errorf("%d bytes are counted, of which 5 were written: %v", c.bytes.Load(), err)
	}
	open, first := net.Pipe()
	late, second := net.Pipe()
	c.newStream(open, nil)
	if err := c.Shutdown(); err != nil {
		t.Error(err)
	}
	c.newStream(late, nil)
	c.dial = func(ctx context.Context, _ string, _ time.Duration) (net.Conn, error) { return nil, ctx.Err() }
	if _, err := c.reach(memberlist.Address{}, time.Second); err == nil {
		t.Error("after the end a dial goes on")
	}
	for _, other := range []net.Conn{first, second} {
		if _, err := other.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("after the end it is open: %v", err)
		}
	}
}
