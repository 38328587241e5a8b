package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"proxima/scripts/bench/origin/client"
)

const (
	linksPerPage   = 60      // links in the article and beside it, without the navigation
	linksOutside   = 4       // of those, links to other sites
	children       = 8       // links of the tree through which every page is reachable
	sections       = 10      // folders of a site, each linked in the navigation
	meanLog        = 9.95    // log of the median size in bytes: about 21 kB
	sigmaLog       = 0.55    // spread of the log-normal sizes: the mean of the pages is about 27 kB
	smallest       = 9_000   // bytes; smallest planned size; head, navigation and links may need more
	largest        = 200_000 // bytes
	briefLinks     = 20
	briefSize      = 4000 // bytes
	disallowedPath = "/private/"
)

const robots = "User-agent: *\nDisallow: " + disallowedPath + "\n"

// World has all sites. They are generated in advance, so that serving a page costs only a lookup and a write.
type World struct {
	Config client.Config
	Sites  []Site
}

// Site is a host. Page 0 is "/".
type Site struct {
	Host   string
	Paths  []string       // path of each page
	Index  map[string]int // page of each path
	Bodies [][]byte       // HTML of each page
}

func NewWorld(cfg client.Config) *World {
	w := &World{Config: cfg, Sites: make([]Site, cfg.Addresses)}
	v := newVocabulary(rand.New(rand.NewPCG(cfg.Seed, 0)))
	for i := range w.Sites {
		r := rand.New(rand.NewPCG(cfg.Seed, uint64(i)+1))
		s := Site{Host: cfg.Host(i), Index: make(map[string]int, cfg.Pages)}
		for p := range cfg.Pages {
			path := "/"
			if p > 0 {
				path = fmt.Sprintf("/%s/%s-%s-%d.html", v.words[p%sections], v.word(r), v.word(r), p)
			}
			s.Paths = append(s.Paths, path)
			s.Index[path] = p
		}
		w.Sites[i] = s
	}
	for i := range w.Sites {
		r := rand.New(rand.NewPCG(cfg.Seed, uint64(i)+1_000_001))
		for p := range cfg.Pages {
			w.Sites[i].Bodies = append(w.Sites[i].Bodies, w.page(r, v, i, p))
		}
	}
	return w
}

