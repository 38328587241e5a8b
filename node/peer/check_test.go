package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"proxima/node/wire"
)

// reachable is a handler that says whether it was called, and by whom.
type reachable struct {
	Handler
	reached func(*wire.Header)
}

func (h reachable) Deliver(_ context.Context, _ string, r *wire.DeliverRequest) (*wire.DeliverResponse, error) {
	h.reached(r.Header)
	return &wire.DeliverResponse{}, nil
}

func (h reachable) Store(_ context.Context, _ string, r *wire.StoreRequest) (*wire.StoreResponse, error) {
	h.reached(r.Header)
	return &wire.StoreResponse{}, nil
}

// direct is a server without a network, called as if by a node with a certificate for a.
type direct struct {
	server  *Server
	leaf    *x509.Certificate
	reached *wire.Header
	told    []Refusal
}

func newDirect(t testing.TB) *direct {
	t.Helper()
	cfg, d := Default(), &direct{}
	cfg.MessageMiB = 1
	var err error
	d.server, err = NewServer(cfg, ServerDeps{ID: "b", Run: "test", Secret: NewSecret([32]byte{1}),
		Handler: reachable{reached: func(h *wire.Header) { d.reached = h }},
		Refused: func(r Refusal) { d.told = append(d.told, r) }})
	if err != nil {
		t.Fatal(err)
	}
	id, err := newCredentials(NewSecret([32]byte{1}), "a")
	if err != nil {
		t.Fatal(err)
	}
	if d.leaf, err = x509.ParseCertificate(id.leaf.Certificate[0]); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *direct) call(method, path, kind, encoding string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", bytes.NewReader(body))
	r.URL.Path = path
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Content-Encoding", encoding)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{d.leaf}}
	w := httptest.NewRecorder()
	d.reached = nil
	d.server.ServeHTTP(w, r)
	return w
}

func (d *direct) failures() (n uint64) {
	for _, v := range d.server.Counts().Failures {
		n += v
	}
	return n
}

func encoded(t testing.TB, h *wire.Header) []byte {
	t.Helper()
	body, err := proto.Marshal(&wire.DeliverRequest{Header: h, Links: []*wire.Link{{Url: "http://a/"}}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestWhatIsNoCallIsRefusedAndCounted(t *testing.T) {
	good := func() *wire.Header { return &wire.Header{Version: Version, Run: "test", Sender: "a", Boot: 1, Id: 1} }
	with := func(f func(*wire.Header)) []byte {
		h := good()
		f(h)
		return encoded(t, h)
	}
	const deliver, proto = "/proxima.v1.Overlay/Deliver", "application/proto"
	for _, c := range []struct {
		name, method, path, kind, encoding string
		body                               []byte
		want                               string // "" is carried out
	}{
		{"good", "POST", deliver, proto, "", encoded(t, good()), ""},
		{"compressed", "POST", deliver, proto, "zstd", compressed(t, encoded(t, good())), ""},
		{"a later version", "POST", deliver, proto, "", with(func(h *wire.Header) { h.Version = Version + 1 }), KindVersion},
		{"the version before", "POST", deliver, proto, "", with(func(h *wire.Header) { h.Version = Version - 1 }), KindVersion},
		{"another run", "POST", deliver, proto, "", with(func(h *wire.Header) { h.Run = "tests" }), KindRun},
		{"another sender", "POST", deliver, proto, "", with(func(h *wire.Header) { h.Sender = "c" }), KindSender},
		{"no sender", "POST", deliver, proto, "", with(func(h *wire.Header) { h.Sender = "" }), KindSender},
		{"no header", "POST", deliver, proto, "", encoded(t, nil), KindVersion},
		{"empty", "POST", deliver, proto, "", nil, KindVersion},
		{"garbage", "POST", deliver, proto, "", []byte{0x0a, 0xff, 1, 2, 3}, KindMalformed},
		{"half a message", "POST", deliver, proto, "", encoded(t, good())[:20], KindMalformed},
		{"not UTF-8", "POST", deliver, proto, "",
			bytes.ReplaceAll(encoded(t, good()), []byte("http"), []byte("\xff\xfe\xfd\xfc")),
			KindMalformed},
		{"not zstd", "POST", deliver, proto, "zstd", encoded(t, good()), KindMalformed},
		{"gzip", "POST", deliver, proto, "gzip", encoded(t, good()), KindProcedure},
		{"oversized", "POST", deliver, proto, "", make([]byte, 3<<20), KindOversized},
		{"a bomb", "POST", deliver, proto, "zstd", compressed(t, make([]byte, 64<<20)), KindOversized},
		{"gRPC", "POST", deliver, "application/grpc+proto", "", encoded(t, good()), KindProcedure},
		{"JSON", "POST", deliver, "application/json", "", []byte("{}"), KindProcedure},
		{"GET", "GET", deliver, proto, "", nil, KindProcedure},
		{"another call", "POST", "/proxima.v1.Overlay/Nothing", proto, "", encoded(t, good()), KindProcedure},
		{"a long call", "POST", "/proxima.v1.Overlay/" + strings.Repeat("\n", 10_000), proto, "", encoded(t, good()), KindProcedure},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDirect(t)
			w := d.call(c.method, c.path, c.kind, c.encoding, c.body)
			if (d.reached != nil) != (c.want == "") || (w.Code == http.StatusOK) != (c.want == "") {
				t.Errorf("%d %s; the handler was given %v", w.Code, w.Body, d.reached)
			}
			n := d.server.Counts().Failures
			switch {
			case c.want == "" && (len(n) != 0 || len(d.told) != 0):
				t.Errorf("counted %v, told %v", n, d.told)
			case c.want != "" && (len(n) != 1 || n[c.want] != 1 || len(d.told) != 1 || d.told[0].Kind != c.want ||
				d.told[0].Peer != "a" || d.told[0].Reason == "" || len(d.told[0].Procedure+d.told[0].Reason) > maxReason):
				t.Errorf("counted %v, told %+v, want %s", n, d.told, c.want)
			}
		})
	}
}

// zeros is a body without an end.
type zeros struct{ read int }

func (z *zeros) Read(p []byte) (int, error) {
	if z.read += len(p); z.read > 1<<30 {
		return 0, io.EOF
	}
	clear(p)
	return len(p), nil
}

func TestBodiesAreNotReadToTheEnd(t *testing.T) {
	d, z := newDirect(t), &zeros{}
	r := httptest.NewRequest(http.MethodPost, "/proxima.v1.Overlay/Deliver", z)
	r.Header.Set("Content-Type", "application/proto")
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{d.leaf}}
	w := httptest.NewRecorder()
	d.server.ServeHTTP(w, r)
	if z.read > 4<<20 || d.server.Counts().Failures[KindOversized] != 1 {
		t.Errorf("%d bytes were read, %v", z.read, d.server.Counts().Failures)
	}
}

