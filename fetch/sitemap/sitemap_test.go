package sitemap

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func zip(t testing.TB, s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const (
	header = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"
	urlset = header + `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` + "\n"
)

func TestParse(t *testing.T) {
	urls := func(u ...string) Sitemap { return Sitemap{URLs: u} }
	utf16 := "\xff\xfe"
	for _, c := range urlset + "<url><loc>http://x/1</loc></url></urlset>" {
		utf16 += string([]byte{byte(c), 0})
	}
	tests := []struct {
		name, in string
		want     Sitemap
		broken   bool
	}{
		{name: "list", in: urlset + "<url>\n<loc>\n http://x/1?a=1&amp;b=2 </loc><lastmod>2026</lastmod></url><url><loc>http://x/2</loc></url></urlset>",
			want: urls("http://x/1?a=1&b=2", "http://x/2")},
		{name: "lastmod", in: urlset + "<url><lastmod>2026-01-01</lastmod><loc>http://x/1</loc><image:lastmod>2026-05-05</image:lastmod></url><url><loc>http://x/2</loc><image:url/>" +
			"<lastmod> 2026-01-02T03:04:05+01:00 </lastmod></url><url><loc>http://x/3</loc><lastmod>yesterday</lastmod></url><url><loc>http://x/4</loc><lastmod>2026-01-02</lastmod></url></urlset>",
			want: Sitemap{URLs: []string{"http://x/1", "http://x/2", "http://x/3", "http://x/4"}, Modified: map[string]time.Time{
				"http://x/1": time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
				"http://x/2": time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC), "http://x/4": time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}}},
		{name: "lastmod of programs", in: urlset + "<url><loc>http://x/1</loc><lastmod>2026-01-02T03:04:05.6+0100</lastmod></url><url><loc>http://x/2</loc><lastmod>2026-01-02T03:04:05</lastmod></url>" +
			"<url><loc>http://x/3</loc><lastmod>2026-01-02 03:04:05</lastmod></url><url><loc>http://x/4</loc><lastmod>02.01.2026</lastmod></url></urlset>",
			want: Sitemap{URLs: []string{"http://x/1", "http://x/2", "http://x/3", "http://x/4"}, Modified: map[string]time.Time{
				"http://x/1": time.Date(2026, 1, 2, 2, 4, 5, 6e8, time.UTC), "http://x/2": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
				"http://x/3": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}},
		{name: "lastmod before loc", in: urlset + "<url><lastmod>2026-01-01</lastmod><loc>http://x/1</loc></url><url><lastmod>2026-01-02</lastmod><loc>http://x/2</loc></url>" +
			"<url><lastmod>2026-01-03</lastmod></url><url><loc>http://x/4</loc></url></urlset>",
			want: Sitemap{URLs: []string{"http://x/1", "http://x/2", "http://x/4"}, Modified: map[string]time.Time{
				"http://x/1": time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), "http://x/2": time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}}},
		{name: "lastmod without entries", in: urlset + "<loc>http://x/1</loc><lastmod>2026-01-01</lastmod><loc>http://x/2</loc>" +
			"<loc>http://x/3</loc><lastmod>2026-01-02T03:04Z</lastmod><loc/><lastmod>2026-01-03</lastmod></urlset>",
			want: Sitemap{URLs: []string{"http://x/1", "http://x/2", "http://x/3"}, Modified: map[string]time.Time{
				"http://x/1": time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), "http://x/3": time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)}}},
		{name: "capitals", in: "<URLSET><loc>http://x/1</loc></URLSET>", want: urls("http://x/1")},
		{name: "image in a URL", in: "<urlset><loc>http://x/<image:loc></image:loc>1</loc></urlset>", want: urls("http://x/1")},
		{name: "index", in: header + "<sitemapindex><sitemap><lastmod>2026-01-01</lastmod></sitemap><sitemap><loc>http://x/1.xml.gz</loc></sitemap></sitemapindex>",
			want: Sitemap{Sitemaps: []string{"http://x/1.xml.gz"}}},
		{name: "gzip", in: zip(t, urlset+"<url><loc>http://x/1</loc></url></urlset>"), want: urls("http://x/1")},
		{name: "prefix and images", in: `<s:urlset xmlns:s="x" xmlns:image="y"><s:url><s:loc>http://x/1</s:loc><image:image><image:loc>http://x/i.png</image:loc></image:image></s:url></s:urlset>`,
			want: urls("http://x/1")},
		{name: "images in the usual form", in: `<urlset><url><loc>http://x/1</loc><image:image><image:loc>http://x/i.png</image:loc></image:image></url></urlset>`,
			want: urls("http://x/1")},
		{name: "CDATA and comments", in: `<urlset><url><loc><!-- x --><![CDATA[http://x/?a&b]]></loc></url><!-- <loc>http://x/no</loc> --></urlset>`, want: urls("http://x/?a&b")},
		{name: "bare ampersand", in: `<urlset><url><loc>http://x/?a=1&b=2&copy;</loc></url></urlset>`, want: urls("http://x/?a=1&b=2&copy;")},
		{name: "empty and nested loc", in: `<urlset><loc/><loc> </loc><a><b><loc>http://x/1</loc></urlset>`, want: urls("http://x/1")},
		{name: "byte order mark", in: "\xef\xbb\xbf" + urlset + "<loc>http://x/é</loc>", want: urls("http://x/é")},
		{name: "UTF-16", in: utf16, want: urls("http://x/1")},
		{name: "latin 1", in: `<?xml version='1.0' encoding = 'iso-8859-1'?><urlset><loc>http://x/` + "\xe9</loc></urlset>", want: urls("http://x/é")},
		{name: "latin 1 behind and among white space", in: "\r\n\t <?xml version='1.0' encoding\t=\r\n'iso-8859-1'?><urlset><loc>http://x/\xe9</loc></urlset>", want: urls("http://x/é")},
		{name: "UTF-16 that is none", in: `<?xml version="1.0" encoding="UTF-16"?><urlset><loc>http://x/é</loc></urlset>`, want: urls("http://x/é")},
		{name: "encoding that nobody reads", in: `<?xml version="1.0" encoding="iso-2022-kr"?><urlset><loc>http://x/é</loc></urlset>`, want: urls("http://x/é")},
		{name: "XML 1.1", in: `<?xml version='1.1' encoding="iso-8859-1"?><urlset><loc>http://x/` + "\xe9</loc></urlset>", want: urls("http://x/é")},
		{name: "unknown encoding", in: `<?xml version="1.0" encoding="klingon"?><urlset><loc>http://x/é</loc></urlset>`, want: urls("http://x/é")},
		{name: "invalid UTF-8", in: "<urlset><loc>http://x/\xe9</loc></urlset>", want: urls("http://x/\ufffd")},
		{name: "entity bomb", in: `<!DOCTYPE u [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><urlset><loc>http://x/&b;</loc></urlset>`, want: urls("http://x/&b;")},
		{name: "RSS", in: `<rss version="2.0" xmlns:atom="x"><channel><link>http://x/</link><atom:link href="http://x/feed"/><item><link>http://x/1</link><guid>http://x/g</guid></item></channel></rss>`,
			want: urls("http://x/", "http://x/1")},
		{name: "RSS 1.0", in: `<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" xmlns:x="x"><channel rdf:about="http://x/no"><link>http://x/</link><items><rdf:Seq><rdf:li resource="http://x/1"/></rdf:Seq></items></channel><item rdf:about="http://x/1"><title>t</title><link>http://x/1</link><x:link>http://x/no</x:link></item></rdf:RDF>`,
			want: urls("http://x/", "http://x/1")},
		{name: "RSS 1.0 with a prefix", in: `<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dc="x" xmlns:rss="http://purl.org/rss/1.0/"><rss:item><rss:link>http://x/1</rss:link><dc:link>http://x/no</dc:link></rss:item></r:RDF>`,
			want: urls("http://x/1")},
		{name: "RSS 1.0 with and without one", in: `<RDF xmlns:rss="http://purl.org/rss/1.0/" xmlns="http://purl.org/rss/1.0/"><item><link>http://x/1</link></item></RDF>`, want: urls("http://x/1")},
		{name: "RSS with a prefix", in: "<r:rss><link>http://x/no</link><r:link>http://x/1</r:link></r:rss>", want: urls("http://x/1")},
		{name: "Atom", in: `<feed xmlns="http://www.w3.org/2005/Atom"><link rel="self" href="http://x/feed"/><entry><link href="http://x/1"/><link href="http://x/2" rel="alternate"/><link rel="edit" href="http://x/e"/></entry></feed>`,
			want: urls("http://x/1", "http://x/2")},
		{name: "text", in: "\xef\xbb\xbf\nhttp://x/1\r\n  HTTPS://x/2  \n# comment\n/relative\n\nhttp://x/3", want: urls("http://x/1", "HTTPS://x/2", "http://x/3")},
		{name: "schemes without a URL", in: "http://\nhttps://\nhttp://x", want: urls("http://x")},
		{name: "attributes of other names", in: `<feed><link x:href="http://x/no" href="http://x/1" x:rel="self"/></feed>`, want: urls("http://x/1")},
		{name: "two byte order marks", in: "\xef\xbb\xbf\xef\xbb\xbf" + urlset + "<loc>http://x/1</loc></urlset>", want: urls("http://x/1")},
		{name: "a warning of the program", in: "\n<br />\n<b>Warning</b>: http://x/no is <b>old</b><br />\n" + urlset + "<loc>http://x/1</loc></urlset>", want: urls("http://x/1")},
		{name: "a notice of the program", in: "Notice: x\nhttp://x/no\n" + urlset + "<loc>http://x/1</loc></urlset>", want: urls("http://x/1")},
		{name: "gzipped text", in: zip(t, "http://x/1\n"), want: urls("http://x/1")},

		{name: "control characters", in: urlset + "<url><loc>\x0bhttp://x/1\x00</loc><image:title>\x1f</image:title></url><url>\t<loc>http://x/2</loc></url>",
			want: urls("http://x/1", "http://x/2")},
		{name: "references to control characters", in: urlset + "<loc>&#11;http://x/1&#x0;</loc><image:title>&#x1F;&#xFFFE;&#65535;&#;&#x;&#-1;&#x110000;&;&</image:title><loc>http://x/&#9;&#32;&#233;&#xe9;2&#xb</loc>",
			want: urls("http://x/1", "http://x/\t éé2&#xb")},

		{name: "cut in a tag", in: urlset + "<url><loc>http://x/1</loc></url><url><lo", want: urls("http://x/1"), broken: true},
		{name: "cut in a URL", in: urlset + "<url><loc>http://x/1</loc></url><url><loc>http://x/cu", want: urls("http://x/1")},
		{name: "broken further on", in: urlset + "<loc>http://x/1</loc><\x01><loc>http://x/2</loc>", want: urls("http://x/1"), broken: true},
		{name: "cut gzip", in: zip(t, "http://x/1\n"+strings.Repeat("http://x/2 \n", 9))[:30], want: Sitemap{}, broken: true},
		{name: "gzip without content", in: zip(t, "")[:12], broken: true},
		{name: "not gzip", in: "\x1f\x8bhttp", broken: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.in), Default())
			if tt.broken != (err != nil) || errors.Is(err, ErrFormat) {
				t.Errorf("error %v, want one: %v", err, tt.broken)
			}
			if tt.name == "cut gzip" {
				return // how much of it comes out is the decompressor's affair
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

// The last line of a text that breaks off is no URL: it may go on.
func TestTextThatBreaksOff(t *testing.T) {
	body := zip(t, "http://x/1\nhttp://x/23")
	got, err := Parse([]byte(body)[:len(body)-8], Default()) // without its checksum
	if d := cmp.Diff([]string{"http://x/1"}, got.URLs); d != "" || err == nil {
		t.Errorf("error %v, (-want +got)\n%s", err, d)
	}
}

// What is no sitemap is not one that the limit cut, either.
func TestNotASitemap(t *testing.T) {
	for _, in := range []string{"", " \n", "<html><a href=x>", "<!doctype html><a href=/x>", "<!-- x -->", "{\"a\": 1}", "Not found", "\x89PNG\r\n", "<?xml version='1.0'?>"} {
		got, err := Parse([]byte(in), Default())
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %+v, error %v, want ErrFormat", in, got, err)
		}
		limits := Default()
		limits.MaxBytes = int64(len(in))
		if got, err := Parse([]byte(in+" "), limits); !errors.Is(err, ErrFormat) {
			t.Errorf("%q and a byte beyond the limit: %+v, error %v, want ErrFormat", in, got, err)
		}
	}
}

