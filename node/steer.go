package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/runlog"
)

// ErrNotNow says that an act cannot be done as things are.
var ErrNotNow = errors.New("that cannot be done now")

// mine are the hosts that a name stands for and that belong to this node.
func (n *Node) mine(ctx context.Context, name string) (hosts []string, err error) {
	for _, host := range hostsOf(name) {
		role, known, err := n.frontier.RoleOf(ctx, host)
		if err != nil {
			return nil, err
		}
		if known && role == frontier.Owned {
			hosts = append(hosts, host)
		}
	}
	if len(hosts) == 0 {
		err = fmt.Errorf("%s: %w", name, ErrNotHere)
	}
	return hosts, err
}

// Retry has a host of this node asked now, as if it had never failed.
func (n *Node) Retry(ctx context.Context, name, by string) error {
	hosts, err := n.mine(ctx, name)
	if err != nil {
		return fmt.Errorf("retry %w", err)
	}
	for _, host := range hosts {
		n.acted(by, "retry", runlog.KeyHost, host)
		if err := n.frontier.Retry(ctx, host); err != nil {
			return err
		}
	}
	return nil
}

// Move makes a member the owner of a host of this node, and of the others that its server serves: who has its lease has them all. They stay there until
// another node is found to be better. The member is named by its id, or the beginning of it that only it has. It returns who was moved.
func (n *Node) Move(ctx context.Context, name, to, by string) (moved []string, err error) {
	o := n.overlay
	if o == nil {
		return nil, fmt.Errorf("move %s: %w: this node crawls alone", name, ErrNotNow)
	}
	var member []string
	v := o.there()
	for _, id := range v.Alive {
		if strings.HasPrefix(id, to) {
			member = append(member, id)
		}
	}
	if len(member) != 1 {
		return nil, fmt.Errorf("move %s: %w: %d members that answer have an id that begins with %q", name, ErrNotNow, len(member), to)
	}
	hosts, err := n.mine(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("move %w", err)
	}
	for _, host := range hosts {
		if addr, err := netip.ParseAddr(n.frontier.Explain(host).Server); err == nil {
			hosts = append(hosts, n.frontier.HostsAt(addr)...)
		}
	}
	slices.Sort(hosts)
	for _, host := range slices.Compact(hosts) {
		n.acted(by, "move to "+member[0], runlog.KeyHost, host)
		if err := o.owners.Move(ctx, host, member[0]); err != nil {
			return moved, fmt.Errorf("%w: %w", ErrNotNow, err)
		}
		moved = append(moved, host)
	}
	return moved, nil
}

// byDrain is whose hold of the frontier Drain is.
const byDrain = "drain"

// Drain has this node hand all its hosts to others and then stop. It returns at once; the status says how many are left.
func (n *Node) Drain(by string) error {
	if n.overlay == nil {
		return fmt.Errorf("drain: %w: this node crawls alone", ErrNotNow)
	}
	v := n.overlay.there()
	if !v.Majority {
		return fmt.Errorf("drain: %w: it does not see a majority of the nodes", ErrNotNow)
	}
	if !slices.ContainsFunc(v.Settled, func(id string) bool { return id != v.Self && v.IsAlive(id) }) {
		return fmt.Errorf("drain: %w: no other node has been there for long enough to get its hosts", ErrNotNow)
	}
	n.acted(by, "drain")
	poke(n.draining)
	return nil
}

// awaitDrain hands all hosts over when it is told to, and then stops the node.
func (n *Node) awaitDrain(ctx context.Context, stop func()) error {
	select {
	case <-ctx.Done():
		return nil
	case <-n.draining:
	}
	say := func(what string) { n.frontier.Hold(byDrain, "drained: "+what) }
	err := n.overlay.owners.Drain(ctx, func(hosts int64, trouble error) {
		what := fmt.Sprintf("%d hosts are still here", hosts)
		if trouble != nil {
			what += fmt.Sprintf(", the last one because it could not %v", trouble)
		}
		say(what)
	})
	for err == nil && n.overlay.outbox.Pending() > 0 {
		say(fmt.Sprintf("%d links for other nodes are still here", n.overlay.outbox.Pending()))
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(time.Second):
		}
	}
	if ctx.Err() != nil {
		return nil // it is stopped, as it is
	}
	if err == nil {
		n.drained.Store(true)
		stop()
	}
	return err
}

// Lines of a snapshot. A host comes before its URLs.
type (
	snapshotHost struct {
		Host    string `json:"host"`
		Role    string `json:"role"`
		Done    uint64 `json:"done"`
		Failed  uint64 `json:"failed"`
		Dropped uint64 `json:"dropped"`
	}
	snapshotURL struct {
		URL   string `json:"url"`
		Depth uint8  `json:"depth"`
	}
	snapshotEnd struct {
		Hosts int    `json:"hosts"`
		URLs  int    `json:"urls"`
		Error string `json:"error,omitempty"`
	}
)

const (
	// snapshotHosts is how many hosts are read at once, snapshotURLs and snapshotBytes how many URLs and their memory.
	snapshotHosts, snapshotURLs, snapshotBytes = 256, 1000, 1 << 20
	// snapshotPatience is how long the reader of a snapshot may take for a part.
	snapshotPatience = time.Minute
)

// Snapshot writes the hosts of this node and their pending URLs, those of replicas too, one JSON object a line. Each part of a host is as it was at
// one time; the crawl goes on meanwhile. The last line counts them: without it the snapshot is not whole.
func (n *Node) Snapshot(ctx context.Context, w io.Writer) error {
	out := json.NewEncoder(w)
	var end snapshotEnd
	for after := ""; ; {
		hosts, err := n.frontier.List(ctx, after, snapshotHosts)
		if err != nil {
			return err
		}
		if len(hosts) == 0 {
			return out.Encode(end)
		}
		for _, h := range hosts {
			after = h.Host
			if err := out.Encode(snapshotHost{Host: h.Host, Role: h.Role.String(), Done: h.Done, Failed: h.Failed, Dropped: h.Dropped}); err != nil {
				return err
			}
			end.Hosts++
			var at frontier.Cursor
			for over := false; !over; {
				var c frontier.Chunk
				if c, at, over, err = n.frontier.Export(ctx, h.Host, at, snapshotURLs, snapshotBytes); err != nil {
					return err
				}
				for _, p := range c.Pending {
					if err := out.Encode(snapshotURL{identity.URL{Host: h.Host, Path: p.Path}.String(), p.Depth}); err != nil {
						return err
					}
				}
				end.URLs += len(c.Pending)
				over = over || len(c.Done) > 0 || len(c.Pages) > 0 // no pending ones come after those
			}
		}
	}
}

// patient is an answer whose reader has time for each part, not for the whole.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p patient) Write(b []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(snapshotPatience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}
