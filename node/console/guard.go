package console

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// policy is what the page may load: its own files, and nothing that is written into it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'"

const (
	// mostGuesses is how many wrong tokens one address may try in guessWindow; then it waits for the next.
	mostGuesses = 10
	guessWindow = time.Minute
	// mostGuessers is how many addresses are counted one by one; the others share a count.
	mostGuessers = 1024
)

// guard decides whom the console answers.
type guard struct {
	names map[[sha256.Size]byte]string // of tokens, by their digests; nil lets everybody in
	cert  *x509.Certificate            // nil without TLS
	cross *http.CrossOriginProtection

	// mu guards what follows.
	mu      sync.Mutex
	began   time.Time            // of the window
	guesses map[netip.Prefix]int // wrong tokens in the window
}

func newGuard(tokens map[string]string) *guard {
	g := &guard{cross: http.NewCrossOriginProtection(), guesses: map[netip.Prefix]int{}}
	for token, name := range tokens {
		if g.names == nil {
			g.names = map[[sha256.Size]byte]string{}
		}
		g.names[sha256.Sum256([]byte(token))] = name
	}
	return g
}

// checked refuses what is not meant for this console, whoever asks: a name that leads here by somebody else's DNS, and what another site has the
// browser send.
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
		if g.cert != nil {
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
	if g.cert != nil {
		return "https"
	}
	return "http"
}

// named says whether a Host header is a name of this console: one of the certificate's, or of loopback.
func (g *guard) named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if inside, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inside, "]"); !ok {
			return false
		}
	}
	if g.cert != nil && g.cert.VerifyHostname(host) == nil {
		return true
	}
	return host != "" && loopback(host)
}

// callerKey is the key of a context that says who asks.
type callerKey struct{}

// Who says who makes a request that the console has let in: the name of the token, or the address.
func Who(r *http.Request) string {
	who, _ := r.Context().Value(callerKey{}).(string)
	return who
}

// admitted lets those in who show a token, where there are tokens.
func (g *guard) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := addressOf(r)
		who := "console at " + from.String()
		if g.names != nil {
			if !g.mayGuess(from, false) {
				w.Header().Set("Retry-After", "60")
				refuse(w, http.StatusTooManyRequests, "too many wrong tokens: wait a minute")
				return
			}
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			if who = g.nameOf(token); who == "" {
				if token != "" {
					g.mayGuess(from, true)
				}
				w.Header().Set("WWW-Authenticate", "Bearer")
				refuse(w, http.StatusUnauthorized, "a token is needed")
				return
			}
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
	})
}

// nameOf is whose token it is; "" for nobody's. All are compared, each in the same time.
func (g *guard) nameOf(token string) (name string) {
	digest := sha256.Sum256([]byte(token))
	for known, n := range g.names {
		if subtle.ConstantTimeCompare(known[:], digest[:]) == 1 {
			name = n
		}
	}
	return name
}

// mayGuess says whether an address may show a token, and counts that the last one was wrong.
func (g *guard) mayGuess(addr netip.Addr, wrong bool) bool {
	from := netip.PrefixFrom(addr, min(addr.BitLen(), 64)).Masked() // one customer has 64 bits of IPv6
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); now.Sub(g.began) >= guessWindow {
		g.began = now
		clear(g.guesses)
	}
	if _, known := g.guesses[from]; !known && len(g.guesses) >= mostGuessers {
		from = netip.Prefix{}
	}
	if wrong {
		g.guesses[from]++
	}
	return g.guesses[from] < mostGuesses
}

// addressOf is where a request comes from.
func addressOf(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.IPv4Unspecified()
	}
	return at.Addr().Unmap().WithZone("")
}

// refuse answers in the form of the API.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why}) // the caller has gone where this fails
}
