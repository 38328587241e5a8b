package node

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"testing"

	"proxima/frontier"
	"proxima/node/peer"
	"proxima/node/wire"
)

// A peer cannot have anything changed, nor a question passed on, nor a stream.
func TestPeersOnlyAsk(t *testing.T) {
	calls := []string{"", "/", "/nothing", "/status/../pause", "/status?node=x", "status"}
	for _, r := range routes() {
		if !r.mayBeAsked() {
			calls = append(calls, r.path)
		}
		if !r.acts() && r.method != http.MethodGet || (r.run == nil) == (r.stream == nil) || (r.answer == nil) == (r.media == "") {
			t.Errorf("%s %s is not whole", r.method, r.path)
		}
	}
	for _, call := range calls {
		res, err := new(Node).answerPeer(t.Context(), "peer", &wire.AskRequest{Call: call})
		if err != nil || res.GetStatus() != http.StatusNotFound {
			t.Errorf("%q: %d, %v", call, res.GetStatus(), err)
		}
	}
}

// A peer tries again what a node cannot do while its disk is full, or any more since it ends. Other errors are faults.
func TestPeersTryAgainWhatTheStoreDoesNotTake(t *testing.T) {
	f, err := frontier.Open(t.TempDir(), frontier.Default(), frontier.DefaultPoliteness(), frontier.Deps{})
	must(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	must(t, f.Run(ended))
	n, broken := &Node{frontier: f}, errors.New("bad sector")
	for _, c := range []struct {
		fails func(context.Context) error
		is    error
		again bool
	}{
		{func(ctx context.Context) error { _, err := f.DigestOf(ctx, "http://a.test"); return err }, frontier.ErrClosed, true},
		{func(context.Context) error { return frontier.ErrDiskFull }, frontier.ErrDiskFull, true},
		{func(context.Context) error { return broken }, broken, false},
		{func(context.Context) error { return nil }, nil, false},
	} {
		_, err := ifWritable(n, func(ctx context.Context, _ string, _ *wire.LoadRequest) (*wire.LoadResponse, error) {
			return nil, c.fails(ctx)
		})(t.Context(), "peer", nil)
		if !errors.Is(err, c.is) || errors.Is(err, peer.ErrUnavailable) != c.again {
			t.Errorf("%v became %v", c.is, err)
		}
	}
}

// Of more servers than fit into an answer, those with the most hosts are shown, not those with the lowest addresses.
func TestServersWithTheMostHostsAreShown(t *testing.T) {
	w := make([]frontier.ServerState, mostServers+10)
	for i := range w {
		w[i] = frontier.ServerState{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), AllHosts: i / 2}
	}
	last := w[len(w)-2]
	if got := busiest(w); len(got) != mostServers || got[0].Addr != last.Addr || got[mostServers-1].AllHosts != 5 {
		t.Errorf("%d servers, from %v to %v", len(got), got[0], got[len(got)-1])
	}
}
