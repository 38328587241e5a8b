package site

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/publicsuffix"

	"proxima/frontier/identity"
)

// Bounds of what sites may store here. A browser should be able to keep 50 cookies of 4096 bytes for each domain (RFC 6265, section 6.1).
const (
	maxCookieDomains = 1000
	maxDomainCookies = 50
	maxCookieBytes   = 4096
	maxCookieHeader  = 8 << 10
	maxCookieAge     = 400 * 24 * 60 * 60 // seconds, as RFC 6265bis recommends; the jar's own sum overflows
)

// Jar keeps cookies in memory, within bounds: those set last by each of the domains used last. It is safe for concurrent use.
type Jar struct {
	// mu guards what follows.
	mu      sync.Mutex
	domains *simplelru.LRU[string, *domainJar]
}

// domainJar keeps the cookies of one registrable domain.
type domainJar struct {
	jar *cookiejar.Jar
	set *simplelru.LRU[string, func()] // removes a cookie, by its domain, path and name; the one set last is the newest
}

// NewJar makes an empty jar.
func NewJar() *Jar {
	domains, _ := simplelru.NewLRU[string, *domainJar](maxCookieDomains, nil) // it fails only for a size below one
	return &Jar{domains: domains}
}

// Header returns the Cookie header of a request, or "".
func (j *Jar) Header(u identity.URL) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	d, ok := j.domains.Get(identity.RegistrableDomain(u.Host))
	if !ok {
		return ""
	}
	var b strings.Builder
	for _, c := range d.jar.Cookies(place(u)) {
		text := c.Name + "=" + c.Value
		if b.Len()+len(text)+2 > maxCookieHeader {
			break
		}
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		b.WriteString(text)
	}
	return b.String()
}

// Learn keeps the cookies of an answer.
func (j *Jar) Learn(u identity.URL, header http.Header) {
	if len(header["Set-Cookie"]) == 0 {
		return
	}
	at, domain := place(u), identity.RegistrableDomain(u.Host)
	j.mu.Lock()
	defer j.mu.Unlock()
	d, ok := j.domains.Get(domain)
	if !ok {
		jar, _ := cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List})         // it never fails
		set, _ := simplelru.NewLRU(maxDomainCookies, func(_ string, remove func()) { remove() }) // it fails only for a size below one
		d = &domainJar{jar: jar, set: set}
		j.domains.Add(strings.Clone(domain), d)
	}
	for _, line := range header["Set-Cookie"] {
		pair, attributes, _ := strings.Cut(line, ";")
		name, value, ok := strings.Cut(pair, "=")
		c, err := http.ParseSetCookie("name=;" + attributes) // only these, since it refuses many names and values that browsers take
		name = strings.TrimSpace(name)
		if !ok || err != nil || name == "" || !httpguts.ValidHeaderFieldValue(pair) || len(pair)+len(c.Path)+len(c.Domain) > maxCookieBytes {
			continue
		}
		if c.Expires.IsZero() {
			c.Expires = endOf(c.RawExpires)
		}
		c.Name, c.Value, c.MaxAge = name, strings.TrimSpace(value), min(c.MaxAge, maxCookieAge)
		d.jar.SetCookies(at, []*http.Cookie{c})
		gone := &http.Cookie{Name: c.Name, Path: c.Path, Domain: c.Domain, MaxAge: -1}
		d.set.Add(cookieID(at, c), func() { d.jar.SetCookies(at, []*http.Cookie{gone}) })
	}
}

// endOf reads the end of a cookie in one of the forms that package http does not know. For what is no time it returns the zero time, and the
// cookie has no end.
func endOf(text string) time.Time {
	for _, form := range []string{"Mon, 2-Jan-06 15:04:05 MST", "Monday, 2-Jan-06 15:04:05 MST", "Mon, 2 Jan 2006 15:04:05 MST", time.ANSIC} {
		if t, err := time.Parse(form, text); err == nil {
			return t
		}
	}
	return time.Time{}
}

// place returns what a jar looks at in a URL, and keeps parts of. The path stays as it is written: it need not have valid escapes.
func place(u identity.URL) *url.URL {
	path, _, _ := strings.Cut(u.Path, "?")
	return &url.URL{Scheme: u.Scheme(), Host: strings.Clone(u.Authority()), Path: strings.Clone(path)}
}

// cookieID returns the domain, path and name of a cookie as the jar keeps it. Without an attribute, host and directory of the URL count.
func cookieID(at *url.URL, c *http.Cookie) string {
	domain, path := strings.TrimPrefix(strings.ToLower(c.Domain), "."), c.Path
	if domain == "" {
		domain = at.Hostname()
	}
	if !strings.HasPrefix(path, "/") {
		path = at.Path[:strings.LastIndexByte(at.Path, '/')+1]
	}
	return domain + ";" + path + ";" + c.Name
}
