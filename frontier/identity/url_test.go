package identity

import (
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
)

func TestResolve(t *testing.T) {
	base := mustParse(t, "http://www.example.org/dir/sub/page.html?old=1")
	for _, c := range []struct{ ref, want string }{
		// Absolute, and already in normal form.
		{"http://example.org/", "http://example.org/"},
		{"https://example.org", "https://example.org/"},
		{"https://example.org?q", "https://example.org/?q"},
		{"https://example.org/?", "https://example.org/"},
		{"https://example.org/a?#x", "https://example.org/a"},
		{"https://example.org/a#x?y", "https://example.org/a"},
		{"https://example.org/%7Euser/%e4%f6", "https://example.org/%7Euser/%e4%f6"},
		{"https://my_host.example.org/a_b", "https://my_host.example.org/a_b"},
		// Ports.
		{"http://example.org:80/", "http://example.org/"},
		{"https://example.org:443/x", "https://example.org/x"},
		{"https://example.org:80/x", "https://example.org:80/x"},
		{"http://example.org:/x", "http://example.org/x"},
		{"http://example.org:0080/x", "http://example.org/x"},
		{"http://example.org:8080", "http://example.org:8080/"},
		{"http://example.org:65535/", "http://example.org:65535/"},
		{"http://example.org:65536/", "malformed"},
		{"http://example.org:000000000000000000008080/", "http://example.org:8080/"},
		{"http://example.org:99999999999999999999/", "malformed"},
		{"http://example.org:0/", "bad host"},
		{"http://example.org:8x/", "malformed"},
		// Names.
		{"HTTP://Example.ORG/Path", "http://example.org/Path"},
		{"http://münchen.de/", "http://xn--mnchen-3ya.de/"},
		{"http://MÜNCHEN.de/straße", "http://xn--mnchen-3ya.de/stra%C3%9Fe"},
		{"http://m%C3%BCnchen.de/", "http://xn--mnchen-3ya.de/"},
		{"http://xn--mnchen-3ya.de/", "http://xn--mnchen-3ya.de/"},
		{"http://faß.de/", "http://xn--fa-hia.de/"},
		{"http://日本語。jp/", "http://xn--wgv71a119e.jp/"},
		{"http://xn--a/", "malformed"},
		{"http://EXA_MPLE.org/", "http://exa_mple.org/"},
		{"http://example.org./x", "http://example.org/x"},
		{"http://example.org../x", "bad host"},
		{"http://a..b/", "bad host"},
		{"http://.example.org/", "bad host"},
		{"http://a*b.example.org/", "bad host"},
		{"http://a b/", "malformed"},
		{"http://a%2fb/", "malformed"},
		{"http://" + strings.Repeat("a", 63) + ".org/", "http://" + strings.Repeat("a", 63) + ".org/"},
		{"http://" + strings.Repeat("a", 64) + ".org/", "bad host"},
		{"http://" + strings.Repeat("a.", 126) + "a/", "http://" + strings.Repeat("a.", 126) + "a/"},
		{"http://" + strings.Repeat("a.", 127) + "a/", "bad host"},
		{"http://", "malformed"},
		{"http:///", "malformed"},
		{"http:///example.org/", "http://example.org/"},
		{"http://:80/", "malformed"},
		{"http://?q", "malformed"},
		{"http://-a.example.org/", "http://-a.example.org/"},
		{"http://r3---sn.example.org/", "http://r3---sn.example.org/"},
		// Addresses.
		{"http://127.0.0.1:8080/a", "http://127.0.0.1:8080/a"},
		{"http://0x7f.1/", "http://127.0.0.1/"},
		{"http://2130706433/", "http://127.0.0.1/"},
		{"http://0177.0.0.01/", "http://127.0.0.1/"},
		{"http://127.1./", "http://127.0.0.1/"},
		{"http://１２７.0.0.1/", "http://127.0.0.1/"},
		{"http://256.1.1.1/", "malformed"},
		{"http://1.2.3.4.5/", "malformed"},
		{"http://1.2.3.09/", "malformed"},
		{"http://foo.0x4/", "malformed"},
		{"http://1.2.3.-4/", "malformed"},
		{"http://1.2.3.-4./", "malformed"},
		{"http://1.2.3.0x-4/", "malformed"},
		{"http://1.2.%2D3.4/", "malformed"},
		{"http://4you.example.org/", "http://4you.example.org/"},
		{"http://example.4you/", "http://example.4you/"},
		{"http://[::1]/", "http://[::1]/"},
		{"http://[0:0:0:0:0:0:0:1]:8080/", "http://[::1]:8080/"},
		{"http://[2001:DB8::1:0:0:1]/", "http://[2001:db8::1:0:0:1]/"},
		{"http://[::ffff:192.0.2.1]/", "http://[::ffff:c000:201]/"},
		{"http://[::1/", "malformed"},
		{"http://[fe80::1%25eth0]/", "malformed"},
		// Blanks, controls and backslashes.
		{"  http://example.org/a \n", "http://example.org/a"},
		{"\x00\x1f/a", "http://www.example.org/a"},
		{"ht\ntp://exa\tmple.org/a\r\nb", "http://example.org/ab"},
		{"http:\\\\example.org\\a\\b?c\\d", "http://example.org/a/b?c\\d"},
		{"\\\\example.org\\a", "http://example.org/a"},
		{"/\\example.org/a", "http://example.org/a"},
		{"/a b?c d", "http://www.example.org/a%20b?c%20d"},
		{"/a #b", "http://www.example.org/a%20"},
		{"/\"<>`{}|^'", "http://www.example.org/%22%3C%3E%60%7B%7D|^'"},
		{"?\"<>`{}|^'", "http://www.example.org/dir/sub/page.html?%22%3C%3E`{}|^%27"},
		{"/ü?ö", "http://www.example.org/%C3%BC?%C3%B6"},
		{"/\xff", "http://www.example.org/%EF%BF%BD"},
		{"/a%zz%", "http://www.example.org/a%zz%"},
		{"/\x7f\x01x", "http://www.example.org/%7F%01x"},
		// Relative.
		{"", "http://www.example.org/dir/sub/page.html?old=1"},
		{"#top", "http://www.example.org/dir/sub/page.html?old=1"},
		{"?new=2", "http://www.example.org/dir/sub/page.html?new=2"},
		{"?", "http://www.example.org/dir/sub/page.html"},
		{"//example.com/x", "http://example.com/x"},
		{"//example.com:443/x", "http://example.com:443/x"},
		{"/x/y", "http://www.example.org/x/y"},
		{"/", "http://www.example.org/"},
		{"other.html", "http://www.example.org/dir/sub/other.html"},
		{"a/b.html?c=d/../e", "http://www.example.org/dir/sub/a/b.html?c=d/../e"},
		{"1:2", "http://www.example.org/dir/sub/1:2"},
		{"a/b:c", "http://www.example.org/dir/sub/a/b:c"},
		{"./a:b", "http://www.example.org/dir/sub/a:b"},
		{"./x", "http://www.example.org/dir/sub/x"},
		{"../x/y", "http://www.example.org/dir/x/y"},
		{"../../../../x", "http://www.example.org/x"},
		{".", "http://www.example.org/dir/sub/"},
		{"..", "http://www.example.org/dir/"},
		{"..?q", "http://www.example.org/dir/?q"},
		{"./", "http://www.example.org/dir/sub/"},
		{"./.././x", "http://www.example.org/dir/x"},
		{".//x", "http://www.example.org/dir/sub//x"},
		{".hidden", "http://www.example.org/dir/sub/.hidden"},
		{"..hidden", "http://www.example.org/dir/sub/..hidden"},
		{".../x", "http://www.example.org/dir/sub/.../x"},
		{"/a/./b/../c", "http://www.example.org/a/c"},
		{"/a/%2e%2E/b", "http://www.example.org/b"},
		{"/a/.%2e", "http://www.example.org/"},
		{"/a/%2e?q", "http://www.example.org/a/?q"},
		{"/a/%2ehidden/%2e%2e%2e/b", "http://www.example.org/a/%2ehidden/%2e%2e%2e/b"},
		{"%2e%2e/x", "http://www.example.org/dir/x"},
		{"/a//b", "http://www.example.org/a//b"},
		{"http:x", "http://www.example.org/dir/sub/x"},
		{"https:x", "https://x/"},
		// Other schemes.
		{"mailto:a@example.org", "scheme"},
		{"javascript:void(0)", "scheme"},
		{"java\nscript:void(0)", "scheme"},
		{"data:text/html," + strings.Repeat("x", 1<<20), "scheme"},
		{"tel:+441234", "scheme"},
		{"ftp://example.org/", "scheme"},
		{"file:///etc/passwd", "scheme"},
		{"c:\\windows", "scheme"},
		{"blob:https://example.org/1", "scheme"},
		// Credentials.
		{"http://user:pass@example.org/", "credentials"},
		{"http://user@example.org/", "credentials"},
		{"//:pass@example.org/", "credentials"},
		{"http://@example.org/", "http://example.org/"},
		{"/a@b", "http://www.example.org/a@b"},
		{"/" + strings.Repeat("x", maxRawBytes), "too long"},
	} {
		u, reason := resolve(base, c.ref)
		got := u.String()
		if reason != Accepted {
			got = string(reason)
		}
		if got != c.want {
			t.Errorf("resolve(%.200q) = %s, want %s", c.ref, got, c.want)
		}
	}
}

