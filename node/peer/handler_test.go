package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
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

// reachable carries out some calls by saying who made them.
func reachable(reached func(*wire.Header)) *Calls {
	return &Calls{
		Deliver: func(_ context.Context, _ string, r *wire.DeliverRequest) (*wire.DeliverResponse, error) {
			reached(r.Header)
			return &wire.DeliverResponse{}, nil
		},
		Store: func(_ context.Context, _ string, r *wire.StoreRequest) (*wire.StoreResponse, error) {
			reached(r.Header)
			return &wire.StoreResponse{}, nil
		},
	}
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
	cfg.MessageBytes = 1 << 20
	var err error
	d.server, err = NewServer(cfg, ServerDeps{ID: "b", Run: "test", Secret: NewSecret([32]byte{1}),
		Handler: reachable(func(h *wire.Header) { d.reached = h }),
		Refused: func(r Refusal) { d.told = append(d.told, r) }})
	must(t, err)
	id, err := newCredentials(NewSecret([32]byte{1}), "a")
	must(t, err)
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
	return d.serve(r, &tls.ConnectionState{PeerCertificates: []*x509.Certificate{d.leaf}})
}

func (d *direct) serve(r *http.Request, state *tls.ConnectionState) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.TLS, d.reached = state, nil
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
	must(t, err)
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
	notUTF8 := bytes.ReplaceAll(encoded(t, good()), []byte("http"), []byte("\xff\xfe\xfd\xfc"))
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
		{"not UTF-8", "POST", deliver, proto, "", notUTF8, KindMalformed},
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
		d := newDirect(t)
		w := d.call(c.method, c.path, c.kind, c.encoding, c.body)
		if (d.reached != nil) != (c.want == "") || (w.Code == http.StatusOK) != (c.want == "") {
			t.Errorf("%s: %d %s; the handler was given %v", c.name, w.Code, w.Body, d.reached)
		}
		n := d.server.Counts().Failures
		if c.want == "" && len(n)+len(d.told) > 0 || c.want != "" && (len(n) != 1 || n[c.want] != 1 || len(d.told) != 1 || d.told[0].Kind != c.want ||
			d.told[0].Peer != "a" || d.told[0].Reason == "" || len(d.told[0].Procedure+d.told[0].Reason) > maxReason) {
			t.Errorf("%s: counted %v, told %+v, want %q", c.name, n, d.told, c.want)
		}
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
	d.serve(r, &tls.ConnectionState{PeerCertificates: []*x509.Certificate{d.leaf}})
	if z.read > 4<<20 || d.server.Counts().Failures[KindOversized] != 1 {
		t.Errorf("%d bytes were read, %v", z.read, d.server.Counts().Failures)
	}
}

// Who trusts the cluster is not of the cluster.
func TestServerVerifiesCertificates(t *testing.T) {
	credentials := func(secret byte, id string) *credentials {
		c, err := newCredentials(NewSecret([32]byte{secret}), id)
		must(t, err)
		return c
	}
	ours := credentials(1, "b")
	for name, theirs := range map[string]tls.Certificate{
		"ours": credentials(1, "a").leaf, "of another cluster": credentials(2, "a").leaf, "none": {},
	} {
		sessions := tls.NewLRUClientSessionCache(1)
		config := &tls.Config{RootCAs: ours.ca, ServerName: "b", NextProtos: []string{"h2"}, ClientSessionCache: sessions,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &theirs, nil // whatever the server asks for
			}}
		there, here := net.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			client := tls.Client(there, config)
			client.Handshake()            //nolint:errcheck // the server's counts
			client.Read(make([]byte, 10)) //nolint:errcheck // its verdict comes after
			there.Close()                 //nolint:errcheck // a pipe has none
		}()
		server := tls.Server(here, ours.server)
		err := server.Handshake()
		if state := server.ConnectionState(); (err == nil) != (name == "ours") || err == nil && state.Version != tls.VersionTLS13 {
			t.Errorf("%s: handshake of version %x: %v", name, state.Version, err)
		} else if id, wrong := idOf(&state); err == nil && (wrong != nil || id != "a") {
			t.Errorf("%s: peer is %q, %v", name, id, wrong)
		}
		here.Close() //nolint:errcheck // a pipe has none
		<-ended
		if s, _ := sessions.Get("b"); s != nil {
			t.Errorf("%s: it may come back without showing its certificate", name)
		}
	}
}

