package node

import (
	"net/http"
	"testing"

	"proxima/node/wire"
)

// A peer cannot have anything changed, nor a question passed on, nor a stream.
func TestPeersOnlyAsk(t *testing.T) {
	calls := []string{"", "/", "/nothing", "/status/../pause", "/status?node=x", "status"}
	for _, r := range routes() {
		if !r.mayBeAsked() {
			calls = append(calls, r.path)
		}
		if r.acts && r.method == http.MethodGet || !r.acts && r.method != http.MethodGet || (r.run == nil) == (r.stream == nil) || (r.answer == nil) == (r.media == "") {
			t.Errorf("%s %s is not whole", r.method, r.path)
		}
	}
	for _, call := range calls {
		res, err := api{new(Node)}.Ask(t.Context(), "peer", &wire.AskRequest{Call: call})
		if err != nil || res.GetStatus() != http.StatusNotFound {
			t.Errorf("%q: %d, %v", call, res.GetStatus(), err)
		}
	}
}
