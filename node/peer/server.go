package peer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"path"
	"sync"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/semaphore"
)

// ServerDeps is what a server needs.
type ServerDeps struct {
	// ID is this node, Run the name of the crawl.
	ID  string
	Run string
	// Secret is the cluster's. It must be set.
	Secret *Secret
	// Listener accepts connections; the server closes it.
	Listener net.Listener
	// Carried, if set, has further connections, which came over a relay.
	Carried <-chan net.Conn
	// Handler carries out the calls. It must be complete when Run begins.
	Handler *Calls
	// Told, if set, is what this node has been told about the crawl.
	Told Told
	// Refused, if set, is told of refusals, at most once a second per peer and kind. It must not block.
	Refused func(Refusal)
	// Known, if set, reports whether a host is that of a member. Members go first when there are many strangers. It
	// must not block.
	Known func(host string) bool
	// Link takes members' connections without calls (Client.Connect). It must not block.
	Link func(conn net.Conn, id string)
}

// Server answers the calls of peers over HTTP/2 and mutual TLS. It refuses, counts and reports whatever is not a
// well-formed call of this version and run by the node of the certificate; such a call changes nothing else.
type Server struct {
	cfg      Config
	deps     ServerDeps
	forms    forms
	tally    *tally
	refusals *refusals
	calls    map[string]http.Handler // by path
	errors   *connect.ErrorWriter
	// slots bounds the calls carried out at once.
	slots *semaphore.Weighted
	trust *trust

	// working counts running handlers, for the end of Run.
	working sync.WaitGroup
	// mu guards what follows.
	mu      sync.Mutex
	closing bool
	perPeer map[string]*share
}

// NewServer makes a server that accepts nobody before Run.
func NewServer(cfg Config, deps ServerDeps) (*Server, error) {
	trust, err := newTrust(deps.Secret, deps.ID)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, deps: deps, trust: trust, forms: newForms(), tally: newTally(), slots: semaphore.NewWeighted(int64(cfg.Calls)),
		perPeer: map[string]*share{}}
	s.refusals = newRefusals(s.tally, deps.Refused)
	options, _ := compression(cfg)
	s.calls = s.routes(append(options, connect.WithRecover(broke))...)
	s.errors = connect.NewErrorWriter(options...)
	return s, nil
}

// Counts returns the traffic of calls answered and the refusals by kind.
func (s *Server) Counts() Counts { return s.tally.counts() }

// farewell is how long calls in progress may take when the server stops.
const farewell = 2 * time.Second

// Run accepts peers until ctx ends, then lets calls in progress finish for a short time, and returns once the last
// handler has. Its error is that of the listener.
func (s *Server) Run(ctx context.Context) error {
	server := &http.Server{
		Handler: s, TLSConfig: s.trust.credentials().server.Clone(), Protocols: new(http.Protocols),
		ReadHeaderTimeout: dialTime, ReadTimeout: callTime, WriteTimeout: 2 * callTime,
		IdleTimeout: idleTime, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(faults{s.refusals}, "", 0),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 2 * s.cfg.CallsPerPeer, SendPingTimeout: keepAlive,
			PingTimeout: keepAlive / 2},
	}
	server.Protocols.SetHTTP2(true)
	served := make(chan error, 1)
	proven := newHandshakes(s)
	defer proven.work.Wait()
	defer proven.Close() //nolint:errcheck // it may be closed already
	go func() {
		defer close(served)
		served <- server.Serve(proven)
	}()
	var err error
	select {
	case err = <-served:
		err = fmt.Errorf("accept peers on %s: %w", s.deps.Listener.Addr(), err)
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	server.Shutdown(late) //nolint:errcheck // Close ends the rest
	server.Close()        //nolint:errcheck // the listener is closed already
	<-served
	s.working.Wait()
	return err
}

