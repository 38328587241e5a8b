package page

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const htmlUTF8 = "text/html; charset=utf-8"

// show writes the links of a page, with " !" for nofollow.
func show(p Page) string {
	var out []string
	for _, l := range p.Links {
		s := string(l.Ref)
		if l.NoFollow {
			s += " !"
		}
		out = append(out, s)
	}
	return strings.Join(out, "\n")
}

func TestLinks(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"anchor", `<p>Read <a href="/x">this</a>`, "/x"},
		{"forms of values", `<a href=/u><a HREF='/s'><A class=x hReF = "/d">`, "/u\n/s\n/d"},
		{"area", `<map><area href="a.html" rel="external NoFollow"></map>`, "a.html !"},
		{"white space around", "<a href=' \n\t/x y\f '>", "/x y"},
		{"first of two attributes", `<a href=/1 href=/2>`, "/1"},
		{"frames", `<frameset><frame src=f1><iframe src=f2><a href=/inside></iframe><a href=/after>`, "f1\nf2\n/after"},
		{"link elements", `<link rel="canonical" href=/c><link rel="NEXT" href=/n><link rel=prev href=/p><link rel="alternate stylesheet" href=/s><link href=/x>`,
			"/c\n/n"},
		{"other languages", `<link rel=alternate hreflang=de href=/de><LINK REL="Alternate" HREFLANG="" href=/x rel=nofollow><link rel=alternate type=application/rss+xml href=/feed><link hreflang=fr href=/fr>` +
			`<link rel=alternate media=handheld href=/m><link rel="alternate nofollow" hreflang=x href=/n>`, "/de\n/x\n/n !"},
		{"refresh", `<meta http-equiv=Refresh content="5; url='/r'">`, "/r"},
		{"rel of what has one, and of others", `<link rel="next nofollow" href=/1><iframe src=/2 rel=nofollow></iframe><meta http-equiv=refresh content="1;url=/3" rel=nofollow>`, "/1 !\n/2\n/3"},
		{"refresh of itself", `<meta http-equiv=refresh content=60>`, ""},
		{"no use", `<a href="javascript:void(0)"><a href="MailTo:a@b"><a href=data:,x><a href=tel:1><a href=#top><a href=""><a href=" "><a><a href=ftp://x/>`, ""},
		{"hidden scheme", "<a href='java\nscript:x'>", ""},
		{"schemes", `<a href=HTTP://x/><a href=https:y><a href=//z/><a href=?q=a:b><a href=./a:b><a href=http>`,
			"HTTP://x/\nhttps:y\n//z/\n?q=a:b\n./a:b\nhttp"},
		{"entities", `<a href="?a=1&amp;b=2&copy=3&c=4"><a href="?&lt;&copy;&#47;"><a href=&#x2F;u&quot;><a href='"&amp'>`,
			"?a=1&b=2&copy=3&c=4\n?<©/\n/u\"\n\"&"},
		{"entities before an equals sign", `<a href="?caf&eacute;=1&lt=2&lt;=3">`, "?café=1&lt=2<=3"},
		{"entity that makes a fragment", `<a href="&#35;x">`, ""},
		{"invalid bytes", "<a href='/\xff\xc3/\xc3\xa9'>", "/\ufffd\ufffd/é"},
		{"noscript is read", `<head><noscript><meta http-equiv=refresh content="0;url=/plain"></noscript></head><noscript><a href=/n></noscript>`,
			"/plain\n/n"},
		{"hidden", `<!-- <a href=/1> --><script>"<a href=/2>"</script><style><a href=/3></style><title><a href=/4></title><textarea><a href=/5></textarea>` +
			`<template><a href=/6><template></template><a href=/7></template><xmp><a href=/8></xmp><noembed><a href=/9></noembed><noframes><a href=/10></noframes><a href=/out>`,
			"/out"},
		{"shadow trees", `<template shadowrootmode=open><a href=/1><template><a href=/no><template shadowrootmode=open><a href=/no></template><a href=/no></template>` +
			`<a href=/2></template><a href=/3><template ShadowRootMode=Closed><a href=/4></template><template shadowrootmode=x><a href=/no></template>` +
			`<template shadowrootmode><a href=/no>`, "/1\n/2\n/3\n/4"},
		{"stray end of template", `</template><a href=/x>`, "/x"},
		{"script in script", `<script><!-- <script> </script> <a href=/no> --></script><a href=/yes>`, "/yes"},
		{"script never closed", `<a href=/1><script><a href=/2>`, "/1"},
		{"comments that end early", `<!--><a href=/1><!---><a href=/2><!--x--!><a href=/3><!x><a href=/4><?x><a href=/5></ x><a href=/6></><a href=/7>`,
			"/1\n/2\n/3\n/4\n/5\n/6\n/7"},
		{"comment never closed", `<a href=/1><!-- <a href=/2>`, "/1"},
		{"tag never closed", `<a href=/1><a href="/2`, "/1"},
		{"greater-than in a value", `<img alt="<a href=/no>"></p title="<a href=/no>"><a href=/yes>`, "/yes"},
		{"text after plaintext", `<plaintext><a href=/x>`, ""},
		{"empty elements of SVG", `<svg><title/><style/><a href=/1></svg><title/><a href=/no></title><a href=/2>`, "/1\n/2"},
		{"links of SVG", `<svg><a xlink:href=/1><a XLINK:HREF=/2 rel=nofollow /><a href=/3 xlink:href=/no><a xlink:href=/no href=/4>` +
			`<a href="" xlink:href=/no><a xlink:href="#x"><image xlink:href=/no></svg><a xlink:href=/no>`, "/1\n/2 !\n/3\n/4"},
		{"not a tag", `1 < 2 <3 <<a href=/x>`, "/x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Default().Parse([]byte(tt.in), htmlUTF8, nil)
			if d := cmp.Diff(tt.want, show(p)); d != "" {
				t.Errorf("links of %s: (-want +got)\n%s", tt.in, d)
			}
		})
	}
}

