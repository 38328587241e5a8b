// Package webmaster serves one plain page to the web masters of crawled sites. It says who crawls and why, lists the latest
// requests to a site, and lets a web master have the site left alone. The package owns the page, the proof that somebody
// controls a site, and the bounds on what strangers cost. It does not know how a block takes effect.
package webmaster

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/net/publicsuffix"

	"proxima/fetch/blocklist"
	"proxima/frontier/identity"
	"proxima/node/console"
)

// Config is the section of the page.
type Config struct {
	// Listen is the host:port of a public page for site owners: who crawls, what was requested from a site lately, and a
	// form to have it left alone. Link to it from fetch.contact. A reverse proxy can add https. Empty: it is not served.
	Listen string `toml:"listen"`
	// About is a sentence or two on that page about the purpose of the crawl.
	About string `toml:"about"`
}

// Validate reports the first invalid value.
func (c Config) Validate() error {
	if err := console.CheckListen(c.Listen); err != nil {
		return err
	}
	if len(c.About) > 1000 {
		return fmt.Errorf("about: %d bytes, more than 1000", len(c.About))
	}
	return nil
}

// Request is a web master's request without proof, about which an operator decides.
type Request struct {
	Host string    `json:"host"`
	Note string    `json:"note"`
	From string    `json:"from"` // the requester's address
	At   time.Time `json:"at"`
}

// Deps are what the page needs from its node.
type Deps struct {
	// Agent, Contact and From are how the crawler identifies itself.
	Agent, Contact, From string
	// Keys returns the keys of the tokens, the same on all nodes: the first makes tokens, and tokens of all are accepted.
	Keys func() ([][]byte, error)
	// File reads the beginning of a URL's body, without following redirects. TXT reads the TXT records of a name.
	File func(ctx context.Context, url identity.URL) (string, error)
	TXT  func(ctx context.Context, name string) ([]string, error)
	// Block has a host left alone whose web master has proved control of it in the given way.
	Block func(host, way string) error
	// Ask stores a request for the operator.
	Ask func(Request) error
}

const (
	// A token is looked for in proofFile of a host, or in TXT records of proofName followed by its name.
	proofFile, proofName = "/.well-known/proxima.txt", "_proxima."
	// mostReads and mostPosts bound how often one network may read the page and send the form in a minute. mostAddrs is how
	// many networks are counted separately; the others share a count.
	mostReads, mostPosts, mostAddrs = 60, 6, 4096
	// checksAtOnce bounds the proofs that are looked for at a time, each for at most checkTime.
	checksAtOnce, checkTime = 4, 20 * time.Second
	// A person takes between soonest and latest to fill in the form.
	soonest, latest = 2 * time.Second, time.Hour
	// maxForm and maxNote bound the form and its note, in bytes.
	maxForm, maxNote = 8 << 10, 500
)

// Door serves the page. It is safe for concurrent use.
type Door struct {
	cfg    Config
	deps   Deps
	page   *template.Template
	policy string
	cross  *http.CrossOriginProtection
	checks chan struct{}
	visits visits
	asked  *console.Limiter // of requests
}

//go:embed page.html
var pageText string

// style is the page's style sheet, which the policy allows by its digest.
const style = `body{max-width:44rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 system-ui,sans-serif;color-scheme:light dark}
code,td{overflow-wrap:anywhere}td{padding-right:1rem;vertical-align:top}.trap{display:none}`

