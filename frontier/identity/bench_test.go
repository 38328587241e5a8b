package identity

import "testing"

// links are those of an ordinary page, in the mix of an ordinary page.
var links = []string{
	"https://www.example.org/", "https://www.example.org/news/2026/11/some-title-of-an-article.html", "/about", "/static/img/logo.png?v=3",
	"/wiki/Main_Page#History", "../people/index.html", "contact.html", "?page=2&sort=asc", "#top", "//cdn.example.net/lib/app.js",
	"https://other.example.com/path/to/page?id=1234&lang=en", "mailto:someone@example.org", "/news/tags/web-crawling/", "./x/y/z.html",
}

func BenchmarkResolve(b *testing.B) {
	rules := mustRules(b, Default())
	base := mustParse(b, "https://www.example.org/news/2026/11/index.html?page=1")
	for _, c := range []struct{ name, ref string }{
		{"absolute", "https://www.example.org/news/2026/11/some-title-of-an-article.html"},
		{"absolute_query", "https://other.example.com/path/to/page?id=1234&lang=en"},
		{"address", "http://127.0.0.1:8080/news/2026/11/page.html"},
		{"network_path", "//cdn.example.net/lib/app.js"},
		{"root", "/news/tags/web-crawling/"},
		{"relative", "some-title-of-an-article.html"},
		{"up", "../../people/index.html"},
		{"query", "?page=2&sort=asc"},
		{"fragment", "#top"},
		{"foreign", "mailto:someone@example.org"},
		{"tracking", "/news/title.html?utm_source=a&utm_medium=b&id=7"},
		{"non_ascii", "/wiki/Universität_München?q=größe"},
		{"parser_dots", "/a/../b/c.html"},
		{"parser_idna", "http://münchen.de/some/path"},
		{"parser_case", "https://WWW.Example.org/news/2026/11/some-title-of-an-article.html"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rules.Resolve(base, c.ref)
			}
		})
	}
}

// BenchmarkParser is what BenchmarkPage would be without the fast path.
func BenchmarkParser(b *testing.B) {
	base := mustParse(b, "https://www.example.org/news/2026/11/index.html?page=1")
	b.ReportAllocs()
	for b.Loop() {
		for _, ref := range links {
			slow(base, trim(ref))
		}
	}
}

// BenchmarkPage resolves, hashes and judges the links of a page (14 an iteration).
func BenchmarkPage(b *testing.B) {
	cfg := Default()
	cfg.SeedScope = ScopeDomain
	cfg.Include.Hosts = []string{"*.example.net"}
	rules := mustRules(b, cfg, "https://www.example.org/")
	base := mustParse(b, "https://www.example.org/news/2026/11/index.html?page=1")
	var sum uint64
	b.ReportAllocs()
	for b.Loop() {
		for _, ref := range links {
			if u, reason := rules.Resolve(base, ref); reason == Accepted && rules.Admit(u, 1, 0, 0) == Accepted {
				sum += u.Hash()
			}
		}
	}
}

func BenchmarkAdmit(b *testing.B) {
	cfg := Default()
	cfg.SeedScope = ScopeDomain
	cfg.Include.Hosts = []string{"*.example.com"}
	cfg.Exclude.Prefixes = []string{"www.example.org/private/"}
	rules := mustRules(b, cfg, "https://www.example.org/")
	for _, c := range []struct{ name, url string }{
		{"domain", "https://a.b.example.org/news/2026/11/some-title-of-an-article.html"},
		{"below", "https://a.b.example.com/news/"},
		{"out", "https://www.example.net/path/to/page"},
		{"query", "https://www.example.org/path/to/page?id=1234&lang=en&a=b&c=d&e=f&g=h"},
		{"echo", "https://www.example.org/login?next=https%3A%2F%2Fwww.example.org%2Fpath%2Fto%2Fpage"},
		{"long_path", "https://www.example.org" + numbered("/", 32)},
	} {
		u := mustParse(b, c.url)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rules.Admit(u, 1, 0, 0)
			}
		})
	}
}

func BenchmarkHash(b *testing.B) {
	u := mustParse(b, "https://www.example.org/news/2026/11/some-title-of-an-article.html")
	b.ReportAllocs()
	for b.Loop() {
		u.Hash()
	}
}

// TestAllocations holds the promises of the hot path, which the benchmarks only measure.
func TestAllocations(t *testing.T) {
	cfg := Default()
	cfg.SeedScope = ScopeDomain
	rules := mustRules(t, cfg, "https://www.example.org/")
	base := mustParse(t, "https://www.example.org/news/2026/11/index.html?page=1")
	for _, ref := range links {
		u, _ := rules.Resolve(base, ref)
		if n := testing.AllocsPerRun(100, func() { rules.Resolve(base, ref) }); n > 1 {
			t.Errorf("Resolve(%q): %.0f allocations, at most 1 promised", ref, n)
		}
		if n := testing.AllocsPerRun(100, func() { rules.Admit(u, 1, 0, 0); u.Hash() }); n > 0 {
			t.Errorf("Admit and Hash of %q: %.0f allocations, none promised", u, n)
		}
	}
}
