package ownership

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/node/peer"
	"proxima/node/view"
	"proxima/node/wire"
)

// parcel is a link that waits for another node.
type parcel struct {
	to    string
	born  time.Time // when the link was found; zero if that was in an earlier life
	other string    // the node whose outbox has the link, too, if born is copied
}

// copied is the time of birth of links that another outbox has, too.
var copied = time.Unix(1<<40, 0)

// outbox implements Outbox on a disk.
type outbox struct{ disk *disk }

func (o outbox) Add(_ context.Context, links map[string][]*wire.Link) error {
	return o.add(links, parcel{born: time.Now()})
}

func (o outbox) Keep(_ context.Context, from string, links map[string][]*wire.Link) error {
	return o.add(links, parcel{born: copied, other: from})
}

func (o outbox) add(links map[string][]*wire.Link, as parcel) error {
	if err := o.disk.lock(); err != nil {
		return err
	}
	defer o.disk.mu.Unlock()
	for to, links := range links {
		for _, l := range links {
			if p := o.disk.now.outbox[l.GetUrl()]; p == nil || as.born != copied {
				o.disk.now.outbox[l.GetUrl()] = &parcel{to: to, born: as.born, other: as.other}
			}
		}
	}
	return nil
}

func (o outbox) Settled(until time.Time) bool {
	o.disk.mu.Lock()
	defer o.disk.mu.Unlock()
	for _, p := range o.disk.now.outbox {
		if !p.born.After(until) {
			return false
		}
	}
	return true
}

func (o outbox) Hurry() {
	o.disk.mu.Lock()
	defer o.disk.mu.Unlock()
	o.disk.urged = time.Now()
}

// sendLinks sends links to another node.
type sendLinks func(to string, req *wire.DeliverRequest) (*wire.DeliverResponse, error)

// deliver sends all links of the outbox once, and acts on the answers as package peer does.
func (d *disk) deliver(own *Ownership, send sendLinks) {
	d.copyLinks(own.view(), send)
	all := d.linksTo()
	for _, to := range slices.Sorted(maps.Keys(all)) {
		links := all[to]
		res, err := send(to, &wire.DeliverRequest{Links: links})
		for i, l := range links {
			if err != nil {
				if v := own.view(); !v.IsAlive(to) {
					d.moveLink(l.GetUrl(), own.Destination(l))
				}
				continue
			}
			answer := res.GetAnswers()[i]
			switch answer.GetVerdict() {
			case wire.Verdict_VERDICT_ACCEPTED, wire.Verdict_VERDICT_DUPLICATE:
				d.moveLink(l.GetUrl(), "")
			case wire.Verdict_VERDICT_MOVED:
				if own.Moved(answer.GetRecord()) == nil {
					d.moveLink(l.GetUrl(), own.Destination(l))
				}
			}
		}
	}
}

// copyLinks copies links that have waited for two seconds, or are urgent, to the outbox of a third node, and links whose other outbox is gone.
func (d *disk) copyLinks(v view.View, send sendLinks) {
	d.mu.Lock()
	byCustodian := map[string][]*wire.Link{}
	for _, url := range slices.Sorted(maps.Keys(d.now.outbox)) {
		p := d.now.outbox[url]
		if p.born == copied && !v.IsAlive(p.other) {
			p.born = time.Now()
		}
		if p.born == copied || time.Since(p.born) < 2*time.Second && p.born.After(d.urged) {
			continue
		}
		if i := slices.IndexFunc(v.Alive, func(id string) bool { return id != v.Self && id != p.to }); i >= 0 {
			byCustodian[v.Alive[i]] = append(byCustodian[v.Alive[i]], &wire.Link{Url: url})
		}
	}
	d.mu.Unlock()
	for to, links := range byCustodian {
		if _, err := send(to, &wire.DeliverRequest{Links: links, Keep: true}); err != nil || d.lock() != nil {
			continue
		}
		for _, l := range links {
			if p := d.now.outbox[l.GetUrl()]; p != nil {
				p.born, p.other = copied, to
			}
		}
		d.mu.Unlock()
	}
}

// linksTo returns the links of the outbox by the nodes that they are for.
func (d *disk) linksTo() (out map[string][]*wire.Link) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out = map[string][]*wire.Link{}
	for _, url := range slices.Sorted(maps.Keys(d.now.outbox)) {
		p := d.now.outbox[url]
		out[p.to] = append(out[p.to], &wire.Link{Url: url})
	}
	return out
}

// moveLink makes a link wait for another node, or drops it if to is "".
func (d *disk) moveLink(url, to string) {
	if d.lock() != nil {
		return
	}
	defer d.mu.Unlock()
	if p := d.now.outbox[url]; p != nil && to != "" {
		p.to = to
	} else {
		delete(d.now.outbox, url)
	}
}

// newOutbox makes the outbox of a life: the real one, in small.
func (l *life) newOutbox() *peer.Outbox {
	cfg := peer.Default()
	cfg.OutboxLinks, cfg.OutboxMessageLinks = 20, 7
	o, err := peer.NewOutbox(cfg, peer.OutboxDeps{
		Shelf:     posts{l.disk},
		Deliver:   call(l, (*Ownership).Deliver),
		Route:     func(link *wire.Link) string { return l.owner.Destination(link) },
		Moved:     func(r *wire.Record) { _ = l.owner.Moved(r) },
		Gone:      func(id string) bool { v := l.owner.view(); return !v.IsAlive(id) },
		Custodian: func(not ...string) string { v := l.owner.view(); return v.Custodian(not...) },
		Refused:   func(to string, link *wire.Link, reason string) { l.w.t.Errorf("%s refuses %v: %s", to, link, reason) },
		Aside:     func(to string, _ int, err error) { l.w.t.Errorf("links for %s are set aside: %v", to, err) },
	})
	if err != nil {
		l.w.t.Errorf("node %d: %v", l.at, err)
	}
	return o
}

// posts is the shelf of an outbox on a disk.
type posts struct{ disk *disk }

func (p posts) Get(key []byte) ([]byte, error) {
	if err := p.disk.lock(); err != nil {
		return nil, err
	}
	defer p.disk.mu.Unlock()
	if v, ok := p.disk.now.posts[string(key)]; ok {
		return []byte(v), nil
	}
	return nil, nil
}

func (p posts) Scan(prefix []byte, visit func(key, value []byte) error) error {
	if err := p.disk.lock(); err != nil {
		return err
	}
	all := maps.Clone(p.disk.now.posts)
	p.disk.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(key, string(prefix)) {
			if err := visit([]byte(key), []byte(all[key])); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p posts) Batch(fill func(set func(key, value []byte), del func(key []byte))) error {
	if err := p.disk.lock(); err != nil {
		return err
	}
	defer p.disk.mu.Unlock()
	now := &p.disk.now
	drop := func(key []byte) {
		now.count(now.posts[string(key)], -1)
		delete(now.posts, string(key))
	}
	fill(func(key, value []byte) {
		drop(key)
		now.posts[string(key)] = string(value)
		now.count(string(value), 1)
	}, drop)
	return nil
}

// count notes that the URLs of a block of links have come to a disk, or have gone.
func (s *state) count(block string, by int) {
	if block == "" {
		return
	}
	_, n := binary.Uvarint([]byte(block[1:]))
	var m wire.DeliverRequest
	if err := proto.Unmarshal([]byte(block[1+n:]), &m); err != nil {
		panic(err)
	}
	for _, l := range m.Links {
		if s.posted[l.GetUrl()] += by; s.posted[l.GetUrl()] == 0 {
			delete(s.posted, l.GetUrl())
		}
	}
}