// ServeHTTP admits one call: from a known peer, of bounded size, within the limits of concurrent calls.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, err := idOf(r.TLS)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	answer, procedure, traffic := &countedWriter{ResponseWriter: w}, "", Traffic{MessagesReceived: 1, MessagesSent: 1}
	defer func() {
		if answer.status >= http.StatusBadRequest {
			s.refusals.add(answer.refusal(id, procedure))
		}
	}()
	refuse := func(kind, reason string) {
		s.errors.Write(answer, r, refusal(kind, reason)) //nolint:errcheck // the peer has gone
	}
	// Connect would speak gRPC and JSON as well.
	if kind := r.Header.Get("Content-Type"); r.Method != http.MethodPost || kind != "application/proto" {
		w.Header().Set(kindHeader, KindProcedure)
		http.Error(answer, fmt.Sprintf("%.20s with content %.60q", r.Method, kind), http.StatusUnsupportedMediaType)
		return
	}
	rpc := s.calls[r.URL.Path]
	if rpc == nil {
		refuse(KindProcedure, fmt.Sprintf("no procedure %.100q", r.URL.Path))
		return
	}
	procedure = path.Base(r.URL.Path)
	leave, why := s.enter(r.Context(), id)
	if leave == nil {
		refuse(KindBusy, why)
		return
	}
	defer leave()
	// One byte above the limit tells connect that the body is too long; it need not read the rest.
	r = r.WithContext(context.WithValue(r.Context(), callerKey{}, id))
	r.Body = countedBody{http.MaxBytesReader(w, r.Body, int64(s.cfg.MessageBytes)+1), func(n int) { traffic.BytesReceived += uint64(n) }}
	rpc.ServeHTTP(answer, r)
	traffic.BytesSent = answer.n
	s.tally.add(procedure, traffic)
}

// share is the slots of one peer.
type share struct {
	slots *semaphore.Weighted
	users int // calls in a slot or waiting for one
}

// enter waits for one of the peer's slots and one of all, and returns how to leave them, or why there was none in time.
func (s *Server) enter(ctx context.Context, peer string) (leave func(), why string) {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return nil, "the node is ending"
	}
	own := s.perPeer[peer]
	if own == nil {
		own = &share{slots: semaphore.NewWeighted(int64(s.cfg.CallsPerPeer))}
		s.perPeer[peer] = own
	}
	own.users++
	s.working.Add(1)
	s.mu.Unlock()
	out := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(s.perPeer, peer)
		}
		s.working.Done()
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if own.slots.Acquire(ctx, 1) != nil {
		out()
		return nil, "too many calls of this peer at once"
	}
	if s.slots.Acquire(ctx, 1) != nil {
		own.slots.Release(1)
		out()
		return nil, "too many calls at once"
	}
	return func() { s.slots.Release(1); own.slots.Release(1); out() }, ""
}

// countedWriter counts the bytes of an answer and keeps the beginning of an error.
type countedWriter struct {
	http.ResponseWriter
	status int
	n      uint64
	head   []byte
}

func (w *countedWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *countedWriter) Write(p []byte) (int, error) {
	if w.status >= http.StatusBadRequest {
		w.head = append(w.head, p[:min(len(p), maxHead-len(w.head))]...)
	}
	n, err := w.ResponseWriter.Write(p)
	w.n += uint64(n)
	return n, err
}

// maxHead is enough for a reason of maxReason bytes, of which JSON makes six times as many.
const maxHead = 8 * maxReason

// refusal returns what an answer that is an error says. Connect refuses some calls by itself, without reading their
// message, and names no kind.
func (w *countedWriter) refusal(peer, procedure string) Refusal {
	var said struct {
		Code    connect.Code `json:"code"`
		Message string       `json:"message"`
	}
	f := Refusal{Peer: peer, Procedure: procedure, Kind: w.Header().Get(kindHeader), Reason: string(w.head)}
	err := json.Unmarshal(w.head, &said)
	if err == nil {
		f.Reason = said.Message
	}
	switch f.Reason = cmp.Or(f.Reason, http.StatusText(w.status)); {
	case f.Kind != "":
	case err != nil:
		f.Kind = KindMalformed
	case said.Code == connect.CodeCanceled || said.Code == connect.CodeDeadlineExceeded:
		f.Kind = KindUnavailable
	default:
		f.Kind = kindOfCode(said.Code)
	}
	return f
}

// Unwrap lets net/http find the original writer.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