// Hostile links that the parser would chew on for tens of milliseconds are refused before it sees them; their lesser
// brothers are not.
func TestCostlyLinks(t *testing.T) {
	for _, c := range []struct {
		ref  string
		want Reason
	}{
		{"//" + strings.Repeat("@", 8000) + "a", Credentials},
		{"//" + strings.Repeat(":", 8000) + "@a", Credentials},
		{"//" + strings.Repeat("a@", 4000) + "a", Credentials},
		{"/\n/" + strings.Repeat("@", 8000) + "a", Credentials},
		{"\\\\" + strings.Repeat("@", 8000) + "a", Credentials},
		{"https:" + strings.Repeat("@", 8000) + "a", Credentials},
		{"/%2e" + strings.Repeat("/", 8000), TooManySegments},
		{"/%2e" + strings.Repeat("\\", 8000), TooManySegments},
		{strings.Repeat("a/../", 600), TooManySegments},
		{strings.Repeat("a/../", 300), Accepted},
		{"/./" + strings.Repeat("a", 2000), Accepted},
		{"/./" + strings.Repeat("a/", 500), Accepted},
		{"/./" + strings.Repeat("a", 2000) + "@", Accepted},
		{"HTTP://example.org/" + strings.Repeat("a", 2000) + "@", Accepted},
		{"/./?" + strings.Repeat("@/", 2000), Accepted},
	} {
		if got := costly(c.ref); got != c.want {
			t.Errorf("%.200s is %s, want %s", c.ref, got, c.want)
		}
		if _, got := resolve(mustParse(t, "http://example.org/"), c.ref); got != c.want {
			t.Errorf("resolve %.200s: %s, want %s", c.ref, got, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{"http:example.org/a", "http://example.org/a"},
		{"http:////example.org/a", "http://example.org/a"},
		{" https://example.org ", "https://example.org/"},
	} {
		u, err := Parse(c.raw)
		if err != nil || u.String() != c.want {
			t.Errorf("Parse(%q) = %s, %v, want %s", c.raw, u, err, c.want)
		}
	}
	for reason, texts := range map[string][]string{
		"no complete URL":      {"", "#x", "/a", "a.html", "//example.org/", "?q", "example.org", "http://", "http://a.test:99999/"},
		"only http and https":  {"ftp://a.test/", "mailto:me@a.test"},
		"no web server":        {"http://a.test:0/"},
		"a user name or passw": {"http://me:secret@a.test/"},
		"too long":             {"http://a.test/" + strings.Repeat("x", maxRawBytes)},
	} {
		for _, raw := range texts {
			if u, err := Parse(raw); err == nil {
				t.Errorf("Parse(%.50q) = %s, want an error", raw, u)
			} else if !strings.Contains(err.Error(), reason) {
				t.Errorf("Parse(%.50q): error %q does not say %q", raw, err, reason)
			}
		}
	}
	if _, err := Parse("mailto:" + strings.Repeat("x", 1<<16)); err == nil || len(err.Error()) > 500 {
		t.Errorf("a long URL gives a long error or none: %d bytes", len(err.Error()))
	}
}

func TestParts(t *testing.T) {
	for _, c := range []struct {
		raw, name string
	}{
		{"http://example.org/", "example.org"}, {"https://example.org:8443/", "example.org"}, {"http://127.0.0.1:65535/", "127.0.0.1"},
		{"http://[::1]/", "::1"}, {"https://[2001:db8::1]:81/", "2001:db8::1"},
	} {
		u := mustParse(t, c.raw)
		if u.Name() != c.name {
			t.Errorf("%s: name %s, want %s", u, u.Name(), c.name)
		}
		if u.Len() != len(u.String()) {
			t.Errorf("%s: Len %d, want %d", u, u.Len(), len(u.String()))
		}
	}
	if s := (URL{}).String(); s != "" {
		t.Errorf("the zero value is %q", s)
	}
}

func TestHash(t *testing.T) {
	// Hashes are on disk, so the form that is hashed must not change.
	const known = 0xdf6884fb08de7df6
	u := mustParse(t, "http://example.org/a?b=c")
	if got := u.Hash(); got != known {
		t.Errorf("hash of %s is %#x, want %#x", u, got, uint64(known))
	}
	for _, raw := range []string{"http://example.org/", "https://example.org/", "http://example.org/" + strings.Repeat("x", 2000)} {
		u := mustParse(t, raw)
		if u.Hash() != xxhash.Sum64String(raw) {
			t.Errorf("hash of %.200s is not that of its text", raw)
		}
	}
}

// A host is checked where another node names it: it must be what an identity begins with, byte for byte.
func TestCheckHost(t *testing.T) {
	for _, host := range []string{"http://example.org", "https://example.org", "https://example.org:80", "http://[2001:db8::1]:81",
		"http://192.0.2.1", "https://xn--mnchen-3ya.de", "http://" + strings.Repeat("a.", 126) + "b"} {
		if err := CheckHost(host); err != nil {
			t.Errorf("%q is a host, and yet: %v", host, err)
		}
	}
	for _, host := range []string{"", "example.org", "http://", "http:///", "http://example.org/", "http://example.org/a", "http://example.org?a",
		"http://example.org:80", "https://example.org:443", "http://example.org:0", "HTTP://example.org", "http://Example.org", "http://example.org.",
		"http://a@example.org", "ftp://example.org", "http://example.org#a", " http://example.org", "http://victim.example\x00\x00y",
		"http://münchen.de", "http://0x7f.1", "http://" + strings.Repeat("a.", 127) + "b"} {
		if err := CheckHost(host); err == nil {
			t.Errorf("%q passes for a host", host)
		}
	}
}

func TestRegistrableDomain(t *testing.T) {
	for host, want := range map[string]string{
		"www.example.org":              "example.org",
		"www.example.org:8080":         "example.org",
		"example.org":                  "example.org",
		"https://www.example.org":      "example.org",
		"http://a.example.co.uk:8080":  "example.co.uk",
		"https://[2001:db8::1]:81":     "2001:db8::1",
		"example.org.":                 "example.org",
		"a.b.example.co.uk":            "example.co.uk",
		"co.uk":                        "co.uk",
		"someone.github.io":            "someone.github.io",
		"a.someone.github.io":          "someone.github.io",
		"bucket.s3.amazonaws.com":      "bucket.s3.amazonaws.com",
		"www.xn--mnchen-3ya.de":        "xn--mnchen-3ya.de",
		"a.b.c.internal":               "c.internal",
		"localhost":                    "localhost",
		"localhost:8080":               "localhost",
		"192.0.2.1":                    "192.0.2.1",
		"192.0.2.1:81":                 "192.0.2.1",
		"[2001:db8::1]:81":             "2001:db8::1",
		"2001:db8::1":                  "2001:db8::1",
		"a.city.kawasaki.jp":           "city.kawasaki.jp",
		"a.b.c.kawasaki.jp":            "b.c.kawasaki.jp",
		"":                             "",
		"org":                          "org",
		strings.Repeat("a.", 5) + "de": "a.de",
	} {
		if got := RegistrableDomain(host); got != want {
			t.Errorf("RegistrableDomain(%q) = %q, want %q", host, got, want)
		}
	}
}

func mustParse(t testing.TB, raw string) URL {
	t.Helper()
	u, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
