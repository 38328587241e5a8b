package lobby

import (
	"net"
	"testing"
)

type text string

func (a text) Network() string { return "tcp" }
func (a text) String() string  { return string(a) }

// TestHosts checks what an address is without its port, and what it counts as: an address of IPv4, or a /64 of IPv6.
func TestHosts(t *testing.T) {
	for addr, want := range map[string][2]string{
		"192.0.2.1:7":              {"192.0.2.1", "192.0.2.1"},
		"[::ffff:192.0.2.1]:7":     {"::ffff:192.0.2.1", "192.0.2.1"},
		"[2001:db8:1:2:3:4:5:6]:7": {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		"[fe80::1%eth0]:7":         {"fe80::1%eth0", "fe80::/64"},
		"pipe":                     {"pipe", "pipe"},
		"name.test:7":              {"name.test", "name.test"},
	} {
		host := Host(text(addr))
		if got := [2]string{host, block(host)}; got != want {
			t.Errorf("%s is %q, want %q", addr, got, want)
		}
	}
}

type conn struct {
	net.Conn
	from text
}

func (c conn) RemoteAddr() net.Addr { return c.from }
func (c conn) Close() error         { return nil }

// Strangers may come from any number of addresses: none of them is remembered when they are gone.
func TestHostsAreForgotten(t *testing.T) {
	l := New(4, 0, nil)
	for i := range 100 {
		l.Enter(conn{from: text(net.JoinHostPort(net.IPv4(192, 0, 2, byte(i)).String(), "7"))})
	}
	if len(l.hosts) != 4 {
		t.Errorf("%d hosts of 4 guests are remembered", len(l.hosts))
	}
	if l.Close(); len(l.hosts) != 0 {
		t.Errorf("%d hosts are remembered", len(l.hosts))
	}
}