// New makes the page.
func New(cfg Config, deps Deps) (*Door, error) {
	page, err := template.New("page").Parse(pageText)
	if err != nil {
		return nil, fmt.Errorf("make page for web masters: %w", err)
	}
	digest := sha256.Sum256([]byte(style))
	return &Door{cfg: cfg, deps: deps, page: page, cross: http.NewCrossOriginProtection(), checks: make(chan struct{}, checksAtOnce), asked: console.NewLimiter(mostReads, mostAddrs),
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"}, nil
}

// shown is what the page shows.
type shown struct {
	Agent, Contact, From, About string
	Style                       template.CSS
	Host, Token, Ticket, Wrong  string
	Done                        string
	File, Name                  string
	Visits                      []Visit
}

// ServeHTTP serves the page and takes its form.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", d.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/html; charset=utf-8")
	post, cost := r.Method == http.MethodPost, 1
	if post {
		cost = mostReads / mostPosts
	}
	s := shown{Agent: d.deps.Agent, Contact: d.deps.Contact, From: d.deps.From, About: d.cfg.About, Style: style}
	status := http.StatusOK
	switch {
	case r.URL.Path != "/":
		status, s.Wrong = http.StatusNotFound, "There is nothing here but this page."
	case !post && r.Method != http.MethodGet && r.Method != http.MethodHead:
		status, s.Wrong = http.StatusMethodNotAllowed, "This page is read, or its form sent."
	case d.cross.Check(r) != nil:
		status, s.Wrong = http.StatusForbidden, "Another site has sent this form."
	case !d.asked.Take(r, cost):
		h.Set("Retry-After", "60")
		status, s.Wrong = http.StatusTooManyRequests, "Too many requests from your network. Please wait a minute."
	case post:
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		status, s.Wrong = d.leave(r, &s)
	case r.URL.Query().Get("site") != "":
		status, s.Wrong = d.tell(r.URL.Query().Get("site"), &s)
	}
	w.WriteHeader(status)
	_ = d.page.Execute(w, s) // a failure means that the reader is gone
}

// noSite is the answer to a name that cannot be a site.
const noSite = "That is not the public name of a site."

// siteOf returns the host name that a person means, who gives the name or any URL of the host.
func siteOf(text string) (name string, ok bool) {
	if text = strings.TrimSpace(text); !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := identity.Parse(text)
	if err != nil {
		return "", false
	}
	name = u.Name()
	on, err := blocklist.Target(name)
	suffix, _ := publicsuffix.PublicSuffix(name) // "org", "github.io"
	return name, err == nil && on == name && suffix != name
}

// tell shows what is known of a site and how to prove control of it.
func (d *Door) tell(text string, s *shown) (status int, wrong string) {
	host, ok := siteOf(text)
	if !ok {
		return http.StatusBadRequest, noSite
	}
	tokens, err := d.tokens(host)
	if err != nil {
		return http.StatusServiceUnavailable, "This does not work now. Please try again later."
	}
	s.Host, s.Token, s.File, s.Name = host, tokens[0], proofFile, proofName+host
	s.Visits = d.visits.of(host)
	now := strconv.FormatInt(time.Now().Unix(), 10)
	if ticket, err := d.tokens(now + " " + host); err == nil {
		s.Ticket = now + "." + ticket[0]
	}
	return http.StatusOK, ""
}

// tokens returns the tokens that prove control of a host: the first is shown, all are accepted.
func (d *Door) tokens(host string) (tokens []string, err error) {
	keys, err := d.deps.Keys()
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		sum := hmac.New(sha256.New, key)
		sum.Write([]byte(host))
		tokens = append(tokens, "proxima-"+strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum.Sum(nil)[:20])))
	}
	if len(tokens) == 0 {
		err = errors.New("there is no key")
	}
	return tokens, err
}

// valid reports whether a ticket was issued with the form for a host, neither just now nor long ago. Robots send forms at once,
// or again and again.
func (d *Door) valid(ticket, host string) bool {
	stamp, mac, _ := strings.Cut(ticket, ".")
	at, err := strconv.ParseInt(stamp, 10, 64)
	age := time.Since(time.Unix(at, 0))
	if err != nil || age < soonest || age > latest {
		return false
	}
	tokens, err := d.tokens(stamp + " " + host)
	return err == nil && slices.ContainsFunc(tokens, func(t string) bool { return hmac.Equal([]byte(t), []byte(mac)) })
}

