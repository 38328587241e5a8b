package resolve

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// listenBoth listens on one port over TCP and UDP. The port that the system gives for one of them may be another's for the
// other: then it takes the next.
func listenBoth(t *testing.T) (tcp net.Listener, udp net.PacketConn) {
	t.Helper()
	for range 20 {
		var err error
		if tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			return tcp, udp
		}
		tcp.Close()
	}
	t.Fatal("no port is free for both TCP and UDP")
	return nil, nil
}

// serve runs a real name server on 127.0.0.1, over UDP and TCP, and returns its address.
func serve(t *testing.T, handler dns.HandlerFunc) string {
	t.Helper()
	tcp, udp := listenBoth(t)
	for _, s := range []*dns.Server{{Listener: tcp, Handler: handler}, {PacketConn: udp, Handler: handler}} {
		started, ended := make(chan struct{}), make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() {
			defer close(ended)
			s.ActivateAndServe()
		}()
		<-started
		t.Cleanup(func() {
			s.Shutdown()
			<-ended
		})
	}
	return tcp.Addr().String()
}

func TestRealServer(t *testing.T) {
	var udp, tcp atomic.Int32
	server := serve(t, func(w dns.ResponseWriter, q *dns.Msg) {
		m := answerTo(q, 0)
		for i := range 250 {
			rr, _ := dns.NewRR(fmt.Sprintf("%s 300 A 198.51.100.%d", q.Question[0].Name, i))
			m.Answer = append(m.Answer, rr)
		}
		if !strings.HasPrefix(q.Question[0].Name, "large") {
			m.Answer = m.Answer[:2]
		}
		if _, ok := w.RemoteAddr().(*net.UDPAddr); ok {
			udp.Add(1)
			m.Truncate(int(q.IsEdns0().UDPSize()))
		} else {
			tcp.Add(1)
		}
		w.WriteMsg(m)
	})
	cfg := Default()
	cfg.Servers = []string{server}
	cfg.Timeout = time.Minute // no part of this test
	r, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, tt := range []struct {
		host             string
		addrs            int
		wantUDP, wantTCP int32
	}{{"small.example.org", 2, 1, 0}, {"large.example.org", 8, 2, 1}} {
		got, err := r.Lookup(t.Context(), tt.host)
		if err != nil || len(got.Addrs) != tt.addrs || got.TTL != 300*time.Second && got.TTL.Round(time.Minute) != 300*time.Second || got.Elapsed <= 0 {
			t.Errorf("%s: %+v, %v", tt.host, got, err)
		}
		if udp.Load() != tt.wantUDP || tcp.Load() != tt.wantTCP {
			t.Errorf("%s: %d queries over UDP, %d over TCP, want %d, %d", tt.host, udp.Load(), tcp.Load(), tt.wantUDP, tt.wantTCP)
		}
	}
}

// TestFiles reads resolv.conf and a hosts file as systems have them.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f := &fakeServers{handle: zone(nil)}
	deps := Deps{
		Dial:       f.dial,
		ResolvConf: write("resolv.conf", "# comment\nnameserver 192.0.2.8\nnameserver nonsense\nsearch example.org\nnameserver 2001:db8::8\n"),
		HostsFile: write("hosts", "127.0.0.1 localhost\n192.0.2.1\tprinter Printer.Lan # third floor\n192.0.2.2 printer\n192.0.2.1 printer\n"+
			"2001:db8::1 six\nnonsense a\n192.0.2.9 bad/name\n192.0.2.3 table.test\n\n#192.0.2.4 off\n10.0.0.66 localhost"),
	}
	cfg := Default()
	cfg.Hosts = map[string][]string{"table.test": {"10.0.0.7"}}
	for _, tt := range []struct {
		host  string
		ipv6  bool
		addrs []string
		asked []string
	}{
		{"printer", false, []string{"192.0.2.1", "192.0.2.2"}, nil},
		{"printer.lan.", false, []string{"192.0.2.1"}, nil},
		{"table.test", false, []string{"10.0.0.7"}, nil},
		{"localhost", false, []string{"127.0.0.1"}, nil},
		{"six", true, []string{"2001:db8::1"}, nil},
		{"six", false, nil, []string{"udp 192.0.2.8:53 A six."}},
		{"off", false, nil, []string{"udp 192.0.2.8:53 A off."}},
	} {
		f.asked = nil
		cfg.IPv6 = tt.ipv6
		r, err := New(cfg, deps)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Lookup(t.Context(), tt.host)
		if !slices.Equal(got.Addrs, addrs(tt.addrs...)) || (err == nil) != (tt.addrs != nil) || !slices.Equal(f.asked, tt.asked) {
			t.Errorf("%s: %+v, %v, asked %q", tt.host, got, err, f.asked)
		}
		if want := []string{"192.0.2.8:53", "[2001:db8::8]:53"}; !slices.Equal(*r.servers.Load(), want) {
			t.Errorf("servers %q, want %q", *r.servers.Load(), want)
		}
		r.Close()
	}

	none, large, largest := filepath.Join(dir, "none"), write("large", ""), write("largest", "")
	if err := errors.Join(os.Truncate(large, maxFile+1), os.Truncate(largest, maxFile)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		conf, hosts string
		fine        bool
	}{{none, none, true}, {none, largest, true}, {none, large, false}, {dir, none, false}, {none, dir, false}} {
		r, err := New(Default(), Deps{ResolvConf: tt.conf, HostsFile: tt.hosts})
		if (err == nil) != tt.fine || tt.fine && !slices.Equal(*r.servers.Load(), []string{"127.0.0.1:53"}) {
			t.Errorf("%+v: %+v, %v", tt, r, err)
		}
		if r != nil {
			r.Close()
		}
	}
}

