package site

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"proxima/frontier/identity"
)

func set(cookies ...string) http.Header { return http.Header{"Set-Cookie": cookies} }

// gets checks the cookies that a URL is sent.
func (j *Jar) gets(t *testing.T, url, want string) {
	t.Helper()
	if got := j.Header(link(t, url)); got != want {
		t.Errorf("%s gets %q, want %q", url, got, want)
	}
}

func TestJar(t *testing.T) {
	j := NewJar()
	j.Learn(link(t, "https://www.a.co.uk/x/y"), set("host=1", "domain=2; Domain=a.co.uk; Path=/", "suffix=3; Domain=co.uk; Path=/",
		"other=4; Domain=b.co.uk", "secure=5; Secure; Path=/", "path=6; Path=/z"))
	j.gets(t, "https://www.a.co.uk/x/", "host=1; domain=2; secure=5")
	j.gets(t, "http://www.a.co.uk/", "domain=2")
	j.gets(t, "http://a.co.uk/", "domain=2")
	j.gets(t, "http://c.a.co.uk/z", "domain=2")
	j.gets(t, "http://b.co.uk/", "")
	j.gets(t, "http://co.uk/", "")
	j.gets(t, "http://b.net/", "")
	j.Learn(link(t, "http://a.co.uk/"), set("domain=; Domain=a.co.uk; Path=/; Max-Age=0"))
	j.gets(t, "http://a.co.uk/", "")
	// Sites ask for cookies to be kept for centuries.
	j.Learn(link(t, "http://long.test/"), set("a=1; Max-Age=9999999999", "b=2; Max-Age=9223372036854775807"))
	j.gets(t, "http://long.test/", "a=1; b=2")
}

// A site takes a cookie back by an end in the past, in one of the forms that servers have used (RFC 6265, section 5.1.1).
func TestJarForgetsWhatHasEnded(t *testing.T) {
	j := NewJar()
	for _, end := range []string{"Thu, 01 Jan 1970 00:00:01 GMT", "Thu, 01-Jan-1970 00:00:01 GMT", "Thu, 01-Jan-70 00:00:01 GMT", "Thursday, 01-Jan-70 00:00:01 GMT",
		"Thu, 1 Jan 1970 00:00:01 GMT", "Thu Jan  1 00:00:01 1970"} {
		j.Learn(link(t, "http://a.test/"), set("a=1"))
		j.gets(t, "http://a.test/", "a=1")
		j.Learn(link(t, "http://a.test/"), set("a=deleted; expires="+end))
		j.gets(t, "http://a.test/", "")
	}
	j.Learn(link(t, "http://a.test/"), set("a=1; expires=soon", "b=2; expires=Sun, 1-Jan-68 00:00:01 GMT"))
	j.gets(t, "http://a.test/", "a=1; b=2") // until the end of the session, and of the year 2068
}

// All between the equals sign and the semicolon is the value of a cookie, and all before it the name (RFC 6265, section 5.2), quotation marks
// and brackets too, if it can be sent.
// The escapes of a path need not be valid.
func TestJarReturnsWhatItGot(t *testing.T) {
	j := NewJar()
	for _, value := range []string{`{"a":"é\\"}`, "a=b=", `"`, "", "\xff"} {
		j.Learn(link(t, "http://b.test/"), set("a = "+value+" ;x;Path=/", "b=\x01", "c"))
		j.gets(t, "http://b.test/x", "a="+value)
	}
	for i, name := range []string{"user[id]", "a:b", "{x}", "a b", "é"} {
		at := fmt.Sprintf("http://c%d.test/", i)
		j.Learn(link(t, at), set(name+"=1"))
		j.gets(t, at, name+"=1")
	}
	j.Learn(link(t, "http://a.test/100%/x%zz"), set(`session="a,b"; Path=/`, "here=1"))
	j.gets(t, "http://a.test/100%/x%zz", `here=1; session="a,b"`)
	j.gets(t, "http://a.test/", `session="a,b"`)
}

// A site that sets ever new cookies, and a web of sites that do, fill no memory, and a site that is asked all the time keeps its own.
func TestJarIsBounded(t *testing.T) {
	j := NewJar()
	u := link(t, "http://evil.test/")
	for i := range 1000 {
		j.Learn(u, set(fmt.Sprintf("c%d=%s; Path=/", i, strings.Repeat("x", 1000)), fmt.Sprintf("big=%s", strings.Repeat("x", 5000)), "=", "\x00=1", ";;;"))
	}
	if got := j.Header(u); len(got) > maxCookieHeader || strings.Contains(got, "big") || !strings.Contains(got, "c950=") {
		t.Errorf("a header of %d bytes", len(got))
	}
	long := "/" + strings.Repeat("x", maxCookieBytes)
	if j.Learn(link(t, "http://path.test"+long), set("a=1; Path="+long)); j.Header(link(t, "http://path.test"+long)) != "" {
		t.Error("a cookie with a long path is kept")
	}
	if d, _ := j.domains.Get("evil.test"); d.set.Len() > maxDomainCookies {
		t.Errorf("%d cookies of one domain", d.set.Len())
	}
	for i := range 2 * maxCookieDomains {
		j.Learn(link(t, fmt.Sprintf("http://evil%d.test/", i)), set("a=1"))
		if j.Header(u) == "" {
			t.Fatalf("the cookies of the domain used last are gone after those of %d others", i+1)
		}
	}
	if n := j.domains.Len(); n > maxCookieDomains {
		t.Errorf("cookies of %d domains", n)
	}
}

// A site with too many cookies loses those that it set longest ago (RFC 6265, section 5.3), not the session that it starts now.
func TestNewCookieReplacesTheOldest(t *testing.T) {
	j := NewJar()
	u := link(t, "http://a.test/")
	for i := range maxDomainCookies {
		j.Learn(u, set(fmt.Sprintf("c%d=1", i)))
	}
	for _, page := range []string{"x", "y", "z"} { // it stays one cookie
		j.Learn(link(t, "http://a.test/"+page), set("c0=2"))
	}
	j.Learn(u, set("session=x"))
	got := "; " + j.Header(u) + ";"
	for cookie, kept := range map[string]bool{"session=x": true, "c0=2": true, "c1=1": false, "c2=1": true} {
		if strings.Contains(got, " "+cookie+";") != kept {
			t.Errorf("%s is kept: %v; the site gets %q", cookie, !kept, got)
		}
	}
}

// A cookie without a path belongs to the directory of its page, and one without a domain to its host: each is a further one.
func TestCookiesOfManyPlacesAreBounded(t *testing.T) {
	var places []identity.URL
	for i := range 4 * maxDomainCookies {
		places = append(places, link(t, fmt.Sprintf("http://evil.test/%d/x", i)), link(t, fmt.Sprintf("http://h%d.evil.test/x", i)))
	}
	j, kept := NewJar(), 0
	for _, u := range places {
		j.Learn(u, set("a=1"))
	}
	for _, u := range places {
		if j.Header(u) != "" {
			kept++
		}
	}
	if kept != maxDomainCookies {
		t.Errorf("%d cookies of one domain are kept, not %d", kept, maxDomainCookies)
	}
}
