package fetch

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"proxima/fetch/sign"
)

// accept is the Accept header of pages.
const accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// Deps holds what a client needs from outside.
type Deps struct {
	// Dial connects to an IP address and port; nil means a net.Dialer. The guard checks the address before and after.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// HasRoute reports whether this machine has a route to an address; nil asks the system. The client calls it after a connect
	// found an address unreachable.
	HasRoute func(netip.Addr) bool
	// IPv6 says that names are looked up for their IPv6 addresses, too. A machine with a route to those alone is not cut off then.
	IPv6 bool
	// OwnAddrs reads the addresses of this machine, each with the length of its network; nil asks the system. The client calls it
	// at most once a minute.
	OwnAddrs func() ([]netip.Prefix, error)
	// RootCAs are the trusted authorities; nil means the system's.
	RootCAs *x509.CertPool
}

// Client downloads. It is safe for concurrent use.
type Client struct {
	cfg      Config
	deps     Deps
	guard    guard
	tls      *tls.Config
	chains   *chains
	header   http.Header // shared by all requests; never changes
	signer   atomic.Pointer[sign.Signer]
	decoders decoders
	buffers  buffers
	working  sync.Pool // of *working
	large    *largeBudget
	ctx      context.Context // ends at Close, and with it every connection
	cancel   context.CancelFunc

	mu      sync.Mutex
	servers *simplelru.LRU[netip.Addr, *server] // the most recently used ones
}

// New makes a client. Its error names the field of cfg that is wrong.
func New(cfg Config, deps Deps) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("fetch config: %w", err)
	}
	if deps.OwnAddrs == nil {
		deps.OwnAddrs = machineAddrs
	}
	own, err := newOwnAddrs(deps.OwnAddrs)
	if err != nil {
		return nil, err
	}
	allow, _ := cfg.allowed() // Validate has parsed them
	if deps.Dial == nil {
		// No keep-alive probes: idle connections live only seconds, and a dead one costs just another connect.
		deps.Dial = (&net.Dialer{KeepAlive: -1}).DialContext
	}
	if deps.HasRoute == nil {
		deps.HasRoute = hasRoute
	}
	c := &Client{
		cfg:   cfg,
		deps:  deps,
		guard: guard{allow: allow, own: own, identified: cfg.identified()},
		// Some servers ask for a certificate of the visitor in a second handshake, and do without.
		tls:    &tls.Config{NextProtos: []string{"http/1.1"}, CipherSuites: cipherSuites(), Renegotiation: tls.RenegotiateOnceAsClient},
		header: http.Header{"User-Agent": {cfg.agent(cfg.UserAgent)}, "Accept": {accept}, "Accept-Encoding": {acceptEncoding}},
		chains: newChains(deps.RootCAs),
		large:  newLargeBudget(cfg.LargeBodies),
	}
	retire := func(_ netip.Addr, s *server) { go s.retire() } // outside c.mu
	if c.servers, err = simplelru.NewLRU(cfg.MaxServers, retire); err != nil {
		return nil, fmt.Errorf("fetch config: %w", err)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if cfg.From != "" {
		c.header.Set("From", cfg.From)
	}
	if cfg.AcceptLanguage != "" {
		c.header.Set("Accept-Language", cfg.AcceptLanguage)
	}
	if !cfg.TLSVerify {
		c.tls.InsecureSkipVerify, c.tls.MinVersion = true, tls.VersionTLS10
	}
	return c, nil
}

// cipherSuites returns those of crypto/tls, and the old ones with RSA that browsers also offer: some servers know no others. A server
// that knows better ones chooses among those.
func cipherSuites() []uint16 {
	ids := []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_256_CBC_SHA}
	for _, s := range tls.CipherSuites() {
		ids = append(ids, s.ID)
	}
	return ids
}

// SetKey signs all later requests with key, as Config.SignatureAgent says. If that is empty, SetKey does nothing.
func (c *Client) SetKey(key ed25519.PrivateKey) error {
	if c.cfg.SignatureAgent == "" {
		return nil
	}
	signer, err := sign.New(c.cfg.SignatureAgent, key)
	if err != nil {
		return err
	}
	c.signer.Store(signer)
	return nil
}

