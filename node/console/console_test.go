package console

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const token = "0123456789abcdef0123456789abcdef"

// files writes a certificate for node.example and other names with its key, and a file of tokens.
func files(t *testing.T, names ...string) (cert, key, tokens string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: append(names, "node.example"), IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)},
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	write := func(name string, text []byte) string {
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, text, 0o600))
		return path
	}
	return write("cert", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		write("key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})), write("tokens", []byte("# who\nanna "+token+"\n"))
}

// api answers with who asks.
func api() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, Who(r)) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, cfg Config, api http.Handler) *Console {
	t.Helper()
	must(t, cfg.Validate())
	c, err := New(cfg, api)
	must(t, err)
	return c
}

// ask makes a request as a browser would, with headers "Name: value". Every answer, refusals too, must forbid what the page does not need.
func ask(t *testing.T, c http.Handler, method, url, from string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, url, nil)
	r.RemoteAddr = from
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	policy := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("%s: the policy lacks %s: %s", url, want, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s: %v", url, w.Header())
	}
	return w.Result()
}

const here, there = "127.0.0.1:4000", "203.0.113.9:4000"

// Only what is meant for the console is answered: no other name that leads here, and nothing that another site has the browser
// send.
func TestOnlyItsOwnPageIsAnswered(t *testing.T) {
	c := open(t, Config{Listen: ":8300"}, api())
	for _, try := range []struct {
		method, url string
		want        int
		headers     []string
	}{
		{"GET", "http://127.0.0.1:8300/", 200, nil},
		{"GET", "http://localhost:9999/page.js", 200, nil}, // a tunnel
		{"GET", "http://[::1]:8300/uplot.js", 200, nil},
		{"GET", "http://localhost/page.css", 200, nil},
		{"GET", "http://localhost/nothing", 404, nil},
		{"GET", "http://127.0.0.1:8300/api/v1/status", 200, []string{"Sec-Fetch-Site: same-origin"}},
		{"POST", "http://127.0.0.1:8300/api/v1/pause", 200, []string{"Origin: http://127.0.0.1:8300", "Sec-Fetch-Site: same-origin"}},
		{"POST", "http://127.0.0.1:8300/api/v1/pause", 200, nil}, // curl

		{"GET", "http://rebound.example:8300/", 421, nil},
		{"GET", "http://rebound.example/api/v1/status", 421, nil},
		{"GET", "http://127.0.0.1.rebound.example/", 421, nil},
		{"GET", "http://192.0.2.1:8300/", 421, nil},
		{"GET", "http://127.0.0.1:8300/", 421, []string{"Host: "}},
		{"GET", "http://127.0.0.1:8300/", 421, []string{"Host: [::1"}},
		{"GET", "http://127.0.0.1:8300/", 421, []string{"Host: localhost\x00.example"}},
		{"POST", "http://127.0.0.1:8300/api/v1/pause", 403, []string{"Origin: http://evil.example"}},
		{"POST", "http://127.0.0.1:8300/api/v1/pause", 403, []string{"Origin: null"}},
		{"POST", "http://127.0.0.1:8300/api/v1/pause", 403, []string{"Origin: http://127.0.0.1:8301"}}, // another service of this machine
		{"POST", "http://127.0.0.1:8300/api/v1/pause", 403, []string{"Sec-Fetch-Site: cross-site"}},
		{"GET", "http://127.0.0.1:8300/api/v1/stream", 403, []string{"Origin: https://evil.example"}},
		{"GET", "http://127.0.0.1:8300/api/v1/stream", 403, []string{"Sec-Fetch-Site: cross-site"}}, // an image elsewhere
		{"GET", "http://127.0.0.1:8300/api/v1/stream", 403, []string{"Sec-Fetch-Site: same-site"}},
	} {
		if got := ask(t, c, try.method, try.url, here, try.headers...); got.StatusCode != try.want {
			t.Errorf("%s %s %q: %s, want %d", try.method, try.url, try.headers, got.Status, try.want)
		}
	}
}