// In XHTML any element can close itself, and XSLT writes empty scripts so. In HTML what follows would be their text.
func TestElementsThatCloseThemselves(t *testing.T) {
	const in = `<title/><script src=x /><template/><iframe src=/1 /><a href=/2><textarea/><svg/><title><a href=/no></title><a href=/3>`
	for contentType, want := range map[string]string{"application/xhtml+xml": "/1\n/2\n/3", "Application/XHTML+xml; charset=utf-8": "/1\n/2\n/3", "text/html": "/3"} {
		if got := show(Default().Parse([]byte(in), contentType, nil)); got != want {
			t.Errorf("%s: %q, want %q", contentType, got, want)
		}
	}
}

func TestRefresh(t *testing.T) {
	for in, want := range map[string]string{
		"5; url=x":              "x",
		"5;URL='a b';c":         "a b",
		`0,url="x`:              "x",
		"5 url=x":               "x",
		".5;x":                  "x",
		"5.9.1; x":              "x",
		" 5 ; url = x ":         "x",
		"5; urls/x":             "urls/x",
		"5; url":                "url",
		"5; url= 'x'y":          "x",
		"5; 'x'y":               "x",
		"5":                     "",
		"5;":                    "",
		"":                      "",
		"url=x":                 "",
		"5x":                    "",
		"-1; url=x":             "",
		"5; url=''":             "",
		"5; url=javascript:x()": "javascript:x()",
	} {
		if got := Refresh(in); got != want {
			t.Errorf("Refresh(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestMetaRobots(t *testing.T) {
	tests := []struct {
		in                string
		noindex, nofollow bool
	}{
		{`<meta name=robots content="NoIndex, follow">`, true, false},
		{`<meta name="Robots" content="none">`, true, true},
		{`<meta name=robots content="noindex nofollow">`, true, true},
		{`<meta name=Proxima content=nofollow><meta name=robots content=noindex>`, true, true},
		{`<meta name=googlebot content=none>`, false, false},
		{"<meta name=robots content='noindex\u0120x'>", false, false}, // whose low byte is a space
		{`<meta name=robots content="index,all,noarchive,noindexed">`, false, false},
		{`<meta name=description content="noindex"><meta content=noindex>`, false, false},
		{`<meta property=robots content=none>`, false, false},
		{`<!-- <meta name=robots content=none> -->`, false, false},
	}
	for _, tt := range tests {
		p := Default().Parse([]byte(tt.in), htmlUTF8, nil)
		if p.NoIndex != tt.noindex || p.NoFollow != tt.nofollow {
			t.Errorf("%s: noindex %v nofollow %v, want %v %v", tt.in, p.NoIndex, p.NoFollow, tt.noindex, tt.nofollow)
		}
	}
	limits, in := Config{MaxLinks: 7, MaxRefBytes: 50, Agent: "proxima"}, []byte(`<meta name=googlebot content=none>`)
	other := limits
	other.Agent = "googlebot"
	if !other.Parse(in, htmlUTF8, nil).NoIndex || limits.Parse(in, htmlUTF8, nil).NoIndex {
		t.Errorf("%s does not count for its agent alone", in)
	}
}

func TestRobotsTag(t *testing.T) {
	tests := []struct {
		header            []string
		noindex, nofollow bool
	}{
		{nil, false, false},
		{[]string{"noindex"}, true, false},
		{[]string{"NOINDEX , NoFollow"}, true, true},
		{[]string{"none"}, true, true},
		{[]string{"noarchive", "nofollow"}, false, true},
		{[]string{"nofollow", "noindex"}, true, true},
		{[]string{"otherbot: noindex, nofollow"}, false, false},
		{[]string{"Proxima: noindex"}, true, false},
		{[]string{"otherbot: noindex, proxima: nofollow"}, false, true},
		{[]string{"proxima: nofollow, otherbot: noindex"}, false, true},
		{[]string{"otherbot: none", "noindex"}, true, false},
		{[]string{"unavailable_after: 25 Jun 2010 15:00:00 PST"}, false, false},
		{[]string{"unavailable_after: Friday, 25-Jun-10 15:00:00 PST, noindex"}, true, false},
		{[]string{"otherbot: unavailable_after: 25 Jun 2010 15:00:00 PST, noindex"}, false, false},
		{[]string{"max-snippet: 20, nofollow"}, false, true},
		{[]string{": noindex", ",,", "\x00"}, false, false},
		{[]string{"max-image-preview: none, nofollow"}, false, true},
		{[]string{"max-video-preview: none", "no bot: nofollow"}, false, false},
		{[]string{"bot_0.9-x: noindex", "0bot: noindex"}, false, false},
	}
	for _, tt := range tests {
		noindex, nofollow := RobotsTag(tt.header, "proxima")
		if noindex != tt.noindex || nofollow != tt.nofollow {
			t.Errorf("RobotsTag(%q) = %v %v, want %v %v", tt.header, noindex, nofollow, tt.noindex, tt.nofollow)
		}
	}
}

// The name of an agent has letters, digits, hyphens, underscores and dots, and begins with a letter.
func TestNamesOfAgents(t *testing.T) {
	for agent, want := range map[string]bool{"a": true, "Z": true, "b0t": true, "bot9": true, "bot_1.0-x": true, "": false, "0bot": false, "-bot": false, "bot/1": false, "bot:": false,
		"b t": false, "b\u00e4r": false} {
		if noindex, _ := RobotsTag([]string{agent + ": noindex"}, agent); isProductToken(agent) != want || noindex != want {
			t.Errorf("%q names an agent: %v; its rule counts: %v", agent, !want, noindex)
		}
	}
}

func TestBase(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for in, want := range map[string]string{
		`<base target=_top><base href=" /b/ "><base href=/c/>`: "/b/",
		`<template><base href=/t/></template>`:                 "",
		`<base href="` + long + `"><base href=/c/>`:            "",
		`<a href=x>`: "",
	} {
		if got := Default().Parse([]byte(in), htmlUTF8, nil).Base; got != want {
			t.Errorf("%.60s: base %q, want %q", in, got, want)
		}
	}
}

func TestBounds(t *testing.T) {
	cfg := Config{MaxLinks: 3, MaxRefBytes: 10, Agent: "proxima"}
	in := `<meta http-equiv=refresh content="1;url=/r"><a href=/12345678><a href=/1234567890><a href=/123456789> <a href=#> <a href=/4><a href=/5>` +
		`<meta http-equiv=refresh content="1;url=/toolongtoo">`
	p := cfg.Parse([]byte(in), htmlUTF8, nil)
	if got, want := show(p), "/r\n/12345678\n/123456789"; got != want {
		t.Errorf("links %q, want %q", got, want)
	}
	if p.LinksDropped != 2 || p.RefsDropped != 2 {
		t.Errorf("dropped %d links and %d refs, want 2 and 2", p.LinksDropped, p.RefsDropped)
	}
	for base, want := range map[string]string{"/23456789/": "/23456789/", "/234567890/": ""} {
		if p := cfg.Parse([]byte("<base href="+base+">"), htmlUTF8, nil); p.Base != want || (p.RefsDropped == 0) != (want != "") {
			t.Errorf("base %s is read as %q, %d dropped", base, p.Base, p.RefsDropped)
		}
	}
	// A value may be sixteen times as long as its text.
	for zeros, want := range map[int]string{154: "/A", 155: ""} {
		p := cfg.Parse([]byte("<a href=/&#"+strings.Repeat("0", zeros)+"65;>"), htmlUTF8, nil)
		if got := show(p); got != want || p.RefsDropped != map[bool]int{true: 1}[want == ""] {
			t.Errorf("with %d zeros: %q, %d dropped", zeros, got, p.RefsDropped)
		}
	}
	if got := Default(); got != (Config{MaxLinks: 10_000, MaxRefBytes: 4096, Agent: "proxima"}) {
		t.Errorf("the defaults are %+v", got)
	}
}

// A reference leads to a page unless it is a fragment or has another scheme than http and https.
func TestCrawlable(t *testing.T) {
	for ref, want := range map[string]bool{
		"": false, "#x": false, "/x": true, ".": true, "x": true, "?a:b": true, "1:x": true, ":x": true, "\t\n\r": false, "-a:x": true,
		"http:": true, "HTTPS:x": true, "ht\ttp:x": true, "httpx:x": false, "https2:x": false, "a0:x": false, "a9:x": false, "a+:x": false, "a-:x": false, "a.:x": false,
		"a/:x": true, "a;:x": true, "a,:x": true, "\u00e9:x": true, "z:x": false, "a\r:x": false,
	} {
		if crawlable([]byte(ref)) != want {
			t.Errorf("%q leads to a page: %v", ref, !want)
		}
	}
}

// TestHostile reads pages that are built to cost much. For each it bounds the memory allocated, in MiB. It logs times and
// does not judge them.
func TestHostile(t *testing.T) {
	const mega = 1 << 20
	distinct := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "a%d ", i)
		}
		return b.String()
	}
	tests := map[string]struct {
		in             string
		links, dropped int
		allocate       uint64
	}{
		"a million links":         {strings.Repeat("<a href=/x>", mega), 10_000, mega - 10_000, 8},
		"a million fragments":     {strings.Repeat("<a href=#x>", mega) + "<a href=/x>", 1, 0, 4},
		"deep nesting":            {strings.Repeat("<div><a href=/x>", 5000), 5000, 0, 4},
		"attribute of megabytes":  {`<a href="/` + strings.Repeat("&amp;", mega) + `"><a title="` + strings.Repeat("x", mega) + `" href=/x>`, 1, 0, 4},
		"a million attributes":    {"<a " + distinct(mega) + " href=/x>" + strings.Repeat("<a href=/y>", 100), 101, 0, 4},
		"unclosed tags":           {strings.Repeat("<a href=/x ", mega), 0, 0, 4},
		"unclosed comments":       {strings.Repeat("<!--", mega), 0, 0, 4},
		"unclosed scripts":        {strings.Repeat("<script><!--<script>", mega/4), 0, 0, 4},
		"almost the end of title": {"<title>" + strings.Repeat("</titl", mega), 0, 0, 4},
		"a million metas":         {strings.Repeat("<meta name=robots content=x>", mega/8) + "<a href=/x>", 1, 0, 4},
		"white space":             {"<a" + strings.Repeat(" ", mega) + "href" + strings.Repeat("\n", mega) + "=/x>", 1, 0, 4},
		"odd entities":            {strings.Repeat("<a href=&#35;>", mega/8), 0, 0, 4},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := []byte(tt.in)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			p := Default().Parse(in, htmlUTF8, nil)
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			allocated := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d KiB read in %v with %d KiB allocated in all", len(in)>>10, took, allocated>>10)
			if allocated > tt.allocate<<20 {
				t.Errorf("allocated %d KiB in all, want at most %d MiB", allocated>>10, tt.allocate)
			}
			if len(p.Links) != tt.links || p.LinksDropped != tt.dropped {
				t.Errorf("%d links, %d dropped, want %d, %d", len(p.Links), p.LinksDropped, tt.links, tt.dropped)
			}
		})
	}
}

