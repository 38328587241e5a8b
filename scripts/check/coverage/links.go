package main

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// ref is one reference to a URL.
type ref struct {
	from string // the page or style sheet that contains it
	how  string // `a`, `link rel=stylesheet`, `css`, `redirect`, …
	raw  string // the attribute as written
	// follow is set if a crawler of pages follows it: anchors, areas, frames, canonical, next and translated
	// links, and refreshes.
	// nofollow is set instead if rel or a robots meta element says so.
	follow, nofollow bool
}

// links is what the check itself finds on the pages.
type links struct {
	refs     map[string][]ref
	reached  map[string]bool     // URLs that allowed links lead to from the seeds, dead links included
	disallow map[string][]string // path prefixes by host
}

// disallowed returns the rule of robots.txt that forbids a URL, or "". The sites use plain prefixes only.
func (l *links) disallowed(u string) string {
	host, path, _ := strings.Cut(u, "/")
	for _, prefix := range l.disallow[host] {
		if strings.HasPrefix("/"+path, prefix) {
			return prefix
		}
	}
	return ""
}

// readLinks follows links from the seeds, and also reads all pages that the crawlers were given.
func readLinks(ctx context.Context, s *site, crawls ...reading) (*links, error) {
	l := &links{refs: map[string][]ref{}, reached: map[string]bool{}, disallow: map[string][]string{}}
	hosts := map[string]*url.URL{} // the hosts in scope
	queue := []*url.URL{}
	for _, seed := range s.seeds {
		u, err := url.Parse(seed)
		if err != nil {
			return nil, fmt.Errorf("parse seed: %w", err)
		}
		hosts[u.Hostname()] = u
		if l.disallow[u.Hostname()], err = s.robots(ctx, u); err != nil {
			return nil, err
		}
		l.reached[key(u)] = true
		queue = append(queue, u)
	}
	read := map[string]bool{}
	visit := func(u *url.URL, follow bool) error {
		read[key(u)] = true
		found, err := s.refs(ctx, u)
		if err != nil {
			return err
		}
		for target, r := range found {
			if at := hosts[target.Hostname()]; at == nil || target.Host != at.Host || target.Scheme != "http" {
				continue
			}
			k := key(target)
			l.refs[k] = append(l.refs[k], r)
			if follow && r.follow && !l.reached[k] && l.disallowed(k) == "" {
				l.reached[k] = true
				queue = append(queue, target)
			}
		}
		return nil
	}
	const most = 20_000 // the sites are finite and far smaller
	for i := 0; i < len(queue) && i < most; i++ {
		if err := visit(queue[i], true); err != nil {
			return nil, err
		}
	}
	for _, c := range crawls {
		for _, set := range []map[string]bool{c.pages, c.others} {
			for k := range set {
				if read[k] {
					continue
				}
				host, rest, _ := strings.Cut(k, "/")
				u, err := url.Parse("http://" + hosts[host].Host + "/" + rest)
				if err != nil {
					return nil, fmt.Errorf("parse crawled URL: %w", err)
				}
				if err := visit(u, false); err != nil {
					return nil, err
				}
			}
		}
	}
	return l, nil
}

// key is a URL without scheme, port and fragment, as in nginx's log.
func key(u *url.URL) string { return u.Hostname() + u.RequestURI() }

// get requests a URL and reads at most 64 MiB.
func (s *site) get(ctx context.Context, u *url.URL) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, nil, fmt.Errorf("ask for %s: %w", u, err)
	}
	req.Header.Set("User-Agent", "coverage-check")
	res, err := s.client.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("get %s: %w", u, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", u, err)
	}
	return res, body, nil
}

func (s *site) robots(ctx context.Context, seed *url.URL) (disallow []string, err error) {
	res, body, err := s.get(ctx, seed.ResolveReference(&url.URL{Path: "/robots.txt"}))
	if err != nil || res.StatusCode != http.StatusOK {
		return nil, err
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, "Disallow:"); ok && strings.TrimSpace(value) != "" {
			disallow = append(disallow, strings.TrimSpace(value))
		}
	}
	return disallow, nil
}

