package identity

import (
	"math"
	"strings"
	"testing"
)

func TestTrackingParams(t *testing.T) {
	rules := mustRules(t, Default())
	for _, c := range []struct{ ref, want string }{
		{"/a?utm_source=x", "/a"},
		{"/a?utm_source=x&b=c", "/a?b=c"},
		{"/a?z=1&utm_source=x&b=c&fbclid=2&a=3", "/a?z=1&b=c&a=3"},
		{"/a?gclid", "/a"},
		{"/a?gclid=&b", "/a?b"},
		{"?utm_x=1", "/page"},
		{"//example.com?utm_x=1", "/"},
		{"/a?utm_x=1#utm_y=2", "/a"},
		{"/a?utm_x=ü&b=ü", "/a?b=%C3%BC"},
		{"/a?b&&utm_x&c", "/a?b&&c"},
		{"/a?&utm_x", "/a"},
		{"/a;jsessionid=AB12", "/a"},
		{"/a;jsessionid=AB12?b=c", "/a?b=c"},
		{"/a;v=1;jsessionid=2;w=3/b;jsessionid=4?utm_x=1&c", "/a;v=1;w=3/b?c"},
		{"/viewtopic.php?t=1&sid=0123456789abcdef0123456789ABCDEF", "/viewtopic.php?t=1"},
		{"/showthread.php?s=0123456789abcdef0123456789abcdef&t=1", "/showthread.php?t=1"},
		{"/dir/?C=N;O=D", "/dir/"},
		{"?C=D;O=A", "/page"},
		{"/dir/?C=M&O=A&utm_x=1", "/dir/"},
		// Near misses stay as they are.
		{"/dir/?C=N", "/dir/?C=N"},
		{"/dir/?C=X;O=D", "/dir/?C=X;O=D"},
		{"/dir/?C=N;O=DE", "/dir/?C=N;O=DE"},
		{"/dir/?C=N;O=D&F=1", "/dir/?C=N;O=D&F=1"},
		{"/dir/?a&C=N&O=D", "/dir/?a&C=N&O=D"},
		{"/dir/C=N;O=D", "/dir/C=N;O=D"},
		{"/a?sid=1234&s=words&sid&s=", "/a?sid=1234&s=words&sid&s="},
		{"/a?sid=0123456789abcdef0123456789abcdeg", "/a?sid=0123456789abcdef0123456789abcdeg"},
		{"/a?sid=0123456789abcdef0123456789abcdef0", "/a?sid=0123456789abcdef0123456789abcdef0"},
		{"/a?utm=x", "/a?utm=x"},
		{"/a?xutm_source=x", "/a?xutm_source=x"},
		{"/a?UTM_SOURCE=x", "/a?UTM_SOURCE=x"},
		{"/a?gclids=x&gclid2", "/a?gclids=x&gclid2"},
		{"/a?b=utm_source&c=gclid=1", "/a?b=utm_source&c=gclid=1"},
		{"/utm_source=x", "/utm_source=x"},
		{"/a?;jsessionid=1", "/a?;jsessionid=1"},
		{"/a;jsessionids=1", "/a;jsessionids=1"},
		{"/jsessionid=1", "/jsessionid=1"},
		{"/a/..;jsessionid=1/b", "/a/..;jsessionid=1/b"},
		{"/a/%2e;jsessionid=1", "/a/%2e;jsessionid=1"},
	} {
		u, reason := rules.Resolve(mustParse(t, "http://example.org/page?old"), c.ref)
		if u.Path != c.want || reason != Accepted {
			t.Errorf("Resolve(%q) = %s %s, want %s", c.ref, u.Path, reason, c.want)
		}
	}
	wild := Default()
	wild.TrackingParams = []string{"?*=x", "?[ab]"}
	for ref, want := range map[string]string{"/?c=x": "/", "/?b": "/", "/?c": "/?c", "/?c=xy": "/?c=xy"} {
		if u, _ := mustRules(t, wild).Resolve(URL{}, "http://a.b"+ref); u.Path != want {
			t.Errorf("%s becomes %s, want %s", ref, u.Path, want)
		}
	}
	none := Default()
	none.TrackingParams = nil
	if u, _ := mustRules(t, none).Resolve(URL{}, "http://a.b/;jsessionid=1?utm_x=1"); u.Path != "/;jsessionid=1?utm_x=1" {
		t.Errorf("an empty list removes something: %s", u)
	}
}

