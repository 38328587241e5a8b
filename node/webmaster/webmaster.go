// Package webmaster is the door for those whose sites are crawled: one plain page that says who crawls and why, what was asked of a site lately,
// and how to have it left alone. It owns the page, what proves that somebody has a site in hand, and the bounds on what strangers cost. What
// a block does it does not know.
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
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/net/publicsuffix"

	"proxima/fetch/blocklist"
	"proxima/frontier/identity"
)

// Config is the section of the page.
type Config struct {
	// Listen is the host:port of a page for web masters, which anybody may read: who crawls, what was asked of a site lately, and a form to have it
	// left alone. Name it in contact. A server in front of it can add https. Empty serves none.
	Listen string `toml:"listen"`
	// About says on that page what the crawl is for, in a sentence or two.
	About string `toml:"about"`
}

// Validate reports the first value that cannot be.
func (c Config) Validate() error {
	if c.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			return fmt.Errorf("listen: %q is not host:port: %w", c.Listen, err)
		}
	}
	if len(c.About) > 1000 {
		return fmt.Errorf("about: %d bytes, more than 1000", len(c.About))
	}
	return nil
}

// Request is what a web master asks without proof: somebody has to decide.
type Request struct {
	Host string    `json:"host"`
	Note string    `json:"note"`
	From string    `json:"from"` // the address of who asked
	At   time.Time `json:"at"`
}

// Deps are what the page works with.
type Deps struct {
	// Agent, Contact and From are what the crawler says of itself.
	Agent, Contact, From string
	// Keys make the tokens, the same on all nodes: the first is used, all are accepted.
	Keys func() ([][]byte, error)
	// File reads the beginning of a URL, without following where it leads. TXT reads the records of a name.
	File func(ctx context.Context, url identity.URL) (string, error)
	TXT  func(ctx context.Context, name string) ([]string, error)
	// Block has a host left alone, whose web master has shown that it is his in a way.
	Block func(host, way string) error
	// Ask keeps a request for the operator.
	Ask func(Request) error
}

const (
	// proofFile is where a token is looked for at a host, and proofName before its name.
	proofFile, proofName = "/.well-known/proxima.txt", "_proxima."
	// mostReads and mostPosts are how often one address may read the page and send the form in a minute, mostAddrs how many addresses are
	// counted one by one: the others share a count.
	mostReads, mostPosts, mostAddrs = 60, 6, 4096
	// checksAtOnce is how many proofs are looked for at the same time, for checkTime at most.
	checksAtOnce, checkTime = 4, 20 * time.Second
	// Nobody fills the form within soonest, and nobody takes longer than latest.
	soonest, latest = 2 * time.Second, time.Hour
	// maxForm and maxNote bound what is sent, in bytes.
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

	// mu guards what follows.
	mu    sync.Mutex
	began time.Time            // of the minute
	asked map[netip.Prefix]int // in it
}

//go:embed page.html
var pageText string

// style is the look of the page: the policy names it by its digest.
const style = `body{max-width:44rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 system-ui,sans-serif;color-scheme:light dark}
code,td{overflow-wrap:anywhere}td{padding-right:1rem;vertical-align:top}.trap{display:none}`

// New makes the page.
func New(cfg Config, deps Deps) (*Door, error) {
	page, err := template.New("page").Parse(pageText)
	if err != nil {
		return nil, fmt.Errorf("make page for web masters: %w", err)
	}
	digest := sha256.Sum256([]byte(style))
	return &Door{cfg: cfg, deps: deps, page: page, cross: http.NewCrossOriginProtection(), checks: make(chan struct{}, checksAtOnce), asked: map[netip.Prefix]int{},
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"}, nil
}

// shown is what the page says.
type shown struct {
	Agent, Contact, From, About string
	Style                       template.CSS
	Host, Token, Ticket, Wrong  string
	Done                        string
	File, Name                  string
	Visits                      []Visit
}

// ServeHTTP answers web masters.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", d.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/html; charset=utf-8")
	post := r.Method == http.MethodPost
	s := shown{Agent: d.deps.Agent, Contact: d.deps.Contact, From: d.deps.From, About: d.cfg.About, Style: style}
	status := http.StatusOK
	switch {
	case r.URL.Path != "/":
		status, s.Wrong = http.StatusNotFound, "There is nothing here but this page."
	case !post && r.Method != http.MethodGet && r.Method != http.MethodHead:
		status, s.Wrong = http.StatusMethodNotAllowed, "This page is read, or its form sent."
	case d.cross.Check(r) != nil:
		status, s.Wrong = http.StatusForbidden, "Another site has sent this form."
	case !d.mayAsk(r, post):
		h.Set("Retry-After", "60")
		status, s.Wrong = http.StatusTooManyRequests, "Too many requests from your network. Please wait a minute."
	case post:
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		status = d.leave(r, &s)
	case r.URL.Query().Get("site") != "":
		status = d.tell(r.URL.Query().Get("site"), &s)
	}
	w.WriteHeader(status)
	_ = d.page.Execute(w, s) // the reader has gone where this fails
}

// mayAsk counts a request against its network, and says whether it is one too many.
func (d *Door) mayAsk(r *http.Request, post bool) bool {
	at, _ := netip.ParseAddrPort(r.RemoteAddr) //nolint:errcheck // those without an address share a count
	addr := at.Addr().Unmap().WithZone("")
	from := netip.PrefixFrom(addr, min(addr.BitLen(), 64)).Masked() // one customer has 64 bits of IPv6
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.began) >= time.Minute {
		d.began = now
		clear(d.asked)
	}
	if _, known := d.asked[from]; !known && len(d.asked) >= mostAddrs {
		from = netip.Prefix{}
	}
	cost := 1
	if post {
		cost = mostReads / mostPosts
	}
	if d.asked[from]+cost > mostReads {
		return false
	}
	d.asked[from] += cost
	return true
}

