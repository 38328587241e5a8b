package ownership

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

// router finds the nodes that links are for, and answers those that other nodes deliver.
type router struct {
	*book
	census     *census
	replicator *replicator

	// The lock of the book guards what follows.
	rumours    map[string]Record // who is said to own hosts of which there is no record: good to route by, and no more
	complained time.Time         // when a person last heard of links without a second copy
}

func newRouter(b *book, c *census, rep *replicator) *router {
	return &router{book: b, census: c, replicator: rep, rumours: make(map[string]Record)}
}

// changedLocked forgets what was said of a host: there is a record now, or it is out of date.
func (rt *router) changedLocked(host string, _ Record) { delete(rt.rumours, host) }

// Route sorts links by the owners of their hosts: those for this node are returned, the others are in the outbox, on
// disk, when it returns. A host may go elsewhere meanwhile: the frontier then says NotOwned of its links, and PassOn takes
// them.
func (rt *router) Route(ctx context.Context, links []frontier.Link) (mine []frontier.Link, err error) {
	select {
	case <-rt.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return rt.route(ctx, links, false)
}

// PassOn keeps links in the outbox whose hosts are on their way from or to this node.
func (rt *router) PassOn(ctx context.Context, links []frontier.Link) error {
	_, err := rt.route(ctx, links, true)
	return err
}

func (rt *router) route(ctx context.Context, links []frontier.Link, all bool) (mine []frontier.Link, err error) {
	mine = links[:0:0]
	var out map[string][]*wire.Link
	var last place
	var lastHost string
	found := false
	for _, l := range links {
		if l.URL.Host != lastHost { // most links of a page stay at home
			if last, err = rt.whereTo(l.URL.Host); err != nil {
				return nil, err
			}
			lastHost = l.URL.Host
			found = found || last.found
		}
		if last.here && !all {
			l.Origin = last.origin
			mine = append(mine, l)
			continue
		}
		if out == nil {
			out = make(map[string][]*wire.Link)
		}
		out[last.to] = append(out[last.to], LinkToWire(l))
	}
	if found { // the record of a host is on disk before its URLs
		if err := rt.records.flush(); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return mine, nil
	}
	if err := rt.deps.Outbox.Add(ctx, out); err != nil {
		return nil, err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, links := range out {
		rt.counts.LinksRouted += uint64(len(links))
	}
	return mine, nil
}

// place is where links of a host belong.
type place struct {
	here   bool
	found  bool // it begins here, by this
	origin frontier.Origin
	// to is a node that knows better; this node itself, where it owns the host or cannot tell yet.
	to    string
	epoch uint64
}

// whereTo finds the place of a host. A host that nobody knows begins here if this is its home.
func (rt *router) whereTo(host string) (p place, err error) {
	_, _, err = rt.edit(host, func(r Record, ok bool) (Record, bool) {
		v := rt.views.Now()
		_, leaving := rt.proposals[host]
		switch {
		case leaving:
			p = place{to: v.Self}
			return r, false
		case r.Owner == v.Self:
			p = place{here: true, to: v.Self, epoch: r.Epoch, origin: r.origin()}
			return r, false
		case ok && v.IsAlive(r.Owner): // most links end here: nothing else need be looked at
			p = place{to: r.Owner, epoch: r.Epoch}
			return r, false
		}
		home := v.Home(host)
		said, rumoured := rt.rumours[host]
		switch {
		case !ok && rumoured && home != v.Self && v.IsAlive(said.Owner): // a home hears it from the owners themselves
			p = place{to: said.Owner, epoch: said.Epoch}
		case home != v.Self || ok:
			p = place{to: home}
		case rt.census.collectingLocked(host, time.Now()):
			p = place{to: v.Self}
		default:
			p = place{here: true, found: true, to: v.Self, epoch: 1}
			return Record{Host: host, Epoch: 1, Owner: v.Self}, true
		}
		return r, false
	})
	return p, err
}

// Destination is where a link of the outbox goes by what is known now; this node itself, while it cannot tell.
func (rt *router) Destination(l *wire.Link) string {
	u, err := identity.Parse(l.GetUrl())
	if err != nil {
		return rt.self()
	}
	p, err := rt.whereTo(u.Host)
	if err != nil || p.to == "" {
		return rt.self()
	}
	return p.to
}

// Moved takes note of a record that another node answered a link with.
func (rt *router) Moved(w *wire.Record) error {
	if w.GetEpoch() == 0 && identity.CheckHost(w.GetHost()) == nil {
		return rt.unlearn(w.GetHost(), w.GetHome())
	}
	said, ok := fromWire(w)
	if !ok {
		return nil
	}
	_, _, err := rt.edit(said.Host, func(r Record, ok bool) (Record, bool) {
		v := rt.views.Now()
		before, rumoured := rt.rumours[said.Host]
		switch {
		case said.Owner == v.Self || ok && r.Owner == v.Self:
			// What concerns this node itself is told by the home, not by who answers a link.
		case ok:
			return said, said.Newer(r)
		case v.Home(said.Host) == v.Self:
			// The owner will claim it.
		case !rumoured || said.Newer(before):
			if len(rt.rumours) >= rt.cfg.CachedRecords {
				clear(rt.rumours) // what is asked for often is soon back
			}
			rt.rumours[said.Host] = said
		}
		return r, false
	})
	return err
}

// unlearn forgets a record that names an owner who says that it knows nothing of the host. Who has a part in
// the host keeps it, with ways of its own to find out.
func (rt *router) unlearn(host, who string) error {
	rt.mu.Lock()
	if rt.rumours[host].Owner == who {
		delete(rt.rumours, host)
	}
	rt.mu.Unlock()
	if _, known, err := rt.deps.Frontier.RoleOf(context.Background(), host); err != nil || known {
		rt.queue.add(host, false) // what is here must find its owner
		return err
	}
	_, _, err := rt.edit(host, func(r Record, ok bool) (Record, bool) {
		v := rt.views.Now()
		return Record{}, ok && r.Owner == who && !concerned(v, r)
	})
	return err
}

// Deliver answers links that another node, or this node's own outbox, holds for the hosts of this one. What is
// acknowledged survives the loss of this node's disk: the replicas have it, too.
func (rt *router) Deliver(ctx context.Context, from string, req *wire.DeliverRequest) (*wire.DeliverResponse, error) {
	if err := rt.begun(); err != nil {
		return nil, err
	}
	if req.GetKeep() {
		return rt.keep(ctx, from, req.GetLinks())
	}
	res := &wire.DeliverResponse{Answers: make([]*wire.Delivered, len(req.GetLinks()))}
	var links []frontier.Link
	var at []int // of links, in the request
	for i, w := range req.GetLinks() {
		l, answer, err := rt.judge(w)
		if err != nil {
			return nil, err
		}
		if res.Answers[i] = answer; answer == nil {
			links, at = append(links, l), append(at, i)
		}
	}
	if len(links) == 0 {
		return res, nil
	}
	answers, err := rt.takeIn(ctx, links)
	if err != nil {
		return nil, err
	}
	for j, i := range at {
		res.Answers[i] = answers[j]
	}
	return res, nil
}

// takeIn adds links to the hosts that this node owns, and answers them when the replicas have them, too.
func (rt *router) takeIn(ctx context.Context, links []frontier.Link) ([]*wire.Delivered, error) {
	if err := rt.records.flush(); err != nil {
		return nil, err
	}
	verdicts, err := rt.deps.Frontier.Add(ctx, links)
	if err != nil && !errors.Is(err, frontier.ErrDiskFull) {
		return nil, err
	}
	answers := make([]*wire.Delivered, len(links))
	var kept []string
	for i, l := range links {
		if i >= len(verdicts) {
			answers[i] = later("the disk is full")
			continue
		}
		switch verdicts[i] {
		case frontier.Accepted:
			kept = append(kept, l.URL.Host)
			answers[i] = &wire.Delivered{Verdict: wire.Verdict_VERDICT_ACCEPTED}
		case frontier.Duplicate:
			kept = append(kept, l.URL.Host) // another link to it may just have been accepted
			answers[i] = &wire.Delivered{Verdict: wire.Verdict_VERDICT_DUPLICATE}
		case frontier.NotOwned:
			answers[i] = later("the host is on its way")
		default:
			answers[i] = refused(verdicts[i].String())
		}
	}
	rt.mu.Lock()
	rt.counts.LinksDelivered += uint64(len(links))
	rt.mu.Unlock()
	late, err := rt.replicated(ctx, kept)
	if err != nil {
		return nil, err
	}
	for i, l := range links[:len(verdicts)] {
		if late[l.URL.Host] {
			answers[i] = later("its replica does not have it yet")
		}
	}
	return answers, nil
}

// keep puts links into this node's outbox that another one could not deliver yet, so that they are on two disks.
func (rt *router) keep(ctx context.Context, from string, links []*wire.Link) (*wire.DeliverResponse, error) {
	if _, err := rt.deps.Frontier.Add(ctx, nil); err != nil { // the disk is full
		return nil, err
	}
	res := &wire.DeliverResponse{}
	out := make(map[string][]*wire.Link)
	for _, l := range links {
		if _, ok := LinkOf(l); !ok {
			res.Answers = append(res.Answers, refused("not a URL"))
			continue
		}
		to := rt.Destination(l)
		out[to] = append(out[to], l)
		res.Answers = append(res.Answers, &wire.Delivered{Verdict: wire.Verdict_VERDICT_ACCEPTED})
	}
	if err := rt.deps.Outbox.Keep(ctx, from, out); err != nil {
		return nil, err
	}
	return res, rt.deps.Frontier.Sync(ctx)
}

// replicatedWithin is how long an answer to links waits for the replicas of their hosts.
const replicatedWithin = 3 * time.Second

// replicated waits until the links that were taken for hosts, one for each time that it is named, are safe: on the disks of
// this node and of the replica. It returns the hosts where that is not so. Where there is no replica, or none that has
// answered for long, this node's disk must do.
func (rt *router) replicated(ctx context.Context, hosts []string) (late map[string]bool, err error) {
	if len(hosts) == 0 {
		return nil, nil
	}
	if err := rt.replicator.gather(ctx); err != nil {
		return nil, err
	}
	links := len(hosts)
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	missing, alone := rt.replicator.stream.await(ctx, hosts, time.Now(), links, replicatedWithin, rt.cfg.FenceAfter)
	if alone > 0 && rt.complain() {
		rt.warn(fmt.Errorf("links to %d hosts are on one disk only: for %v the nodes that keep their replicas have not stored them", alone, rt.cfg.FenceAfter))
	}
	late = make(map[string]bool)
	for _, host := range missing {
		late[host] = true
	}
	for _, host := range hosts {
		if r, _, err := rt.records.get(host); err != nil {
			return nil, err
		} else if r.Owner != rt.self() { // it has gone, and nobody sends what was found meanwhile
			late[host] = true
		}
	}
	return late, nil
}

// complain says whether a person should hear again of what goes on for long: once a minute.
func (rt *router) complain() bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	now := time.Now()
	if now.Sub(rt.complained) < time.Minute {
		return false
	}
	rt.complained = now
	return true
}

// judge says what a link is, or answers it.
func (rt *router) judge(w *wire.Link) (frontier.Link, *wire.Delivered, error) {
	l, ok := LinkOf(w)
	if !ok {
		return l, refused("not a URL"), nil
	}
	// First this: a host of which nothing is wanted gets no record.
	if reason := rt.deps.Admit(l); reason != "" {
		return l, refused(reason), nil
	}
	p, err := rt.whereTo(l.URL.Host)
	self := rt.self()
	switch {
	case err != nil:
		return l, nil, err
	case p.here:
		l.Origin = p.origin
		return l, nil, nil
	case p.to == self:
		return l, later("its owner is not known yet"), nil
	}
	record := &wire.Record{Host: l.URL.Host, Epoch: p.epoch, Owner: p.to, Home: self}
	return l, &wire.Delivered{Verdict: wire.Verdict_VERDICT_MOVED, Record: record}, nil
}

func refused(reason string) *wire.Delivered {
	return &wire.Delivered{Verdict: wire.Verdict_VERDICT_REFUSED, Reason: reason}
}

func later(reason string) *wire.Delivered {
	return &wire.Delivered{Verdict: wire.Verdict_VERDICT_LATER, Reason: reason}
}

// LinkOf reads a link of a message; false: it is none.
func LinkOf(w *wire.Link) (l frontier.Link, ok bool) {
	u, err := identity.Parse(w.GetUrl())
	if err != nil || w.GetDepth() > math.MaxUint8 || w.GetHops() > math.MaxUint8 {
		return frontier.Link{}, false
	}
	return frontier.Link{URL: u, Depth: uint8(w.GetDepth()), Hops: uint8(w.GetHops()), Sitemap: w.GetSitemap()}, true
}

// LinkToWire makes the message of a link.
func LinkToWire(l frontier.Link) *wire.Link {
	return &wire.Link{Url: l.URL.String(), Depth: uint32(l.Depth), Hops: uint32(l.Hops), Sitemap: l.Sitemap}
}