func TestHasToken(t *testing.T) {
	for list, want := range map[string]bool{
		"next": true, "NeXt": true, " \tprev\nnext ": true, "next\fx": true, "x next": true,
		"": false, " ": false, "nex": false, "nextx": false, "xnext": false, "ne xt": false, "n\u00a0next": false,
	} {
		if hasToken([]byte(list), "next") != want {
			t.Errorf("hasToken(%q, next) is not %v", list, want)
		}
	}
}

// TestOrder mixes links of all kinds. They come in the order of the document, and the limit keeps the first ones.
func TestOrder(t *testing.T) {
	const in = `<a href=/1><link rel=next href=/2><meta http-equiv=refresh content="1;url=/3"><meta name=robots content=noindex>` +
		`<meta http-equiv=refresh content=60><area href=/4><a href=/5><iframe src=/6></iframe><base href=/b><frame src=/7>` +
		`<link rel=canonical href=/8><a href=/9><meta http-equiv=refresh content="1;url=mailto:x"><a href=/10>`
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprintf("/%d", i+1))
	}
	for limit := 1; limit <= len(want)+1; limit++ {
		cfg := Default()
		cfg.MaxLinks = limit
		p := cfg.Parse([]byte(in), htmlUTF8, nil)
		kept := min(limit, len(want))
		if show(p) != strings.Join(want[:kept], "\n") || p.LinksDropped != len(want)-kept {
			t.Errorf("at most %d links: %q and %d dropped, want %v and %d", limit, show(p), p.LinksDropped, want[:kept], len(want)-kept)
		}
		if p.Base != "/b" || !p.NoIndex {
			t.Errorf("at most %d links: base %q, noindex %v", limit, p.Base, p.NoIndex)
		}
	}
}