// With tokens nobody uses the API without one, and the log has the name that belongs to it.
func TestToken(t *testing.T) {
	cert, key, tokens := files(t)
	c := open(t, Config{Listen: "192.0.2.1:443", TokenFile: tokens, TLSCert: cert, TLSKey: key}, api())
	for _, try := range []struct {
		url, authorization string
		want               int
	}{
		{"https://node.example/", "", 200}, // the page is no secret
		{"https://192.0.2.1/api/v1/status", "Bearer " + token, 200},
		{"https://node.example/api/v1/status", "", 401},
		{"https://node.example/api/v1/status", "Bearer ", 401},
		{"https://node.example/api/v1/status", "Bearer " + token[1:], 401},
		{"https://node.example/api/v1/status", "Bearer " + token + "0", 401},
		{"https://node.example/api/v1/status", "Basic " + token, 401},
		{"https://other.example/api/v1/status", "Bearer " + token, 421},
	} {
		res := ask(t, c, "GET", try.url, there, "Authorization: "+try.authorization)
		if res.StatusCode != try.want {
			t.Errorf("%s, %q: %s, want %d", try.url, try.authorization, res.Status, try.want)
		}
		body := make([]byte, 100)
		if n, _ := res.Body.Read(body); res.StatusCode == 200 && strings.Contains(try.url, "api") && string(body[:n]) != "anna" {
			t.Errorf("%s asks as %q", try.authorization, body[:n])
		}
	}
}

// A million guesses from one address are answered ten times a minute, from a million addresses the count is bounded; who has
// the token gets in.
func TestGuesses(t *testing.T) {
	_, _, tokens := files(t)
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Config{Listen: ":8300", TokenFile: tokens}, api())
		guess := func(from, token string) int {
			return ask(t, c, "GET", "http://localhost/api/v1/status", from, "Authorization: Bearer "+token).StatusCode
		}
		heard := 0
		for i := range 20_000 {
			if guess(there, fmt.Sprint(i)) == 401 {
				heard++
			}
		}
		if heard != mostGuesses || guess(there, token) != 429 {
			t.Errorf("%d guesses of a minute were heard, want %d", heard, mostGuesses)
		}
		if got := guess(here, token); got != 200 {
			t.Errorf("another address: %d", got)
		}
		for i := range 20_000 { // one customer of IPv6
			guess(fmt.Sprintf("[2001:db8::%x:%x:1:1]:1", i>>16, i&0xffff), "wrong")
		}
		if n := len(c.guard.wrong.taken); n > 2 {
			t.Errorf("%d counts of two guessers", n)
		}
		for i := range 20_000 {
			guess(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), "wrong")
		}
		if n := len(c.guard.wrong.taken); n > mostGuessers+1 {
			t.Errorf("%d counts", n)
		}
		time.Sleep(time.Minute)
		if got := guess(there, token); got != 200 {
			t.Errorf("a minute later: %d", got)
		}
	})
}