func TestLength(t *testing.T) {
	rules := mustRules(t, Default())
	base := "http://example.org/"
	fits := base + strings.Repeat("x", maxURLBytes-len(base))
	u, reason := rules.Resolve(URL{}, fits)
	if reason != Accepted || u.String() != fits || rules.Admit(u, 0, 0, 0) != Accepted {
		t.Errorf("the longest URL is refused: %s", reason)
	}
	if _, reason := rules.Resolve(URL{}, fits+"x"); reason != TooLong {
		t.Errorf("one byte more is %s", reason)
	}
	if reason := rules.Admit(mustParse(t, fits+"x"), 0, 0, 0); reason != TooLong {
		t.Errorf("one byte more from elsewhere is %s", reason)
	}
	// What counts is what is left.
	if _, reason := rules.Resolve(URL{}, fits+"?utm_x="+strings.Repeat("y", 500)+"#"+strings.Repeat("z", 500)); reason != Accepted {
		t.Errorf("the longest URL after removing what does not count is %s", reason)
	}
}

func TestScope(t *testing.T) {
	seeds := []string{"https://www.example.co.uk/docs/start.html", "http://other.org:8080/"}
	for _, c := range []struct {
		name             string
		scope            string
		include, exclude Match
		in, out          []string
		excluded         []string
	}{
		{
			name: "anything", scope: ScopeAny,
			in: []string{"http://a/", "http://192.0.2.1/", "https://example.org/"},
		},
		{
			name: "anything but", scope: ScopeAny,
			exclude:  Match{Hosts: []string{"*.bad.org", "192.0.2.1"}, Prefixes: []string{"example.org/private/"}, Domains: []string{"evil.co.uk"}},
			in:       []string{"http://notbad.org/", "http://bad.org.uk/", "http://example.org/private", "http://192.0.2.1:81/", "http://co.uk/"},
			excluded: []string{"http://bad.org/", "https://a.b.bad.org:81/", "https://example.org/private/x", "http://192.0.2.1/", "http://www.evil.co.uk/"},
		},
		{
			name: "hosts of seeds", scope: ScopeHost,
			in:  []string{"http://www.example.co.uk/", "https://www.example.co.uk/x", "http://other.org:8080/x"},
			out: []string{"http://example.co.uk/", "http://www.example.co.uk:81/", "http://other.org/"},
		},
		{
			name: "domains of seeds", scope: ScopeDomain,
			in:  []string{"http://example.co.uk/", "https://a.b.example.co.uk:81/", "http://other.org/"},
			out: []string{"http://example2.co.uk/", "http://co.uk/", "http://myother.org/"},
		},
		{
			name: "directories of seeds", scope: ScopePrefix,
			in:  []string{"https://www.example.co.uk/docs/", "http://www.example.co.uk/docs/a/b?c", "http://other.org:8080/x"},
			out: []string{"https://www.example.co.uk/", "https://www.example.co.uk/docs", "https://www.example.co.uk/docs2/", "http://other.org/"},
		},
		{
			name: "listed only", scope: ScopeAny,
			include: Match{
				Hosts:    []string{"WWW.Example.org", "*.münchen.de", "a.org:443", "b.org:81", "[0::1]:82"},
				Prefixes: []string{"https://c.org/d/?e=", "f.org"}, Domains: []string{"www.g.com", "amazonaws.com", "localhost"},
			},
			in: []string{"http://www.example.org/", "http://xn--mnchen-3ya.de/", "http://x.xn--mnchen-3ya.de:90/", "https://a.org/", "http://b.org:81/",
				"http://[::1]:82/", "https://c.org/d/?e=1", "http://f.org/x", "https://f.org/", "http://g.com/", "http://a.g.com/", "http://localhost:99/"},
			out: []string{"http://example.org/", "http://a.www.example.org/", "http://b.org/", "http://[::1]/", "http://c.org/d/?e=1", "https://c.org/d/?f=1",
				"http://bucket.s3.amazonaws.com/", "http://com/", "http://de/"},
		},
		{
			name: "listed and seeds, but", scope: ScopeHost,
			include:  Match{Hosts: []string{"*.example.org"}},
			exclude:  Match{Prefixes: []string{"https://www.example.co.uk/docs/old"}},
			in:       []string{"http://a.example.org/", "http://other.org:8080/", "http://www.example.co.uk/docs/old"},
			out:      []string{"http://example.com/"},
			excluded: []string{"https://www.example.co.uk/docs/older"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Default()
			cfg.SeedScope, cfg.Include, cfg.Exclude = c.scope, c.include, c.exclude
			rules := mustRules(t, cfg, seeds...)
			for want, list := range map[Reason][]string{Accepted: c.in, OutOfScope: c.out, Excluded: c.excluded} {
				for _, raw := range list {
					if got := rules.Admit(mustParse(t, raw), 0, 0, 0); got != want {
						t.Errorf("%s is %s, want %s", raw, got, want)
					}
				}
			}
		})
	}
}

