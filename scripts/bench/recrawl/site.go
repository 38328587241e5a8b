package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// site generates the pages of a world. A version of a page is always the same at the same time. The next version differs in one
// sentence, or in a word or price of a sentence. Trivial parts differ at each download.
type site struct {
	w     *world
	words []string
}

func newSite(w *world) *site {
	s := &site{w: w}
	rnd := rand.New(rand.NewPCG(w.Seed, 2))
	for range 4000 {
		var word strings.Builder
		for range 1 + rnd.IntN(4) {
			word.WriteByte("bcdfghklmnprstvw"[rnd.IntN(16)])
			word.WriteByte("aeiou"[rnd.IntN(5)])
		}
		if rnd.IntN(2) == 0 {
			word.WriteByte("nrst"[rnd.IntN(4)])
		}
		s.words = append(s.words, word.String())
	}
	return s
}

// draw returns a random source that depends on some numbers.
func (s *site) draw(of ...uint64) *rand.Rand {
	hash := s.w.Seed
	for _, x := range of {
		hash = (hash ^ x) * 0x9e3779b97f4a7c15
		hash ^= hash >> 29
	}
	return rand.New(rand.NewPCG(hash, 3))
}

// trivial reports whether a part of the page differs at each download.
func (s *site) trivial(i int) bool { return s.draw(uint64(i), 10).Float64() < s.w.Trivial }

// validates reports whether the page has an ETag. Files have one, but most programs send none.
func (s *site) validates(i int) bool { return !s.trivial(i) && s.draw(uint64(i), 11).IntN(10) < 8 }