func TestLimits(t *testing.T) {
	var xml, text strings.Builder
	xml.WriteString(urlset)
	for i := range 100 {
		fmt.Fprintf(&xml, "<url><loc>http://x/%02d</loc></url>", i)
		fmt.Fprintf(&text, "http://x/%02d\n", i)
	}
	xml.WriteString("</urlset>")
	long := "http://x/" + strings.Repeat("y", 50)
	whole := Default()
	tests := []struct {
		name, in string
		cfg      Config
		urls     int
		trunc    bool
		dropped  int
	}{
		{"all of XML", xml.String(), whole, 100, false, 0},
		{"all of text", text.String(), whole, 100, false, 0},
		{"exactly", xml.String(), Config{int64(xml.Len()), 100, 50}, 100, false, 0},
		{"exactly, with one byte in the last read", text.String()[:headLen+1], Config{headLen + 1, 100, 50}, 85, false, 0},
		{"URLs of XML", xml.String(), Config{1 << 20, 99, 50}, 99, true, 0},
		{"URLs of an index", strings.ReplaceAll(xml.String(), "urlset", "sitemapindex"), Config{1 << 20, 99, 50}, 99, true, 0},
		{"URLs of text", text.String(), Config{1 << 20, 10, 50}, 10, true, 0},
		{"bytes of XML", xml.String(), Config{int64(len(urlset)) + 68 + 15, 100, 50}, 2, true, 0},
		{"bytes of text", text.String(), Config{12*5 + 10, 100, 50}, 5, true, 0},
		{"bytes of gzip", zip(t, text.String()), Config{12 * 5, 100, 50}, 5, true, 0},
		{"long in XML", urlset + "<loc>" + long + "</loc><loc>http://x/</loc>", Config{1 << 20, 100, 50}, 1, false, 1},
		{"long in text", long + "\nhttp://x/\n", Config{1 << 20, 100, 50}, 1, false, 1},
		{"as long as allowed in XML", urlset + "<loc>" + long[:50] + "</loc>", Config{1 << 20, 100, 50}, 1, false, 0},
		{"as long as allowed behind white space", urlset + "<loc>" + strings.Repeat(" ", 60) + "<!-- -->" + long[:50] + "</loc>", Config{1 << 20, 100, 50}, 1, false, 0},
		{"as long as allowed in text", long[:50] + "\n", Config{1 << 20, 100, 50}, 1, false, 0},
		{"a long one alone in text", long + "\n", Config{1 << 20, 100, 50}, 0, false, 1},
		{"huge line", "http://x/" + strings.Repeat("x", 1<<20) + "\nhttp://x/\n", Config{2 << 20, 100, 50}, 1, false, 1},
		{"huge loc", urlset + "<loc>" + strings.Repeat("<a/>y", 1<<17) + "</loc><loc>http://x/</loc>", Config{50 << 20, 100, 50}, 1, false, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.in), tt.cfg)
			if err != nil {
				t.Errorf("error %v", err)
			}
			if urls := len(got.URLs) + len(got.Sitemaps); urls != tt.urls || got.Truncated != tt.trunc || got.RefsDropped != tt.dropped {
				t.Errorf("%d URLs, truncated %v, dropped %d, want %d, %v, %d", urls, got.Truncated, got.RefsDropped, tt.urls, tt.trunc, tt.dropped)
			}
		})
	}
}

