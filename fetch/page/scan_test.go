package page

import (
	"bytes"
	stdcmp "cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// tags lists the tags at which a scanner stops, with the attributes that matter.
func tags(b []byte) (out []string) {
	s := scanner{b: b}
	for name := s.next(); name != 0; name = s.next() {
		line := name.String()
		for _, a := range s.attrs[:s.n] {
			key := map[atom.Atom]string{xlinkHref: "xlink:href", shadowRootMode: "shadowrootmode"}[a.key]
			line += " " + stdcmp.Or(key, a.key.String()) + "=" + string(unescape(b[a.from:a.to]))
		}
		out = append(out, line)
	}
	return out
}

// tagsByTokenizer lists them with html.Tokenizer.
func tagsByTokenizer(b []byte) (out []string) {
	z := html.NewTokenizer(bytes.NewReader(b))
	templates, foreign := 0, 0
	for {
		switch tt := z.Next(); tt {
		case html.ErrorToken:
			return out
		case html.StartTagToken, html.SelfClosingTagToken:
			tok := z.Token()
			closed := tt == html.SelfClosingTagToken
			if tok.DataAtom == atom.Noscript || foreign > 0 && closed {
				z.NextIsNotRawText()
			}
			switch tok.DataAtom {
			case atom.Template:
				if templates > 0 || !slices.ContainsFunc(tok.Attr, isShadow) {
					templates++
				}
			case atom.Svg, atom.Math:
				if !closed {
					foreign++
				}
			case atom.A, atom.Area, atom.Base, atom.Frame, atom.Iframe, atom.Link, atom.Meta:
				if templates > 0 {
					continue
				}
				line := tok.Data
				for _, a := range tok.Attr {
					switch a.Key {
					case "href", "hreflang", "src", "rel", "name", "content", "http-equiv", "charset", "xlink:href", "shadowrootmode":
						line += " " + a.Key + "=" + a.Val
					}
				}
				out = append(out, line)
			}
		case html.EndTagToken:
			switch z.Token().DataAtom {
			case atom.Template:
				templates = max(0, templates-1)
			case atom.Svg, atom.Math:
				foreign = max(0, foreign-1)
			}
		}
	}
}

func isShadow(a html.Attribute) bool {
	return a.Key == "shadowrootmode" && (strings.EqualFold(a.Val, "open") || strings.EqualFold(a.Val, "closed"))
}

// seeds are pieces of markup that divide bytes in unusual ways.
var seeds = []string{
	`<a href=/1 HREF='/2' rel="x">x</a><area href="a&amp;b">`,
	`<!--><a href=1><!---><a href=2><!----!><a href=3><!-- --!-> <a href=4> --!><a href=5>`,
	`<script><!-- <script> </script> --> <a href=1></script><a href=2><script/><a href=3></SCRIPT ><a href=4>`,
	`<script><!--<</script><!-- <scrip></script><a href=1>`,
	`<script><!--<script></script><!----></script><a href=1>`,
	`<script><!--<script></script><script></script><a href=1>--></script><a href=2>`, `<script><!--><script></script><a href=1>`, `<script><!-- < <script></script><a href=1>`,
	`<title></titl</title/><a =href=1 href = 2/><a/href=3/><a href="4"/href=5>`,
	`<svg><title/><style x=/><a href=1></style></svg/><math/><xmp/><a href=2></xmp>`,
	`<template><a href=1><template></template></template x="</template>"><a href=2>`,
	`<template shadowrootmode=open><a href=1><template><template shadowrootmode='&#99;losed'></template><a href=2></template></template><a href=3 charset=x shadowrootmode=open>`,
	`<svg><a XLINK:href=1 href=2></svg><template shadowrootmode=ope><a href=3>`,
	`<noscript><a href=1></noscript><iframe src=x><a href=2></iframe><noframes></noframes><plaintext><a href=3>`,
	"<a\x00 href=1><a href\x00=2><a href='\x00\r\n\r&#13;&#0;&#x80;&notit;&not;&not&semi;&notin;&copy=&copy&#x;&#'>",
	`</ x><a href=1></><a href=2><?php echo "<a href=3>" ?><!doctype html [<a href=4>]>`,
	`</ <a href=1>><a href=2>`, `<? <a href=1>><a href=2>`, `<!x <a href=1>><a href=2>`, `</x <a href=1>><a href=2>`, `< <a href=1>`,
	`<meta name=robots content=none><meta http-equiv="refresh" content="0;url=&#47;x"><base href=/b><link rel=canonical href=/c><frame src=/f>`,
	`<link hreflang=de HREFLANG=fr src=s rel=alternate name=n content=c charset=c http-equiv=h xlink:href=x shadowrootmode=open href=/h>`,
	`<a href=x`, `<a href="x`, `<a href`, `<a`, `<`, `</`, `</a`, `<!`, `<!-`, `<!--`, `<!--x-`, `<script><`, `<title></titl`, `<title></title`, `<script></script`, `<script><!--<script`, `<a x=/>`,
}

// FuzzScanner compares the scanner with the tokenizer.
func FuzzScanner(f *testing.F) {
	for _, in := range seeds {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if d := cmp.Diff(tagsByTokenizer(in), tags(in)); d != "" {
			t.Errorf("%q (-tokenizer +scanner)\n%s", in, d)
		}
	})
}

