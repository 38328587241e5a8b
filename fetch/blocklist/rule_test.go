package blocklist

import (
	"fmt"
	"hash/maphash"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listOf returns a List of one source with this text, read as from a file.
func listOf(t testing.TB, text string) *List {
	t.Helper()
	l := newList(t, Default(), Deps{})
	content, err := readTable(strings.NewReader(text), "list", l.seed, limits{l.cfg.MaxBytes, l.cfg.MaxEntries, l.cfg.MaxPatterns})
	if err != nil {
		t.Fatal(err)
	}
	l.tables.Store(&[]*table{content})
	return l
}

// show is a rule in one line.
func show(r rule) string {
	switch {
	case r.prefix.IsValid():
		return "prefix " + r.prefix.String()
	case r.glob != nil:
		return "glob " + r.glob.text
	case r.regex != nil:
		return "regex " + r.regex.String()
	case r.hosts != nil:
		return "hosts " + strings.Join(r.hosts, " ")
	}
	return ""
}

func TestParseLine(t *testing.T) {
	long := strings.Repeat("a", 1000)
	for _, tt := range []struct{ line, want string }{
		{"", ""}, {"  \t\r\n", ""}, {"# example.org", ""}, {"#", ""},
		{"example.org", "hosts example.org"},
		{" WWW.Example.org. # why\r\n", "hosts www.example.org"},
		{"org", "hosts org"}, {"_x-1.example.org", "hosts _x-1.example.org"},
		{"bücher.example", "hosts xn--bcher-kva.example"},
		{"0.0.0.0 ads.example", "hosts ads.example"},
		{"127.0.0.1\tads.example track.Example # two", "hosts ads.example track.example"},
		{":: ads.example", "hosts ads.example"},
		{"127.0.0.1 localhost", ""}, {"255.255.255.255 broadcasthost", ""}, {"fe80::1%lo0 localhost", ""}, {"0.0.0.0 0.0.0.0", ""},
		{"192.0.2.0/24", "prefix 192.0.2.0/24"}, {"192.0.2.7/24", "prefix 192.0.2.0/24"}, {"192.0.2.7", "prefix 192.0.2.7/32"},
		{"2001:db8::/32 # net", "prefix 2001:db8::/32"}, {"2001:db8::1", "prefix 2001:db8::1/128"},
		{"::ffff:192.0.2.0/120", "prefix 192.0.2.0/24"}, {"::ffff:192.0.2.1", "prefix 192.0.2.1/32"}, {"0.0.0.0/0", "prefix 0.0.0.0/0"},
		{"::ffff:0:0/96", "prefix 0.0.0.0/0"}, {"::ffff:0:0/95", "prefix ::fffe:0:0/95"},
		{"*://*.Example.org/Private/*", "glob *://*.example.org/Private/*"}, {"https://example.org/a", "glob https://example.org/a"},
		{"HTTP://Example.ORG/", "glob http://example.org/"}, {"http://*.org", "glob http://*.org"},
		{"/" + long + "/", "regex " + long}, {"*://" + long[5:] + "/", "glob *://" + long[5:] + "/"},
		{`/\.(exe|zip)$/`, `regex \.(exe|zip)$`}, {"/a # b/", "regex a # b"}, {"/a*/", "regex a*"},

		{"a b", "error"}, {"192.0.2.5 www.example.org", "error"}, {"0.0.0.0 a..b.c", "error"}, {"example..org", "error"},
		{"example.org:80", "error"}, {"example.org/path", "error"}, {"*.example.org", "error"}, {"example.org/*", "error"},
		{"https://example.org", "error"}, {"*://example.org:8080", "error"}, {"*://*.bücher.example/*", "error"}, {"*://example.org/é", "error"},
		{"192.0.2.0/33", "error"}, {"192.0.2", "error"}, {"192.0.2.256", "error"}, {"fe80::1%eth0", "error"}, {"<html>", "error"},
		{"/(/", "error"}, {"//", "error"}, {"/", "error"}, {"/a{1001}/", "error"}, {"/" + long + "a/", "error"}, {"*://" + long[3:], "error"},
		{strings.Repeat("a", 64) + ".org", "error"}, {strings.Repeat("a.", 130), "error"}, {"||example.org^", "error"},
	} {
		r, err := parseLine(tt.line)
		got := show(r)
		if err != nil {
			got = "error"
		}
		if got != tt.want {
			t.Errorf("%.60q: %s (%v), want %s", tt.line, got, err, tt.want)
		}
	}
}

func TestLookups(t *testing.T) {
	l := listOf(t, "\xef\xbb\xbfexample.org\nads.example.com\nzip\n0.0.0.0 sink.example.net\n192.0.2.0/24\n192.0.2.128/25\n198.51.100.7\n"+
		"2001:db8::/32\n2001:db8:1::/48\n*://*.example.edu/private/*\nhttps://example.edu/exact\n/\\.(exe|zip)$/\n")
	for in, want := range map[string]string{
		"example.org": "example.org", "www.example.org": "example.org", "a.b.example.org:8080": "example.org", "EXAMPLE.org.": "example.org",
		"example.org.:80": "example.org", "myexample.org": "", "org": "", "example.com": "", "x.ads.example.com": "ads.example.com",
		"ads.example.com.evil.test": "", "file.zip": "zip", "sink.example.net": "sink.example.net", "example.net": "",
		"192.0.2.1:80": "192.0.2.0/24", "192.0.2.129": "192.0.2.128/25", "192.0.3.1": "", "[2001:db8::1]:443": "2001:db8::/32",
		"2001:db8:1::1": "2001:db8:1::/48", "[::1]": "", "[::ffff:192.0.2.1]": "192.0.2.0/24", "[": "", "": "", ".": "", ":": "",
		strings.Repeat("a.", 121) + "example.org": "example.org", strings.Repeat("a.", 120) + "aa.example.org": "",
		"192.0.2.0": "192.0.2.0/24", "192.0.2.9:80": "192.0.2.0/24",
	} {
		if got, blocked := l.Host(in); got != want || blocked != (want != "") {
			t.Errorf("Host(%.40q) = %q, %v, want %q", in, got, blocked, want)
		}
	}
	for in, want := range map[string]string{
		"192.0.2.127": "192.0.2.0/24", "192.0.2.128": "192.0.2.128/25", "::ffff:192.0.2.128": "192.0.2.128/25", "198.51.100.7": "198.51.100.7/32",
		"198.51.100.8": "", "2001:db8:1:2::": "2001:db8:1::/48", "2001:db8:2::%eth0": "2001:db8::/32", "2001:db9::": "", "::c000:201": "",
	} {
		if got, blocked := l.Addr(netip.MustParseAddr(in)); got != want || blocked != (want != "") {
			t.Errorf("Addr(%s) = %q, %v, want %q", in, got, blocked, want)
		}
	}
	if _, blocked := l.Addr(netip.Addr{}); blocked {
		t.Error("no address is blocked")
	}
	for in, want := range map[string]string{
		"https://www.example.edu/private/x": "*://*.example.edu/private/*", "https://example.edu/private/": "", "https://www.example.edu/Private/x": "",
		"https://example.edu/exact": "https://example.edu/exact", "https://example.edu/exact2": "", "http://example.edu/exact": "",
		"http://a.test/setup.exe": `/\.(exe|zip)$/`, "http://a.test/setup.exe?": "", "http://example.org/": "", "": "",
	} {
		if got, blocked := l.URL(in); got != want || blocked != (want != "") {
			t.Errorf("URL(%q) = %q, %v, want %q", in, got, blocked, want)
		}
	}
	for text, want := range map[string]bool{"a.test\n192.0.2.1\n": false, "/a/": true, "*://a/*": true} {
		if got := listOf(t, text).HasPatterns(); got != want {
			t.Errorf("%q has patterns: %v", text, got)
		}
	}
	empty := newList(t, Default(), Deps{})
	if _, blocked := empty.Host("example.org"); blocked {
		t.Error("the empty list blocks a host")
	}
	if _, blocked := empty.URL("http://example.org/"); blocked {
		t.Error("the empty list blocks a URL")
	}
}

// Prefixes are found as by a scan over all of them.
func TestAddrAgainstScan(t *testing.T) {
	var text strings.Builder
	var all []netip.Prefix
	for i := range 500 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i % 7), byte(i), byte(i * 37)}), 12+i%21).Masked()
		all = append(all, p)
		fmt.Fprintln(&text, p)
	}
	l := listOf(t, text.String())
	for i := range 5000 {
		a := netip.AddrFrom4([4]byte{10, byte(i % 11), byte(i / 11), byte(i * 13)})
		want := ""
		best := -1
		for _, p := range all {
			if p.Contains(a) && p.Bits() > best {
				best, want = p.Bits(), p.String()
			}
		}
		if got, _ := l.Addr(a); got != want {
			t.Fatalf("%v: %q, want %q", a, got, want)
		}
	}
}

