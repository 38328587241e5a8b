package robots_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"proxima/fetch/robots"
)

// Each case is a file, the crawler "foobot", and paths: those after ! must be refused.
var cases = []struct{ name, file, paths string }{
	{"empty file", "", "/ /x ?x"},
	{"Allow wins a tie that it comes second in", "user-agent: *\ndisallow: /a\nallow: /a", "/a"},
	{"Allow wins a tie between a text and a wildcard", "user-agent: *\ndisallow: /a/b\nallow: /a/*", "!/a/b /a/c"},
	{"equal octets, one with a wildcard, Disallow first", "user-agent: *\ndisallow: /*bc\nallow: /abc", "/abc !/bc"},
	{"equal octets, one with a wildcard, Allow first", "user-agent: *\nallow: /*bc\ndisallow: /abc", "/abc"},
	{"a wildcard counts one octet", "user-agent: *\nallow: /a*c\ndisallow: /abcd", "!/abcd /abce"},
	{"metacharacters count one octet", "user-agent: *\nallow: /*.+?()[]\ndisallow: /abcdefghi", "!/abcdefghi.+?()[] /abcdefgh.+?()[]"},
	{"a run of wildcards counts one octet", "user-agent: *\ndisallow: /a***b\nallow: /axb", "/axb !/ayb"},
	{"a trailing wildcard counts nothing", "user-agent: *\ndisallow: /a*\nallow: /a", "/a /ab"},
	{"a wildcard only is the root", "user-agent: *\ndisallow: /\nallow: *", "/ /a"},
	{"many wildcards count one octet each", "user-agent: *\nallow: /*a*b*c*d\ndisallow: /abcdefghi", "!/abcdefghi /abcdefgh"},
	{"the longest rule wins", "user-agent: *\nallow: /a/b\ndisallow: /a\nallow: /a/b/c/d\ndisallow: /a/b/c", "!/a /a/b !/a/b/c /a/b/c/d"},
	{"the root is weaker than anything", "user-agent: *\ndisallow: /\nallow: /x", "/x !/ !/y !?x"},
	{"wildcards are tied to the begin", "user-agent: *\ndisallow: /b*c", "/a/bc !/bc !/b/c"},
	{"end tied to the end", "user-agent: *\ndisallow: /a$\ndisallow: /*.gif$", "!/a /ab /a/ /a?x !/x.gif /x.gif?x /xgif"},
	{"dollar amid a pattern is literal", "user-agent: *\ndisallow: /a$b\ndisallow: /c$d*e", "!/a$b /a !/c$dxe !/a%24b"},
	{"only the last dollar is the end", "user-agent: *\ndisallow: /a$$", "!/a$ /a /a$b"},
	{"wildcard before the end", "user-agent: *\ndisallow: /a*$", "!/a !/abc /b"},
	{"escaped specials are literal", "user-agent: *\ndisallow: /a%2Ab\ndisallow: /c%24", "!/a*b !/a%2ab /axb !/c$ !/c$x /c"},
	{"pattern of a wildcard only", "user-agent: *\ndisallow: *", "!/ !/x"},
	{"pattern that starts with a wildcard", "user-agent: *\ndisallow: *.php", "!/a.php !/.php /php"},
	{"pattern without a leading slash", "user-agent: *\ndisallow: fish", "!/fish /x/fish"},
	{"runs of wildcards", "user-agent: *\ndisallow: /a****b", "!/ab !/axxb /a"},
	{"metacharacters are literal", "user-agent: *\ndisallow: /*a+b(c)[d].e?f", "!/a+b(c)[d].e?f /aab(c)d.ef /a+b(c)[d]xe?f"},
	{"control characters", "user-agent: *\ndisallow: /%1B\ndisallow: /%1a\ndisallow: /%0Ex", "!/%1b /.x !/%1A /"},
	{"%-case", "user-agent: *\ndisallow: /%c3%a9", "!/%C3%A9 !/%c3%A9"},
	{"octets beyond ASCII", "user-agent: *\ndisallow: /é\ndisallow: /\xff", "!/%C3%A9 !/é !/%ff"},
	{"no Allow names raw octets", "user-agent: *\ndisallow: /\nallow: /a/é\nallow: /b/%c3%a9", "/a/%C3%A9 !/a/é /b/%C3%A9 !/b/é"},
	{"an Allow works around raw octets", "user-agent: *\ndisallow: /\nallow: /a/\nallow: /b*c$", "/a/é /b/é/c !/b/é !/é"},
	{"a Disallow works around raw octets", "user-agent: *\ndisallow: /a/\ndisallow: /*?q=é&", "!/a/é !/é?q=é& /é?q=é /é"},
	{"unreserved octets are decoded", "user-agent: *\ndisallow: /%62%61%7A\ndisallow: /~joe", "!/baz !/b%61z !/%7ejoe"},
	{"unreserved octets of a path are decoded", "user-agent: *\ndisallow: /\nallow: /baz", "/baz /%62%61z /b%61%7a"},
	{"an Allow with needless escapes allows what it spells", "user-agent: *\ndisallow: /\nallow: /b%61%7a", "/b%61%7A/x /b%61%7a !/baz !/%62az !/%62%61%7A !/ba%7A"},
	{"such an Allow changes no other rule", "user-agent: *\nallow: /%7Ex\ndisallow: /\nallow: /%7e\nallow: /b\ndisallow: /%62%61", "/%7e !/~ /bx /%62x !/ba !/%62a"},
	{"such an Allow is as long as its octets", "user-agent: *\nallow: /%62%61%7A\ndisallow: /baz/a", "!/%62%61%7A/a /%62%61%7A/b"},
	{"what such an Allow would overrule counts", "user-agent: *\ndisallow: /b\nallow: /b%61", "!/ba /b%61 !/%62a !/%62%61"},
	{"such an Allow and its own Disallow", "user-agent: *\ndisallow: /b%61\nallow: /b%61", "!/ba /b%61"},
	{"such an Allow and one without", "user-agent: *\ndisallow: /\nallow: /b%61\nallow: /ba", "/ba /b%61 /%62a"},
	{"such an Allow spelt two ways", "user-agent: *\ndisallow: /\nallow: /b%61\nallow: /%62a", "!/ba /b%61 /%62a !/%62%61"},
	{"such an Allow with a wildcard", "user-agent: *\ndisallow: /\nallow: /*.%70hp$", "/a.%70hp !/a.php !/a.%70hpx /%61.%70hp"},
	{"such an Allow and raw octets", "user-agent: *\ndisallow: /\nallow: /%62*%61\nallow: /c%61é", "!/%62é%61 !/bé%61 /c%61%c3%a9 !/c%61é"},
	{"such an Allow of index.html", "user-agent: *\ndisallow: /\nallow: /%61/index.html\nallow: /b/index%2Ehtml", "/%61/ /%61/index.html !/a/ !/%61/x !/b/ /b/index%2ehtml"},
	{"the first and the last hexadecimal digits", "user-agent: *\ndisallow: /%6f\ndisallow: /%6A\ndisallow: /%30\ndisallow: /%39\ndisallow: /%6g\ndisallow: /%5:\ndisallow: /%6@", "!/o !/j !/0 !/9 /p /Z /i"},
	{"reserved octets are not decoded", "user-agent: *\ndisallow: /a%2Fb\ndisallow: /c?", "!/a%2fb /a/b /c%3F !/c?x"},
	{"octets that URLs encode", "user-agent: *\ndisallow: /a b\ndisallow: /{id}\ndisallow: /it's", "!/a%20b !/%7Bid%7D !/it%27s !/it's"},
	{"percent signs that escape nothing", "user-agent: *\ndisallow: /100%\ndisallow: /a*%", "!/100% !/100%x !/100%20 !/a/%20"},
	{"fragment", "user-agent: *\ndisallow: /a$", "!/a#b"},
	{"/robots.txt itself", "user-agent: *\ndisallow: /", "/robots.txt /robots%2Etxt !/robots.txtx !/a/robots.txt"},
	{"index.html allows its directory", "user-agent: *\ndisallow: /\nallow: /a/index.html\nallow: /b/index.html$", "/a/ !/a /b/ !/b/x !/a/index.htm"},
	{"Disallow of index.html is just that", "user-agent: *\ndisallow: /a/index.html\ndisallow: /b/\ndisallow: /b/index.html", "/a/ !/a/index.html !/b/"},

	{"a shorter token is another agent", "user-agent: foo\ndisallow: /", "/x"},
	{"a longer token is another agent", "user-agent: foobot-news\ndisallow: /\n\nuser-agent: foobot2\ndisallow: /", "/x"},
	{"version after the token", "user-agent: FooBot/2.1\ndisallow: /x\n\nuser-agent: *\ndisallow: /y", "!/x /y"},
	{"words after the token", "user-agent: foobot (the bot)\ndisallow: /x", "!/x"},
	{"own group beats everybody's", "user-agent: *\ndisallow: /\n\nuser-agent: foobot\ndisallow: /x", "/y !/x"},
	{"own group without rules", "user-agent: *\ndisallow: /\n\nuser-agent: foobot\ndisallow:", "/y"},
	{"groups merge", "user-agent: foobot\ndisallow: /a\nuser-agent: x\ndisallow: /b\nuser-agent: FOOBOT\ndisallow: /c", "!/a /b !/c"},
	{"everybody's groups merge", "user-agent: *\ndisallow: /a\nuser-agent: x\ndisallow: /b\nuser-agent: *\ndisallow: /c", "!/a /b !/c"},
	{"agents share a group", "user-agent: x\nuser-agent: foobot\nuser-agent: y\ndisallow: /a", "!/a"},
	{"everybody shares a group with the agent", "user-agent: foobot\nuser-agent: *\ndisallow: /a\n\nuser-agent: *\ndisallow: /b", "!/a /b"},
	{"Crawl-delay splits no group", "user-agent: foobot\ncrawl-delay: 1\nuser-agent: x\ndisallow: /a", "!/a"},
	{"Sitemap and unknown lines split no group", "user-agent: foobot\nsitemap: http://x/\nhost: x\nuser-agent: x\ndisallow: /a", "!/a"},
	{"blank lines split no group", "user-agent: foobot\n\n\ndisallow: /a\n\ndisallow: /b", "!/a !/b"},
	{"an empty Disallow ends the User-agent lines", "user-agent: foobot\ndisallow:\nuser-agent: x\ndisallow: /", "/x"},
	{"rules before any group", "disallow: /\nuser-agent: foobot\ndisallow: /a", "/b !/a"},
	{"words after the agent of everybody", "user-agent: * all\ndisallow: /a\n\nuser-agent: *\tall\ndisallow: /b", "!/a !/b /c"},
	{"octets that go on with a token", "user-agent: foobot0\ndisallow: /\n\nuser-agent: foobot9\ndisallow: /\n\nuser-agent: foobot.\ndisallow: /\n\nuser-agent: foobota\ndisallow: /\n\n" +
		"user-agent: foobotZ\ndisallow: /\n\nuser-agent: foobot_\ndisallow: /\n\nuser-agent: foobot-\ndisallow: /", "/x"},
	{"octets that end a token", "user-agent: foobot@\ndisallow: /a\n\nuser-agent: foobot{\ndisallow: /b\n\nuser-agent: foobot;\ndisallow: /c\n\nuser-agent: foobot/\ndisallow: /d", "!/a !/b !/c !/d /e"},
	{"agents that are none", "user-agent:\ndisallow: /\n\nuser-agent: **\ndisallow: /\n\nuser-agent: *x\ndisallow: /", "/x"},

	{"comments", "# x\nuser-agent: * # all\ndisallow: /a#b\n#disallow: /c", "!/a !/ab /c"},
	{"white space", " \tUser-Agent \t:\t * \n  disallow  :  /a  \n", "!/a !/ab"},
	{"missing colons", "user-agent *\ndisallow /a\nallow /b c\n", "!/a /b"},
	{"misspelt keys", "useragent: *\ndisalow: /a\ndissallow: /b\ndissalow: /c\ndiasllow: /d\ndisallaw: /e\nallows: /a", "!/a !/b !/c !/d !/e"},
	{"colons in a path", "user-agent: *\ndisallow: /a:b", "!/a:b /a"},
	{"binary junk", "\x00\x01\xfe\xff\n\x00disallow: /\nuser-agent: *\n\x00\x00:\x00\ndisallow: /\x00a\ndisallow: /b", "/a !/%00a !/b"},
	{"a page of HTML", "<!doctype html>\n<p>user-agent: *</p>\n<p>disallow: /</p>", "/x"},
	{"BOM", "\xef\xbb\xbfuser-agent: *\ndisallow: /a", "!/a"},
}

