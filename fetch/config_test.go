package fetch

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	least, most := Default(), Default()
	least.TotalTimeout, least.MaxBodyBytes, least.MaxSize = 1, 1, 0
	most.MaxBodyBytes, most.MaxSize = 1<<31, 1<<31
	for _, good := range []Config{Default(), least, most} {
		if err := good.Validate(); err != nil {
			t.Error(err)
		}
	}
	for field, change := range map[string]func(*Config){
		"user_agent":      func(c *Config) { c.UserAgent = "a b" },
		"user_agent ":     func(c *Config) { c.UserAgent = "" },
		"accept_language": func(c *Config) { c.AcceptLanguage = "a\nb" },
		"contact":         func(c *Config) { c.Contact = "mailto:a@b.example" },
		"contact  ":       func(c *Config) { c.Contact = "http://a.example/a b" },
		"contact   ":      func(c *Config) { c.Contact = "http://a.example/(a" },
		"contact ":        func(c *Config) { c.Contact = "http://a.example/) evil" },
		" contact":        func(c *Config) { c.Contact = "http://" },
		"  contact":       func(c *Config) { c.Contact = "ftp://a.example/" },
		"from":            func(c *Config) { c.From = "Bot <bot@example.org>" },
		"total_timeout":   func(c *Config) { c.TotalTimeout = 0 },
		"signature_agent": func(c *Config) { c.SignatureAgent = "http://a b" },
		"content_types":   func(c *Config) { c.ContentTypes = []string{"text"} },
		"max_body_bytes":  func(c *Config) { c.MaxBodyBytes = 1<<31 + 1 },
		"max_body_bytes ": func(c *Config) { c.MaxBodyBytes = 0 },
		"max_size":        func(c *Config) { c.MaxSize = 1<<31 + 1 },
		"max_size ":       func(c *Config) { c.MaxSize = -1 },
		"allow_prefixes":  func(c *Config) { c.AllowPrefixes = []string{"10.0.0.0"} },
	} {
		cfg := Default()
		change(&cfg)
		if _, err := New(cfg, Deps{}); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(field)) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Only both a contact and a mail address tell web masters who asks.
func TestIdentified(t *testing.T) {
	cfg := Default()
	for _, known := range []struct {
		contact, from string
		want          bool
	}{{"", "", false}, {"http://a.example/", "", false}, {"", "a@b.example", false}, {"http://a.example/", "a@b.example", true}} {
		if cfg.Contact, cfg.From = known.contact, known.from; cfg.identified() != known.want || cfg.Validate() != nil {
			t.Errorf("%+v: %v", known, !known.want)
		}
	}
}

func TestNamesOfAgentsAndTypes(t *testing.T) {
	for agent, good := range map[string]bool{"a": true, "a/1": true, "": false, "a b": false, "a/ 1": false, "/1": false, "a/": true, "Foo-2_b.c/1+x": true,
		"a+b": false, "*": false, "\u212aelvin": false} { // which no robots.txt can name
		if err := CheckAgent(agent); (err == nil) != good {
			t.Errorf("%q: %v", agent, err)
		}
	}
	for of, good := range map[string]bool{"text/html": true, "text/*": true, "text": false, "*/*": false, "text/": false, "/html": false, "te xt/html": false, "text/ht ml": false} {
		if err := CheckTypes([]string{"a/b", of}); (err == nil) != good {
			t.Errorf("%q: %v", of, err)
		}
	}
}

func TestNetwork(t *testing.T) {
	for class, want := range map[Class]bool{
		OK: false, Refused: true, Unreachable: true, TimeoutConnect: true, TimeoutTLS: true, TLS: true, TimeoutHeader: true,
		TimeoutTotal: false, TooSlow: false, Reset: true, EOF: true, Protocol: false, HeaderTooLarge: false, Decode: false,
		Bomb: false, ForbiddenAddress: false, NoIdentity: false, Canceled: false, Other: false,
	} {
		if class.Network() != want {
			t.Errorf("%q: %v", class, !want)
		}
	}
}

// The defaults are polite and bounded. A change of one is a change for every operator.
func TestDefaults(t *testing.T) {
	want := Config{UserAgent: "Proxima/1.0", ConnectTimeout: 10 * time.Second, TLSTimeout: 10 * time.Second, HeaderTimeout: 20 * time.Second,
		TotalTimeout: 2 * time.Minute, MinRate: 1024, GraceTime: 10 * time.Second, MaxBodyBytes: 10_485_760, MaxDecodedBytes: 20_971_520, LargeBodies: 8,
		MaxHeaderBytes: 65_536, IdleConns: 2, IdleTimeout: time.Minute, MaxServers: 4096, HTTP2: true, TLSVerify: true, ContentTypes: []string{}}
	if got := Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