// FuzzParseLine checks that whatever is taken does what it says, and survives being written and read again.
func FuzzParseLine(f *testing.F) {
	for _, s := range []string{"example.org", "0.0.0.0 ads.example b.example", "192.0.2.7/24", "::ffff:1.2.3.4/100", "2001:db8::1", "*://*.a.b/*x*",
		`/\.(exe|zip)$/`, "# c", "a # b", "bücher.example", "127.0.0.1 localhost", "http://", "/a/ "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "\n") || len(line) >= maxLine {
			return
		}
		r, err := parseLine(line)
		if err != nil {
			if show(r) != "" {
				t.Fatalf("%q: %s with %v", line, show(r), err)
			}
			return
		}
		l := listOf(t, line+"\n#")
		again := ""
		switch {
		case r.prefix.IsValid():
			p := r.prefix
			if p != p.Masked() || p.Addr().Zone() != "" {
				t.Fatalf("%q: prefix %v", line, p)
			}
			if got, blocked := l.Addr(p.Addr()); !p.Addr().Is4In6() && (!blocked || got != p.String()) {
				t.Fatalf("%q does not block %v", line, p.Addr())
			}
			if before := p.Addr().Prev(); before.IsValid() && !before.Is4In6() {
				if got, blocked := l.Addr(before); blocked {
					t.Fatalf("%q blocks %v by %s", line, before, got)
				}
			}
			again = p.String()
		case r.glob != nil:
			for _, fill := range []string{"", "x", "a/b.c"} {
				if u := strings.ReplaceAll(r.glob.text, "*", fill); !Match(r.glob.parts, u) {
					t.Fatalf("%q does not match %q", r.glob.text, u)
				}
			}
			again = r.glob.text
		case r.regex != nil:
			again = "/" + r.regex.String() + "/"
		}
		for _, h := range r.hosts {
			for _, host := range []string{h, "www." + h, strings.ToUpper(h) + ".:80"} {
				if len(host) > maxName {
					continue
				}
				if got, blocked := l.Host(host); !blocked || h != got && !strings.HasSuffix(h, "."+got) && !strings.HasSuffix(host, got) {
					t.Fatalf("%q does not block %q but %q", line, host, got)
				}
			}
			if got, blocked := l.Host("x" + h); blocked && got == h {
				t.Fatalf("%q blocks x%s by %q", line, h, got)
			}
			if other, err := parseLine(h); err != nil || !slices.Equal(other.hosts, []string{h}) {
				t.Fatalf("%q became %q, then %s, %v", line, h, show(other), err)
			}
		}
		if again == "" {
			return
		}
		if other, err := parseLine(again); err != nil || show(other) != show(r) {
			t.Fatalf("%q became %q, then %s, %v", line, again, show(other), err)
		}
	})
}