func TestAllowed(t *testing.T) {
	for _, c := range cases {
		for _, eol := range []string{"\n", "\r", "\r\n"} {
			r := robots.Parse([]byte(strings.ReplaceAll(c.file, "\n", eol)), "foobot")
			for _, path := range strings.Fields(c.paths) {
				path, refused := strings.CutPrefix(path, "!")
				if r.Allowed(path) == refused {
					t.Errorf("%s (line end %q): Allowed(%q) = %v", c.name, eol, path, refused)
				}
			}
		}
	}
}

// Editors save a file in UTF-16 under the name "Unicode". Its rules count, as far as the limit leaves them whole.
func TestUTF16(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		encode := func(text string) (out []byte) {
			for _, c := range utf16.Encode([]rune("\uFEFF" + text)) {
				out = order.AppendUint16(out, c)
			}
			return out
		}
		r := robots.Parse(encode("user-agent: *\r\ndisallow: /é\r\n"), "foobot")
		if r.Allowed("/%C3%A9") || !r.Allowed("/a") {
			t.Errorf("%v: its rule does not count", order)
		}
		long := encode("user-agent: *\ndisallow: /a\n" + strings.Repeat("#", robots.MaxBytes/2-38) + "\nallow: /a/b")
		if len(long) <= robots.MaxBytes {
			t.Fatalf("%d bytes", len(long))
		}
		if robots.Parse(long, "foobot").Allowed("/a/b") {
			t.Errorf("%v: a rule that the limit cuts counts", order)
		}
	}
}

