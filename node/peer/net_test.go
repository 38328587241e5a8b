package peer_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/peer"
	"proxima/node/peer/peertest"
	"proxima/node/wire"
)

// testNode is a server and a client in a bubble.
type testNode struct {
	id      string
	server  *peer.Server
	client  *peer.Client
	handler *peertest.Handler

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

func secretOf(b byte) *peer.Secret { return peer.NewSecret([32]byte{b}) }

// who is a node that a test wants; the zero values are those of everybody else.
type who struct {
	cfg     func(*peer.Config)
	secret  *peer.Secret
	run     string
	listens string // under another name than its own
	known   func(host string) bool
}

// world is the nodes of one test. All of them end with the test's bubble.
type world struct {
	t     *testing.T
	net   *peertest.Network
	addrs map[string]string
	ctx   context.Context
	stop  context.CancelFunc
	ended sync.WaitGroup
	all   []*testNode
}

// inBubble runs a test in a bubble with a network, and sees to it that no goroutine is left.
func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: peertest.NewNetwork(), addrs: map[string]string{}}
		w.ctx, w.stop = context.WithCancel(context.Background())
		f(t, w)
		w.stop()
		for _, n := range w.all {
			n.client.Close()
		}
		w.ended.Wait()
	})
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
	n := &testNode{id: id, handler: &peertest.Handler{}}
	addr := id + ":7947"
	l, err := w.net.Listen(addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.addrs[as.listens] = addr
	n.server, err = peer.NewServer(cfg, peer.ServerDeps{ID: id, Run: as.run, Secret: as.secret, Listener: l,
		Handler: n.handler, Refused: n.tell, Known: as.known})
	if err != nil {
		w.t.Fatal(err)
	}
	n.client, err = peer.NewClient(cfg, peer.ClientDeps{ID: id, Boot: 7, Run: as.run, Secret: as.secret,
		Addr: func(id string) (string, bool) { a, ok := w.addrs[id]; return a, ok }, Dial: w.net.Dialer(id),
		Local: n.handler})
	if err != nil {
		w.t.Fatal(err)
	}
	w.all = append(w.all, n)
	w.ended.Go(func() {
		if err := n.server.Run(w.ctx); err != nil {
			w.t.Errorf("server of %s: %v", id, err)
		}
	})
	return n
}

// idle makes a node answer Idle.
func (n *testNode) answersIdle() {
	n.handler.OnIdle = func(_ context.Context, from string, req *wire.IdleRequest) (*wire.IdleResponse, error) {
		return &wire.IdleResponse{Idle: true, Why: from, Counters: 3}, nil
	}
}

// ask calls Idle and says what came of it.
func (n *testNode) ask(to string) (*wire.IdleResponse, error) {
	return n.client.Idle(context.Background(), to, &wire.IdleRequest{})
}

// dialRaw opens a plain connection to a node.
func (w *world) dialRaw(to string) net.Conn {
	w.t.Helper()
	c, err := w.net.Dialer("stranger")(context.Background(), "tcp", to+":7947")
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func within(t *testing.T, what string, got, low, high time.Duration) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s took %v, not between %v and %v", what, got, low, high)
	}
}