// Who trusts the cluster is not of the cluster.
func TestServerVerifiesCertificates(t *testing.T) {
	ours, err := newCredentials(NewSecret([32]byte{1}), "b")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		secret byte
		id     string
		ok     bool
	}{{"ours", 1, "a", true}, {"of another cluster", 2, "a", false}, {"none", 0, "", false}} {
		t.Run(c.name, func(t *testing.T) {
			sessions := tls.NewLRUClientSessionCache(1)
			config := &tls.Config{RootCAs: ours.ca, ServerName: "b", NextProtos: []string{"h2"}, ClientSessionCache: sessions}
			if c.id != "" {
				theirs, err := newCredentials(NewSecret([32]byte{c.secret}), c.id)
				if err != nil {
					t.Fatal(err)
				}
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					return &theirs.leaf, nil // whatever the server asks for
				}
			}
			there, here := net.Pipe()
			defer there.Close() //nolint:errcheck // a pipe has none
			defer here.Close()  //nolint:errcheck // a pipe has none
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				client := tls.Client(there, config)
				client.Handshake()            //nolint:errcheck // the server's counts
				client.Read(make([]byte, 10)) //nolint:errcheck // its verdict comes after
			}()
			server := tls.Server(here, ours.server)
			err := server.Handshake()
			if (err == nil) != c.ok {
				t.Errorf("handshake: %v", err)
			}
			if state := server.ConnectionState(); err == nil && state.Version != tls.VersionTLS13 {
				t.Errorf("TLS version %x", state.Version)
			} else if id, err := idOf(state); c.ok && (err != nil || id != "a") {
				t.Errorf("peer is %q, %v", id, err)
			}
			here.Close() //nolint:errcheck // a pipe has none
			<-ended
			if s, _ := sessions.Get("b"); s != nil {
				t.Error("it may come back without showing its certificate")
			}
		})
	}
}

func TestNobodyWithoutACertificateIsHeard(t *testing.T) {
	d := newDirect(t)
	as := func(names ...string) *tls.ConnectionState { // the last one is the common name
		n := len(names) - 1
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{DNSNames: names[:n], Subject: pkix.Name{CommonName: names[n]}}}}
	}
	for _, state := range []*tls.ConnectionState{nil, {}, as("a"), as("a", "b", "a"), as("a", "b"), as("a", ""), as("", "")} {
		r := httptest.NewRequest(http.MethodPost, "/proxima.v1.Overlay/Deliver", nil)
		r.TLS = state
		w := httptest.NewRecorder()
		if d.server.ServeHTTP(w, r); w.Code != http.StatusForbidden || d.reached != nil {
			t.Errorf("%v: %d", state, w.Code)
		}
	}
}