func TestDepthAndHops(t *testing.T) {
	cfg := Default()
	cfg.MaxHops = 1
	rules := mustRules(t, cfg)
	u := mustParse(t, "http://example.org/")
	for _, c := range []struct {
		depth, hops, deepest int
		want                 Reason
	}{
		{0, 0, 2, Accepted}, {2, 1, 2, Accepted}, {3, 0, 2, TooDeep}, {0, 2, 2, TooManyHops}, {1 << 30, 0, 0, Accepted}, {0, 2, 0, TooManyHops},
		{math.MaxUint8, 0, maxDepth, TooDeep}, // the largest depth that is counted
	} {
		if got := rules.Admit(u, c.depth, c.hops, c.deepest); got != c.want {
			t.Errorf("depth %d of %d, hops %d: %q, want %q", c.depth, c.deepest, c.hops, got, c.want)
		}
	}
}

func TestTraps(t *testing.T) {
	rules := mustRules(t, Default())
	for _, c := range []struct {
		url  string
		want Reason
	}{
		{"http://" + strings.Repeat("a.", 9) + "org/", Accepted},
		{"http://" + strings.Repeat("a.", 10) + "org/", TooManyLabels},
		{"http://example.org" + numbered("/", 32), Accepted},
		{"http://example.org" + numbered("/", 32) + "/", Accepted},
		{"http://example.org" + numbered("/", 33), TooManySegments},
		{"http://example.org/" + strings.Repeat("/", 100), TooManySegments},
		// Segments that repeat.
		{"http://example.org/a/a/a", Accepted},
		{"http://example.org/a/a/a/", Accepted},
		{"http://example.org/a/a/a/a", PathLoop},
		{"http://example.org/a/b/a/c/a/d", Accepted},
		{"http://example.org/a/b/a/c/a/d/a", PathLoop},
		{"http://example.org/2026/11/11/11-things", Accepted},
		{"http://example.org/a//b//c", Accepted},
		{"http://example.org/a/////b", PathLoop},
		{"http://example.org/a/ab/abc/abcd/abcde", Accepted},
		// Cycles that repeat.
		{"http://example.org/a/b/a/b", Accepted},
		{"http://example.org/a/b/a/b/a", Accepted},
		{"http://example.org/a/b/a/b/a/c", Accepted},
		{"http://example.org/a/b/a/b/a/b", PathLoop},
		{"http://example.org/x/y/a/b/a/b/a/b/z", PathLoop},
		{"http://example.org/a/b/c/a/b/c/a/b", Accepted},
		{"http://example.org/a/b/c/a/b/c/a/b/c", PathLoop},
		{"http://example.org/a/b/c/a/c/b/a/b/c", Accepted},
		// Parameters.
		{"http://example.org/?" + numbered("&", 32)[1:], Accepted},
		{"http://example.org/?" + numbered("&", 33)[1:], TooManyParams},
		{"http://example.org/?a=1&a=2&a=3&a=4&a=5&b", Accepted},
		{"http://example.org/?a=1&a=2&b&a=3&a=4&a=5&a=6", QueryLoop},
		{"http://example.org/?a=1&a1=2&a2=3&a3=4&a4=5&a5=6&aa=7", Accepted},
		{"http://example.org/?a=a&b=a&c=a&d=a&e=a&f=a&g=a", Accepted},
		{"http://example.org/?a&a&a&a&a&a", QueryLoop},
		// Echoes.
		{"http://example.org/login?next=/login", Accepted},
		{"http://example.org/login?next=/login?next=/login", QueryLoop},
		{"http://example.org/login?next=%2Flogin%3Fnext%3D%252Flogin", QueryLoop},
		{"http://example.org/login?next=%2flogin%3Fnext%3D%252flogin%253Fnext%253D%25252Flogin", QueryLoop},
		{"http://example.org/login?next=http://example.org/login?next=https%3A%2F%2Fexample.org%2Flogin", QueryLoop},
		{"http://example.org:81/login?a=http://example.org:81/login&b=http://example.org:81/login", QueryLoop},
		{"http://example.org/login?next=/login/a&other=/login/b", Accepted},
		{"http://example.org/login?next=/account/login&other=/account/login", Accepted},
		{"http://example.org/share?u=https://example.com/share&v=https://example.net/share", Accepted},
		{"http://example.org/?u=http://example.org/?u=http://example.org/?u=", QueryLoop},
		{"http://example.org/?u=/?u=/?u=1", QueryLoop},
		{"http://example.org/?a=/&b=/&c=/", Accepted},
		{"http://example.org/?a=/x&b=/y&c=http://example.org/z", Accepted},
		{"http://example.org/a%20b?u=/a%20b&v=%2Fa%2520b", QueryLoop},
	} {
		if got := rules.Admit(mustParse(t, c.url), 0, 0, 0); got != c.want {
			t.Errorf("%.200s is %s, want %s", c.url, got, c.want)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a": "a", "%2F": "/", "%2f%2F": "//", "%252F": "/", "%2525252F": "/", "%25": "%", "%2525": "%", "%": "%", "%2": "%2", "%zz": "%zz",
		"%25zz": "%zz", "%252": "%2", "%25%2F": "%/", "%C3%BC": "ü",
	} {
		if got := string(unescape(nil, in)); got != want {
			t.Errorf("unescape(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*Config){
		"tracking_params[0]":  func(c *Config) { c.TrackingParams = []string{""} },
		"tracking_params[1]":  func(c *Config) { c.TrackingParams = []string{"a", "*"} },
		"tracking_params[2]":  func(c *Config) { c.TrackingParams = []string{"a", ";b", "c*d"} },
		"tracking_params[3]":  func(c *Config) { c.TrackingParams = []string{"a=1", ";b*=99", "c", "d=100"} },
		"tracking_params[5]":  func(c *Config) { c.TrackingParams = []string{"a", "b", "c", "d", "?e=[f]*", "?[g"} },
		"tracking_params[6]":  func(c *Config) { c.TrackingParams = []string{"a", "b", "c", "d", "e", "f", "?"} },
		"tracking_params[4]":  func(c *Config) { c.TrackingParams = []string{"a", "b", "c", "d", "=32"} },
		"max_depth":           func(c *Config) { c.MaxDepth = maxDepth + 1 },
		"seed_scope":          func(c *Config) { c.SeedScope = "" },
		"include.hosts[1]":    func(c *Config) { c.Include.Hosts = []string{"a", "http://b/"} },
		"include.prefixes[0]": func(c *Config) { c.Include.Prefixes = []string{"/path"} },
		"include.domains[0]":  func(c *Config) { c.Include.Domains = []string{"*.a.org"} },
		"exclude.hosts[0]":    func(c *Config) { c.Exclude.Hosts = []string{"*.192.0.2.1"} },
		"exclude.prefixes[0]": func(c *Config) { c.Exclude.Prefixes = []string{"ftp://a/"} },
		"exclude.domains[0]":  func(c *Config) { c.Exclude.Domains = []string{"a.org:81"} },
	} {
		cfg := Default()
		spoil(&cfg)
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
		if _, err := New(cfg, nil); err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("New with a bad %s: %v", field, err)
		}
	}
}

// numbered is n different parts, each after the separator.
func numbered(separator string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(separator)
		b.WriteByte('a' + byte(i%26))
		b.WriteByte('a' + byte(i/26))
	}
	return b.String()
}

func mustRules(t testing.TB, cfg Config, seeds ...string) *Rules {
	t.Helper()
	var urls []URL
	for _, raw := range seeds {
		urls = append(urls, mustParse(t, raw))
	}
	rules, err := New(cfg, urls)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}
