package ownership

import (
	"slices"
	"time"

	"proxima/frontier"
)

// The helpers below look into the nodes of a stage, or change what one knows behind its back.

// rec returns a record of a host that no assigner placed.
func rec(host string, epoch uint64, owner int) Record {
	return Record{Host: host, Epoch: epoch, Owner: idOf(owner)}
}

// put gives a node a record of a host. One without an owner removes what it has.
func (p *player) put(r Record) {
	p.t.Helper()
	if _, _, err := p.own.edit(r.Host, func(Record) Record { return r }); err != nil {
		p.t.Fatal(err)
	}
}

// record returns the record that a node has of a host.
func (p *player) record(host string) Record {
	p.t.Helper()
	r, _, err := p.own.Record(host)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// mustKnow checks the record that a node has of a host; of epoch 0, that it has none.
func (p *player) mustKnow(host string, epoch uint64, owner int) {
	p.t.Helper()
	want := rec(host, epoch, owner)
	if epoch == 0 {
		want = Record{}
	}
	if r := p.record(host); r.Epoch != want.Epoch || r.Owner != want.Owner {
		p.t.Errorf("node %d knows %+v, not %+v", p.at, r, want)
	}
}

// with calls f under the lock of a node's book.
func (p *player) with(f func()) {
	p.own.mu.Lock()
	defer p.own.mu.Unlock()
	f()
}

// blind has a node seen no majority until now, and not heard from the others since. The caller holds the lock of its book.
func (s *stage) blind(at int) {
	own := s.players[at].own
	clear(own.told)
	v := *own.views.Now()
	for _, v.Majority = range []bool{false, true} {
		own.views.Set(v, time.Now())
	}
}

// role gives a host a role on a node's disk.
func (p *player) role(host string, r frontier.Role) {
	p.t.Helper()
	if err := p.front.SetRole(p.t.Context(), host, r); err != nil {
		p.t.Fatal(err)
	}
}

// behind reports whether a replica lacks URLs that a node has found.
func (p *player) behind() bool {
	p.own.stream.mu.Lock()
	defer p.own.stream.mu.Unlock()
	return !p.own.stream.storedLocked(time.Now(), time.Time{})
}

// rumour returns what a node knows of a host by hearsay.
func (p *player) rumour(host string) (r Record) {
	p.with(func() { r = p.own.rumours[host] })
	return r
}

// queued returns a copy of a host's entry in a node's queue, and whether there is one.
func (p *player) queued(host string) (it item, is bool) {
	q := p.own.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.items[host] == nil {
		return item{}, false
	}
	return *q.items[host], true
}

// occupy keeps a node from looking at a host, as if it were doing so.
func (p *player) occupy(host string) {
	q := p.own.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items[host] = &item{host: host, busy: true}
}

// idle empties a node's queue.
func (p *player) idle() {
	q := p.own.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.items)
	q.ready = nil
}

// mustHold checks how many URLs of a host are on a node's disk, and how many of them are done.
func (p *player) mustHold(host string, all, done int) {
	p.t.Helper()
	if a, d := p.has(host); a != all || d != done {
		p.t.Errorf("node %d has %d URLs of %s, %d done, not %d and %d", p.at, a, host, d, all, done)
	}
}

// mustOwn checks that exactly these of the running nodes own a host by their own disks.
func (s *stage) mustOwn(host string, nodes ...int) {
	s.t.Helper()
	if owners := s.owners(host); !slices.Equal(owners, nodes) {
		s.t.Errorf("%s is owned by %v, not by %v", host, owners, nodes)
	}
}

// mustHave checks that exactly these nodes have a host, with so many URLs, that their copies are equal, and that the first node owns it.
func (s *stage) mustHave(host string, urls int, nodes ...int) {
	s.t.Helper()
	s.mustOwn(host, nodes[0])
	_, done := s.node(nodes[0]).has(host)
	for _, p := range s.all() {
		if slices.Contains(nodes, p.at) {
			p.mustHold(host, urls, done)
		} else if s.running(p) {
			p.mustHold(host, 0, 0)
		}
	}
	a, _ := s.node(nodes[0]).disk.DigestOf(s.t.Context(), host)            //nolint:errcheck // it is a map
	b, _ := s.node(nodes[len(nodes)-1]).disk.DigestOf(s.t.Context(), host) //nolint:errcheck // it is a map
	if a != b {
		s.t.Errorf("%s differs: %+v, %+v", host, a, b)
	}
}
