package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/bell"
	"proxima/node/peer"
	"proxima/node/runlog"
)

// Operator does what an operator may ask of a running node. Each act is logged, with who asked for it, before it is done.
type Operator struct {
	node *Node
	// draining rings when the node is to be drained. drained is true once it is.
	draining bell.Bell
	drained  atomic.Bool
	rotating sync.Mutex // held while the secret file is changed
	// live is the configuration in force. It differs from the one that the node was started with only in live keys.
	live      atomic.Pointer[Config]
	adjusting sync.Mutex // held while live changes
	// reread reads the configuration of the node again. It is nil if there is no file.
	reread func() (Config, error)
}

func newOperator(n *Node, reread func() (Config, error)) *Operator {
	o := &Operator{node: n, draining: bell.New(), reread: reread}
	o.live.Store(&n.cfg)
	return o
}

// byOperator is who acts on the socket of the node. It is also the name of the hold that Pause puts on the frontier.
const byOperator = "operator"

var (
	// ErrNotNow means that something cannot be done in the present state.
	ErrNotNow = errors.New("that cannot be done now")
	// ErrNotHere means that a host does not belong to this node.
	ErrNotHere = errors.New("it has no URLs here: another node owns it, or nobody has heard of it")
	// ErrAlone means that a node has no overlay.
	ErrAlone = errors.New("the node crawls alone: it waits for nobody")
)

func (o *Operator) log(by, act string, more ...any) {
	o.node.runlog.Events().Info(runlog.EventControl, append([]any{runlog.KeyReason, act, runlog.KeyBy, by}, more...)...)
}

// failed logs that an act failed, which the log has already.
func (o *Operator) failed(by, act string, err error) {
	o.node.runlog.Events().Warn(runlog.EventControl, runlog.KeyReason, public(fmt.Sprintf("%s failed: %v", act, err)), runlog.KeyBy, by)
}

// Pause lets no new request begin until Resume, not even after a restart. Downloads under way end. In an overlay the node keeps its hosts,
// which wait with it.
func (o *Operator) Pause(by string) error { return o.pause(by, "pause", true) }

// Resume ends Pause.
func (o *Operator) Resume(by string) error { return o.pause(by, "resume", false) }

func (o *Operator) pause(by, act string, on bool) error {
	o.log(by, act)
	if err := o.node.told.pause(on); err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	return nil
}

// hold keeps the frontier from giving out URLs while the node is paused.
func (o *Operator) hold(paused bool) {
	why := ""
	if paused {
		why = "paused by its operator (proxima ctl resume lets it go on)"
	}
	o.node.frontier.Hold(byOperator, why)
}

// AddSeeds adds seeds to the crawl as if they had been given at the start: they widen the scope according to scope.seed_scope, and are
// remembered. It returns how many were refused, by reason.
func (o *Operator) AddSeeds(ctx context.Context, seeds []identity.URL, by string) (refused map[string]int, err error) {
	if err := o.room(); err != nil {
		return nil, fmt.Errorf("add seeds: %w", err)
	}
	o.log(by, "add seeds: "+listed(texts(seeds)))
	if err := o.node.told.seed(seeds); err != nil {
		return nil, err
	}
	return o.node.loop.Seed(ctx, seeds)
}

// room fails if the node can write nothing: an act that writes would wait, and its operator with it.
func (o *Operator) room() error {
	if !o.node.frontier.Writable() {
		return frontier.ErrDiskFull
	}
	return nil
}