// TestPagesAreApart: no page influences another, or changes an earlier result.
func TestPagesAreApart(t *testing.T) {
	type reading struct {
		in, contentType string
		page            Page
	}
	var readings []reading
	parser := Default()
	for i := range 400 {
		in := fmt.Sprintf("<a href=/p%d><a href=http://h%d.example/><a href='?q=%d&amp;\xe9'>", i, i, i) + strings.Repeat("<a href=sub/x>", i%7*20)
		switch i % 5 {
		case 1:
			in = "<base href=/base><link rel=next href=next>" + in
		case 2:
			in = "<p>none"
		case 3:
			in = "\xef\xbb\xbf<meta name=robots content=none>" + in // overrules the header
		}
		contentType := []string{"text/html; charset=iso-8859-1", htmlUTF8, "text/html", ""}[i/2%4]
		readings = append(readings, reading{in, contentType, parser.Parse([]byte(in), contentType, nil)})
	}
	for i, r := range readings {
		if d := cmp.Diff(Default().Parse([]byte(r.in), r.contentType, nil), r.page); d != "" {
			t.Fatalf("page %d, %s: (-alone +among others)\n%s", i, r.contentType, d)
		}
	}
}

// TestMemoryIsTaken reads each page into the memory of an earlier one. The links are the same as with new memory.
func TestMemoryIsTaken(t *testing.T) {
	parser := Default()
	var memory []Link
	for i := range 40 {
		in := []byte(strings.Repeat(fmt.Sprintf("<a href=/p%d>", i), i*7%20) + strings.Repeat("<iframe src=x>", i%3))
		p := parser.Parse(in, htmlUTF8, memory)
		if d := cmp.Diff(show(parser.Parse(in, htmlUTF8, nil)), show(p)); d != "" {
			t.Fatalf("page %d: %s", i, d)
		}
		if cap(memory) >= len(p.Links) && len(p.Links) > 0 && &memory[:1][0] != &p.Links[0] {
			t.Fatalf("page %d did not take the memory", i)
		}
		memory = p.Links
	}
}

// Of values with any byte at any place, only those without a blank, a control character, an ampersand or a byte beyond ASCII are plain.
func TestEveryByteOfAPlainValueIsLookedAt(t *testing.T) {
	for length := 1; length <= 20; length++ {
		for at := range length {
			for c := range 256 {
				value := bytes.Repeat([]byte("~!/"), length)[:length]
				value[at] = byte(c)
				if got, want := isPlain(value), c > ' ' && c < 0x7f && c != '&'; got != want {
					t.Errorf("%q is plain: %v, want %v", value, got, want)
				}
			}
		}
	}
}
