package webmaster_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier/identity"
	"proxima/node/webmaster"
)

// bed is a door, and what a web master has put up.
type bed struct {
	*webmaster.Door
	t       *testing.T
	files   map[string]string // by URLs
	texts   map[string][]string
	keys    [][]byte
	blocked []string
	asked   []webmaster.Request
	looked  int
	silent  string // how the URLs of a server begin that does not answer
	full    error
	spoilt  func() error // of the keys; may be nil
}

func inBed(t *testing.T, test func(b *bed)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, files: map[string]string{}, texts: map[string][]string{}, keys: [][]byte{[]byte("first"), []byte("second")}}
		door, err := webmaster.New(webmaster.Config{About: "For <science>."}, webmaster.Deps{
			Agent: "Proxima/1", Contact: "https://crawler.example/", From: "ann@crawler.example",
			Keys: func() ([][]byte, error) {
				if b.spoilt != nil {
					if err := b.spoilt(); err != nil {
						return [][]byte{nil}, err
					}
				}
				return b.keys, nil
			},
			File: func(ctx context.Context, u identity.URL) (string, error) {
				b.looked++
				if b.silent != "" && strings.HasPrefix(u.String(), b.silent) {
					<-ctx.Done()
				}
				if ctx.Err() != nil {
					return "", ctx.Err()
				}
				text, ok := b.files[u.String()]
				if !ok {
					return "", errors.New("status 404 <b>")
				}
				return text, nil
			},
			TXT:   func(_ context.Context, name string) ([]string, error) { return b.texts[name], nil },
			Block: func(host, way string) error { b.blocked = append(b.blocked, host+" "+way); return nil },
			Ask:   func(r webmaster.Request) error { b.asked = append(b.asked, r); return b.full },
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Door = door
		test(b)
	})
}

func (b *bed) send(method, target, from string, form url.Values, header ...string) (int, string) {
	b.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.RemoteAddr = from
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	if body := w.Body.String(); strings.Contains(body, "<b>") || strings.Contains(body, "<script") || strings.Contains(body, "<science>") {
		b.t.Errorf("%s %s: markup of others is in the page:\n%s", method, target, body)
	}
	return w.Code, w.Body.String()
}

const me = "192.0.2.7:1234"

var (
	tokenShape  = regexp.MustCompile(`<code>(proxima-[a-z2-7]{32})</code>`)
	ticketShape = regexp.MustCompile(`name="ticket" value="([^"]*)"`)
)

// form asks for the form of a site and fills it in, as a person would.
func (b *bed) form(site, way string) (form url.Values, token string) {
	b.t.Helper()
	code, body := b.send("GET", "/?site="+url.QueryEscape(site), me, nil)
	t, ticket := tokenShape.FindStringSubmatch(body), ticketShape.FindStringSubmatch(body)
	if code != 200 || t == nil || ticket == nil {
		b.t.Fatalf("the form of %s: %d\n%s", site, code, body)
	}
	time.Sleep(5 * time.Second)
	return url.Values{"site": {site}, "ticket": {ticket[1]}, "way": {way}}, t[1]
}