func TestAllowAll(t *testing.T) {
	noRules := robots.Parse([]byte("user-agent: *\ndisallow:"), "foobot")
	for _, path := range []string{"", "/", "/x", "?x", "/robots.txt", "/" + strings.Repeat("x", 1<<20)} {
		if !robots.AllowAll().Allowed(path) || !noRules.Allowed(path) {
			t.Errorf("path %.20q", path)
		}
	}
}

func TestReadLimit(t *testing.T) {
	open := "user-agent: *\ndisallow: /a\n"
	fill := func(n int) string { return strings.Repeat("#", n-1) + "\n" }
	for _, c := range []struct {
		name, file, path string
		allowed          bool
	}{
		{"line beyond the limit", open + fill(robots.MaxBytes-len(open)) + "disallow: /b\n", "/b", true},
		{"line that ends at the limit", open + fill(robots.MaxBytes-len(open)-12) + "disallow: /b\n", "/b", false},
		{"line that the limit cuts", open + "disallow: /\n" + fill(robots.MaxBytes-len(open)-12-8) + "allow: /b/c\n", "/b/d", false},
		{"rules before the limit", open + fill(robots.MaxBytes) + "x", "/a", false},
		{"one line only", strings.Repeat("x", robots.MaxBytes+1), "/a", true},
	} {
		if got := robots.Parse([]byte(c.file), "foobot").Allowed(c.path); got != c.allowed {
			t.Errorf("%s: Allowed(%q) = %v", c.name, c.path, got)
		}
	}
}

