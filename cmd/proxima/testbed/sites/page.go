package sites

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

type kind uint8

const (
	kindPage     kind = iota // an HTML page; page 0 is the front page
	kindRedirect             // a redirect to the page
	kindGone                 // a dead link on the page, which answers an error
	kindRobots
	kindOther // 404
)

// target is what a URL of a site refers to.
type target struct {
	kind kind
	page int
}

// MaxBytes is the size of the largest generated page.
const MaxBytes = 2 << 20

// site is a host with the values drawn for it.
type site struct {
	Site
	index  int
	root   string  // "http://host"
	seed   uint64  // draws its pages
	median float64 // page size in bytes
}

func (w *Web) newSite(i int, s Site) *site {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.Host))
	seed := w.cfg.Seed ^ h.Sum64()
	own := rand.New(rand.NewPCG(seed, math.MaxUint64))
	return &site{Site: s, index: i, root: "http://" + authority(s.Host, w.cfg.Port), seed: seed,
		median: s.MedianBytes * math.Exp(hostSpread*own.NormFloat64())}
}

// path is the inverse of find.
func path(t target) string {
	switch {
	case t.kind == kindRobots:
		return "/robots.txt"
	case t.kind == kindRedirect:
		return "/go/" + strconv.Itoa(t.page)
	case t.kind == kindGone:
		return "/gone/" + strconv.Itoa(t.page)
	case t.page == 0:
		return "/"
	}
	return "/p" + strconv.Itoa(t.page) + ".html"
}

func (s *site) url(t target) string { return s.root + path(t) }

// find returns what a path refers to.
func (s *site) find(p string) target {
	number := strings.TrimFunc(p, func(r rune) bool { return r < '0' || r > '9' })
	page, _ := strconv.Atoi(number) // 0 for the front page and robots.txt, which have no number
	for _, k := range []kind{kindPage, kindRedirect, kindGone, kindRobots} {
		if t := (target{k, page}); page < s.Pages && path(t) == p && s.has(t) {
			return t
		}
	}
	return target{kind: kindOther}
}

// has reports whether a target exists: only some sites have a robots.txt, and only some pages redirects and dead links.
func (s *site) has(t target) bool {
	switch d := s.draw(t.page); t.kind {
	case kindRedirect:
		return d.redirected
	case kindGone:
		return d.gone != 0
	case kindRobots:
		return s.Robots != ""
	}
	return true
}

// drawn is what the seed determines for a page.
type drawn struct {
	bytes      int // the size, unless its links need more
	think      time.Duration
	redirected bool       // the tree reaches it through a redirect
	gone       int        // status of a dead link on it; 0 for none
	links      *rand.Rand // draws the other links
}

func (s *site) draw(page int) drawn {
	r := rand.New(rand.NewPCG(s.seed, uint64(page)))
	d := drawn{
		bytes: int(min(MaxBytes, s.median*math.Exp(pageSpread*r.NormFloat64()))),
		think: time.Duration(float64(s.Think) * math.Exp(thinkSpread*r.NormFloat64())),
		links: r,
	}
	_ = r.Float64() // nothing uses this draw any more; without it every seed would give other pages
	d.redirected = r.Float64() < s.Redirects && page > 0
	dead, which := r.Float64() < s.Errors, r.IntN(11)
	if dead { // with the frequencies of a crawl of the real web
		rare := [11]int{http.StatusInternalServerError, http.StatusBadRequest, http.StatusForbidden}
		d.gone = cmp.Or(rare[which], http.StatusNotFound)
	}
	return d
}

// refs returns the links of a page: to its children in the tree of the site's pages, to other pages of the site, and to other sites.
func (w *Web) refs(s *site, page int, d drawn) []string {
	var refs []string
	arity := max(1, s.Links/2)
	for c := arity*page + 1; c <= arity*(page+1) && c < s.Pages; c++ {
		t := target{kindPage, c}
		if s.draw(c).redirected {
			t.kind = kindRedirect
		}
		refs = append(refs, path(t))
	}
	for len(refs) < s.Links {
		refs = append(refs, path(target{kindPage, d.links.IntN(s.Pages)}))
	}
	if d.gone != 0 {
		refs = append(refs, path(target{kindGone, page}))
	}
	others := len(w.sites) - 1
	if others == 0 || s.Abroad == 0 {
		return refs
	}
	if page == 0 {
		refs = append(refs, w.sites[(s.index+1)%len(w.sites)].url(target{kind: kindPage}))
	}
	whole, part := math.Modf(s.Abroad)
	if d.links.Float64() < part {
		whole++
	}
	for range int(whole) {
		to := w.sites[(s.index+1+d.links.IntN(others))%len(w.sites)]
		refs = append(refs, to.url(target{kindPage, d.links.IntN(to.Pages)}))
	}
	return refs
}

func (w *Web) body(s *site, page int, d drawn) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Page %d of %s</title></head><body>\n<ul>\n",
		page, s.Host)
	for _, ref := range w.refs(s, page, d) {
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a>\n", ref, ref)
	}
	b.WriteString("</ul><p>")
	const tail = "</p></body></html>\n"
	b.Grow(max(0, d.bytes-b.Len()))
	for from := int((s.seed + uint64(page)*7919) % uint64(len(w.text))); ; from = 0 {
		left := d.bytes - b.Len() - len(tail)
		if left <= 0 {
			break
		}
		b.WriteString(w.text[from:min(len(w.text), from+left)])
	}
	b.WriteString(tail)
	return []byte(b.String())
}

// filler returns 64 KiB of meaningless words.
func filler(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	const consonants, vowels = "bcdfghklmnprstvz", "aeiou"
	var b strings.Builder
	for b.Len() < 64<<10 {
		for range 1 + r.IntN(4) {
			b.WriteByte(consonants[r.IntN(len(consonants))])
			b.WriteByte(vowels[r.IntN(len(vowels))])
		}
		b.WriteByte(' ')
	}
	return b.String()
}