// Close closes every connection. Running and later downloads fail with class Canceled.
func (c *Client) Close() { c.cancel() }

// Request is one download.
type Request struct {
	// URL is an http or https URL as the WHATWG URL standard serialises it; path and query are sent byte for byte.
	URL string
	// Addr is the only address to dial, at the port of URL.
	Addr netip.Addr
	// Fresh forces a new connection, and closes the idle ones to the server.
	Fresh bool
	// Accept is the Accept header; empty asks for pages.
	Accept string
	// IfNoneMatch and IfModifiedSince are the ETag and Last-Modified of a known copy, if any; the server may then answer 304.
	IfNoneMatch     string
	IfModifiedSince time.Time
	// Agent replaces Config.UserAgent unless it is empty.
	Agent string
	// Header has further header fields, which replace those of the same names. It is not changed.
	Header http.Header
	// Wanted, if set, is called once the head of the answer is there, with the length of the body or -1 if unknown. If it returns
	// an error, the body is not read, the connection is closed, and the class is Unwanted.
	Wanted func(status int, header http.Header, length int64) error
	// MaxWire above 0 cuts the body on the wire there, if that is before MaxBodyBytes.
	MaxWire int64
	// Files, if set, is read instead of asking a server; Addr is then unused.
	Files *Files
	// Capture keeps the bytes of the exchange, for WARC.
	Capture bool
	// MaxBody above 0 replaces both MaxBodyBytes and MaxDecodedBytes, in bytes. A longer body is cut without an error, on the wire
	// or decoded.
	MaxBody int64
	// Gate says whether the server may be asked at this instant; nil means always. It is called before each new connection, and
	// again right before the first bytes of the request go out, on every connection, including reused ones and those of
	// retries. It must not block. If it returns an error, no byte of the request is written, and the connection is closed.
	Gate func() error
	// Until, unless zero, is when the right to ask the server ends: connects and handshakes are given up then, and no request is
	// written later. An answer may take longer.
	Until time.Time
}

// limit returns where the body of an answer is cut on the wire.
func (c *Client) limit(req *Request) int64 {
	limit := cmp.Or(req.MaxBody, c.cfg.MaxBodyBytes)
	if req.MaxWire > 0 {
		limit = min(limit, req.MaxWire)
	}
	return limit
}

// headerOf returns the header of a request.
func (c *Client) headerOf(req *Request) http.Header {
	if req.Accept == "" && req.Agent == "" && len(req.Header) == 0 && req.IfNoneMatch == "" && req.IfModifiedSince.IsZero() {
		return c.header
	}
	h := c.header.Clone()
	if req.Accept != "" {
		h.Set("Accept", req.Accept)
	}
	if req.Agent != "" {
		h.Set("User-Agent", c.cfg.agent(req.Agent))
	}
	maps.Copy(h, req.Header)
	if req.IfNoneMatch != "" {
		h.Set("If-None-Match", req.IfNoneMatch)
	}
	if !req.IfModifiedSince.IsZero() {
		h.Set("If-Modified-Since", req.IfModifiedSince.UTC().Format(http.TimeFormat))
	}
	return h
}

// Result is how a download ended. Everything but Body and the raw bytes stays valid after Release.
type Result struct {
	// Class is OK if Err is nil, else it says how the download failed.
	Class Class
	Err   error
	// Sent says that bytes of the request may have reached the server.
	Sent bool
	// Status is the HTTP status; 0 without a response head.
	Status int
	// Protocol is "HTTP/1.1", "HTTP/2.0", …
	Protocol string
	// Header is that of the answer. Of several Content-Types it has the one that counts.
	Header http.Header
	// Location is where a redirect (3xx) points, as the server wrote it, but with bytes beyond ASCII percent-encoded, as browsers do it:
	// they may be in any encoding. Redirects are never followed.
	Location string
	// Body is the decoded body, in a buffer of the client: it must not be read after Release. A download that failed midway keeps
	// what had come, except for a bomb, which keeps nothing.
	Body []byte
	// Truncated says why the body was not read to its end, even if only padding behind a coded page is missing. Its words are those of
	// WARC-Truncated: "length" (a limit of ours), "time", "disconnect", or empty.
	Truncated string
	// WireBytes is the number of bytes of the encoded body that were read.
	WireBytes int64
	Timing    Timing
	// RawRequest and RawHead are the heads of the exchange if Capture is set: for HTTP/1.1 as they crossed the connection (without
	// informational ones, and with lines that end in CR LF), for HTTP/2 in the form of HTTP/1.1. RawBody is the encoded body.
	RawRequest, RawHead, RawBody []byte

	buffers *buffers
	buffer  *[]byte // of Body
	raw     *[]byte // of RawBody
	wire    *wire
}