// sentence returns the j-th sentence of a page in its r-th revision.
func (s *site) sentence(i, j, r int) string {
	rnd := s.draw(uint64(i), uint64(j), uint64(r), 12)
	if r > 0 {
		before := s.sentence(i, j, r-1)
		if strings.HasPrefix(before, "It costs $") {
			return fmt.Sprintf("It costs $%d.%02d, and can be had here.", 1+(r*7+j)%90, rnd.IntN(100))
		}
		if rnd.IntN(3) == 0 {
			words := strings.Fields(strings.TrimSuffix(before, "."))
			at := 1 + rnd.IntN(len(words)-1)
			for old := words[at]; words[at] == old; {
				words[at] = s.words[rnd.IntN(len(s.words))]
			}
			return strings.Join(words, " ") + "."
		}
	} else if rnd.IntN(12) == 0 {
		return fmt.Sprintf("It costs $%d.%02d, and can be had here.", 1+j%90, rnd.IntN(100))
	}
	text := s.some(rnd, 4+rnd.IntN(14))
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

func (s *site) some(rnd *rand.Rand, n int) string {
	words := make([]string, n)
	for k := range words {
		words[k] = s.words[rnd.IntN(len(s.words))]
	}
	return strings.Join(words, " ")
}

func (s *site) page(i, version int, now float64) []byte {
	host := i % s.w.Hosts
	fixed := s.draw(uint64(i), 13)
	sentences := 8 + fixed.IntN(25)
	var paragraphs []string
	for j := 0; j < sentences; {
		var p []string
		for n := 1 + fixed.IntN(5); n > 0 && j < sentences; n-- {
			p = append(p, s.sentence(i, j, (version+sentences-1-j)/sentences))
			j++
		}
		paragraphs = append(paragraphs, strings.Join(p, " "))
	}
	title := s.some(fixed, 4)
	extra := func(string) string { return "" }
	if s.trivial(i) {
		kinds := fixed.Perm(len(trivia))[:1+fixed.IntN(4)]
		at := s.w.time(now)
		extra = func(place string) string {
			var out strings.Builder
			for _, k := range kinds {
				if trivia[k].place == place {
					out.WriteString(trivia[k].html(s, s.draw(uint64(i), uint64(k), uint64(at.UnixNano())), i, at))
				}
			}
			return out.String()
		}
	}
	var b bytes.Buffer
	write := func(form string) {
		for k, p := range paragraphs {
			fmt.Fprintf(&b, form, p)
			if k == 1 {
				b.WriteString(extra("middle"))
			}
		}
	}
	switch host % 3 {
	case 0: // a modern news site
		fmt.Fprintf(&b, `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>%s</title><script>var q=[];</script>%s</head><body>
<header><a href="/">Site %d</a><nav><ul><li><a href="/a">News</a></li><li><a href="/b">Sport</a></li></ul></nav></header>
<main><article><h1>%s</h1>%s`, title, extra("head"), host, title, extra("top"))
		write("<p>%s</p>\n")
		fmt.Fprintf(&b, `</article></main><aside><h3>More</h3>%s</aside>%s<footer><p>All rights reserved</p></footer></body></html>`, extra("side"), extra("bottom"))
	case 1: // an old home page
		fmt.Fprintf(&b, `<HTML><HEAD><TITLE>%s</TITLE>%s</HEAD><BODY><TABLE><TR><TD WIDTH=120><A HREF=/>Home</A><BR><A HREF=/p>Pictures</A><BR>%s<TD><H1>%s</H1>%s`,
			title, extra("head"), extra("side"), title, extra("top"))
		write("<P>%s\n")
		fmt.Fprintf(&b, `<HR>%s</TABLE></BODY></HTML>`, extra("bottom"))
	default: // nested divs
		fmt.Fprintf(&b, `<html><head><title>%s</title>%s</head><body class="page with-sidebar"><div id="wrap"><div class="main-menu"><a href=/>Start</a> | <a href=/c>Contact us</a></div>
<div class="content-area"><div class="post-title"><h2>%s</h2></div>%s<div class="post-body">`, title, extra("head"), title, extra("top"))
		write("<div class=\"par\"><span>%s</span></div>\n")
		fmt.Fprintf(&b, `</div>%s</div><div class="sidebar">%s</div></div></body></html>`, extra("bottom"), extra("side"))
	}
	return b.Bytes()
}

// trivia returns parts that differ between copies of the same text.
var trivia = []struct {
	place string
	html  func(s *site, rnd *rand.Rand, i int, at time.Time) string
}{
	{"bottom", func(_ *site, rnd *rand.Rand, _ int, _ time.Time) string {
		return fmt.Sprintf("<p>You are visitor number %d</p>", rnd.IntN(2_000_000))
	}},
	{"top", func(_ *site, _ *rand.Rand, i int, at time.Time) string {
		layouts := []string{"Monday, 2 January 2006", "January 2, 2006 3:04 PM", "2006-01-02T15:04:05Z07:00", "Mon Jan _2 15:04:05 UTC 2006", "02/01/2006"}
		return "<div class=date>" + at.Format(layouts[i%5]) + "</div><p>Last updated: " + at.Format(layouts[i/5%5]) + "</p>"
	}},
	{"bottom", func(_ *site, rnd *rand.Rand, _ int, _ time.Time) string {
		return fmt.Sprintf("<div>Page generated in %.3f seconds with %d queries</div>", rnd.ExpFloat64(), 1+rnd.IntN(60))
	}},
	{"side", func(_ *site, rnd *rand.Rand, _ int, _ time.Time) string {
		n := 1 + rnd.IntN(40)
		return fmt.Sprintf("<div>%d guest%s online</div>", n, "s"[:min(n-1, 1)])
	}},
	{"top", func(_ *site, rnd *rand.Rand, _ int, _ time.Time) string {
		ages := []string{"1 minute ago", "25 minutes ago", "1 hour ago", "3 hours ago", "2 days ago", "1 week ago"}
		return "<p>Posted " + ages[rnd.IntN(len(ages))] + "</p>"
	}},
	{"middle", func(s *site, rnd *rand.Rand, _ int, _ time.Time) string {
		return `<div class="ad-slot" id="slot1"><p>` + s.some(rnd, 5+rnd.IntN(20)) + `!</p><a href="/go">Buy now</a></div>`
	}},
	{"middle", func(s *site, rnd *rand.Rand, _ int, _ time.Time) string {
		return "<div><small>Advertisement</small><div><p>" + s.some(rnd, 5+rnd.IntN(20)) + "</p></div></div>"
	}},
	{"bottom", func(s *site, rnd *rand.Rand, _ int, _ time.Time) string {
		return `<ins class="adsbygoogle">` + s.some(rnd, rnd.IntN(12)) + "</ins>"
	}},
	{"side", func(s *site, rnd *rand.Rand, _ int, _ time.Time) string {
		var b strings.Builder
		for range 3 + rnd.IntN(4) {
			b.WriteString("<ul><li><a href=/r>" + s.some(rnd, 1+rnd.IntN(3)) + "</a></li></ul>")
		}
		return b.String()
	}},
	{"head", func(_ *site, rnd *rand.Rand, _ int, _ time.Time) string {
		return fmt.Sprintf("<meta name=csrf-token content=%x><script>var t=%d;</script><!-- %d -->", rnd.Uint64(), rnd.Uint64(), rnd.Uint64())
	}},
	{"bottom", func(_ *site, rnd *rand.Rand, _ int, _ time.Time) string {
		return fmt.Sprintf("<form><input type=hidden name=s value=%x></form><p>Session %x</p>", rnd.Uint64(), rnd.Uint64())
	}},
}