// FuzzUnescape compares the values of attributes. FuzzScanner tries too few of them.
func FuzzUnescape(f *testing.F) {
	for _, in := range []string{"a&amp;b&c=d", "&notit;&notin;&not&not;&not=", "&semi;&semi", "&#x41;&#65&#0;&#xzz;&#128;&#99999999999999999999;", "\r\n\r\x00&#13;&", "&fjlig;&NotEqualTilde;&acE;"} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if strings.ContainsRune(in, '"') {
			t.Skip()
		}
		tok := html.NewTokenizer(strings.NewReader(`<a href="` + in + `">`))
		tok.Next()
		if want, got := tok.Token().Attr[0].Val, string(unescape([]byte(in))); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, in := range seeds {
		f.Add([]byte(in), "text/html")
	}
	f.Add([]byte("\xff\xfe<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00x\x00>\x00"), "")
	f.Add([]byte("<a href=\x1b$B0l>"), "text/html; charset=iso-2022-jp")
	f.Add([]byte("<a href='  /x \xe9\xe9'>"), "text/html; charset=utf-8")
	cfg := Config{MaxLinks: 5, MaxRefBytes: 20, Agent: "proxima"}
	f.Fuzz(func(t *testing.T, in []byte, contentType string) {
		body := bytes.Clone(in)
		p := cfg.Parse(body, contentType, nil)
		if !bytes.Equal(in, body) {
			t.Fatal("the body was changed")
		}
		if d := cmp.Diff(p, cfg.Parse(body, contentType, nil)); d != "" {
			t.Errorf("a second reading differs: %s", d)
		}
		if len(p.Links) > cfg.MaxLinks || p.LinksDropped > 0 && len(p.Links) < cfg.MaxLinks {
			t.Errorf("%d links with %d dropped, at most %d allowed", len(p.Links), p.LinksDropped, cfg.MaxLinks)
		}
		for _, l := range p.Links {
			switch {
			case len(l.Ref) == 0 || len(l.Ref) > cfg.MaxRefBytes:
				t.Errorf("link of %d bytes", len(l.Ref))
			case !utf8.Valid(l.Ref):
				t.Errorf("link %q is not UTF-8", l.Ref)
			case len(bytes.Trim(l.Ref, asciiSpace)) != len(l.Ref) || l.Ref[0] == '#':
				t.Errorf("link %q is of no use", l.Ref)
			}
		}
		if len(p.Base) > cfg.MaxRefBytes || !utf8.ValidString(p.Base) {
			t.Errorf("base %q", p.Base)
		}
		if p.NotHTML == "" && p.Charset == "" || p.NotHTML != "" && (p.Charset != "" || p.Links != nil) {
			t.Errorf("neither read nor refused: %+v", p)
		}
	})
}

// byFullParse lists the links as goquery finds them in the whole tree of a page.
func byFullParse(t testing.TB, body []byte) []Link {
	root, err := html.ParseWithOptions(bytes.NewReader(body), html.ParseOptionEnableScripting(false))
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	var links []Link
	add := func(ref, rel string) {
		if ref = strings.Trim(ref, asciiSpace); crawlable([]byte(ref)) {
			links = append(links, Link{Ref: []byte(ref), NoFollow: hasToken([]byte(rel), "nofollow")})
		}
	}
	goquery.NewDocumentFromNode(root).Find("a[href], area[href], iframe[src], frame[src], link[href][rel], meta[http-equiv][content]").
		Each(func(_ int, s *goquery.Selection) {
			rel := s.AttrOr("rel", "")
			switch name := goquery.NodeName(s); {
			case s.Closest("template:not([shadowrootmode])").Length() > 0:
			case name == "a", name == "area":
				add(s.AttrOr("href", ""), rel)
			case name == "iframe", name == "frame":
				add(s.AttrOr("src", ""), "")
			case name == "link" && s.Is(`[rel~="canonical" i], [rel~="next" i], [rel~="alternate" i][hreflang]`):
				add(s.AttrOr("href", ""), rel)
			case name == "meta" && s.Is(`[http-equiv="refresh" i]`):
				add(Refresh(s.AttrOr("content", "")), "")
			}
		})
	return links
}