// An address that others can reach needs a certificate and a token; files that others can read are none.
func TestConfig(t *testing.T) {
	cert, key, tokens := files(t)
	for _, c := range []struct {
		cfg  Config
		want bool
	}{
		{Config{}, true}, {Config{Listen: ":8300"}, true}, {Config{Listen: "localhost:8300"}, true}, {Config{Listen: "[::1]:8300"}, true}, {Config{Listen: "127.1.2.3:0"}, true},
		{Config{Listen: "0.0.0.0:8300", TokenFile: tokens, TLSCert: cert, TLSKey: key}, true},
		{Config{Listen: "8300"}, false}, {Config{Listen: "0.0.0.0:8300"}, false}, {Config{Listen: "[::]:8300"}, false}, {Config{Listen: "192.0.2.1:8300", TokenFile: tokens}, false},
		{Config{Listen: "node.example:8300", TLSCert: cert, TLSKey: key}, false}, {Config{Listen: "localhost.example:1"}, false}, {Config{Listen: ":1", TLSCert: cert}, false},
	} {
		if err := c.cfg.Validate(); (err == nil) != c.want {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
	if got := (Config{Listen: ":8300"}).Address(); got != "127.0.0.1:8300" {
		t.Errorf("without a host it listens on %s", got)
	}
	for _, c := range []struct {
		text, want string
		mode       os.FileMode
	}{
		{"", "has none", 0o600}, {"anna short", ":1: not a name", 0o600}, {token, ":1: not a name", 0o600},
		{"anna " + token, "open to others", 0o644}, {"anna " + token, "open to others", 0o440},
	} {
		must(t, errors.Join(os.WriteFile(tokens, []byte(c.text), 0o600), os.Chmod(tokens, c.mode)))
		if _, err := New(Config{Listen: ":1", TokenFile: tokens}, api()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("tokens %+v: %v", c, err)
		}
	}
	// So systemd passes them to a service.
	t.Setenv("CREDENTIALS_DIRECTORY", filepath.Dir(tokens))
	if _, err := New(Config{Listen: ":1", TokenFile: tokens}, api()); err != nil {
		t.Errorf("tokens of a service: %v", err)
	}
}

// A browser that is told to want TLS wants it on all ports of a name. Only a console at the usual port may say so: on the others of its
// name the node may serve its metrics and a page for web masters.
func TestTLSIsDemandedAtTheUsualPort(t *testing.T) {
	cert, key, tokens := files(t)
	secure, plain := open(t, Config{Listen: ":1", TokenFile: tokens, TLSCert: cert, TLSKey: key}, api()), open(t, Config{Listen: "127.0.0.1:0"}, api())
	for _, c := range []struct {
		console *Console
		url     string
		demands bool
	}{{secure, "https://node.example/", true}, {secure, "https://node.example:8300/", false}, {plain, "http://localhost/", false}} {
		res := ask(t, c.console, "GET", c.url, here)
		if got := res.Header.Get("Strict-Transport-Security"); res.StatusCode != 200 || (got != "") != c.demands {
			t.Errorf("%s: %s, %q", c.url, res.Status, got)
		}
	}
}

// openServer serves a console on a real connection until the test ends, and returns its address.
func openServer(t *testing.T, c *Console) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	served := make(chan error)
	go func() { served <- Serve(t.Context(), l, c.TLS, c) }()
	t.Cleanup(func() { l.Close(); <-served })
	return l.Addr().String()
}

// Over TLS the same holds on a real connection, and nothing is served without it.
func TestServe(t *testing.T) {
	cert, key, tokens := files(t)
	c := open(t, Config{Listen: "127.0.0.1:0", TokenFile: tokens, TLSCert: cert, TLSKey: key}, api())
	at := openServer(t, c)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // nobody has signed it
	res, err := client.Get("https://" + at + "/api/v1/status")
	if err != nil || res.StatusCode != 401 || res.TLS == nil {
		t.Errorf("%v, %v", res, err)
	}
	if res, err := client.Get("http://" + at + "/"); err == nil && res.StatusCode != 400 {
		t.Errorf("without TLS: %v", res.Status)
	}
}

// A certificate that is renewed is served without a restart, and its names are answered. Half a renewal, or a file that is gone, changes
// nothing. Tokens are followed, too.
func TestFilesAreFollowed(t *testing.T) {
	cert, key, tokens := files(t)
	c := open(t, Config{Listen: "127.0.0.1:0", TokenFile: tokens, TLSCert: cert, TLSKey: key}, api())
	at := openServer(t, c)
	const second = "ffffffffffffffffffffffffffffffff"
	copied := func(to, from string) {
		t.Helper()
		text, err := os.ReadFile(from)
		must(t, errors.Join(err, os.WriteFile(to, text, 0o600)))
	}
	newCert, newKey, _ := files(t, "new.example")
	for _, step := range []struct {
		name   string
		do     func()
		wrong  string // what Follow says
		served bool   // the new certificate
		token  string
	}{
		{"nothing is new", func() {}, "", false, token},
		{"the half of a renewal", func() { copied(cert, newCert) }, "private key does not match", false, token},
		{"tokens meanwhile", func() { must(t, os.WriteFile(tokens, []byte("bob "+second), 0o600)) }, "private key does not match", false, second},
		{"a file in the middle of a write", func() { must(t, os.Truncate(cert, 100)) }, "find any PEM data", false, second},
		{"a renewal by rename", func() { must(t, errors.Join(os.Rename(newCert, cert), os.Rename(newKey, key))) }, "", true, second},
		{"no file", func() { must(t, errors.Join(os.Remove(cert), os.Remove(tokens))) }, "no such file", true, second},
		{"a directory", func() { must(t, os.Mkdir(tokens, 0o700)) }, "is a directory", true, second},
	} {
		step.do()
		if err := c.Follow(); (err == nil) != (step.wrong == "") || err != nil && !strings.Contains(err.Error(), step.wrong) {
			t.Errorf("%s: %v", step.name, err)
		}
		conn, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true}) // nobody has signed it
		must(t, err)
		if err := conn.ConnectionState().PeerCertificates[0].VerifyHostname("new.example"); (err == nil) != step.served {
			t.Errorf("%s: served as new.example: %v", step.name, err)
		}
		must(t, conn.Close())
		if got := ask(t, c, "GET", "https://new.example/", here).StatusCode; (got == 200) != step.served {
			t.Errorf("%s: new.example is answered with %d", step.name, got)
		}
		for _, word := range []string{token, second} {
			got := ask(t, c, "GET", "https://node.example/api/v1/status", here, "Authorization: Bearer "+word).StatusCode
			if (got == 200) != (word == step.token) {
				t.Errorf("%s: %s gets %d", step.name, word, got)
			}
		}
	}
}
