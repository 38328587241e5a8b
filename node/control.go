package node

import (
	"context"
	"errors"
	"fmt"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/runlog"
)

// byOperator is whose hold of the frontier Pause is.
const byOperator = "operator"

// acted logs that somebody steers the node, before it is done: what an act leaves behind has a line that says who.
func (n *Node) acted(by, act string, more ...any) {
	n.runlog.Events().Info(runlog.EventControl, append([]any{runlog.KeyReason, act, runlog.KeyBy, by}, more...)...)
}

// Pause lets no new request begin until Resume, in later lives of the node, too. What is under way ends. In an overlay the node
// keeps its hosts, which wait with it.
func (n *Node) Pause(by string) error { return n.pause(by, "pause", true) }

// Resume ends Pause.
func (n *Node) Resume(by string) error { return n.pause(by, "resume", false) }

func (n *Node) pause(by, act string, on bool) error {
	n.acted(by, act)
	if err := n.told.pause(on); err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	n.holdIfPaused()
	return nil
}

// holdIfPaused has the frontier give out nothing while the operator has paused the node.
func (n *Node) holdIfPaused() {
	why := ""
	if n.told.paused() {
		why = "paused by its operator (proxima ctl resume lets it go on)"
	}
	n.frontier.Hold(byOperator, why)
}

// AddSeeds adds URLs to the crawl as if they had been seeds from the start: what they bring into scope, scope.seed_scope says, and
// they are remembered. It returns how many were refused, by the reason.
func (n *Node) AddSeeds(ctx context.Context, seeds []identity.URL, by string) (refused map[string]int, err error) {
	n.acted(by, "add seeds: "+listed(texts(seeds)))
	if err := n.told.seed(seeds); err != nil {
		return nil, err
	}
	return n.loop.Seed(ctx, seeds)
}

// ErrNotHere says that a host does not belong to this node.
var ErrNotHere = errors.New("it has no URLs here: another node owns it, or nobody has heard of it")

// Drop gives up the pending URLs of a host, and of a name without a scheme those by http and by https. It returns how many they were, those
// before an error, too. URLs of the host that are found later are taken again: a blocklist keeps a host away.
func (n *Node) Drop(ctx context.Context, name, by string) (dropped int, err error) {
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
		n.acted(by, "drop", runlog.KeyHost, host)
		one, err := n.frontier.DropHost(ctx, host, "dropped by the operator")
		if err != nil {
			return dropped, err
		}
		dropped += one
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
