package home

import (
	"context"
	"errors"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

// Route sorts links by the owners of their hosts: those for this node are returned, the others are in the outbox, on
// disk, when it returns. Until done is called no host can leave this node: the caller writes its own links first.
func (h *Home) Route(ctx context.Context, links []frontier.Link) (mine []frontier.Link, done func(), err error) {
	select {
	case <-h.ready:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	h.gate.RLock()
	mine = links[:0:0]
	var out map[string][]*wire.Link
	var last place
	var lastHost string
	for _, l := range links {
		if l.URL.Host != lastHost { // most links of a page stay at home
			if last, err = h.whereTo(l.URL.Host); err != nil {
				h.gate.RUnlock()
				return nil, nil, err
			}
			lastHost = l.URL.Host
		}
		if last.here {
			l.Origin = last.origin
			mine = append(mine, l)
			continue
		}
		if out == nil {
			out = make(map[string][]*wire.Link)
		}
		out[last.to] = append(out[last.to], toWire(l, last.epoch))
	}
	for to, links := range out {
		if err := h.deps.Outbox.Add(ctx, to, links); err != nil {
			h.gate.RUnlock()
			return nil, nil, err
		}
		h.mu.Lock()
		h.counts.LinksRouted += uint64(len(links))
		h.mu.Unlock()
	}
	return mine, h.gate.RUnlock, nil
}

// place is where links of a host belong.
type place struct {
	here   bool
	origin frontier.Origin
	// to is a node that knows better; this node itself, while it cannot tell yet.
	to    string
	epoch uint64
}

// whereTo finds the place of a host. A host that nobody knows begins here if this is its home.
func (h *Home) whereTo(host string) (place, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.where(host)
}

// where needs mu held.
func (h *Home) where(host string) (place, error) {
	v := &h.horizon.now
	if _, ok := h.leaving[host]; ok {
		return place{to: v.Self}, nil
	}
	r, ok, err := h.records.get(host)
	if err != nil {
		return place{}, err
	}
	home := v.homeOf(host)
	if !ok && home != v.Self { // a home hears it from the owners themselves
		r, ok = h.records.rumour(host)
	}
	switch {
	case ok && r.Owner == v.Self:
		p := place{here: true, epoch: r.Epoch}
		if r.Assigned {
			p.origin = frontier.Assigned
		}
		return p, nil
	case ok && v.alive(r.Owner):
		return place{to: r.Owner, epoch: r.Epoch}, nil
	case home != v.Self || ok:
		return place{to: home}, nil
	case !h.horizon.known || h.collecting(host):
		return place{to: v.Self}, nil
	}
	err = h.put(Record{Host: host, Epoch: 1, Owner: v.Self})
	return place{here: true, epoch: 1}, err
}

func (h *Home) collecting(host string) bool {
	return !h.horizon.now.Majority || h.horizon.collecting(host, time.Now(), h.cfg.Collect)
}

// Destination is where a link of the outbox goes by what is known now; this node itself, while it cannot tell.
func (h *Home) Destination(l *wire.Link) string {
	u, err := identity.Parse(l.GetUrl())
	if err != nil {
		return h.self()
	}
	p, err := h.whereTo(u.Host)
	if err != nil || p.here {
		return h.self()
	}
	return p.to
}

func (h *Home) self() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.horizon.now.Self
}

// Moved takes note of a record that another node answered with.
func (h *Home) Moved(w *wire.Record) error {
	r, ok := fromWire(w)
	if !ok {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Epoch == 0 {
		return h.unlearn(r.Host, w.GetHome())
	}
	return h.learn(r)
}

// unlearn forgets a record that names an owner who says that it knows nothing of the host. The home keeps it: it has
// its own ways to find out. It needs mu held.
func (h *Home) unlearn(host, who string) error {
	v := &h.horizon.now
	r, ok, err := h.records.get(host)
	if said, rumour := h.records.rumour(host); err == nil && rumour && said.Owner == who {
		delete(h.records.cache, host)
	}
	if err != nil || !ok || r.Owner != who || who == v.Self || v.homeOf(host) == v.Self || v.copyOf(host, who) == v.Self {
		return err
	}
	return h.drop(r)
}

// learn takes note of who owns a host that is not this node's business otherwise: in memory. It needs mu held.
func (h *Home) learn(r Record) error {
	old, had, err := h.records.get(r.Host)
	if err != nil || (had && !r.Newer(old)) {
		return err
	}
	self := h.horizon.now.Self
	if r.Owner == self || (had && old.Owner == self) {
		return nil // what concerns this node itself is told by the home, not by who answers a link
	}
	if had {
		return h.put(r)
	}
	if h.horizon.now.homeOf(r.Host) == self {
		return nil // the owner will claim it
	}
	if said, ok := h.records.rumour(r.Host); !ok || r.Newer(said) {
		h.records.remember(r.Host, cached{r, true})
	}
	return nil
}

// Deliver answers links that another node, or this node's own outbox, holds for the hosts of this one.
func (h *Home) Deliver(ctx context.Context, _ string, req *wire.DeliverRequest) (*wire.DeliverResponse, error) {
	if err := h.begun(); err != nil {
		return nil, err
	}
	h.gate.RLock()
	defer h.gate.RUnlock()
	res := &wire.DeliverResponse{Answers: make([]*wire.Delivered, len(req.GetLinks()))}
	var links []frontier.Link
	var at []int
	for i, w := range req.GetLinks() {
		res.Answers[i] = &wire.Delivered{}
		l, answer, err := h.judge(w)
		if err != nil {
			return nil, err
		}
		if answer != nil {
			res.Answers[i] = answer
			continue
		}
		links, at = append(links, l), append(at, i)
	}
	verdicts, err := h.deps.Frontier.Add(ctx, links)
	if err != nil && !errors.Is(err, frontier.ErrDiskFull) {
		return nil, err
	}
	for j, i := range at {
		if j >= len(verdicts) {
			res.Answers[i] = later("the disk is full")
			continue
		}
		switch verdicts[j] {
		case frontier.Accepted:
			res.Answers[i].Verdict = wire.Verdict_VERDICT_ACCEPTED
		case frontier.Duplicate:
			res.Answers[i].Verdict = wire.Verdict_VERDICT_DUPLICATE
		case frontier.NotOwn:
			res.Answers[i] = later("the host is on its way")
		default:
			res.Answers[i] = refused(verdicts[j].String())
		}
	}
	h.mu.Lock()
	h.counts.LinksDelivered += uint64(len(links))
	h.mu.Unlock()
	return res, nil
}

// judge says what a link is, or answers it.
func (h *Home) judge(w *wire.Link) (frontier.Link, *wire.Delivered, error) {
	u, err := identity.Parse(w.GetUrl())
	if err != nil || w.GetDepth() > 255 || w.GetHops() > 255 {
		return frontier.Link{}, refused("not a URL"), nil
	}
	l := frontier.Link{URL: u, Depth: uint8(w.GetDepth()), Hops: uint8(w.GetHops()), Sitemap: w.GetSitemap()}
	// First this: a host of which nothing is wanted gets no record.
	if reason := h.deps.Admit(l); reason != "" {
		return l, refused(reason), nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	v := &h.horizon.now
	p, err := h.where(u.Host)
	switch {
	case err != nil:
		return l, nil, err
	case p.here:
		l.Origin = p.origin
		return l, nil, nil
	case p.to == v.Self:
		return l, later("its owner is not known yet"), nil
	}
	record := &wire.Record{Host: u.Host, Epoch: p.epoch, Owner: p.to, Home: v.Self}
	return l, &wire.Delivered{Verdict: wire.Verdict_VERDICT_MOVED, Record: record}, nil
}

func refused(reason string) *wire.Delivered {
	return &wire.Delivered{Verdict: wire.Verdict_VERDICT_REFUSED, Reason: reason}
}

func later(reason string) *wire.Delivered {
	return &wire.Delivered{Verdict: wire.Verdict_VERDICT_LATER, Reason: reason}
}

func toWire(l frontier.Link, epoch uint64) *wire.Link {
	return &wire.Link{Url: l.URL.String(), Depth: uint32(l.Depth), Hops: uint32(l.Hops), Sitemap: l.Sitemap, Epoch: epoch}
}
