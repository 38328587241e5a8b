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
	"proxima/node/bell"
	"proxima/node/wire"
)

// router sends links to the owners of their hosts, and answers links that other nodes deliver.
type router struct {
	*book
	census     *census
	replicator *replicator

	rumours    map[string]Record // hearsay about owners of hosts without a record here; used for routing only. The lock of the book guards it
	complaints bell.Hush         // that links are on one disk only
}

func newRouter(b *book, c *census, rep *replicator) *router {
	return &router{book: b, census: c, replicator: rep, rumours: make(map[string]Record)}
}

// Route returns the links whose hosts this node owns, and stores the others in the outbox, on disk. If a host moves away before
// its links reach the frontier, that answers NotOwned, and the links go to PassOn.
func (rt *router) Route(ctx context.Context, links []frontier.Link) (mine []frontier.Link, err error) {
	select {
	case <-rt.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return rt.route(ctx, links, false)
}

// Ending is called before a page of this node is done or has failed. If the replica may not know it yet, it is stored in the outbox, and
// comes back by Deliver: then only its hash is kept here, and while the replica must not hear that it is done, nobody could tell of it.
func (rt *router) Ending(ctx context.Context, page frontier.Link) error {
	v, stream := rt.view(), rt.replicator.stream
	if v.Replica(page.URL.Host, v.Self) == "" {
		return nil
	}
	select {
	case stream.gathering <- struct{}{}: // nothing is on its way from the frontier to the stream
	case <-ctx.Done():
		return ctx.Err()
	}
	unknown := rt.deps.Frontier.Untold(page.URL) || stream.unknown(page.URL.Host, page.URL.Path)
	<-stream.gathering
	if !unknown {
		return nil
	}
	return rt.deps.Outbox.Add(ctx, map[string][]*wire.Link{v.Self: {LinkToWire(page)}})
}

// PassOn stores all links in the outbox, because their hosts are moving.
func (rt *router) PassOn(ctx context.Context, links []frontier.Link) error {
	_, err := rt.route(ctx, links, true)
	return err
}

// route is Route, or PassOn if all is set.
func (rt *router) route(ctx context.Context, links []frontier.Link, all bool) (mine []frontier.Link, err error) {
	out := make(map[string][]*wire.Link)
	found := false
	var p place
	var host string
	for _, l := range links {
		if l.URL.Host != host { // most links of a page have the same host
			if p, err = rt.whereTo(l.URL.Host); err != nil {
				return nil, err
			}
			host = l.URL.Host
			found = found || p.found
		}
		if p.here && !all {
			l.Origin = p.origin
			mine = append(mine, l)
		} else {
			out[p.to] = append(out[p.to], LinkToWire(l))
		}
	}
	if found { // a new host's record must be on disk before its URLs
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
	here   bool // this node owns the host
	found  bool // the host is new: its record was made just now
	origin frontier.Origin
	to     string // the owner, or a node that knows better; this node if it cannot tell yet
	epoch  uint64
}

// whereTo finds the place of a host. If this node is the home and nobody knows the host, it becomes the owner.
func (rt *router) whereTo(host string) (p place, err error) {
	_, _, err = rt.edit(host, func(r Record) Record {
		v := rt.views.Now()
		_, leaving := rt.proposals[host]
		said, rumoured := rt.rumours[host]
		switch {
		case leaving:
			p = place{to: v.Self}
		case r.Owner == v.Self:
			p = place{here: true, to: v.Self, epoch: r.Epoch, origin: r.origin()}
		case r.Owner != "" && v.IsAlive(r.Owner): // the usual case
			p = place{to: r.Owner, epoch: r.Epoch}
		case r.Owner == "" && rumoured && v.IsAlive(said.Owner) && v.Home(host) != v.Self: // a home relies on claims, not on rumours
			p = place{to: said.Owner, epoch: said.Epoch}
		case r.Owner != "" || v.Home(host) != v.Self:
			p = place{to: v.Home(host)}
		case rt.census.collectingLocked(host, time.Now()):
			p = place{to: v.Self}
		default:
			p = place{here: true, found: true, to: v.Self, epoch: 1}
			return Record{Host: host, Epoch: 1, Owner: v.Self}
		}
		return r
	})
	return p, err
}

// Destination returns the node to which a link of the outbox goes now, this node if that is not known yet.
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

// Moved takes note of the record with which another node answered a link. A record without an epoch says that its Home does not know the host, or
// does not answer.
func (rt *router) Moved(w *wire.Record) error {
	if w.GetEpoch() == 0 && identity.CheckHost(w.GetHost()) == nil {
		return rt.unlearn(w.GetHost(), w.GetHome())
	}
	said, ok := fromWire(w)
	if !ok {
		return nil
	}
	_, _, err := rt.edit(said.Host, func(r Record) Record {
		v := rt.views.Now()
		before, rumoured := rt.rumours[said.Host]
		switch {
		case said.Owner == v.Self || r.Owner == v.Self:
			// Only the home may say what this node owns.
		case r.Owner != "":
			if said.Newer(r) {
				return said
			}
		case v.Home(said.Host) == v.Self:
			// The owner will claim it.
		case !rumoured || said.Newer(before):
			if len(rt.rumours) >= rt.cfg.CachedRecords {
				clear(rt.rumours) // popular ones soon return
			}
			rt.rumours[said.Host] = said
		}
		return r
	})
	return err
}

// unlearn drops a record whose owner says that it does not know the host, or does not answer. A node that must keep the record, or has a copy, finds
// out in other ways.
func (rt *router) unlearn(host, who string) error {
	rt.mu.Lock()
	if rt.rumours[host].Owner == who {
		delete(rt.rumours, host)
	}
	rt.mu.Unlock()
	if _, known, err := rt.deps.Frontier.RoleOf(context.Background(), host); err != nil || known {
		rt.queue.add(host, false) // bring the copy to its owner
		return err
	}
	return rt.forget(host, who)
}

// Deliver takes in links from another node's outbox, or this node's own. A link that is acknowledged is on two disks: here and at
// the replica of its host.
func (rt *router) Deliver(ctx context.Context, from string, req *wire.DeliverRequest) (*wire.DeliverResponse, error) {
	if err := rt.begun(); err != nil {
		return nil, err
	}
	if req.GetKeep() {
		return rt.keep(ctx, from, req.GetLinks())
	}
	res := &wire.DeliverResponse{Answers: make([]*wire.Delivered, len(req.GetLinks()))}
	var links []frontier.Link
	var at []int // their places in the request
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
	answers, err := rt.takeIn(ctx, from, links)
	if err != nil {
		return nil, err
	}
	for j, i := range at {
		res.Answers[i] = answers[j]
	}
	return res, nil
}

// takeIn adds links to the frontier, and answers when their replicas have them.
func (rt *router) takeIn(ctx context.Context, from string, links []frontier.Link) ([]*wire.Delivered, error) {
	if err := rt.records.flush(); err != nil {
		return nil, err
	}
	verdicts, err := rt.deps.Frontier.Add(ctx, links)
	if err != nil && !errors.Is(err, frontier.ErrDiskFull) {
		return nil, err
	}
	answers := make([]*wire.Delivered, len(links))
	var kept []string
	var again []frontier.Link
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
			kept, again = append(kept, l.URL.Host), append(again, l) // the first one may have been accepted just now
			answers[i] = &wire.Delivered{Verdict: wire.Verdict_VERDICT_DUPLICATE}
		case frontier.NotOwned:
			answers[i] = later("the host is on its way")
		case frontier.GivenUp: // final once the replica has heard of it: else it would go on with the host, and lack the link
			kept = append(kept, l.URL.Host)
			answers[i] = refused(verdicts[i].String())
		default:
			answers[i] = refused(verdicts[i].String())
		}
	}
	rt.mu.Lock()
	rt.counts.LinksDelivered += uint64(len(links))
	rt.mu.Unlock()
	late, err := rt.replicated(ctx, kept)
	if from != rt.self() { // the replica may lack what is known here; nobody waits for one that is full for long
		again = rt.replicator.stream.unsure(again, time.Now().Add(-2*rt.cfg.TakeAfter))
	}
	if err == nil {
		err = rt.replicator.repeat(ctx, again, late)
	}
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

// keep stores a copy of links that another node cannot deliver yet in this node's outbox, so that they are on two disks.
func (rt *router) keep(ctx context.Context, from string, links []*wire.Link) (*wire.DeliverResponse, error) {
	if _, err := rt.deps.Frontier.Add(ctx, nil); err != nil { // fails if the disk is full
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

const (
	// replicatedWithin is how long an answer to links waits for their replicas.
	replicatedWithin = 3 * time.Second
	// complainEvery is how often the log says that links are on one disk only.
	complainEvery = time.Minute
)

// replicated waits until links are at the replicas of their hosts, and returns the hosts that are late. hosts has one entry for
// each link. A replica at a dead node is late until that node is back, or another has taken its place, and has stored them. If its node is alive and
// has not answered for SuspendAfter, or there is no other node, this node's disk must do.
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
	v := rt.view()
	there := slices.DeleteFunc(slices.Clone(hosts), func(host string) bool { return !v.HasReplica(host, v.Self) })
	late, alone := rt.replicator.stream.await(ctx, there, time.Now(), links, replicatedWithin, rt.cfg.SuspendAfter)
	if alone > 0 {
		if _, heard := rt.complaints.Heard(time.Now(), complainEvery); heard {
			rt.deps.Warn(fmt.Errorf("links to %d hosts are on one disk only: for %v the nodes that keep their replicas have not stored them",
				alone, rt.cfg.SuspendAfter))
		}
	}
	for _, host := range hosts {
		r, err := rt.records.get(host)
		if err != nil {
			return nil, err
		}
		if _, two := slices.BinarySearch(there, host); !two || r.Owner != v.Self { // they are here only, or it has moved away without them
			late[host] = true
		}
	}
	return late, nil
}

// judge returns a link that belongs here, or the answer to one that does not.
func (rt *router) judge(w *wire.Link) (frontier.Link, *wire.Delivered, error) {
	l, ok := LinkOf(w)
	if !ok {
		return l, refused("not a URL"), nil
	}
	// First, so that a host of which nothing is wanted gets no record.
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

// LinkOf reads a link from a message; false if it is malformed.
func LinkOf(w *wire.Link) (l frontier.Link, ok bool) {
	u, err := identity.Parse(w.GetUrl())
	if err != nil || w.GetDepth() > math.MaxUint8 || w.GetHops() > math.MaxUint8 {
		return frontier.Link{}, false
	}
	return frontier.Link{URL: u, Depth: uint8(w.GetDepth()), Hops: uint8(w.GetHops()), Sitemap: w.GetSitemap()}, true
}

// LinkToWire makes the message for a link.
func LinkToWire(l frontier.Link) *wire.Link {
	return &wire.Link{Url: l.URL.String(), Depth: uint32(l.Depth), Hops: uint32(l.Hops), Sitemap: l.Sitemap}
}
