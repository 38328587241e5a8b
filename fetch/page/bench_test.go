package page

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
)

// samplePage is a page of some 30 kB with 100 links, as a content management system writes them.
func samplePage() []byte {
	var b strings.Builder
	b.WriteString(`<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Sample</title><link rel="canonical" href="https://example.org/sample">` +
		`<meta name="description" content="A sample page"><link rel="stylesheet" href="/style.css"><script>window.data = {"a": "<b>"};</script>` +
		`<style>body > p { margin: 0 }</style></head><body class="page">`)
	for i := range 100 {
		fmt.Fprintf(&b, `<div class="item item-%d" id="item-%d"><h2 class="title"><a class="link" title="Read item %d" href="/section/%d/item?id=%d&amp;view=full">Item %d</a></h2>`+
			`<img src="/img/%d.jpg" alt="Picture of item %d" width="64"><p>Some words about item %d, <em>not too many</em> but enough to fill the line &mdash; as is usual.</p>`+
			`<span class="date">2026-01-02</span></div>`+"\n", i, i, i, i%7, i, i, i, i, i)
	}
	b.WriteString("</body></html>")
	return []byte(b.String())
}

func BenchmarkParse(b *testing.B) {
	body := samplePage()
	parser := Default()
	if n := len(parser.Parse(body, htmlUTF8, nil).Links); n != 101 {
		b.Fatalf("%d links, want 101", n)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	var links []Link
	for b.Loop() {
		links = parser.Parse(body, htmlUTF8, links).Links
	}
}

// BenchmarkFullParse is the usual way, for comparison: the whole tree, then goquery over it.
func BenchmarkFullParse(b *testing.B) {
	body := samplePage()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		doc, err := goquery.NewDocumentFromReader(bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		var refs []string
		doc.Find("a[href]").Each(func(_ int, s *goquery.Selection) {
			refs = append(refs, s.AttrOr("href", ""))
		})
		if len(refs) != 100 {
			b.Fatalf("%d links, want 100", len(refs))
		}
	}
}