// noSite is said of what cannot be a site.
const noSite = "That is not the public name of a site."

// siteOf is the name of the host that a person means: its name, or any URL of it.
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
	return name, err == nil && on == name && suffix(name) != name
}

// suffix is what of a name many share: "org", "github.io".
func suffix(name string) string {
	s, _ := publicsuffix.PublicSuffix(name)
	return s
}

// tell says what is known of a site, and what proves that somebody has it in hand.
func (d *Door) tell(text string, s *shown) (status int) {
	host, ok := siteOf(text)
	if !ok {
		s.Wrong = noSite
		return http.StatusBadRequest
	}
	tokens, err := d.tokens(host)
	if err != nil {
		s.Wrong = "This does not work now. Please try again later."
		return http.StatusServiceUnavailable
	}
	s.Host, s.Token, s.File, s.Name = host, tokens[0], proofFile, proofName+host
	s.Visits = d.visits.of(host)
	now := strconv.FormatInt(time.Now().Unix(), 10)
	if ticket, err := d.tokens(now + " " + host); err == nil {
		s.Ticket = now + "." + ticket[0]
	}
	return http.StatusOK
}

// tokens are what proves that somebody has a host in hand: the first is shown, all are accepted.
func (d *Door) tokens(host string) (tokens []string, err error) {
	keys, err := d.deps.Keys()
	for _, key := range keys {
		sum := hmac.New(sha256.New, key)
		sum.Write([]byte(host))
		tokens = append(tokens, "proxima-"+strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum.Sum(nil)[:20])))
	}
	if len(tokens) == 0 {
		err = errors.Join(err, errors.New("there is no key"))
	}
	return tokens, err
}

// valid says whether a ticket was given out with the form for a host, neither just now nor long ago: robots send forms at once, or again and again.
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

// leave does what the form asks for.
func (d *Door) leave(r *http.Request, s *shown) (status int) {
	if err := r.ParseForm(); err != nil {
		s.Wrong = "The form is too long, or is none."
		return http.StatusBadRequest
	}
	host, ok := siteOf(r.PostForm.Get("site"))
	note := strings.Join(strings.Fields(r.PostForm.Get("note")), " ")
	switch {
	case !ok:
		s.Wrong = noSite
		return http.StatusBadRequest
	case r.PostForm.Get("homepage") != "": // nobody sees that field: a robot has filled it, and must not learn that
		s.Done = "Thank you."
		return http.StatusOK
	case !d.valid(r.PostForm.Get("ticket"), host):
		status = d.tell(host, s)
		s.Wrong = "The form has expired. Please send it again."
		return max(status, http.StatusBadRequest)
	case len(note) > maxNote || strings.ContainsFunc(note, func(c rune) bool { return !unicode.IsPrint(c) || c == unicode.ReplacementChar }):
		s.Wrong = fmt.Sprintf("The note is longer than %d bytes, or has signs that cannot be shown.", maxNote)
		return http.StatusBadRequest
	}
	if way := r.PostForm.Get("way"); way != "ask" {
		return d.prove(r.Context(), host, way, s)
	}
	if err := d.deps.Ask(Request{Host: host, Note: note, From: r.RemoteAddr, At: time.Now().UTC().Truncate(time.Second)}); err != nil {
		s.Wrong = "Nothing was kept: " + err.Error() + ". Please prove that the site is yours, or write to us."
		return http.StatusServiceUnavailable
	}
	s.Done = "Thank you. Somebody will look at what you asked for " + host + "."
	return http.StatusOK
}

// prove looks for the token in a file of the host or at its name, and has the host left alone where it is there.
func (d *Door) prove(ctx context.Context, host, way string, s *shown) (status int) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	select {
	case d.checks <- struct{}{}:
		defer func() { <-d.checks }()
	default:
		s.Wrong = "Others are being served. Please try again in a minute."
		return http.StatusServiceUnavailable
	}
	status = d.tell(host, s)
	tokens, err := d.tokens(host)
	isToken := func(text string) bool { return slices.Contains(tokens, text) }
	var found []string
	switch way {
	case "file":
		for _, scheme := range []string{"https://", "http://"} {
			text, e := d.deps.File(ctx, identity.URL{Host: scheme + host, Path: proofFile})
			if found, err = strings.Fields(text), errors.Join(err, e); slices.ContainsFunc(found, isToken) {
				break
			}
		}
	case "dns":
		found, err = d.deps.TXT(ctx, proofName+host)
	default:
		s.Wrong = "Please choose one of the ways."
		return http.StatusBadRequest
	}
	if !slices.ContainsFunc(found, isToken) {
		s.Wrong = "The token was not found there."
		if err != nil {
			s.Wrong += " (" + err.Error() + ")"
		}
		return max(status, http.StatusForbidden)
	}
	if err := d.deps.Block(host, way); err != nil {
		s.Wrong = "It could not be written down: please try again later."
		return http.StatusServiceUnavailable
	}
	s.Done = host + " and all below it is left alone from now on, by all machines of this crawl within a minute. You can take the token away."
	return http.StatusOK
}