// Who shows that a site is theirs has it left alone; without a proof nothing happens, or somebody is asked.
func TestWebMasters(t *testing.T) {
	inBed(t, func(b *bed) {
		form, token := b.form("https://WWW.Example.org/path", "file")
		if code, body := b.send("POST", "/", me, form); code != http.StatusForbidden || !strings.Contains(body, "not found there") || len(b.blocked) > 0 {
			t.Errorf("without a file: %d, %v", code, b.blocked)
		}
		b.files["http://www.example.org/.well-known/proxima.txt"] = "\uFEFF" + token + "\nhello\n" // as some editors write it
		if code, _ := b.send("POST", "/", me, form); code != 200 || !slices.Equal(b.blocked, []string{"www.example.org file"}) {
			t.Errorf("with a file: %d, %v", code, b.blocked)
		}
		time.Sleep(time.Minute)
		form, token = b.form("example.net", "dns")
		b.texts["_proxima.www.example.net"] = []string{token}
		b.texts["example.net"] = []string{token}
		if code, _ := b.send("POST", "/", me, form); code != http.StatusForbidden {
			t.Errorf("a record of another name: %d", code)
		}
		b.texts["_proxima.example.net"] = []string{"v=spf1", token}
		b.keys = [][]byte{[]byte("third"), []byte("first")} // the secret is being changed
		if code, _ := b.send("POST", "/", me, form); code != 200 || !slices.Contains(b.blocked, "example.net dns") {
			t.Errorf("with a record: %d, %v", code, b.blocked)
		}
		time.Sleep(time.Minute)
		if _, other := b.form("example.com", "file"); other == token {
			t.Error("two sites have one token")
		}
		form, _ = b.form("example.com", "ask")
		form.Set("note", "please <b>\n go")
		if code, _ := b.send("POST", "/", me, form); code != 200 || len(b.asked) != 1 || b.asked[0].Host != "example.com" || b.asked[0].Note != "please <b> go" {
			t.Errorf("a request: %d, %v", code, b.asked)
		}
		b.full = errors.New("<b>too many</b> wait")
		if code, _ := b.send("POST", "/", me, form); code != http.StatusServiceUnavailable {
			t.Errorf("one request too many: %d", code)
		}
	})
}

// A server that does not answer on the port of https leaves time for the file by http.
func TestSilentPort(t *testing.T) {
	inBed(t, func(b *bed) {
		form, token := b.form("example.org", "file")
		b.silent, b.files["http://example.org/.well-known/proxima.txt"] = "https:", token
		if code, body := b.send("POST", "/", me, form); code != 200 || len(b.blocked) != 1 {
			t.Errorf("%d, blocked %v\n%s", code, b.blocked, body)
		}
	})
}

// What robots, other sites and strange texts send changes nothing and is told why.
func TestStrangers(t *testing.T) {
	inBed(t, func(b *bed) {
		for _, site := range []string{"a b", "com", "co.uk", "github.io", "localhost", "192.0.2.1", "[2001:db8::1]", "http://", "<script>alert(1)</script>", "\"><b>x",
			strings.Repeat("a", 300) + ".org", "*.example.org", "_", "a..b", "\x00.org", "file:///etc/passwd", "ftp://example.org"} {
			if code, _ := b.send("GET", "/?site="+url.QueryEscape(site), me, nil); code != http.StatusBadRequest {
				t.Errorf("%q is a site: %d", site, code)
			}
		}
		time.Sleep(time.Minute)
		good, token := b.form("example.org", "file")
		b.files["https://example.org/.well-known/proxima.txt"] = token
		other, _ := b.form("example.net", "file")
		with := func(pairs ...string) url.Values {
			form := url.Values{}
			for k, v := range good {
				form[k] = v
			}
			for i := 0; i < len(pairs); i += 2 {
				form.Set(pairs[i], pairs[i+1])
			}
			return form
		}
		ask := func(name string, want int, form url.Values, header ...string) {
			t.Helper()
			time.Sleep(time.Minute / 6)
			if code, _ := b.send("POST", "/", me, form, header...); code != want {
				t.Errorf("%s: %d, not %d", name, code, want)
			}
		}
		ask("another site", http.StatusForbidden, good, "Sec-Fetch-Site", "cross-site")
		ask("another origin", http.StatusForbidden, good, "Origin", "https://evil.example")
		ask("a robot that fills all", http.StatusOK, with("homepage", "http://spam.example"))
		ask("no ticket", http.StatusBadRequest, with("ticket", ""))
		ask("a made-up ticket", http.StatusBadRequest, with("ticket", fmt.Sprintf("%d.proxima-x", time.Now().Unix()-5)))
		ask("the ticket of another site", http.StatusBadRequest, with("ticket", other.Get("ticket")))
		ask("no way", http.StatusBadRequest, with("way", "mail"))
		ask("a long note", http.StatusBadRequest, with("way", "ask", "note", strings.Repeat("x", 501)))
		ask("a note for terminals", http.StatusBadRequest, with("way", "ask", "note", "\x1b[31m"))
		ask("a long form", http.StatusBadRequest, with("note", strings.Repeat("x", 1<<20)))
		if code, _ := b.send("PUT", "/", me, nil); code != http.StatusMethodNotAllowed {
			t.Errorf("PUT: %d", code)
		}
		if code, _ := b.send("GET", "/../x", me, nil); code != http.StatusNotFound {
			t.Errorf("another page: %d", code)
		}
		time.Sleep(time.Minute)
		fresh, _ := b.form("example.org", "file")
		_, body := b.send("GET", "/?site=example.org", me, nil)
		fresh.Set("ticket", ticketShape.FindStringSubmatch(body)[1])
		if code, _ := b.send("POST", "/", me, fresh); code != http.StatusBadRequest {
			t.Errorf("a form that is sent at once: %d", code)
		}
		time.Sleep(2 * time.Hour)
		ask("an old ticket", http.StatusBadRequest, good)
		if len(b.blocked)+len(b.asked)+b.looked > 0 {
			t.Errorf("blocked %v, asked %v, looked %d times", b.blocked, b.asked, b.looked)
		}
	})
}

