package ownership

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"proxima/node/peer"
	"proxima/node/view"
	"proxima/node/wire"
)

// newOutbox makes the outbox of a life: the real one, in small.
func (l *life) newOutbox() *peer.Outbox {
	cfg := peer.Default()
	cfg.OutboxLinks, cfg.OutboxMessageLinks = 20, 7
	there := func() view.View { return l.owner.view() }
	o, err := peer.NewOutbox(cfg, peer.OutboxDeps{
		Shelf:     posts{l.disk},
		Deliver:   call(l, (*Ownership).Deliver),
		Route:     func(link *wire.Link) string { return l.owner.Destination(link) },
		Moved:     func(r *wire.Record) { _ = l.owner.Moved(r) },
		Gone:      func(id string) bool { v := there(); return !v.IsAlive(id) },
		Custodian: func(not ...string) string { return custodian(there(), not) },
		Refused:   func(to string, link *wire.Link, reason string) { l.w.t.Errorf("%s refuses %v: %s", to, link, reason) },
		Aside:     func(to string, _ int, err error) { l.w.t.Errorf("links for %s are set aside: %v", to, err) },
	})
	if err != nil {
		l.w.t.Errorf("node %d: %v", l.at, err)
	}
	return o
}

// custodian draws a node as package node does: the next one after the last of those that it must not be.
func custodian(v view.View, not []string) string {
	i := slices.Index(v.Alive, not[len(not)-1])
	for range v.Alive {
		i = (i + 1) % len(v.Alive)
		if id := v.Alive[i]; id != v.Self && !slices.Contains(not, id) {
			return id
		}
	}
	return ""
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