// page writes page p of site i: head, navigation, an article with links in its text, related links, footer. It has no images,
// scripts or style sheets, since only some of the crawlers would download them.
func (w *World) page(r *rand.Rand, v *vocabulary, i, p int) []byte {
	s := &w.Sites[i]
	size := int(math.Exp(meanLog + sigmaLog*r.NormFloat64()))
	size = min(max(size, smallest), largest)
	if w.Config.Brief {
		size = briefSize
	}
	title := v.title(r)
	b := bytes.NewBuffer(make([]byte, 0, size+4096))
	fmt.Fprintf(b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>%s</title>\n", title)
	fmt.Fprintf(b, "<meta name=\"description\" content=\"%s\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n", v.title(r))
	b.WriteString(style)
	b.WriteString("</head>\n<body class=\"page\">\n<header id=\"top\"><nav class=\"main\" aria-label=\"Main\"><ul>\n<li><a href=\"/\">Home</a></li>\n")
	for k := 1; k <= sections && k < len(s.Paths); k++ {
		fmt.Fprintf(b, "<li class=\"item item-%d\"><a href=\"%s\" title=\"%s\">%s</a></li>\n", k, s.Paths[k], v.words[k%sections], v.words[k%sections])
	}
	fmt.Fprintf(b, "<li><a href=\"#content\">Skip to content</a></li>\n</ul></nav></header>\n<main id=\"content\"><article>\n<h1>%s</h1>\n", title)

	links := w.links(r, i, p)
	inText := len(links) * 2 / 3
	for k, link := range links[:inText] {
		if k%6 == 5 {
			fmt.Fprintf(b, "<h2 id=\"part-%d\">%s</h2>\n", k, v.title(r))
		}
		fmt.Fprintf(b, "<p>%s <a href=\"%s\">%s %s</a> %s</p>\n", v.sentence(r), link, v.word(r), v.word(r), v.sentence(r))
	}
	b.WriteString("</article>\n<aside class=\"related\"><h2>Related</h2><ul>\n")
	for _, link := range links[inText:] {
		fmt.Fprintf(b, "<li><a class=\"teaser\" href=\"%s\"><span>%s</span></a></li>\n", link, v.title(r))
	}
	fmt.Fprintf(b, "</ul></aside>\n<section class=\"comments\" id=\"comments\">\n")
	for b.Len() < size-400 {
		fmt.Fprintf(b, "<div class=\"comment\"><p class=\"by\">%s</p><p>%s</p></div>\n", v.word(r), v.paragraph(r))
	}
	fmt.Fprintf(b, "</section></main>\n<footer><p><a href=\"#top\">Top</a> <a href=\"mailto:desk@site.example\">Write</a> <a rel=\"nofollow\" href=\"%saccount-%d.html\">Account</a></p></footer>\n</body>\n</html>\n", disallowedPath, p)
	return bytes.Clone(b.Bytes())
}

// links returns the links of page p of site i in random order. The children form a tree, so that every page is reachable from
// "/". The first pages of the sites form another tree, so that all sites are reachable from the first one.
func (w *World) links(r *rand.Rand, i, p int) []string {
	s := &w.Sites[i]
	var out []string
	for c := children*p + 1; c <= children*p+children && c < len(s.Paths); c++ {
		out = append(out, s.Paths[c])
	}
	if p == 0 {
		for other := 2*i + 1; other <= 2*i+2 && other < len(w.Sites); other++ {
			out = append(out, "http://"+w.Sites[other].Host+"/")
		}
	}
	if len(w.Sites) > 1 {
		for range linksOutside {
			other := &w.Sites[(i+1+r.IntN(len(w.Sites)-1))%len(w.Sites)]
			out = append(out, "http://"+other.Host+other.Paths[r.IntN(len(other.Paths))])
		}
	}
	want := linksPerPage
	if w.Config.Brief {
		want = briefLinks
	}
	for len(out) < want {
		path := s.Paths[r.IntN(len(s.Paths))]
		switch r.IntN(10) {
		case 0:
			path = "http://" + s.Host + path // absolute
		case 1:
			path += "#comments" // the same page, since a fragment makes no new URL
		case 2, 3:
			if p > 0 && path != "/" {
				path = ".." + path // relative to the section's folder
			}
		}
		out = append(out, path)
	}
	r.Shuffle(len(out), func(a, b int) { out[a], out[b] = out[b], out[a] })
	return out
}

// vocabulary is the random language of the sites. It has plain letters only, so that no page needs escapes.
type vocabulary struct {
	words      []string
	sentences  []string
	paragraphs []string
}

func newVocabulary(r *rand.Rand) *vocabulary {
	onsets := strings.Fields("b br c ch d dr f fl g gr h j k l m n p pl qu r s st t tr v w z")
	vowels := strings.Fields("a e i o u ea ai ou")
	codas := []string{"", "", "n", "r", "s", "l", "nt", "rd", "m", "ck"}
	v := &vocabulary{}
	seen := map[string]bool{}
	for len(v.words) < 4000 {
		var word strings.Builder
		for range 1 + r.IntN(3) {
			word.WriteString(onsets[r.IntN(len(onsets))] + vowels[r.IntN(len(vowels))] + codas[r.IntN(len(codas))])
		}
		if s := word.String(); !seen[s] && s != "private" {
			seen[s] = true
			v.words = append(v.words, s)
		}
	}
	for range 3000 {
		var words []string
		for range 8 + r.IntN(14) {
			words = append(words, v.word(r))
		}
		v.sentences = append(v.sentences, strings.Join(words, " ")+".")
	}
	for range 1000 {
		var p []string
		for range 3 + r.IntN(5) {
			p = append(p, v.sentence(r))
		}
		v.paragraphs = append(v.paragraphs, strings.Join(p, " "))
	}
	return v
}

func (v *vocabulary) word(r *rand.Rand) string      { return v.words[r.IntN(len(v.words))] }
func (v *vocabulary) sentence(r *rand.Rand) string  { return v.sentences[r.IntN(len(v.sentences))] }
func (v *vocabulary) paragraph(r *rand.Rand) string { return v.paragraphs[r.IntN(len(v.paragraphs))] }
func (v *vocabulary) title(r *rand.Rand) string {
	return v.word(r) + " " + v.word(r) + " " + v.word(r) + " " + v.word(r)
}

const style = `<style>
body{margin:0;font:16px/1.5 serif;color:#222;background:#fff}
nav.main ul{display:flex;list-style:none;gap:1em;padding:0 1em;border-bottom:1px solid #ccc}
main{display:grid;grid-template-columns:2fr 1fr;gap:2em;max-width:70em;margin:0 auto;padding:1em}
.related li{margin:.3em 0}.comment{border-top:1px solid #eee;padding:.5em 0}.comment .by{font-weight:bold}
@media (max-width:40em){main{display:block}nav.main ul{flex-wrap:wrap}}
</style>
`