func TestLongPaths(t *testing.T) {
	long := "/" + strings.Repeat("x", robots.MaxPathBytes-1)
	r := robots.Parse([]byte("user-agent: *\ndisallow: /a\nallow: "+long+"\ndisallow: "+long+"xx"), "foobot")
	if !r.Allowed(long) {
		t.Error("a path of MaxPathBytes is refused")
	}
	if r.Allowed(long + "x") {
		t.Error("a path beyond MaxPathBytes is allowed")
	}
	if r.Allowed("/" + strings.Repeat("é", robots.MaxPathBytes/3)) {
		t.Error("a path that grows beyond MaxPathBytes is allowed")
	}
}

// TestManyWildcards tries rules and paths that a matcher may be tempted to give up: they are matched like all others.
func TestManyWildcards(t *testing.T) {
	var b strings.Builder
	b.WriteString("user-agent: *\ndisallow: /*a*b*c*d*e*f*g*h*i*j\nallow: /k*a*b*c*d*e*f*g*h*i*j\ndisallow: /l\nallow: /l/*/open\n")
	for i := range 2000 {
		fmt.Fprintf(&b, "disallow: /*?page=%d&\n", i)
	}
	b.WriteString("allow: /*/open?page=1999\n")
	r := robots.Parse([]byte(b.String()), "foobot")
	pad := strings.Repeat("z", 2000)
	for path, allowed := range map[string]bool{
		"/abcdefghij": false, "/1a2b3c4d5e6f7g8h9i0j": false, "/abcdefghi": true, "/jihgfedcba": true, "/a" + pad + "bcdefghij": false,
		"/kabcdefghij": true, "/k" + pad + "abcdefghij": true, "/x?page=7&": false, "/x?page=1999&": false, "/x?page=2000&": true,
		"/x?page=1998": true, "/x/open?page=1&": false, "/x/open?page=1999&": true, "/x/open?page=1999": true,
		"/l/x/open": true, "/l/x/open" + pad: true, "/l/x" + pad: false,
	} {
		if got := r.Allowed(path); got != allowed {
			t.Errorf("Allowed(%.40q…) = %v", path, got)
		}
	}
}