// A hosts file that has changed is read again after some seconds. One that cannot be read leaves the names that are known.
func TestHostsFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	synctest.Test(t, func(t *testing.T) {
		var now time.Time
		write := func(text string) {
			t.Helper()
			now = now.Add(time.Hour)
			if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, now, now)); err != nil {
				t.Fatal(err)
			}
		}
		now = time.Now()
		write("192.0.2.1 printer")
		f := &fakeServers{handle: zone(nil)}
		r, err := New(Default(), Deps{Dial: f.dial, ResolvConf: path, HostsFile: path})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		look := func(when string, want ...string) {
			t.Helper()
			got, err := r.Lookup(t.Context(), "printer")
			if !slices.Equal(got.Addrs, addrs(want...)) || (err == nil) != (want != nil) || err == nil && got.TTL != minTTL {
				t.Errorf("%s: %+v, %v; want %q", when, got, err, want)
			}
		}
		look("first", "192.0.2.1")
		write("192.0.2.2 printer")
		look("at once", "192.0.2.1")
		time.Sleep(hostsEvery)
		look("with another address", "192.0.2.2")
		if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(hostsEvery)
		look("unreadable", "192.0.2.2")
		write("192.0.2.3 scanner")
		time.Sleep(hostsEvery)
		look("without the name")
		write("192.0.2.4 printer")
		time.Sleep(hostsEvery)
		look("back", "192.0.2.4")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(hostsEvery)
		look("gone")
	})
}

// Bounds of the cache and of answers, and the times for which answers are believed.
func TestDefaults(t *testing.T) {
	if minTTL != 30*time.Second || maxTTL != 24*time.Hour || negativeTTL != 5*time.Minute || temporaryTTL != 30*time.Second || maxAddrs != 8 || maxLookups != 256 ||
		Default().Timeout != 3*time.Second || Default().Attempts != 3 {
		t.Error("the defaults are others")
	}
	r := start(t, &fakeServers{}, nil)
	for i := range 50_001 {
		r.cache.Add(fmt.Sprint(i), &entry{})
	}
	if r.cache.Len() != 50_000 || r.cache.Contains("0") {
		t.Errorf("%d names are cached", r.cache.Len())
	}
}

func TestValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Config){
		"servers[1]": func(c *Config) { c.Servers = []string{"192.0.2.1", "192.0.2.1:0"} },
		"servers[0]": func(c *Config) { c.Servers = []string{"a b"} },
		"hosts":      func(c *Config) { c.Hosts = map[string][]string{"a": {"b"}} },
		"hosts ":     func(c *Config) { c.Hosts = map[string][]string{"a": {"fe80::1%eth0"}} },
		"hosts  ":    func(c *Config) { c.Hosts = map[string][]string{"a": {}} },
	} {
		c := Default()
		change(&c)
		err := c.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), strings.TrimSpace(field)+":") {
			t.Errorf("%s: %v", field, err)
		}
		if _, err := New(c, Deps{}); err == nil {
			t.Errorf("%s: New takes it", field)
		}
	}
}

func TestHostsAsTheyAreWritten(t *testing.T) {
	hosts := map[string]string{"[::1]": "::1", "::1": "::1", "192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "A.example.": "a.example"}
	for _, none := range []string{"", ".", ".a", "a b", "a..b", "exämple.org", "example.org:80", "127.1", "192.0.2.256", "fe80::1%eth0",
		"[fe80::1%eth0]", "[192.0.2.1]", "[a.example]", "[a.example", "a.example]", "[::1", "::1]"} {
		hosts[none] = ""
	}
	for host, want := range hosts {
		name, addr, err := parseHost(host)
		if got := name; err == nil && (addr.IsValid() && addr.String() != want || !addr.IsValid() && got != want) || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, %v, want %q", host, name, addr, err, want)
		}
	}
	for name, fine := range map[string]bool{strings.Repeat("a", 63) + ".b": true, strings.Repeat("a", 64) + ".b": false,
		strings.Repeat("a.", 126) + "a": true, strings.Repeat("a.", 126) + "ab": false, strings.Repeat("a.", 126) + "a.": true, "a..": false} {
		if _, err := CanonicalName(name); (err == nil) != fine {
			t.Errorf("a name of %d bytes: %v", len(name), err)
		}
	}
	text, want := "192.0.2.1 a b\n# 192.0.2.99 a\nfe80::1%eth0 a\nno a\n192.0.2.2 a#b\n2001:db8::1 c\n192.0.2.4\n192.0.2.1 b\n::ffff:192.0.2.1 d\n", []netip.Addr{}
	for i := range 9 {
		addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})
		text += addr.String() + " a\n"
		want = append(want, addr)
	}
	if table := parseHosts([]byte(text), false); !slices.Equal(table["a"], want[:8]) || !slices.Equal(table["b"], want[:1]) || !slices.Equal(table["d"], want[:1]) || len(table) != 3 {
		t.Errorf("%v", table)
	}
}

func TestServersAsTheyAreWritten(t *testing.T) {
	for server, want := range map[string]string{"192.0.2.1": "192.0.2.1:53", "192.0.2.1:1": "192.0.2.1:1", "192.0.2.1:65535": "192.0.2.1:65535", "192.0.2.1:65536": "",
		"192.0.2.1:0": "", "[2001:db8::1]:5": "[2001:db8::1]:5", "2001:db8::1": "[2001:db8::1]:53", "192.0.2.1:x": "", "[2001:db8::1]": "[2001:db8::1]:53", "dns.test:54": "dns.test:54"} {
		if got, err := serverAddr(server); got != want && err == nil || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", server, got, err, want)
		}
	}
}