var (
	hidden    = regexp.MustCompile(`(?is)<!--.*?-->|<script\b([^>]*)>.*?</script\s*>|<(?:style|title|textarea|template)\b.*?</(?:style|title|textarea|template)\s*>`)
	tag       = regexp.MustCompile(`(?is)<(a|area|iframe|frame|link|img|script|source|object|embed|input|video|audio|meta|base)\b((?:[^>"']|"[^"]*"|'[^']*')*)>`)
	attribute = regexp.MustCompile(`(?is)([a-z][a-z0-9-]*)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))`)
	cssURL    = regexp.MustCompile(`(?i)(?:url\(\s*["']?|@import\s+["'])([^"')\s]+)`)
)

// refs returns the references of a page. It scans with regular expressions, which suffices for documentation, so that it does not
// share mistakes with the parser of the crawler under test.
func (s *site) refs(ctx context.Context, u *url.URL) (map[*url.URL]ref, error) {
	res, body, err := s.get(ctx, u)
	if err != nil {
		return nil, err
	}
	found := map[*url.URL]ref{}
	base := u
	add := func(r ref) {
		t, err := base.Parse(strings.TrimSpace(html.UnescapeString(r.raw)))
		if err != nil || t.Host == "" {
			return
		}
		if t.Path == "" {
			t.Path = "/"
		}
		r.from = key(u)
		found[t] = r
	}
	if to := res.Header.Get("Location"); to != "" {
		add(ref{how: "redirect", raw: html.EscapeString(to), follow: true})
		return found, nil
	}
	if res.StatusCode != http.StatusOK {
		return found, nil
	}
	switch kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";"); kind {
	case "text/css":
		for _, m := range cssURL.FindAllStringSubmatch(string(body), -1) {
			add(ref{how: "css", raw: m[1]})
		}
		return found, nil
	case "text/html":
	default:
		return found, nil
	}
	text := hidden.ReplaceAllString(string(body), `<script $1>`)
	pageNoFollow := false
	for _, m := range tag.FindAllStringSubmatch(text, -1) {
		name, attr := strings.ToLower(m[1]), map[string]string{}
		for _, a := range attribute.FindAllStringSubmatch(m[2], -1) {
			attr[strings.ToLower(a[1])] = a[2] + a[3] + a[4]
		}
		rel := strings.Fields(strings.ToLower(attr["rel"]))
		nofollow := slices.Contains(rel, "nofollow")
		switch name {
		case "base":
			if b, err := u.Parse(html.UnescapeString(attr["href"])); err == nil && base == u {
				base = b
			}
		case "meta":
			content := strings.ToLower(attr["content"])
			if strings.EqualFold(attr["name"], "robots") && (strings.Contains(content, "nofollow") || strings.Contains(content, "none")) {
				pageNoFollow = true
			}
			if i := strings.Index(content, "url="); strings.EqualFold(attr["http-equiv"], "refresh") && i >= 0 {
				add(ref{how: "meta refresh", raw: strings.Trim(attr["content"][i+len("url="):], `'" `), follow: true})
			}
		case "a", "area":
			if attr["href"] != "" {
				add(ref{how: name, raw: attr["href"], follow: !nofollow, nofollow: nofollow})
			}
		case "link":
			_, translated := attr["hreflang"]
			follow := slices.Contains(rel, "canonical") || slices.Contains(rel, "next") || translated && slices.Contains(rel, "alternate")
			add(ref{how: "link rel=" + strings.Join(rel, ","), raw: attr["href"], follow: follow && !nofollow, nofollow: follow && nofollow})
		default:
			for _, a := range []string{"src", "data", "poster"} {
				if attr[a] != "" {
					add(ref{how: name, raw: attr[a], follow: name == "iframe" || name == "frame"})
				}
			}
		}
	}
	if pageNoFollow {
		for t, r := range found {
			r.follow, r.nofollow = false, r.nofollow || r.follow
			found[t] = r
		}
	}
	return found, nil
}
