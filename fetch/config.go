package fetch

import (
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"proxima/fetch/sign"
)

// Config bounds a download and says who asks. All times are bounds on one request, all sizes on one response.
type Config struct {
	// UserAgent is the product and version of the User-Agent header (RFC 9110, section 10.1.5). With fetch.contact it
	// becomes `Proxima/1.0 (+https://example.org/bot)`.
	UserAgent string `toml:"user_agent"`
	// Contact is the http(s) URL of a page that tells site owners who crawls and why. Without contact and from the node asks
	// no public address.
	Contact string `toml:"contact"`
	// From is the mail address of the From header (RFC 9110, section 10.1.2).
	From string `toml:"from"`
	// SignatureAgent is the https URL of the host that publishes your keys (proxima keygen -directory). All requests are
	// then signed with a key derived from the cluster secret (Web Bot Auth, RFC 9421). Empty: requests are not signed.
	SignatureAgent string `toml:"signature_agent"`
	// AcceptLanguage is the Accept-Language header. Empty: none is sent, and the server chooses.
	AcceptLanguage string `toml:"accept_language"`

	// ConnectTimeout bounds the TCP connect.
	ConnectTimeout time.Duration `toml:"-"`
	// TLSTimeout bounds the TLS handshake that follows.
	TLSTimeout time.Duration `toml:"-"`
	// HeaderTimeout bounds the time from the request written (or from the connection given, where the server does not even read) to the
	// first byte of the answer. An informational answer (1xx) is none: after it the whole head must come in this time.
	HeaderTimeout time.Duration `toml:"-"`
	// TotalTimeout limits a whole request, including connect and TLS.
	TotalTimeout time.Duration `toml:"total_timeout"`
	// MinRate is the least body speed, in bytes a second on the wire, averaged over each GraceTime: the end of slow
	// drips. 0 leaves them to TotalTimeout. It is 16 times as much for those whose place among LargeBodies others wait for.
	MinRate int64 `toml:"-"`
	// GraceTime is the window of MinRate, and the longest time from the first byte to the end of the response head.
	GraceTime time.Duration `toml:"-"`

	// MaxBodyBytes is the longest body on the wire, in bytes. A longer one is cut there without an error, and its connection
	// is closed.
	MaxBodyBytes int64 `toml:"max_body_bytes"`
	// MaxDecodedBytes is the longest decoded body, in bytes; beyond it a body counts as a decompression bomb.
	MaxDecodedBytes int64 `toml:"-"`
	// LargeBodies is how many bodies beyond 1 MiB, decoded or captured, are in memory at a time, over all servers; the others wait. Each
	// needs up to four times MaxDecodedBytes, and windows of decoders beyond 1 MiB take up to 16 MiB for each.
	LargeBodies int `toml:"-"`
	// MaxHeaderBytes is the largest response head, informational (1xx) heads included, in bytes.
	MaxHeaderBytes int64 `toml:"-"`

	// IdleConns is how many idle connections are kept for one server, over all its hosts. Over HTTP/2 each host keeps one, however many
	// there are. Each costs a file descriptor and some KiB of memory, until IdleTimeout even if the server has closed it.
	IdleConns int `toml:"-"`
	// IdleTimeout is how long an idle connection is kept. It should exceed the gap between two requests to a server.
	IdleTimeout time.Duration `toml:"-"`
	// MaxServers is how many servers' pools are kept; the least recently used goes first. Each costs about 5 KiB
	// besides its connections.
	MaxServers int `toml:"-"`

	// HTTP2 offers HTTP/2 to https servers. It saves header bytes; captures of HTTP/1.1 show what was sent.
	HTTP2 bool `toml:"http2"`
	// TLSVerify refuses servers whose certificate cannot be verified. Without it sites with broken certificates (and TLS 1.0
	// or 1.1) can be crawled, but anyone on the path can forge pages.
	TLSVerify bool `toml:"tls_verify"`
	// AllowPrefixes are address ranges (CIDR) that the guard lets through although they are not public. Pages that you crawl
	// can then make the node fetch anything in them.
	AllowPrefixes []string `toml:"allow_prefixes"`

	// ContentTypes are the wanted types, such as "text/html" or "text/*". Of other pages only the head is read. Pages
	// without a type are read. Empty: all types are wanted.
	ContentTypes []string `toml:"content_types"`
	// MaxSize is the size of the largest wanted page, in bytes on the wire; 0 means any. If Content-Length says more, only
	// the head is read; without Content-Length at most this much is read.
	MaxSize int64 `toml:"max_size"`
}

