package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/journal"
)

// byOperator is whose hold of the frontier Pause is.
const byOperator = "operator"

// Pause lets no new request begin until Resume, or until the node starts again. What is under way ends. In an overlay the node
// keeps its hosts, which wait with it.
func (n *Node) Pause() {
	n.frontier.Hold(byOperator, "paused by its operator (proxima ctl resume lets it go on)")
	n.journal.Events().Info(journal.EventControl, journal.KeyReason, "paused")
}

// Resume ends Pause.
func (n *Node) Resume() {
	n.frontier.Hold(byOperator, "")
	n.journal.Events().Info(journal.EventControl, journal.KeyReason, "resumed")
}

// AddSeeds adds URLs to the crawl as if they had been seeds from the start: what they bring into scope, scope.seed_scope says, and
// they are remembered. It returns how many were refused, by the reason.
func (n *Node) AddSeeds(ctx context.Context, seeds []identity.URL) (refused map[string]int, err error) {
	if err := n.told.seed(seeds); err != nil {
		return nil, err
	}
	if refused, err = n.loop.Seed(ctx, seeds); err != nil {
		return nil, err
	}
	n.journal.Events().Info(journal.EventControl, journal.KeyReason, "seeds added: "+listed(texts(seeds)))
	return refused, nil
}

// ErrNotHere says that a host does not belong to this node.
var ErrNotHere = errors.New("it has no URLs here: another node owns it, or nobody has heard of it")

// Drop gives up the pending URLs of a host, and of a name without a scheme those by http and by https. It returns how many they were, those
// before an error, too. URLs of the host that are found later are taken again: a blocklist keeps a host away.
func (n *Node) Drop(ctx context.Context, name string) (dropped int, err error) {
	here := false
	for _, host := range hostsOf(name) {
		role, known, err := n.frontier.RoleOf(ctx, host)
		if err != nil {
			return dropped, err
		}
		if !known || role != frontier.Owned {
			continue
		}
		here = true
		one, err := n.frontier.DropHost(ctx, host, "dropped by the operator")
		if err != nil {
			return dropped, err
		}
		dropped += one
		n.journal.Events().Info(journal.EventControl, journal.KeyHost, host, journal.KeyReason, fmt.Sprintf("dropped with %d URLs", one))
	}
	if !here {
		return 0, fmt.Errorf("drop %s: %w", name, ErrNotHere)
	}
	return dropped, nil
}

// texts are the texts of URLs.
func texts(urls []identity.URL) []string {
	out := make([]string, len(urls))
	for i, u := range urls {
		out[i] = u.String()
	}
	return out
}

// acted is the answer to an act.
type acted struct {
	Refused map[string]int `json:"refused,omitempty"`
	Dropped int            `json:"dropped,omitempty"`
	Error   string         `json:"error,omitempty"`
}

// maxSeeds is the longest list of seeds that is taken at once, in bytes.
const maxSeeds = 16 << 20

// control adds the acts of an operator to what the socket answers.
func (n *Node) control(mux *http.ServeMux) {
	mux.HandleFunc("POST /pause", func(w http.ResponseWriter, _ *http.Request) { n.Pause(); answer(w, acted{}) })
	mux.HandleFunc("POST /resume", func(w http.ResponseWriter, _ *http.Request) { n.Resume(); answer(w, acted{}) })
	mux.HandleFunc("POST /drop", func(w http.ResponseWriter, r *http.Request) {
		dropped, err := n.Drop(r.Context(), r.URL.Query().Get("host"))
		answer(w, acted{Dropped: dropped, Error: words(err)})
	})
	mux.HandleFunc("POST /seeds", func(w http.ResponseWriter, r *http.Request) {
		seeds, err := identity.ReadSeeds(http.MaxBytesReader(w, r.Body, maxSeeds))
		if err == nil && len(seeds.Errors) > 0 {
			err = errors.Join(seeds.Errors...)
		}
		var refused map[string]int
		if err == nil {
			refused, err = n.AddSeeds(r.Context(), seeds.URLs)
		}
		answer(w, acted{Refused: refused, Error: words(err)})
	})
}

func words(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Tell has the node that runs in a data directory do something: "pause", "resume", "drop?host=NAME" or "seeds", with the seeds as body.
func Tell(ctx context.Context, data, act string, body io.Reader) (refused map[string]int, dropped int, err error) {
	var a acted
	if err := call(ctx, http.MethodPost, data, "/"+act, body, &a); err != nil {
		return nil, 0, err
	}
	if a.Error != "" {
		return nil, 0, fmt.Errorf("%s", a.Error)
	}
	return a.Refused, a.Dropped, nil
}