func TestCrawlDelay(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		file string
		want time.Duration
	}{
		{"", 0},
		{"crawl-delay: 3", 0},
		{"user-agent: *\ncrawl-delay: 3", 3 * s},
		{"user-agent: *\nCrawl-Delay: 0.5 # half", s / 2},
		{"user-agent: *\ncrawldelay 2", 2 * s},
		{"user-agent: *\ncrawl-delay: 0", 0},
		{"user-agent: *\ncrawl-delay: -3", 0},
		{"user-agent: *\ncrawl-delay: NaN", 0},
		{"user-agent: *\ncrawl-delay: inf", 0},
		{"user-agent: *\ncrawl-delay: 1e999", 0},
		{"user-agent: *\ncrawl-delay: ten", 0},
		{"user-agent: *\ncrawl-delay:", 0},
		{"user-agent: *\ncrawl-delay: 10s", 10 * s},
		{"user-agent: *\ncrawl-delay: 10 Seconds", 10 * s},
		{"user-agent: *\ncrawl-delay: 0,5", s / 2},
		{"user-agent: *\ncrawl-delay: 3;", 0},
		{"user-agent: *\ncrawl-delay: s", 0},
		{"user-agent: *\ncrawl-delay: 1e300", robots.MaxCrawlDelay},
		{"user-agent: *\ncrawl-delay: 86400", robots.MaxCrawlDelay},
		// A delay is for the agents just above it alone, although the rules after it are for those before it, too.
		{"user-agent: b\ncrawl-delay: 1e99\n\nuser-agent: *\ncrawl-delay: 1.5\ndisallow: /x", 3 * s / 2},
		{"user-agent: b\ncrawl-delay: 9\n\nuser-agent: *\ndisallow: /x", 0},
		{"user-agent: *\ncrawl-delay: 3\n\nuser-agent: foobot\ndisallow: /x", 0},
		{"user-agent: foobot\ncrawl-delay: 3\n\nuser-agent: b\ncrawl-delay: 9\ndisallow: /x", 3 * s},
		{"user-agent: b\nuser-agent: foobot\nuser-agent: c\ncrawl-delay: 3", 3 * s},
		{"user-agent: b\ncrawl-delay: 9\nuser-agent: foobot\nuser-agent: c\ncrawl-delay: 3", 3 * s},
		{"user-agent: foobot\ndisallow: /x\ncrawl-delay: 3\nuser-agent: b\ncrawl-delay: 9", 3 * s},
		{"user-agent: foobot\ncrawl-delay: 3\ncrawl-delay: 2", 3 * s},
		{"user-agent: *\ndisallow:\ncrawl-delay: 3\n\nuser-agent: foobot\ndisallow: /x", 0},
		{"user-agent: x\ncrawl-delay: 3\nuser-agent: foobot\ndisallow: /x", 0},
		{"user-agent: foobot\ncrawl-delay: 3\ndisallow: /x\nuser-agent: x\ncrawl-delay: 9\ndisallow: /\nuser-agent: foobot\ncrawl-delay: 2", 3 * s},
	} {
		if got := robots.Parse([]byte(c.file), "foobot").CrawlDelay(); got != c.want {
			t.Errorf("%q: %v, want %v", c.file, got, c.want)
		}
	}
}

