package console

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// policy lets the page load its own files only, and nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'"

// Each network may try mostGuesses wrong tokens a minute; mostGuessers networks are counted separately.
const mostGuesses, mostGuessers = 10, 1024

// guard decides which requests the console answers.
type guard struct {
	papers atomic.Pointer[papers]
	cross  *http.CrossOriginProtection
	wrong  *Limiter // of wrong tokens
}

func newGuard(p papers) *guard {
	g := &guard{cross: http.NewCrossOriginProtection(), wrong: NewLimiter(mostGuesses, mostGuessers)}
	g.papers.Store(&p)
	return g
}

// certificate returns the certificate in force, or nil without TLS.
func (g *guard) certificate() *tls.Certificate { return g.papers.Load().cert }

// checked refuses requests that were not meant for this console: those for a name that somebody else's DNS points here, and
// those that another site makes a browser send.
func (g *guard) checked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		// Browsers apply it to all ports of a name (RFC 6797, section 8.3), where others may serve without TLS.
		if g.certificate() != nil && !strings.Contains(r.Host, ":") {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		site := r.Header.Get("Sec-Fetch-Site")
		switch origin := r.Header.Get("Origin"); {
		case !g.named(r.Host):
			refuse(w, http.StatusMisdirectedRequest, "this console does not answer to that name")
		case origin != "" && origin != g.scheme()+"://"+r.Host, g.cross.Check(r) != nil,
			strings.HasPrefix(r.URL.Path, apiRoot) && strings.HasSuffix(site, "-site"):
			refuse(w, http.StatusForbidden, "another site has asked for this")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (g *guard) scheme() string {
	if g.certificate() != nil {
		return "https"
	}
	return "http"
}

// named reports whether a Host header names this console: a name of its certificate, or loopback.
func (g *guard) named(host string) bool {
	host = (&url.URL{Host: host}).Hostname()
	if cert := g.certificate(); cert != nil && cert.Leaf.VerifyHostname(host) == nil {
		return true
	}
	return host != "" && loopback(host)
}

// callerKey is the context key for who makes a request.
type callerKey struct{}

// Who returns who makes a request that the console has admitted: the name of the token, or the address.
func Who(r *http.Request) string {
	who, _ := r.Context().Value(callerKey{}).(string)
	return who
}

// admitted requires a token, if there are any.
func (g *guard) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := "console at " + addressOf(r.RemoteAddr).String()
		if names := g.papers.Load().names; names != nil {
			if g.wrong.Exhausted(r) {
				w.Header().Set("Retry-After", "60")
				refuse(w, http.StatusTooManyRequests, "too many wrong tokens: wait a minute")
				return
			}
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			if who = nameOf(token, names); who == "" {
				if token != "" {
					g.wrong.Take(r, 1)
				}
				w.Header().Set("WWW-Authenticate", "Bearer")
				refuse(w, http.StatusUnauthorized, "a token is needed")
				return
			}
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
	})
}

// nameOf returns the name of a token, or "". It always compares all tokens, each in constant time.
func nameOf(token string, names map[[sha256.Size]byte]string) (name string) {
	digest := sha256.Sum256([]byte(token))
	for known, n := range names {
		if subtle.ConstantTimeCompare(known[:], digest[:]) == 1 {
			name = n
		}
	}
	return name
}

// refuse answers with an error in the form of the API.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why}) // a failure means that the caller is gone
}
