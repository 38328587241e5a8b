package sign

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"
)

// testKey is test-key-ed25519 of RFC 9421, appendix B.1.4.
func testKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	seed, err := base64.RawURLEncoding.DecodeString("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU")
	if err != nil {
		t.Fatal(err)
	}
	return ed25519.NewKeyFromSeed(seed)
}

const testKeyID = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"

// The published test vector of the draft (its repository's web_bot_auth_architecture_v2.json) comes out byte for byte.
func TestPublishedVector(t *testing.T) {
	s, err := New("https://signature-agent.test", testKey(t))
	if err != nil {
		t.Fatal(err)
	}
	const nonce = "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA=="
	input, signature := s.sign("sig2", "agent2", "example.com", nonce, time.Unix(1735689600, 0), time.Unix(4889289600, 0))
	if want := `sig2=("@authority" "signature-agent";key="agent2");created=1735689600;keyid="` + testKeyID +
		`";alg="ed25519";expires=4889289600;nonce="` + nonce + `";tag="web-bot-auth"`; input != want {
		t.Errorf("Signature-Input\n%s, want\n%s", input, want)
	}
	if want := "sig2=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:"; signature != want {
		t.Errorf("Signature %s, want %s", signature, want)
	}
}

// What a verifier reads of the three headers alone gives the base that was signed; the header that was given stays as it was.
func TestSign(t *testing.T) {
	key := testKey(t)
	s, err := New("https://bot.example", key)
	if err != nil {
		t.Fatal(err)
	}
	before := http.Header{"Accept": {"text/html"}}
	now := time.Unix(1_800_000_000, 0)
	seen := map[string]bool{}
	for range 3 {
		h := s.Sign(before, "site.example:8443", now)
		if len(before) != 1 || h.Get("Accept") != "text/html" {
			t.Fatalf("headers %v became %v", before, h)
		}
		params, ok := strings.CutPrefix(h.Get("Signature-Input"), "sig1=")
		if !ok || !strings.Contains(params, ";created=1800000000;") || !strings.Contains(params, ";expires=1800000300;") {
			t.Fatalf("Signature-Input %s", h.Get("Signature-Input"))
		}
		agent, ok := strings.CutPrefix(h.Get("Signature-Agent"), "sig1=")
		if !ok || agent != `"https://bot.example"` {
			t.Fatalf("Signature-Agent %s", h.Get("Signature-Agent"))
		}
		text := strings.TrimSuffix(strings.TrimPrefix(h.Get("Signature"), "sig1=:"), ":")
		signature, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		base := "\"@authority\": site.example:8443\n\"signature-agent\";key=\"sig1\": " + agent + "\n\"@signature-params\": " + params
		if !ed25519.Verify(key.Public().(ed25519.PublicKey), []byte(base), signature) {
			t.Errorf("the signature is not of\n%s", base)
		}
		seen[text] = true
	}
	if len(seen) != 3 {
		t.Errorf("three requests have %d signatures: each needs a nonce of its own", len(seen))
	}
}

func TestDirectory(t *testing.T) {
	d, err := Directory([]ed25519.PrivateKey{testKey(t)})
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "keys": [
    {
      "crv": "Ed25519",
      "kty": "OKP",
      "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs",
      "kid": "` + testKeyID + `",
      "use": "sig"
    }
  ]
}
`
	if string(d) != want {
		t.Errorf("directory\n%s\nwant\n%s", d, want)
	}
}

func TestCheckAgent(t *testing.T) {
	for agent, ok := range map[string]bool{
		"https://bot.example": true, "https://bot.example:8443": true,
		"": false, "bot.example": false, "http://bot.example": false, "https://": false, "https://bot.example/": false,
		"https://bot.example/keys": false, "https://bot.example?x": false, "https://me@bot.example": false, "https://bot.example\r\nX: y": false,
	} {
		if err := CheckAgent(agent); (err == nil) != ok {
			t.Errorf("%q: %v", agent, err)
		}
		if _, err := New(agent, testKey(t)); (err == nil) != ok {
			t.Errorf("signer for %q: %v", agent, err)
		}
	}
	if _, err := New("https://bot.example", nil); err == nil {
		t.Error("there is a signer without a key")
	}
}