func TestSitemaps(t *testing.T) {
	r := robots.Parse([]byte("sitemap: http://x/1\nuser-agent: x\nSITEMAP:/2\ndisallow: /\nsite-map: 3 # x\nsitemap:\nsitemap: http://x/1"), "foobot")
	want := []string{"http://x/1", "/2", "3", "http://x/1"}
	got := r.Sitemaps()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got[0] = "changed"
	if !slices.Equal(r.Sitemaps(), want) {
		t.Error("a caller can change the rules")
	}
	r = robots.Parse([]byte(strings.Repeat("sitemap: x\n", robots.MaxSitemaps+1)), "foobot")
	if n := len(r.Sitemaps()); n != robots.MaxSitemaps {
		t.Errorf("%d sitemaps kept", n)
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		from, to int
		want     robots.Verdict
	}{
		{-1, 199, robots.Wait},
		{200, 299, robots.Usable},
		{300, 399, robots.Redirect},
		{400, 407, robots.Unavailable},
		{408, 408, robots.Wait},
		{409, 428, robots.Unavailable},
		{429, 429, robots.Wait},
		{430, 499, robots.Unavailable},
		{500, 999, robots.Wait},
	} {
		for status := c.from; status <= c.to; status++ {
			if got := robots.Judge(status); got != c.want {
				t.Errorf("Judge(%d) = %v, want %v", status, got, c.want)
			}
		}
	}
}

// All nodes must read a file alike, so its bounds do not change.
func TestBoundsOfAFile(t *testing.T) {
	if robots.MaxBytes != 512_000 || robots.MaxSitemaps != 1000 || robots.MaxCrawlDelay != time.Hour || robots.MaxPathBytes != 8192 {
		t.Errorf("%d bytes, %d sitemaps, %v, paths of %d bytes", robots.MaxBytes, robots.MaxSitemaps, robots.MaxCrawlDelay, robots.MaxPathBytes)
	}
}
