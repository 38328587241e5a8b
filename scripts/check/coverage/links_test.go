package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestRefs(t *testing.T) {
	const page = `<base href="/docs/"><!-- <a href="comment"> --><script src="s.js">"<a href='script'>"</script>
<a href="one.html#part">1</a> <A class="a>b" HREF='two&#45;b.html?x=1&amp;y=2'>2</A> <a rel="nofollow" href=three>3</a>
<img src="/i.png"><link rel="stylesheet" href="c.css"><link rel="next" href="../next"><a href="mailto:a@b.c">m</a>
<meta http-equiv="refresh" content="1; url=later"><iframe src="http://other.test/frame"></iframe>`
	answers := map[string]string{"/": page, "/no": `<meta name="robots" content="noindex, nofollow"><a href="x">x</a>`}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/css" {
			w.Header().Set("Content-Type", "text/css")
			answers["/css"] = `@import url("a.css"); @import 'b.css'; p { background: url( d.png ) }`
		}
		w.Write([]byte(answers[r.URL.Path]))
	}))
	defer srv.Close()
	s := &site{client: srv.Client()}
	for _, c := range []struct {
		path string
		want map[string]string // target to how, "+" where it is followed
	}{
		{"/", map[string]string{"/docs/one.html": "a+", "/docs/two-b.html?x=1&y=2": "a+", "/docs/three": "a", "/i.png": "img",
			"/docs/s.js": "script", "/docs/c.css": "link rel=stylesheet", "/next": "link rel=next+", "/docs/later": "meta refresh+",
			"/frame": "iframe+"}},
		{"/no", map[string]string{"/x": "a"}},
		{"/css", map[string]string{"/a.css": "css", "/b.css": "css", "/d.png": "css"}},
	} {
		u, err := url.Parse(srv.URL + c.path)
		if err != nil {
			t.Fatal(err)
		}
		found, err := s.refs(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for target, r := range found {
			how := r.how
			if r.follow {
				how += "+"
			}
			got[target.RequestURI()] = how
		}
		for target, how := range c.want {
			if got[target] != how {
				t.Errorf("%s: %s is %q, want %q", c.path, target, got[target], how)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", c.path, got, c.want)
		}
	}
}

func TestReasons(t *testing.T) {
	l := &links{
		refs: map[string][]ref{
			"h/img":    {{from: "h/", how: "img"}},
			"h/linked": {{from: "h/", how: "img"}, {from: "h/", how: "a", follow: true}},
			"h/deep":   {{from: "h/gone", how: "a", follow: true}},
			"h/nf":     {{from: "h/", how: "a", nofollow: true}},
			"h/css":    {{from: "h/c.css", how: "css"}},
		},
		disallow: map[string][]string{"h": {"/secret/"}},
	}
	p := reading{pages: map[string]bool{"h/": true, "h/plain": true}, asked: map[string]int{"h/": 1}}
	for u, want := range map[string]struct {
		reason string
		ok     bool
	}{
		"h/secret/a":          {"robots.txt disallows /secret/", true},
		"h/img":               {"part of a page", true},
		"h/linked":            {"holds <a> to it", false},
		"h/deep":              {"linked only from pages left out", true},
		"h/nf":                {"nofollow", true},
		"h/css":               {"only in style sheets", true},
		"h/unknown":           {"nothing links to it", false},
		"h/plain?utm_source=": {"tracking parameter", true},
	} {
		reason, ok := l.whyNotProxima(u, p, p.pages)
		if ok != want.ok || !strings.Contains(reason, want.reason) {
			t.Errorf("%s: %q %v, want %q %v", u, reason, ok, want.reason, want.ok)
		}
	}
}
