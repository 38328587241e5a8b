package text

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	play "proxima/node/golden"
)

const newsPage = `<!DOCTYPE html><html lang="en-GB"><head><meta charset=utf-8><title>Bridge reopens after repairs | Harbour News</title>
<meta name="description" content="The old bridge is open again.">
<script>var a = "<p>not text</p>";</script><style>p{color:red}</style></head>
<body class="single with-sidebar"><div id="cookie-banner"><p>We use cookies to make this site better for you and our many partners.</p></div>
<header><a href="/">Harbour News</a><nav class="mainNav"><ul><li><a href=/n>News</a><li><a href=/s>Sport</a><li><a href=/w>Weather</a></ul></nav></header>
<div class="breadcrumbs"><a href=/>Home</a> &gt; <a href=/n>News</a></div>
<main><article><h1>Bridge reopens after repairs</h1><p class="byline">By Ann Smith, <time>3 March 2026</time></p>
<p>The old bridge across the harbour was opened again on Tuesday, after <a href=/r>repairs</a> that took almost two years.</p>
<div class="ad-slot" id="ad_17"><p>Buy the best shoes of the town at half the price, today only!</p></div>
<p>&ldquo;We are glad that it is done,&rdquo; said the mayor.</p>
<div><span>Advertisement</span><div><p>Cheap flights to all the islands of the south, book them now.</p></div></div>
<p>Ferries will go on until the end of the month.</p></article>
<div class="share-tools"><a href=#>Tweet</a> <a href=#>Mail</a></div></main>
<aside><h3>Most read</h3><ul><li><a href=/1>Storm damages the roofs of forty houses</a></ul></aside>
<ul><li><a href=/a>Politics</a></li><li><a href=/b>Business</a></li><li><a href=/c>Culture</a></li></ul>
<footer><p>© 2026 Harbour News Limited, all rights are reserved by us.</p></footer></body></html>`

const oldPage = `<HTML><HEAD><TITLE>My home
page</TITLE></HEAD><BODY BGCOLOR=white><TABLE WIDTH=100%><TR><TD><A HREF=a.html>Home</A><BR><A HREF=b.html>Photos</A><BR><A HREF=c.html>Links</A>
<TD><CENTER><H1>Welcome to my home page</H1></CENTER><P>I collect stamps of all the countries of the world<P>You are visitor number <B>12345</B>
<HR><FONT SIZE=1>Last updated: 12/03/1999</FONT></TABLE></BODY></HTML>`

