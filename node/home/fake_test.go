package home

import (
	"context"
	"maps"
	"slices"
	"sort"
	"strconv"
	"sync"

	"github.com/cespare/xxhash/v2"

	"proxima/frontier"
	"proxima/frontier/identity"
)

// shelf is a table in memory that outlives its node, as a disk does.
type shelf struct {
	mu   sync.Mutex
	data map[string][]byte
}

func newShelf() *shelf { return &shelf{data: map[string][]byte{}} }

func (s *shelf) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.data[string(key)]), nil
}

func (s *shelf) Put(key, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data[string(key)] = slices.Clone(value)
	return nil
}

func (s *shelf) Delete(key []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.data, string(key))
	return nil
}

func (s *shelf) ScanAfter(after []byte, visit func(key, value []byte) error) error {
	s.mu.Lock()
	data := maps.Clone(s.data)
	s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if key > string(after) {
			if err := visit([]byte(key), data[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

// fakeHost is a host on the disk of a node.
type fakeHost struct {
	hold    frontier.Hold
	pending map[string]frontier.PendingURL
	done    map[uint64]bool
}

// disk is a frontier in memory that outlives its node.
type disk struct {
	mu      sync.Mutex
	hosts   map[string]*fakeHost
	changed func([]frontier.Change)
}

func newDisk() *disk { return &disk{hosts: map[string]*fakeHost{}} }

func hashOf(host, path string) uint64 { return xxhash.Sum64String(host + path) }

func (d *disk) host(name string) *fakeHost {
	h := d.hosts[name]
	if h == nil {
		h = &fakeHost{pending: map[string]frontier.PendingURL{}, done: map[uint64]bool{}}
		d.hosts[name] = h
	}
	return h
}

func (d *disk) tell(c frontier.Change) {
	if d.changed != nil {
		d.changed([]frontier.Change{c})
	}
}

func (d *disk) Add(_ context.Context, links []frontier.Link) ([]frontier.Verdict, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]frontier.Verdict, len(links))
	for i, l := range links {
		h := d.host(l.URL.Host)
		_, pending := h.pending[l.URL.Path]
		switch {
		case h.hold != frontier.Own:
			out[i] = frontier.NotOwn
		case pending || h.done[hashOf(l.URL.Host, l.URL.Path)]:
			out[i] = frontier.Duplicate
		default:
			p := frontier.PendingURL{Path: l.URL.Path, Depth: l.Depth}
			h.pending[l.URL.Path] = p
			d.tell(frontier.Change{Host: l.URL.Host, Added: []frontier.PendingURL{p}})
		}
	}
	return out, nil
}

// crawlOne finishes a pending URL of a host that is held as own, if the host has one.
func (d *disk) crawlOne(name string) (path string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.hosts[name]
	if h == nil || h.hold != frontier.Own || len(h.pending) == 0 {
		return "", false
	}
	path = slices.Min(slices.Collect(maps.Keys(h.pending)))
	delete(h.pending, path)
	h.done[hashOf(name, path)] = true
	d.tell(frontier.Change{Host: name, Done: []uint64{hashOf(name, path)}})
	return path, true
}

func (d *disk) SetHold(_ context.Context, host string, h frontier.Hold) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.host(host).hold = h
	return nil
}

func (d *disk) HoldOf(_ context.Context, host string) (frontier.Hold, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.hosts[host]
	if h == nil {
		return 0, false, nil
	}
	return h.hold, true, nil
}

// Export gives everything in one chunk: chunks of several are the business of the real frontier's tests.
func (d *disk) Export(_ context.Context, host string, _ frontier.Cursor, _, _ int) (frontier.Chunk, frontier.Cursor, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var c frontier.Chunk
	if h := d.hosts[host]; h != nil {
		c.Pending = slices.Collect(maps.Values(h.pending))
		sort.Slice(c.Pending, func(i, j int) bool { return c.Pending[i].Path < c.Pending[j].Path })
		c.Done = slices.Sorted(maps.Keys(h.done))
	}
	return c, frontier.Cursor{}, true, nil
}

func (d *disk) Import(_ context.Context, host string, c frontier.Chunk, _ frontier.Origin) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.host(host)
	change := frontier.Change{Host: host}
	n := 0
	for _, p := range c.Pending {
		if _, pending := h.pending[p.Path]; !pending && !h.done[hashOf(host, p.Path)] {
			h.pending[p.Path] = p
			change.Added = append(change.Added, p)
			n++
		}
	}
	for _, hash := range c.Done {
		if !h.done[hash] {
			h.done[hash] = true
			change.Done = append(change.Done, hash)
		}
	}
	for path := range h.pending {
		if h.done[hashOf(host, path)] {
			delete(h.pending, path)
		}
	}
	if h.hold == frontier.Own {
		d.tell(change)
	}
	return n, nil
}

func (d *disk) Remove(_ context.Context, host string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.hosts, host)
	return nil
}

func (d *disk) DigestOf(_ context.Context, host string) (frontier.Digest, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var g frontier.Digest
	h := d.hosts[host]
	if h == nil {
		return g, nil
	}
	for path := range h.pending {
		g.Accepted++
		g.AcceptedXor ^= hashOf(host, path)
	}
	for hash := range h.done {
		g.Accepted++
		g.Done++
		g.AcceptedXor ^= hash
		g.DoneXor ^= hash
	}
	return g, nil
}

func (d *disk) StateOf(context.Context, string) (*frontier.HostState, error) { return nil, nil }
func (d *disk) Review()                                                      {}

// urlsOf lists what a node has of a host.
func (d *disk) urlsOf(host string) (pending []string, done map[uint64]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.hosts[host]
	if h == nil {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(h.pending)), maps.Clone(h.done)
}

func link(host string, n int) frontier.Link {
	u, err := identity.Parse(host + "/" + strconv.Itoa(n))
	if err != nil {
		panic(err)
	}
	return frontier.Link{URL: u}
}