// Release returns the memory of Body. Call it once for each download, not for copies of the Result. A large body counts against
// Config.LargeBodies until then.
func (r *Result) Release() {
	if r.wire != nil {
		r.wire.releaseBody()
	}
	if r.buffer != nil {
		r.buffers.put(r.buffer)
	}
	if r.raw != nil {
		r.buffers.put(r.raw)
	}
	r.wire, r.buffer, r.raw, r.Body, r.RawRequest, r.RawHead, r.RawBody = nil, nil, nil, nil, nil, nil, nil
}

// fail makes the download a failure.
func (r *Result) fail(class Class, err error) { r.Class, r.Err = class, err }

// Get downloads one URL. It returns within TotalTimeout. Failures are in the Result.
func (c *Client) Get(ctx context.Context, req Request) Result {
	start := time.Now()
	req.MaxBody = min(max(req.MaxBody, 0), 1<<40) // leaves room for sums
	get := c.get
	if req.Files != nil {
		get = c.getFile
	}
	res, err := get(ctx, req, start)
	if err != nil {
		res.fail(classOf(ctx, err), err)
	}
	if res.Err != nil {
		if c.ctx.Err() != nil {
			res.Class = Canceled
		}
		res.Err = fmt.Errorf("get %.200s: %w", req.URL, res.Err)
	}
	if res.Timing.Start.IsZero() {
		res.Timing = Timing{Start: start, Total: time.Since(start)}
	}
	return res
}

// get is Get from a server. It returns an error only for requests that were never begun. Other failures are in the Result.
func (c *Client) get(ctx context.Context, req Request, start time.Time) (res Result, err error) {
	u, err := target(req.URL)
	if err != nil {
		return res, &failure{Other, err}
	}
	if err := checkPort(u); err != nil {
		return res, err
	}
	if err := c.guard.check(req.Addr, start); err != nil {
		return res, err
	}
	addr := req.Addr.Unmap()
	server, err := c.server(addr)
	if err != nil {
		return res, err
	}
	if req.Fresh {
		// No other request can take a connection of a server that only this one knows of. At the end it replaces the old one.
		server = c.newServer(addr, server.h2 != nil)
	}

	x := &exchange{cfg: &c.cfg, start: start, gate: req.Gate, until: req.Until, capture: req.Capture}
	defer x.within(ctx)()
	ctx = x.ctx
	res.buffers = &c.buffers
	limit := c.limit(&req)
	hr := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: c.headerOf(&req)}
	if signer := c.signer.Load(); signer != nil {
		hr.Header = signer.Sign(hr.Header, u.Host, start)
	}

	x.watch()
	resp, err := server.roundTrip(x, hr)
	if err != nil {
		res.fail(classOf(ctx, err), reason(ctx, err))
	} else {
		x.headComplete()
		c.read(ctx, &res, req, hr, resp, x, limit)
	}
	res.Timing = x.end()
	server.leave()
	if res.Sent = x.sent; x.refused != nil {
		res.fail(x.refused.class, x.refused)
	}
	if res.RawRequest == nil {
		res.RawRequest, res.RawHead = x.rawRequest, x.rawHead
	}
	// Over HTTP/2 net/http ends only the stream, and would go on using a connection that may be dead, or is being closed for want of a right.
	older := wantsHTTP1(res.Err)
	anew := x.overHTTP2() && (res.Class.late() || x.refused != nil || older)
	if anew {
		server = c.newServer(addr, !older)
	}
	if anew || req.Fresh {
		c.adopt(server)
	}
	return res, nil
}

var beyondASCII = regexp.MustCompile(`[^\x00-\x7f]`)