// Default gives the values that suit the open web. Contact and From stay empty: they are the operator's to give.
func Default() Config {
	return Config{
		UserAgent:       "Proxima/1.0",
		ConnectTimeout:  10 * time.Second,
		TLSTimeout:      10 * time.Second,
		HeaderTimeout:   20 * time.Second,
		TotalTimeout:    120 * time.Second,
		MinRate:         1024,
		GraceTime:       10 * time.Second,
		MaxBodyBytes:    10 << 20,
		MaxDecodedBytes: 20 << 20,
		LargeBodies:     8,
		MaxHeaderBytes:  64 << 10,
		IdleConns:       2,
		IdleTimeout:     60 * time.Second,
		MaxServers:      4096,
		HTTP2:           true,
		TLSVerify:       true,
		ContentTypes:    []string{},
	}
}

// Validate reports the first key of the file that cannot work.
func (c Config) Validate() error {
	if err := CheckAgent(c.UserAgent); err != nil {
		return fmt.Errorf("user_agent %w", err)
	}
	if c.SignatureAgent != "" {
		if err := sign.CheckAgent(c.SignatureAgent); err != nil {
			return fmt.Errorf("signature_agent: %w", err)
		}
	}
	if !httpguts.ValidHeaderFieldValue(c.AcceptLanguage) {
		return fmt.Errorf("accept_language %q: not a header value", c.AcceptLanguage)
	}
	if err := CheckTypes(c.ContentTypes); err != nil {
		return fmt.Errorf("content_types: %w", err)
	}
	if c.Contact != "" {
		u, err := url.Parse(c.Contact)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
			!httpguts.ValidHeaderFieldValue(c.Contact) || strings.ContainsAny(c.Contact, "() ") {
			return fmt.Errorf("contact %q: want an http or https URL", c.Contact)
		}
	}
	if c.From != "" {
		if a, err := mail.ParseAddress(c.From); err != nil || a.Address != c.From {
			return fmt.Errorf("from %q: want a bare mail address", c.From)
		}
	}
	switch {
	case c.TotalTimeout <= 0:
		return fmt.Errorf("total_timeout is %v: must be above zero", c.TotalTimeout)
	case c.MaxBodyBytes < 1 || c.MaxBodyBytes > 1<<31:
		return fmt.Errorf("max_body_bytes is %d: must be between 1 and %d", c.MaxBodyBytes, 1<<31)
	case c.MaxSize < 0 || c.MaxSize > 1<<31:
		return fmt.Errorf("max_size is %d: must be between 0 and %d", c.MaxSize, 1<<31)
	}
	_, err := c.allowed()
	return err
}

// allowed returns the address ranges that the guard lets through.
func (c Config) allowed() (prefixes []netip.Prefix, err error) {
	for _, s := range c.AllowPrefixes {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("allow_prefixes: %q is no address prefix, such as 10.0.0.0/8 or 192.0.2.1/32", s)
		}
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}

// identified reports whether webmasters can find out who asks.
func (c Config) identified() bool { return c.Contact != "" && c.From != "" }

// agent is the User-Agent header of a product.
func (c Config) agent(product string) string {
	if c.Contact == "" {
		return product
	}
	return product + " (+" + c.Contact + ")"
}

// CheckAgent fails unless agent is a product token that a robots.txt can name (RFC 9309, with digits and dots), or product/version.
func CheckAgent(agent string) error {
	product, version, _ := strings.Cut(agent, "/")
	const letters = "abcdefghijklmnopqrstuvwxyz"
	if product == "" || strings.Trim(product, letters+strings.ToUpper(letters)+"0123456789-_.") != "" || version != "" && !httpguts.ValidHeaderFieldName(version) {
		return fmt.Errorf("%q: want a product token of letters, digits, -, _ and ., or product/version", agent)
	}
	return nil
}

// CheckTypes fails unless each is a media type like "text/html" or a range like "text/*".
func CheckTypes(types []string) error {
	for _, t := range types {
		main, sub, ok := strings.Cut(t, "/")
		if !ok || !httpguts.ValidHeaderFieldName(main) || !httpguts.ValidHeaderFieldName(sub) || main == "*" {
			return fmt.Errorf("%q is no media type", t)
		}
	}
	return nil
}