// One network is served so often in a minute, however many addresses of IPv6 it has; others are served all the same.
func TestTooManyRequests(t *testing.T) {
	inBed(t, func(b *bed) {
		count := func(method string, from func(i int) string) (served int) {
			for i := range 200 {
				if code, _ := b.send(method, "/", from(i), nil); code != http.StatusTooManyRequests {
					served++
				}
			}
			return served
		}
		if n := count("GET", func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", i) }); n != 60 {
			t.Errorf("%d pages are read", n)
		}
		if n := count("POST", func(int) string { return me }); n != 6 {
			t.Errorf("%d forms are taken", n)
		}
		for i := range 10_000 { // more networks than are counted: those share a count
			b.send("GET", "/", fmt.Sprintf("10.%d.%d.1:1", i/250, i%250), nil)
		}
		time.Sleep(time.Minute)
		if code, _ := b.send("GET", "/", me, nil); code != 200 {
			t.Errorf("a minute later: %d", code)
		}
	})
}

// The page tells the latest requests to a site and to what is below it, and to nobody else's.
func TestVisits(t *testing.T) {
	inBed(t, func(b *bed) {
		for i := range 30_000 {
			b.Visited("other.example", fmt.Sprintf("http://other.example/%d", i), 200)
		}
		b.Visited("example.org", "http://example.org/<script>", 404)
		b.Visited("www.example.org", "http://www.example.org/"+strings.Repeat("é", 500), 0)
		b.Visited("notexample.org", "http://notexample.org/secret", 200)
		code, body := b.send("GET", "/?site=example.org", me, nil)
		if code != 200 || !strings.Contains(body, "&lt;script&gt;") || !strings.Contains(body, "404") || !strings.Contains(body, "…") || strings.Contains(body, "secret") || len(body) > 8000 {
			t.Errorf("%d\n%s", code, body)
		}
		if _, body := b.send("GET", "/?site=other.example", me, nil); strings.Count(body, "other.example/") != 20 || !strings.Contains(body, "/29999") {
			t.Errorf("%s", body)
		}
	})
}

// Without its key the page takes nothing for a proof, not even the token of an empty key, which everybody can make.
func TestNoProofWithoutAKey(t *testing.T) {
	inBed(t, func(b *bed) {
		form, _ := b.form("example.org", "file")
		looks := 0
		b.spoilt = func() error {
			if looks++; looks > 1 { // the ticket of the form is still checked
				return errors.New("disk is gone")
			}
			return nil
		}
		sum := hmac.New(sha256.New, nil)
		sum.Write([]byte("example.org"))
		token := "proxima-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum.Sum(nil)[:20]))
		b.files["https://example.org/.well-known/proxima.txt"] = token
		if code, _ := b.send("POST", "/", me, form); code == 200 || len(b.blocked) > 0 {
			b.t.Errorf("%d, blocked %v", code, b.blocked)
		}
	})
}