// FuzzGlob compares with the regular expression of the same meaning.
func FuzzGlob(f *testing.F) {
	f.Add("*://*.example.org/*", "http://www.example.org/x")
	f.Add("a://*b*b", "a://b")
	f.Add("a://**", "a://")
	f.Add("x://ab*bc", "x://abc")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 100 || len(s) > 1000 {
			return // the expression takes far longer than the pattern
		}
		g, err := parseGlob(pattern)
		if err != nil {
			return
		}
		want := regexp.MustCompile(`(?s)^` + strings.ReplaceAll(regexp.QuoteMeta(strings.ToValidUTF8(g.text, "?")), `\*`, `.*`) + `$`)
		if s = strings.ToValidUTF8(s, "?"); strings.ToValidUTF8(g.text, "?") == g.text && Match(g.parts, s) != want.MatchString(s) {
			t.Fatalf("%q on %q: %v", g.text, s, Match(g.parts, s))
		}
	})
}

// FuzzReadTable reads whole lists: the bounds hold, and every line is counted once.
func FuzzReadTable(f *testing.F) {
	f.Add([]byte("example.org\n192.0.2.0/24\nwrong line\n"))
	f.Add([]byte("\xef\xbb\xbf/a/\r\n*://b/*\r\n\r\n"))
	f.Add([]byte(strings.Repeat("a", maxLine+5) + "\nexample.org"))
	seed := maphash.MakeSeed()
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := readTable(strings.NewReader(string(text)), "list", seed, limits{8192, 20, 5})
		if err != nil {
			return
		}
		if len(text) > 8192 || table.lines > 20 || table.patterns() > 5 || len(table.hosts)+len(table.prefixes)+table.patterns() > table.lines {
			t.Fatalf("bounds broken by %d bytes: %+v", len(text), table)
		}
		if table.wrong > strings.Count(string(text), "\n")+1 || (table.first != nil) != (table.wrong > 0) {
			t.Fatalf("%d wrong lines, the first: %v", table.wrong, table.first)
		}
	})
}