// TestLinksAreThoseOfTheTree compares the links with those of the full tree: on a page written for it, on made-up ones, and
// on the documentation that is installed here.
func TestLinksAreThoseOfTheTree(t *testing.T) {
	cfg := Default()
	cfg.MaxLinks = 1 << 20
	parser := cfg
	compare := func(name string, body []byte) int {
		want := byFullParse(t, body)
		if d := cmp.Diff(want, parser.Parse(body, htmlUTF8, nil).Links, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: (-tree +scanner)\n%.2000s", name, d)
		}
		return len(want)
	}
	if n := compare("sample page", samplePage()); n != 101 {
		t.Errorf("sample page: %d links", n)
	}
	for seed := range uint64(150) {
		compare(fmt.Sprintf("page of seed %d", seed), randomPage(rand.New(rand.NewPCG(seed, 0))))
	}
	pages, links := 0, 0
	for _, dir := range []string{"/usr/share/doc/python3-doc/html", "/usr/share/debian-reference"} {
		files, err := filepath.Glob(filepath.Join(dir, "*", "*.html"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files[:min(len(files), 30)] {
			body, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			links += compare(path, body)
			pages++
		}
	}
	t.Logf("%d pages of documentation (of packages python3-doc, debian-reference), %d links", pages, links)
}

// randomPage writes a page of well-formed elements, nested at random.
func randomPage(r *rand.Rand) []byte {
	var b strings.Builder
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	attr := func(key string) string {
		quote := pick(`"`, `'`)
		return pick(" ", "\n", " x='1' ", " title=\"<a href=/no>\" ") + pick(key, strings.ToUpper(key)) + pick("=", " = ") + quote +
			pick("/x", "x?a=1&amp;b=2&c=3", " /y ", "#", "mailto:a@b", "", "http://h.test/&eacute;", "//h.test/\t&lt;", "&copy=1", "é", "?&#x41;&notin;") + quote
	}
	var element func(depth int)
	element = func(depth int) {
		switch r.IntN(12) {
		case 0:
			b.WriteString("<map><area" + attr("href") + pick("", ` rel="nofollow"`) + "></map>")
		case 1:
			b.WriteString("<iframe" + attr("src") + "><a href=/in></iframe>")
		case 2:
			b.WriteString("<!-- <a href=/no> --><!x><script>if (a < b) '<a href=/no>'</script><style><a href=/no></style>")
		case 3:
			b.WriteString("<noscript><p>plain</p></noscript><template><a href=/no></a></template><p><template shadowrootmode=open><a href=/in></a></template></p><textarea><a href=/no></textarea>")
		case 4:
			b.WriteString("<svg><title>t</title><style/><a" + attr("xlink:href") + "/><g/></svg>")
		case 5:
			b.WriteString("1 < 2 &amp; 3 > 2 <br/><img" + attr("src") + ">")
		case 6, 7, 8:
			b.WriteString(pick("<a", "<A") + attr("href") + pick("", " rel=nofollow", attr("rel"), attr("href")) + ">text</a>")
		default:
			tag := pick("div", "p", "ul", "section", "em")
			b.WriteString("<" + tag + attr("class") + ">")
			for range r.IntN(4) {
				if depth < 6 && tag == "div" {
					element(depth + 1)
				}
			}
			b.WriteString("</" + tag + ">")
		}
	}
	b.WriteString("<!DOCTYPE html><html><head><title><a href=/no></title><link rel=" + pick("canonical", "next", "prev", "'x NEXT'", "alternate hreflang=de", "'Alternate' HREFLANG") + attr("href") + ">" +
		"<meta http-equiv=refresh content='5; url=" + pick("/r", "", "&quot;/q&quot;", "#x") + "'></head><body>")
	for range 10 {
		element(0)
	}
	b.WriteString("</body></html>")
	return []byte(b.String())
}