// A caller believes only kinds that a server may send; otherwise the code counts.
func TestKindsThatPeersSend(t *testing.T) {
	for kind, want := range map[string]string{KindBusy: KindBusy, KindTold: KindTold, "": KindUnavailable, "new": KindUnavailable,
		KindTimeout: KindUnavailable, KindCanceled: KindUnavailable, KindSecret: KindUnavailable} {
		e := connect.NewWireError(connect.CodeUnavailable, errors.New("no"))
		e.Meta().Set(kindHeader, kind)
		if got := kindOf(e); got != want {
			t.Errorf("%q counts as %q, want %q", kind, got, want)
		}
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, skipped := 0, uint64(0)
		r := newRefusals(newTally(), func(f Refusal) {
			skipped += f.Skipped
			if told++; strings.ContainsAny(f.Reason, "\n\x1b") || len(f.Reason) > maxReason {
				t.Errorf("reason %q", f.Reason)
			}
		})
		for i := range 10 * maxTold {
			r.add(Refusal{Peer: string(rune('a'+i%26)) + strings.Repeat("x", i/26), Kind: KindHandshake,
				Reason: "\x1b[31m\n" + strings.Repeat("r", 1000)})
		}
		if n := r.tally.counts().Failures[KindHandshake]; n != 10*maxTold || told != maxTold+1 || len(r.told) != maxTold+1 {
			t.Errorf("%d counted, %d told, %d remembered", n, told, len(r.told))
		}
		time.Sleep(2 * time.Second)
		r.add(Refusal{Peer: "new", Kind: KindHandshake})
		if told != maxTold+2 || len(r.told) > 2 {
			t.Errorf("%d told, %d remembered", told, len(r.told))
		}
		told = 0
		for range 25 { // in two and a half seconds
			time.Sleep(100 * time.Millisecond)
			r.add(Refusal{Peer: "often", Kind: KindHandshake})
		}
		if told != 3 || skipped < 16 {
			t.Errorf("%d of 25 are told, and that %d were skipped", told, skipped)
		}
		// Who came twice and no more is not remembered for ever: others would never be told one by one again.
		for i := range 2 * maxTold {
			r.add(Refusal{Peer: strings.Repeat("y", i/2), Kind: KindHandshake})
		}
		time.Sleep(2 * time.Minute)
		told = 0
		for i := range 10 {
			r.add(Refusal{Peer: strings.Repeat("z", 1+i), Kind: KindHandshake})
		}
		if told != 10 {
			t.Errorf("%d of 10 are told after a storm", told)
		}
	})
}

func FuzzServer(f *testing.F) {
	good := encoded(f, &wire.Header{Version: Version, Run: "test", Sender: "a", Boot: 1, Id: 1})
	f.Add("/proxima.v1.Overlay/Deliver", "application/proto", "", good)
	f.Add("/proxima.v1.Overlay/Deliver", "application/proto", "zstd", good)
	f.Add("/proxima.v1.Overlay/Deliver", "application/proto", "zstd", compressed(f, good))
	f.Add("/proxima.v1.Overlay/Store", "application/proto", "gzip", []byte{0x1f, 0x8b})
	f.Add("/proxima.v1.Overlay/Store", "application/grpc", "", make([]byte, 30))
	f.Add("/proxima.v1.Overlay/Nothing", "application/json", "", []byte("{}"))
	d := newDirect(f)
	f.Fuzz(func(t *testing.T, path, kind, encoding string, body []byte) {
		before := d.failures()
		w := d.call(http.MethodPost, path, kind, encoding, body)
		failed := d.failures() - before
		d.told = nil
		switch {
		case w.Code == http.StatusOK && (d.reached.GetSender() != "a" || d.reached.GetRun() != "test" || failed != 0):
			t.Errorf("a call of %v was carried out", d.reached)
		case w.Code != http.StatusOK && d.reached != nil:
			t.Errorf("%d after the handler was reached", w.Code)
		case w.Code != http.StatusOK && failed != 1:
			t.Errorf("%d is counted %d times: %v", w.Code, failed, d.server.Counts().Failures)
		}
		all := int64(d.server.cfg.Calls)
		if len(d.server.perPeer) != 0 || !d.server.slots.TryAcquire(all) {
			t.Fatalf("slots are left: %v", d.server.perPeer)
		}
		d.server.slots.Release(all)
	})
}