// A token of a mebibyte is read, a longer one is an error.
func TestLongTokens(t *testing.T) {
	for size, fine := range map[int]bool{1 << 20: true, 1<<20 + 1: false} {
		comment := "<!--" + strings.Repeat("x", size-7) + "-->"
		got, err := Parse([]byte("<urlset>"+comment+"<loc>http://x/</loc></urlset>"), Default())
		if (err == nil) != fine || (len(got.URLs) == 1) != fine {
			t.Errorf("a comment of %d bytes: %d URLs, %v", size, len(got.URLs), err)
		}
	}
}

// The defaults are the limits of the protocol.
func TestDefaults(t *testing.T) {
	if got := Default(); got != (Config{MaxBytes: 52_428_800, MaxURLs: 50_000, MaxRefBytes: 4096}) {
		t.Errorf("%+v", got)
	}
}

// TestHostile reads files that are built to cost memory. Each may allocate 6 MiB, garbage included.
func TestHostile(t *testing.T) {
	const mega = 1 << 20
	for name, in := range map[string]string{
		"gzip bomb":      zip(t, strings.Repeat(" ", 64*mega)),
		"huge text":      "<urlset><loc>" + strings.Repeat("x", 8*mega),
		"huge attribute": `<urlset><loc x="` + strings.Repeat("x", 8*mega),
		"huge comment":   "<urlset><!--" + strings.Repeat("x", 8*mega),
		"huge name":      "<" + strings.Repeat("x", 8*mega),
		"huge directive": "<!DOCTYPE " + strings.Repeat("[", 8*mega),
		"huge line":      strings.Repeat("x", 8*mega),
	} {
		t.Run(name, func(t *testing.T) {
			body := []byte(in)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := Parse(body, Default())
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 6*mega {
				t.Errorf("allocated %d MiB", n>>20)
			}
			if len(got.URLs)+len(got.Sitemaps) > 0 {
				t.Errorf("found %+v", got)
			}
			if err == nil && !got.Truncated {
				t.Error("neither an error nor truncated")
			}
		})
	}
	deep := "<urlset>" + strings.Repeat("<a>", mega/8) + "<loc>http://x/</loc>"
	if got, err := Parse([]byte(deep), Default()); err != nil || len(got.URLs) != 1 {
		t.Errorf("deep nesting: %d URLs, error %v", len(got.URLs), err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(urlset + "<url><loc>http://x/1?a&amp;b</loc></url></urlset>"))
	f.Add([]byte("<sitemapindex><sitemap><loc><![CDATA[http://x/1]]></loc></sitemap></sitemapindex>"))
	f.Add([]byte("<feed><link href='http://x/1'/></feed>"))
	f.Add([]byte("<rss><link>http://x/1</link></rss>"))
	f.Add([]byte("http://x/1\nhttp://x/2\n"))
	f.Add([]byte(zip(f, "http://x/1\n")))
	f.Add([]byte("<?xml version='1.0' encoding='gbk'?><urlset><loc>http://x/\xb0\xa1</loc>"))
	cfg := Config{MaxBytes: 4096, MaxURLs: 3, MaxRefBytes: 64}
	f.Fuzz(func(t *testing.T, in []byte) {
		body := bytes.Clone(in)
		got, err := Parse(body, cfg)
		if !bytes.Equal(in, body) {
			t.Fatal("the body was changed")
		}
		again, err2 := Parse(body, cfg)
		if d := cmp.Diff(got, again); d != "" || (err == nil) != (err2 == nil) {
			t.Errorf("a second reading differs: %v, %v, %s", err, err2, d)
		}
		if n := len(got.URLs) + len(got.Sitemaps); n > cfg.MaxURLs {
			t.Errorf("%d URLs", n)
		}
		for _, u := range append(got.URLs, got.Sitemaps...) {
			if u == "" || len(u) > cfg.MaxRefBytes || !utf8.ValidString(u) || strings.TrimSpace(u) != u {
				t.Errorf("URL %q", u)
			}
		}
		if errors.Is(err, ErrFormat) && len(got.URLs)+len(got.Sitemaps) > 0 {
			t.Errorf("not a sitemap, but it lists %+v", got)
		}
	})
}