func (d *Door) leave(r *http.Request, s *shown) (status int, wrong string) {
	if err := r.ParseForm(); err != nil {
		return http.StatusBadRequest, "The form is too long, or is none."
	}
	host, ok := siteOf(r.PostForm.Get("site"))
	note := strings.Join(strings.Fields(r.PostForm.Get("note")), " ")
	switch {
	case !ok:
		return http.StatusBadRequest, noSite
	case r.PostForm.Get("homepage") != "": // people do not see that field: a robot filled it in, and must not learn that
		s.Done = "Thank you."
		return http.StatusOK, ""
	case !d.valid(r.PostForm.Get("ticket"), host):
		status, _ = d.tell(host, s)
		return max(status, http.StatusBadRequest), "The form has expired. Please send it again."
	case len(note) > maxNote || strings.ContainsFunc(note, func(c rune) bool { return !unicode.IsPrint(c) || c == unicode.ReplacementChar }):
		return http.StatusBadRequest, fmt.Sprintf("The note is longer than %d bytes, or has signs that cannot be shown.", maxNote)
	}
	if way := r.PostForm.Get("way"); way != "ask" {
		return d.prove(r.Context(), host, way, s)
	}
	if err := d.deps.Ask(Request{Host: host, Note: note, From: r.RemoteAddr, At: time.Now().UTC().Truncate(time.Second)}); err != nil {
		return http.StatusServiceUnavailable, "Nothing was kept: " + err.Error() + ". Please prove that the site is yours, or write to us."
	}
	s.Done = "Thank you. Somebody will look at what you asked for " + host + "."
	return http.StatusOK, ""
}

// prove looks for a token in a file of the host or in its DNS records, and blocks the host if it is there.
func (d *Door) prove(ctx context.Context, host, way string, s *shown) (status int, wrong string) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	select {
	case d.checks <- struct{}{}:
		defer func() { <-d.checks }()
	default:
		return http.StatusServiceUnavailable, "Others are being served. Please try again in a minute."
	}
	status, _ = d.tell(host, s)
	tokens, err := d.tokens(host)
	isToken := func(text string) bool { return slices.Contains(tokens, text) }
	var found []string
	switch way {
	case "file":
		for _, scheme := range []string{"https://", "http://"} {
			one, cancel := context.WithTimeout(ctx, checkTime/2) // a server that is silent on one port leaves time for the other
			text, e := d.deps.File(one, identity.URL{Host: scheme + host, Path: proofFile})
			cancel()
			found, err = strings.Fields(strings.TrimPrefix(text, "\uFEFF")), errors.Join(err, e) // some editors write a byte order mark
			if slices.ContainsFunc(found, isToken) {
				break
			}
		}
	case "dns":
		found, err = d.deps.TXT(ctx, proofName+host)
	default:
		return http.StatusBadRequest, "Please choose one of the ways."
	}
	if !slices.ContainsFunc(found, isToken) {
		wrong = "The token was not found there."
		if err != nil {
			wrong += " (" + err.Error() + ")"
		}
		return max(status, http.StatusForbidden), wrong
	}
	if err := d.deps.Block(host, way); err != nil {
		return http.StatusServiceUnavailable, "It could not be written down: please try again later."
	}
	s.Done = host + " and all below it is left alone from now on, by all machines of this crawl within a minute. You can take the token away."
	return http.StatusOK, ""
}

const (
	// mostVisits is how many requests to all sites are remembered, mostTold how many to one site are shown.
	mostVisits, mostTold = 20_000, 20
	// maxPath is how many bytes of a URL are remembered.
	maxPath = 200
)

// Visit is a request to a site.
type Visit struct {
	At     time.Time
	URL    string
	Status int // 0 if there was no answer

	name string // of the host
}

// visits holds the latest requests to all sites.
type visits struct {
	// mu guards the fields below.
	mu   sync.Mutex
	ring []Visit
	next int
}

// Visited records a request to a host name.
func (d *Door) Visited(name, url string, status int) {
	v := &d.visits
	if len(url) > maxPath {
		url = strings.ToValidUTF8(url[:maxPath], "") + "…"
	}
	one := Visit{At: time.Now().UTC(), URL: strings.Clone(url), Status: status, name: strings.Clone(name)}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.ring) < mostVisits {
		v.ring = append(v.ring, one)
		return
	}
	v.ring[v.next] = one
	v.next = (v.next + 1) % mostVisits
}

// of returns the latest requests to a host and its subdomains, the newest first.
func (v *visits) of(host string) (found []Visit) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.ring {
		one := v.ring[(v.next+len(v.ring)-1-i)%len(v.ring)]
		if one.name == host || strings.HasSuffix(one.name, "."+host) {
			if found = append(found, one); len(found) == mostTold {
				break
			}
		}
	}
	return found
}
