package peer_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"proxima/node/netsim"
	"proxima/node/peer"
	"proxima/node/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testNode is a server and a client in a bubble.
type testNode struct {
	t       *testing.T
	id      string
	server  *peer.Server
	client  *peer.Client
	handler *fakeHandler

	mu       sync.Mutex
	refusals []peer.Refusal
}

func (n *testNode) refused() []peer.Refusal {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]peer.Refusal(nil), n.refusals...)
}

func (n *testNode) tell(r peer.Refusal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refusals = append(n.refusals, r)
}

// must ends a test whose set-up has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func secretOf(b byte) *peer.Secret { return peer.NewSecret([32]byte{b}) }

// who is a node that a test wants; the zero values are those of everybody else.
type who struct {
	cfg     func(*peer.Config)
	secret  *peer.Secret
	run     string
	listens string // under another name than its own
	known   func(host string) bool
	told    peer.Told
	link    func(net.Conn, string)
	through func(ctx context.Context, id string, dial func(context.Context) (net.Conn, error)) (net.Conn, error)
	accepts func(net.Listener) net.Listener
}

// world is the nodes of one test. All of them end with the test's bubble.
type world struct {
	t     *testing.T
	net   *netsim.Network
	trips map[[2]netip.Addr]time.Duration // one way, where it is not every
	every time.Duration
	addrs map[string]string
	ctx   context.Context
	stop  context.CancelFunc
	ended sync.WaitGroup
	all   []*testNode

	// mu guards what follows.
	mu    sync.Mutex
	names map[string]netip.Addr
	ends  map[string]*netsim.Endpoint
}

// inBubble runs a test in a bubble with a network, and sees to it that no goroutine is left.
func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, addrs: map[string]string{}, trips: map[[2]netip.Addr]time.Duration{}, names: map[string]netip.Addr{},
			ends: map[string]*netsim.Endpoint{}}
		w.net = netsim.New(func(a, b netip.Addr) time.Duration {
			if d, ok := w.trips[[2]netip.Addr{a, b}]; ok {
				return d
			}
			return w.every
		})
		w.ctx, w.stop = context.WithCancel(context.Background())
		f(t, w)
		w.stop()
		for _, n := range w.all {
			n.client.Close()
		}
		w.ended.Wait()
		w.net.Close() //nolint:errcheck // it has none
	})
}

// betweenTwo runs a test in a bubble with the nodes a and b.
func betweenTwo(t *testing.T, f func(t *testing.T, w *world, a, b *testNode)) {
	t.Helper()
	inBubble(t, func(t *testing.T, w *world) { f(t, w, w.node("a", who{}), w.node("b", who{})) })
}

// addr is the address of a name.
func (w *world) addr(name string) netip.Addr {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.names[name]; !ok {
		w.names[name] = netsim.Place(len(w.names) + 1)
	}
	return w.names[name]
}

// at is where a node listens.
func (w *world) at(id string) string { return netip.AddrPortFrom(w.addr(id), 7947).String() }

