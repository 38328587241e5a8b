package lobby

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// conn is a connection of which only its origin matters.
type conn struct {
	net.Conn
	from   string
	closed bool
}

func (c *conn) RemoteAddr() net.Addr { return addr(c.from) }
func (c *conn) Close() error         { c.closed = true; return nil }

type addr string

func (a addr) Network() string { return "tcp" }
func (a addr) String() string  { return string(a) }

func from(host string) *conn { return &conn{from: net.JoinHostPort(host, "1")} }

func TestAFloodPushesOutItsOwn(t *testing.T) {
	l := New(64, 8, nil)
	first := from("192.0.2.1")
	guest := l.Enter(first)
	var flood []*conn
	for i := range 10_000 {
		c := from(fmt.Sprintf("198.51.100.%d", i%50))
		flood = append(flood, c)
		l.Enter(c)
	}
	if n, taken := l.Len(); n != 64 || taken != 64 {
		t.Errorf("%d guests with %d places, want 64", n, taken)
	}
	if first.closed || !guest.Leave() {
		t.Error("the flood pushed out another host")
	}
	if !flood[0].closed || flood[len(flood)-1].closed {
		t.Error("the oldest of the flood is in, or its youngest is not")
	}
}

func TestKnownHostsStay(t *testing.T) {
	l := New(64, 8, func(host string) bool { return host == "192.0.2.1" })
	var known []*conn
	for range 8 {
		c := from("192.0.2.1")
		known = append(known, c)
		l.Enter(c)
	}
	// More strangers than there are places, each with one connection.
	for i := range 20_000 {
		l.Enter(from(fmt.Sprintf("10.0.%d.%d", i/250, i%250)))
	}
	for i, c := range known {
		if c.closed {
			t.Errorf("connection %d of a known host is out", i)
		}
	}
	// And it pushes out its own, too, as soon as it takes much more than that.
	for range 100 {
		l.Enter(from("192.0.2.1"))
	}
	if !known[0].closed {
		t.Error("a known host has all places")
	}
}

// One network of IPv6 is one host, however many addresses it uses.
func TestOneNetworkIsOneHost(t *testing.T) {
	l := New(16, 0, nil)
	honest := from("2001:db8:1::1")
	l.Enter(honest)
	for i := range 1000 {
		l.Enter(from(fmt.Sprintf("2001:db8:2::%x", i+1)))
	}
	if honest.closed {
		t.Error("the flood pushed out another network")
	}
}

func TestWhoNeedsMuchLeavesFirst(t *testing.T) {
	l := New(16, 0, nil)
	small, large := from("192.0.2.1"), from("192.0.2.2")
	l.Enter(small)
	guest := l.Enter(large)
	if !guest.Take(10) {
		t.Error("there was room")
	}
	for i := range 8 {
		l.Enter(from(fmt.Sprintf("198.51.100.%d", i)))
	}
	if small.closed || !large.closed || guest.Take(1) || guest.Leave() {
		t.Error("the largest should be out, and the smallest in")
	}
	several, more := from("192.0.2.5"), l.Enter(from("192.0.2.6"))
	l.Enter(several)
	for range 2 {
		l.Enter(from("192.0.2.5"))
	}
	if more.Take(8); several.closed || more.Leave() {
		t.Error("who has three places is out, or who has nine is in")
	}
	if self := l.Enter(from("192.0.2.3")); self.Take(1000) {
		t.Error("more than all places were given")
	}
	l.Close()
	if late := from("192.0.2.4"); l.Enter(late).Leave() || !late.closed || !small.closed {
		t.Error("a closed lobby has guests")
	}
	if n, taken := l.Len(); n != 0 || taken != 0 {
		t.Errorf("%d guests, %d places taken", n, taken)
	}
}

// A guest that is gone leaves nothing. A member is known by its whole address.
func TestGuestsThatAreGone(t *testing.T) {
	var asked string
	l := New(16, 0, func(host string) bool { asked = host; return false })
	c := from("2001:db8::1")
	g := l.Enter(c)
	g.Take(3)
	if err := g.Close(); err != nil || !c.closed || g.Leave() || asked != "2001:db8::1" {
		t.Errorf("it is closed: %v, %v; it came from %s", c.closed, err, asked)
	}
	if n, taken := l.Len(); n != 0 || taken != 0 {
		t.Errorf("%d guests, %d places taken", n, taken)
	}
}

// Whatever happens, the places taken are those of the guests, and never more than there are.
func TestPlacesAddUp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	l := New(20, 3, func(host string) bool { return host < "b" })
	var guests []*Guest
	for range 5000 {
		switch k := rnd.IntN(10); {
		case k < 5 || len(guests) == 0:
			guests = append(guests, l.Enter(from(string(rune('a'+rnd.IntN(6))))))
		case k < 7:
			guests[rnd.IntN(len(guests))].Take(1 + rnd.IntN(4))
		default:
			_ = guests[rnd.IntN(len(guests))].Close()
		}
		if n, taken := l.Len(); taken > 20 || n > taken || n == 0 != (taken == 0) {
			t.Fatalf("%d guests with %d places", n, taken)
		}
	}
}

// TestHosts checks what an address is without its port, and what it counts as: an address of IPv4, or a /64 of IPv6.
func TestHosts(t *testing.T) {
	for text, want := range map[string][2]string{
		"192.0.2.1:7":              {"192.0.2.1", "192.0.2.1/32"},
		"[::ffff:192.0.2.1]:7":     {"::ffff:192.0.2.1", "192.0.2.1/32"},
		"[2001:db8:1:2:3:4:5:6]:7": {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		"[fe80::1%eth0]:7":         {"fe80::1%eth0", "fe80::/64"},
		"pipe":                     {"pipe", "pipe"},
		"name.test:7":              {"name.test", "name.test"},
	} {
		host := Host(addr(text))
		if got := [2]string{host, block(host)}; got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

// Strangers may come from any number of addresses: none of them is remembered when they are gone.
func TestHostsAreForgotten(t *testing.T) {
	l := New(4, 0, nil)
	for i := range 100 {
		l.Enter(from(net.IPv4(192, 0, 2, byte(i)).String()))
	}
	if len(l.hosts) != 4 {
		t.Errorf("%d hosts of 4 guests are remembered", len(l.hosts))
	}
	if l.Close(); len(l.hosts) != 0 {
		t.Errorf("%d hosts are remembered", len(l.hosts))
	}
}