func TestNobodyWithoutACertificateIsHeard(t *testing.T) {
	d := newDirect(t)
	as := func(names ...string) *tls.ConnectionState { // the last one is the common name
		n := len(names) - 1
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{DNSNames: names[:n], Subject: pkix.Name{CommonName: names[n]}}}}
	}
	for _, state := range []*tls.ConnectionState{nil, {}, as("a"), as("a", "b", "a"), as("a", "b"), as("a", ""), as("", "")} {
		w := d.serve(httptest.NewRequest(http.MethodPost, "/proxima.v1.Overlay/Deliver", nil), state)
		if w.Code != http.StatusForbidden || d.reached != nil {
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

// Errors that are joined stand in one line.
func TestJoinedErrorsArePlain(t *testing.T) {
	if got := plain("a\nb\x1b" + strings.Repeat("\n", maxReason)); !strings.HasPrefix(got, "a; b?; ; ") || len(got) > maxReason {
		t.Errorf("%q", got)
	}
}

// Of each peer and kind one refusal a second is told, with how many were skipped. What is remembered for that is bounded.
func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []Refusal
		r := newRefusals(newTally(), func(f Refusal) { told = append(told, f) })
		// refuse makes refusals of peers, and returns how many of them are told and how many were skipped.
		refuse := func(n int, every time.Duration, peer func(i int) string) (times int, skipped uint64) {
			told = nil
			for i := range n {
				r.add(Refusal{Peer: peer(i), Kind: KindHandshake, Reason: "\x1b[31m\n\u009b31m\u202e" + strings.Repeat("r", 1000)})
				time.Sleep(every)
			}
			for _, f := range told {
				if skipped += f.Skipped; strings.ContainsAny(f.Reason, "\n\x1b\u009b\u202e") || len(f.Reason) > maxReason {
					t.Errorf("reason %q", f.Reason)
				}
			}
			return len(told), skipped
		}
		if n, _ := refuse(10*maxTold, 0, func(i int) string { return fmt.Sprint("x", i) }); n != maxTold+1 || len(r.told) != maxTold+1 {
			t.Errorf("%d told, %d remembered", n, len(r.told))
		}
		if n := r.tally.counts().Failures[KindHandshake]; n != 10*maxTold {
			t.Errorf("%d counted", n)
		}
		time.Sleep(2 * time.Second)
		if n, _ := refuse(1, 0, func(int) string { return "new" }); n != 1 || len(r.told) > 2 {
			t.Errorf("%d told, %d remembered", n, len(r.told))
		}
		if n, skipped := refuse(25, 100*time.Millisecond, func(int) string { return "often" }); n != 3 || skipped < 16 {
			t.Errorf("%d of 25 are told, and that %d were skipped", n, skipped)
		}
		// Who came twice and no more is not remembered for ever: others would never be told one by one again.
		refuse(2*maxTold, 0, func(i int) string { return fmt.Sprint("y", i/2) })
		time.Sleep(2 * time.Minute)
		if n, _ := refuse(10, 0, func(i int) string { return fmt.Sprint("z", i) }); n != 10 {
			t.Errorf("%d of 10 are told after a storm", n)
		}
	})
}

// TestSlotsComeFree: a call that ends, or that found no slot in time, leaves its own slot to the peer's next, though other
// calls of the peer keep its share in use.
func TestSlotsComeFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		cfg.Calls, cfg.CallsPerPeer = 3, 2
		s, err := NewServer(cfg, ServerDeps{ID: "b", Run: "test", Secret: NewSecret([32]byte{1}), Handler: reachable(nil)})
		must(t, err)
		enter := func(peer, want string) func() {
			t.Helper()
			leave, why := s.enter(context.Background(), peer)
			if why != want {
				t.Fatalf("a call of %s: %q, want %q", peer, why, want)
			}
			return leave
		}
		long := enter("a", "")
		for range 3 {
			short := enter("a", "")
			enter("a", "too many calls of this peer at once")
			short()
		}
		c, d := enter("c", ""), enter("d", "")
		for range 3 {
			enter("a", "too many calls at once")
		}
		c()
		enter("a", "")()
		d()
		long()
		if len(s.perPeer) != 0 || !s.slots.TryAcquire(3) {
			t.Errorf("slots are taken, by %v, after the last call", s.perPeer)
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
