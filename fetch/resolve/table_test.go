package resolve

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

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