// owned returns the hosts that a name stands for and that this node owns, to do something with them.
func (o *Operator) owned(ctx context.Context, name string) (hosts []string, err error) {
	if err := o.room(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, host := range hostsOf(name) {
		role, known, err := o.node.frontier.RoleOf(ctx, host)
		if err != nil {
			return nil, err
		}
		if known && role == frontier.Owned {
			hosts = append(hosts, host)
		}
	}
	if len(hosts) == 0 {
		err = notHere(name)
	}
	return hosts, err
}

// Drop gives up the pending URLs of a host. A name without a scheme stands for its http and its https host. Drop returns how many URLs it
// gave up, even with an error. URLs of the host that are found later are accepted again; only a block keeps them away.
func (o *Operator) Drop(ctx context.Context, name, by string) (dropped int, err error) {
	hosts, err := o.owned(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("drop %w", err)
	}
	for _, host := range hosts {
		o.log(by, "drop", runlog.KeyHost, host)
		urls, err := o.node.frontier.DropHost(ctx, host, "dropped by the operator")
		if err != nil {
			return dropped, err
		}
		dropped += urls
	}
	return dropped, nil
}

// Retry has a host of this node asked now, as if it had never failed.
func (o *Operator) Retry(ctx context.Context, name, by string) error {
	hosts, err := o.owned(ctx, name)
	if err != nil {
		return fmt.Errorf("retry %w", err)
	}
	for _, host := range hosts {
		o.log(by, "retry", runlog.KeyHost, host)
		if err := o.node.frontier.Retry(ctx, host); err != nil {
			return err
		}
	}
	return nil
}

// Move makes a member the owner of a host of this node, and of all other hosts of its server: the owner of one needs the lease that the
// others need. They stay there until another node turns out to be better. to is the member's id, or a beginning of it that no other id
// has. Move returns the hosts that it moved.
func (o *Operator) Move(ctx context.Context, name, to, by string) (moved []string, err error) {
	overlay := o.node.overlay
	if overlay == nil {
		return nil, fmt.Errorf("move %s: %w: this node crawls alone", name, ErrNotNow)
	}
	members := slices.DeleteFunc(slices.Clone(overlay.there().Alive), func(id string) bool { return !strings.HasPrefix(id, to) })
	if len(members) != 1 {
		return nil, fmt.Errorf("move %s: %w: %d members that answer have an id that begins with %q", name, ErrNotNow, len(members), to)
	}
	hosts, err := o.owned(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("move %w", err)
	}
	for _, host := range hosts {
		if addr, err := netip.ParseAddr(o.node.frontier.Explain(host).Server); err == nil {
			hosts = append(hosts, o.node.frontier.HostsAt(addr)...)
		}
	}
	slices.Sort(hosts)
	for _, host := range slices.Compact(hosts) {
		o.log(by, "move to "+members[0], runlog.KeyHost, host)
		if err := overlay.owners.Move(ctx, host, members[0]); err != nil {
			return moved, fmt.Errorf("%w: %w", ErrNotNow, err)
		}
		moved = append(moved, host)
	}
	return moved, nil
}

// GoAlone tells the node that the members that do not answer it now will not come back. It returns the ids of those whose votes counted.
func (o *Operator) GoAlone(by string) (gone []string, err error) {
	if o.node.overlay == nil {
		return nil, ErrAlone
	}
	o.log(by, "go alone")
	return o.node.overlay.members.GoAlone("an operator said so")
}

// RotateSecret is peer.Rotate for this node's secret file. The node reads the file again soon.
func (o *Operator) RotateSecret(by string) (next string, err error) {
	if o.node.overlay == nil {
		return "", fmt.Errorf("rotate secret: %w: this node crawls alone", ErrNotNow)
	}
	o.rotating.Lock()
	defer o.rotating.Unlock()
	o.log(by, "rotate secret")
	return peer.Rotate(o.node.cfg.Peer.Secret)
}

// byDrain is the name of the hold that Drain puts on the frontier.
const byDrain = "drain"

// Drain makes this node hand over all its hosts and then stop. It returns at once. The node's status says how many hosts are left.
func (o *Operator) Drain(by string) error {
	if o.node.overlay == nil {
		return fmt.Errorf("drain: %w: this node crawls alone", ErrNotNow)
	}
	v := o.node.overlay.there()
	if !v.Majority {
		return fmt.Errorf("drain: %w: it does not see a majority of the nodes", ErrNotNow)
	}
	if !slices.ContainsFunc(v.Settled, func(id string) bool { return slices.Contains(v.Others(), id) }) {
		return fmt.Errorf("drain: %w: no other node has been there for long enough to get its hosts", ErrNotNow)
	}
	o.log(by, "drain")
	o.draining.Ring()
	return nil
}

// leavePatience is how long a node that is drained tries to give back its share of crawl.max_pages.
const leavePatience = 20 * time.Second

// awaitDrain waits for Drain. It then hands over all hosts and stops the node.
func (o *Operator) awaitDrain(ctx context.Context, stop func()) error {
	select {
	case <-ctx.Done():
		return nil
	case <-o.draining:
	}
	overlay := o.node.overlay
	say := func(what string) { o.node.frontier.Hold(byDrain, "draining: "+what) }
	drain := func() error {
		return overlay.owners.Drain(ctx, func(hosts int64, trouble error) {
			what := fmt.Sprintf("hosts still here: %d", hosts)
			if trouble != nil {
				what += fmt.Sprintf("; the last one because it could not %v", trouble)
			}
			say(what)
		})
	}
	err := drain()
	for err == nil && overlay.outbox.Pending() > 0 {
		for err == nil && overlay.outbox.Pending() > 0 {
			say(fmt.Sprintf("links for other nodes still here: %d", overlay.outbox.Pending()))
			err = bell.Sleep(ctx, time.Second)
		}
		if err == nil {
			err = drain() // it has taken over the hosts of nodes that died meanwhile
		}
	}
	if err == nil {
		say("the pages of the limit that it does not need are given back")
		leaving, cancel := context.WithTimeout(ctx, leavePatience)
		overlay.shares.Leave(leaving)
		cancel()
	}
	if ctx.Err() != nil {
		return nil // the node is stopped before it is drained
	}
	if err == nil {
		o.drained.Store(true)
		stop()
	}
	return err
}

func texts(urls []identity.URL) []string {
	out := make([]string, len(urls))
	for i, u := range urls {
		out[i] = u.String()
	}
	return out
}