func TestExtract(t *testing.T) {
	for _, c := range []struct {
		name, page string
		want       Document // without a fingerprint
	}{
		{"news", newsPage, Document{
			Title: "Bridge reopens after repairs | Harbour News", Language: "en", Words: 48,
			Text: "Bridge reopens after repairs\nBy Ann Smith, 3 March 2026\n" +
				"The old bridge across the harbour was opened again on Tuesday, after repairs that took almost two years.\n" +
				"“We are glad that it is done,” said the mayor.\nFerries will go on until the end of the month.",
		}},
		{"old home page", oldPage, Document{
			Title: "My home page", Language: "en", Words: 25,
			Text: "Welcome to my home page\nI collect stamps of all the countries of the world\nYou are visitor number 12345\nLast updated: 12/03/1999",
		}},
		{"links are what it says", `<title>Index</title><ul><li><a href=1>One</a><li><a href=2>Two</a><li><a href=3>Three</a></ul>`,
			Document{Title: "Index", Text: "One\nTwo\nThree", Words: 3}},
		{"headlines", `<nav><a href=/>Home</a></nav><ul><li><a href=1>Storm damages the roofs of forty houses</a><li><a href=2>Bridge is open after two years</a></ul>`,
			Document{Text: "Storm damages the roofs of forty houses\nBridge is open after two years", Words: 13}},
		{"title of og", `<meta property="og:title" content=" A  b "><p>d`,
			Document{Title: "A b", Text: "d", Words: 1}},
		{"title of h1", `<h1>A <b>b</b></h1>`, Document{Title: "A b", Text: "A b", Words: 2}},
		{"hidden", `<div hidden>a</div><div style="color: red; Display : none">b</div><div aria-hidden=true>c</div><p>d`, Document{Text: "d", Words: 1}},
		{"skipped and never closed", `<p>a</p><nav><p>b</body>`, Document{Text: "a", Words: 1}},
		{"nested in what is left out", `<div class=ads><div>a</div><div>b</div></div>c`, Document{Text: "c", Words: 1}},
		{"unspaced", `<html lang=ja><p>これは日本語です。`, Document{Language: "ja", Text: "これは日本語です。", Words: 4}},
		{"invalid", "<p>a\xffb<title>\xfe</title>", Document{Title: "\ufffd", Text: "a\ufffdb", Words: 2}},
		{"no page", "", Document{}},
	} {
		got := Extract([]byte(c.page), "utf-8", false)
		if got.Fingerprint == (Fingerprint{}) {
			t.Errorf("%s: no fingerprint", c.name)
		}
		got.Fingerprint = Fingerprint{}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

// In XHTML any element can close itself. In HTML what follows would be the text of some.
func TestElementsThatCloseThemselves(t *testing.T) {
	const page = `<html><head><script src="x"/><title/><meta name="description" content="b"/><title>a</title></head><body><div hidden=""/><div/>` +
		`<p>c<iframe src="x"/></p><ul class="menu"><li>x<ul class="menu"/></li></ul><textarea/><svg/><p><a name="x"/>d</p></body></html>`
	if got := Extract([]byte(page), "utf-8", true); got.Title != "a" || got.Text != "c\nd" {
		t.Errorf("%+v", got)
	}
	if got := Extract([]byte(page), "utf-8", false); got.Text != "" {
		t.Errorf("as HTML: %+v", got)
	}
}

func TestEncodings(t *testing.T) {
	for _, c := range []struct{ encoding, page, want string }{
		{"windows-1252", "<p>caf\xe9", "café"},
		{"utf-16le", "<\x00p\x00>\x00a\x00", "a"},
		{"", "<p>caf\xc3\xa9", "café"},
		{"no such thing", "<p>caf\xc3\xa9", "café"},
		{"utf-8", "\xef\xbb\xbfa", "a"}, // a byte order mark is no text
		{"utf-16le", "\xff\xfea\x00", "a"},
	} {
		if got := Extract([]byte(c.page), c.encoding, false); got.Text != c.want {
			t.Errorf("%q: %q, want %q", c.encoding, got.Text, c.want)
		}
	}
}

func TestSuspiciousNames(t *testing.T) {
	for name, want := range map[string]bool{
		"ad": true, "ad-slot": true, "adSlot": true, "top_ads": true, "ADS": true, "mainNav": true, "post-footer": true, "x sidebar y": true,
		"sidebarRight": true, "Ad": true, "1ad": true, "1Nav": true,
		"adz": false, "zad": false, "ADZ": false, "ad0": false, "ad9": false, "ad-not": false, "ad ad0": true,
		"": false, "add": false, "shadow": false, "download": false, "header": false, "content": false, "has-sidebar": false, "no-sidebar": false,
		"sidebar-content": false, "menu-main-container": false, "footer-post": false, "layout-with-menu": false, "admin": false, "navigable-and-very-long-names-of-things": false,
	} {
		if got := suspicious([]byte(name)); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

func TestLanguages(t *testing.T) {
	for _, c := range []struct{ page, want string }{
		{`<html lang="EN-us"><p>x`, "en"}, {`<html lang="x"><p>x`, ""}, {`<html xml:lang=de><p>x`, "de"}, {`<html><body lang=fr><p>x`, "fr"},
		{`<meta http-equiv=content-language content="nl, en"><p>x`, "nl"}, {`<html lang="english"><p>x`, ""},
		{`<p>The house that was built on the hill is for sale, and it has a garden with many trees.`, "en"},
		{`<p>Das Haus auf dem Hügel wird verkauft, und es hat einen Garten mit vielen Bäumen, die nicht alt sind.`, "de"},
		{`<p>La maison sur la colline est une des plus vieilles dans cette ville, mais elle est avec nous pour qui la veut.`, "fr"},
		{`<p>Το σπίτι στον λόφο πωλείται`, "el"}, {`<p>これは日本語の文章です`, "ja"}, {`<p>这是一个中文网页的内容`, "zh"}, {`<p>이것은 한국어 문장입니다`, "ko"},
		{`<p>Lorem ipsum dolor sit amet, consectetur adipiscing elit.`, ""}, {`<p>Hello`, ""},
		// Neighbours, whose shortest words are the same.
		{`<p>Huset på bakken er til salg, og det har en have med mange træer, der ikke er gamle. Man kan se byen fra det, hvis man går op af trappen.`, "da"},
		{`<p>Huset på bakken er til salgs, og det har en hage med mye gress og trær som ikke er gamle. Man kan se byen etter å ha gått opp av trappen.`, "no"},
		{`<p>Huset på kullen är till salu, och det har en trädgård med många träd som inte är gamla. Man kan se staden från det när man har gått av.`, "sv"},
		{`<p>A ház a dombon eladó, és van egy kertje, az pedig nem kicsi. Azt mondják, hogy már régi, és nem is volt még senkié.`, "hu"},
		{`<p>Dom na kopci je na predaj, a má záhradu, v ktorej sú stromy, ktoré nie sú staré, ale aj cestu medzi nimi, pri ktorej sa dá sedieť.`, "sk"},
		{`<p>Dům na kopci se prodává, a má zahradu, ve které jsou stromy, které jsou mladé, ale také cestu mezi nimi, kde se dá při slunci sedět.`, "cs"},
		{`<p>Kuća na brdu je na prodaju, a ima i vrt, u kojem su stabla koja nisu stara, i put do mora, na kojem se u podne ne može sjediti.`, ""},
		{`<p>Ngôi nhà ở trên đồi là nhà để bán, và nó có một khu vườn do một người ở làng trồng nhiều cây, với con đường đi ra biển.`, ""},
	} {
		if got := Extract([]byte(c.page), "utf-8", false).Language; got != c.want {
			t.Errorf("%s: %q, want %q", c.page, got, c.want)
		}
	}
}

var update = flag.Bool("update", false, "write the scenarios of testdata/golden anew")

// TestGolden reads the pages of testdata/golden. Before each divider stands a page, after it what Extract finds. Nodes keep
// fingerprints on disk: if the fingerprint of the same text changed, every page would count as changed.
//
//	go test -run Golden ./fetch/text -update
func TestGolden(t *testing.T) {
	play.Play(t, "testdata/golden/*.txt", *update, func(_ *testing.T, pages [][]string, _ []string) (printed []string) {
		for _, lines := range pages {
			d := Extract([]byte(strings.Join(lines, "\n")), "utf-8", false)
			printed = append(printed, fmt.Sprintf("title %q, language %q, %d words, fingerprint %016x %016x\n%s", d.Title,
				d.Language, d.Words, d.Fingerprint.Digest, d.Fingerprint.Simhash, d.Text))
		}
		return printed
	})
}

// TestClean cuts long texts between characters.
func TestClean(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{{" a  b ", 3, "a b"}, {"abcd", 3, "abc"}, {"ééé", 4, "éé"}, {"ééé", 5, "éé"}, {"ééé", 1, ""}, {"a\xff", 9, "a\ufffd"}, {strings.Repeat(" ", 7) + "ab", 2, "a"}} {
		if got := clean([]byte(c.text), c.most); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