// readHead takes the head of an answer into the result. It returns false if the body is not to be read, and says why in the result.
func (r *Result) readHead(resp *http.Response, wanted func(status int, header http.Header, length int64) error) bool {
	r.Status, r.Protocol, r.Header = resp.StatusCode, resp.Proto, resp.Header
	if kind := mediaType(resp.Header["Content-Type"]); kind != "" && kind != resp.Header.Get("Content-Type") {
		r.Header = resp.Header.Clone() // what is captured stays as it came
		r.Header.Set("Content-Type", kind)
	}
	if resp.StatusCode/100 == 3 {
		r.Location = beyondASCII.ReplaceAllStringFunc(resp.Header.Get("Location"), url.PathEscape)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 999 { // net/http passes on "000" and 101, and over HTTP/2 any number
		r.fail(Protocol, fmt.Errorf("status %d", resp.StatusCode))
		if resp.StatusCode != http.StatusSwitchingProtocols {
			r.Status = 0
		}
		return false
	}
	if wanted != nil {
		if err := wanted(resp.StatusCode, r.Header, resp.ContentLength); err != nil {
			r.fail(Unwanted, err)
			return false
		}
	}
	return true
}

// read takes the head and the body of an answer into res.
func (c *Client) read(ctx context.Context, res *Result, req Request, hr *http.Request, resp *http.Response, x *exchange, limit int64) {
	defer resp.Body.Close()
	if !res.readHead(resp, req.Wanted) {
		return
	}
	w := &wire{body: resp.Body, limit: limit, watch: x, budget: c.large}
	if req.Capture {
		res.raw = c.buffers.get(resp.ContentLength)
		w.keep = res.raw
		defer func() { res.RawBody = *w.keep }()
		if x.overHTTP2() || req.Files != nil {
			res.RawRequest, res.RawHead = rawHeads(hr, resp)
		}
	}
	res.buffer = c.buffers.get(resp.ContentLength)
	res.wire = w
	err := c.decode(res.buffer, w, resp.Header["Content-Encoding"], cmp.Or(req.MaxBody, c.cfg.MaxDecodedBytes))
	if err == nil && w.end == nil {
		w.drain()
	}
	res.Body, res.WireBytes = *res.buffer, w.n
	res.endBody(ctx, w, err, req.MaxBody == 0)
}

// endBody says how a body ended: on the wire by w.end, and in its codings by err (Client.decode). bombs says that a body which decodes to more
// than its limit is a decompression bomb, and not cut because the caller wants no more.
func (r *Result) endBody(ctx context.Context, w *wire, err error, bombs bool) {
	switch {
	case err == nil && w.end == io.EOF:
	case err == nil && w.end == nil, w.end == errCut:
		r.Truncated = "length"
	case w.end != nil && w.end != io.EOF:
		class := classOf(ctx, w.end)
		if err != nil {
			r.fail(class, fmt.Errorf("read body: %w", reason(ctx, w.end)))
		} else if !w.padded { // all that came is the page: only its framing is wrong
			break
		}
		r.Truncated = "disconnect"
		switch class {
		case TimeoutTotal, TooSlow, Canceled:
			r.Truncated = "time"
		}
	case err == errCut && bombs:
		r.fail(Bomb, fmt.Errorf("body of %d bytes decodes to more than %d", w.n, len(r.Body)))
		r.Truncated = "length"
		r.Body = nil
	case err == errCut:
		r.Truncated = "length"
	case err != nil:
		r.fail(Decode, fmt.Errorf("decode body: %w", err))
		if w.end == nil {
			r.Truncated = "length" // nobody reads on
		}
	}
}

// decode reads w into buf through the codings named in the header. It returns nil at the end of the content, errCut at limit or at
// that of w, else what went wrong on the wire or in a coding.
func (c *Client) decode(buf *[]byte, w *wire, header []string, limit int64) error {
	list, err := codings(header)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		err = w.readAll(buf, w, w.limit)
	} else if flaw := Safely(func() { err = c.decoders.read(list, buf, w, limit) }); flaw != nil {
		w.releaseWindow()
		err = flaw
	}
	switch {
	case err == io.EOF, w.n == 0 && w.end == io.EOF: // an empty body has no coding, whatever the header says
		return nil
	case err != nil && err.Error() == "brotli: excessive input": // padding, which browsers ignore; the error is not exported
		w.padded = true
		return nil
	}
	return err
}