// place is where a name dials from and listens.
func (w *world) place(name string) *netsim.Endpoint {
	w.t.Helper()
	addr := w.addr(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ends[name] == nil {
		e, err := w.net.Open(addr)
		must(w.t, err)
		w.ends[name] = e
	}
	return w.ends[name]
}

// far sets how long a byte travels between two names, one way.
func (w *world) far(a, b string, d time.Duration) {
	w.trips[[2]netip.Addr{w.addr(a), w.addr(b)}], w.trips[[2]netip.Addr{w.addr(b), w.addr(a)}] = d, d
}

func (w *world) node(id string, as who) *testNode {
	w.t.Helper()
	cfg := peer.Default()
	if as.cfg != nil {
		as.cfg(&cfg)
	}
	if as.secret == nil {
		as.secret = secretOf(1)
	}
	if as.run == "" {
		as.run = "test"
	}
	if as.listens == "" {
		as.listens = id
	}
	n := &testNode{t: w.t, id: id, handler: &fakeHandler{}}
	addr := w.at(id)
	l, err := w.place(id).Listen("tcp", addr)
	must(w.t, err)
	if as.accepts != nil {
		l = as.accepts(l)
	}
	w.addrs[as.listens] = addr
	n.server, err = peer.NewServer(cfg, peer.ServerDeps{ID: id, Run: as.run, Secret: as.secret, Listener: l,
		Handler: n.handler.carriesOut(), Refused: n.tell, Known: as.known, Told: as.told, Link: as.link})
	must(w.t, err)
	n.client, err = peer.NewClient(cfg, peer.ClientDeps{ID: id, Boot: 7, Run: as.run, Secret: as.secret,
		Addr: func(id string) (string, bool) { a, ok := w.addrs[id]; return a, ok }, Dial: w.place(id).DialContext,
		Local: n.handler.carriesOut(), Told: as.told, Through: as.through})
	must(w.t, err)
	w.all = append(w.all, n)
	w.ended.Go(func() {
		if err := n.server.Run(w.ctx); err != nil {
			w.t.Errorf("server of %s: %v", id, err)
		}
	})
	return n
}

// ask calls Idle and says what came of it.
func (n *testNode) ask(to string) (*wire.IdleResponse, error) {
	return n.client.Idle(context.Background(), to, &wire.IdleRequest{})
}

// reaches checks that a call comes through.
func (n *testNode) reaches(to string) {
	n.t.Helper()
	n.fails(to, nil)
}

// fails checks that a call fails so.
func (n *testNode) fails(to string, want error) {
	n.t.Helper()
	if _, err := n.ask(to); !errors.Is(err, want) {
		n.t.Errorf("%s calls %s: %v, want %v", n.id, to, err, want)
	}
}

// asking begins a call that lasts, and returns once it has come to its handler. What is sent is how it ended.
func (n *testNode) asking(to string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := n.ask(to)
		ended <- err
	}()
	synctest.Wait()
	return ended
}

func within(t *testing.T, what string, got, low, high time.Duration) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s took %v, not between %v and %v", what, got, low, high)
	}
}

// fakeHandler counts the calls that it carries out. What a test gives no function for it answers with an empty message.
type fakeHandler struct {
	OnDeliver peer.Call[wire.DeliverRequest, wire.DeliverResponse]
	OnIdle    peer.Call[wire.IdleRequest, wire.IdleResponse]

	mu    sync.Mutex
	calls map[string]int
}

// seen returns how often each procedure was carried out.
func (h *fakeHandler) seen() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.calls)
}

// carriesOut are its calls.
func (h *fakeHandler) carriesOut() *peer.Calls {
	return &peer.Calls{
		Deliver: counted(h, "Deliver", &h.OnDeliver),
		Lease:   counted[wire.LeaseRequest, wire.LeaseResponse](h, "Lease", nil),
		Rights:  counted[wire.RightsRequest, wire.RightsResponse](h, "Rights", nil),
		Renew:   counted[wire.RenewRequest, wire.RenewResponse](h, "Renew", nil),
		Claim:   counted[wire.ClaimRequest, wire.ClaimResponse](h, "Claim", nil),
		Store:   counted[wire.StoreRequest, wire.StoreResponse](h, "Store", nil),
		Load:    counted[wire.LoadRequest, wire.LoadResponse](h, "Load", nil),
		Commit:  counted[wire.CommitRequest, wire.CommitResponse](h, "Commit", nil),
		Fetch:   counted[wire.FetchRequest, wire.FetchResponse](h, "Fetch", nil),
		Idle:    counted(h, "Idle", &h.OnIdle),
		Quota:   counted[wire.QuotaRequest, wire.QuotaResponse](h, "Quota", nil),
		Ask:     counted[wire.AskRequest, wire.AskResponse](h, "Ask", nil),
	}
}

// counted counts a call, and lets do carry it out if there is such a function.
func counted[Q, R any](h *fakeHandler, procedure string, do *peer.Call[Q, R]) peer.Call[Q, R] {
	return func(ctx context.Context, from string, req *Q) (*R, error) {
		h.mu.Lock()
		if h.calls == nil {
			h.calls = map[string]int{}
		}
		h.calls[procedure]++
		h.mu.Unlock()
		if do == nil || *do == nil {
			return new(R), nil
		}
		return (*do)(ctx, from, req)
	}
}

// accepts answers that links are accepted.
func accepts(links []*wire.Link) *wire.DeliverResponse {
	res := &wire.DeliverResponse{}
	for range links {
		res.Answers = append(res.Answers, verdict(wire.Verdict_VERDICT_ACCEPTED))
	}
	return res
}
