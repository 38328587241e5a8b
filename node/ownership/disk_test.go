package ownership

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/bell"
)

// disk implements Frontier, Shelf and (by outbox_test.go) Outbox in memory. It can be lost, be full, or lose what was not synced.
type disk struct {
	mu      sync.Mutex
	now     state
	synced  state
	full    bool
	slow    bool // each sync takes two seconds
	dead    bool // the process that used it is gone
	changes map[string]*frontier.Change
	allowed map[string]bool // hosts that may be crawled
	asked   map[string]bool // hosts that were given to Unchecked
	loose   map[string]bool // hosts whose digest is not kept
	triedBy string          // the node that could not reach any host
	wake    bell.Bell
	names   *names
	gate    func()          // waits while the process that uses it is frozen
	urged   time.Time       // when the links were last asked to be copied
	fault   *fault          // a call that fails
	origin  frontier.Origin // the queue of what was imported last
}

// state is what lies on a disk.
type state struct {
	hosts  map[string]*hostCopy
	shelf  map[string]string
	outbox map[string]*parcel // by URL
	posts  map[string]string  // blocks of links of a real outbox
	posted map[string]int     // in how many of them a URL is
}

// hostCopy is a host on a disk.
type hostCopy struct {
	role  frontier.Role
	drops uint64
	done  map[string]bool // by path; false for a pending URL
}

func (h *hostCopy) isPending(path string) bool {
	done, known := h.done[path]
	return known && !done
}

func newDisk(n *names) *disk {
	return &disk{names: n, now: newState(), synced: newState(), changes: map[string]*frontier.Change{}, allowed: map[string]bool{},
		asked: map[string]bool{}, loose: map[string]bool{}, wake: bell.New(), gate: func() {}}
}

func newState() state {
	return state{hosts: map[string]*hostCopy{}, shelf: map[string]string{}, outbox: map[string]*parcel{},
		posts: map[string]string{}, posted: map[string]int{}}
}

func (s state) clone() state {
	c := state{hosts: map[string]*hostCopy{}, shelf: maps.Clone(s.shelf), outbox: map[string]*parcel{},
		posts: maps.Clone(s.posts), posted: maps.Clone(s.posted)}
	for name, h := range s.hosts {
		c.hosts[name] = &hostCopy{h.role, h.drops, maps.Clone(h.done)}
	}
	for url, p := range s.outbox {
		c.outbox[url] = &parcel{to: p.to}
	}
	return c
}

// next returns the disk for the next life: as it was, or after a power cut as it was last synced.
func (d *disk) next(powerCut bool) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	n := newDisk(d.names)
	n.now = d.now.clone()
	if powerCut {
		n.now = d.synced.clone()
	}
	n.synced = n.now.clone()
	return n
}

// copy returns a copy of what would survive a power cut.
func (d *disk) copy() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := newDisk(d.names)
	n.now, n.synced = d.synced.clone(), d.synced.clone()
	return n
}

// lock begins a call to the disk, unless the call fails.
func (d *disk) lock() error {
	d.gate()
	return d.lockNow(3)
}

func (d *disk) host(name string) *hostCopy {
	h := d.now.hosts[name]
	if h == nil {
		h = &hostCopy{done: map[string]bool{}}
		d.now.hosts[name] = h
	}
	return h
}

func hashOf(host, path string) uint64 { return identity.URL{Host: host, Path: path}.Hash() }

func (d *disk) Sync(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	d.mu.Lock()
	slow := d.slow
	d.mu.Unlock()
	if slow {
		time.Sleep(2 * time.Second)
	}
	if err := d.lock(); err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.synced = d.now.clone()
	return nil
}

func (d *disk) Add(_ context.Context, links []frontier.Link) ([]frontier.Verdict, error) {
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	if d.full {
		return nil, frontier.ErrDiskFull
	}
	return d.add(links), nil
}

func (d *disk) add(links []frontier.Link) (verdicts []frontier.Verdict) {
	for _, l := range links {
		h := d.host(l.URL.Host)
		switch _, known := h.done[l.URL.Path]; {
		case h.role != frontier.Owned:
			verdicts = append(verdicts, frontier.NotOwned)
		case known:
			verdicts = append(verdicts, frontier.Duplicate)
		default:
			h.done[l.URL.Path] = false
			c := d.change(l.URL.Host)
			c.Added = append(c.Added, frontier.PendingURL{Path: l.URL.Path})
			d.changed(l.URL.Host)
			verdicts = append(verdicts, frontier.Accepted)
		}
	}
	return verdicts
}

func (d *disk) change(host string) *frontier.Change {
	if d.changes[host] == nil {
		d.changes[host] = &frontier.Change{}
	}
	return d.changes[host]
}

// changed notes the digest after a change of a host.
func (d *disk) changed(host string) {
	c := d.change(host)
	if c.Tracked = !d.loose[host]; c.Tracked {
		c.Digest = d.digest(host)
	}
	if !d.asked[host] {
		d.wake.Ring()
	}
}

// finish marks a page as done and adds the links found on it. If some links belong to hosts of other nodes, it does nothing and returns
// those.
func (d *disk) finish(host, path string, links []frontier.Link) (away []frontier.Link, ok bool) {
	if d.lock() != nil {
		return nil, false
	}
	defer d.mu.Unlock()
	if h := d.now.hosts[host]; h == nil || h.role != frontier.Owned || !h.isPending(path) {
		return nil, false
	}
	for i, v := range d.add(links) {
		if v == frontier.NotOwned {
			away = append(away, links[i])
		}
	}
	if len(away) > 0 {
		return away, false
	}
	c := d.change(host)
	c.Done = append(c.Done, hashOf(host, path))
	d.host(host).done[path] = true
	d.changed(host)
	return nil, true
}

func (d *disk) SetRole(ctx context.Context, host string, role frontier.Role) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := d.lock(); err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.host(host).role = role
	delete(d.allowed, host)
	delete(d.asked, host)
	d.wake.Ring()
	return nil
}

func (d *disk) RoleOf(_ context.Context, host string) (frontier.Role, bool, error) {
	if err := d.lock(); err != nil {
		return 0, false, err
	}
	defer d.mu.Unlock()
	if h := d.now.hosts[host]; h != nil {
		return h.role, true, nil
	}
	return frontier.Owned, false, nil
}

func (d *disk) List(_ context.Context, after string, most int) (hosts []frontier.Listed, err error) {
	if err = d.lock(); err == nil {
		defer d.mu.Unlock()
		for _, host := range slices.Sorted(maps.Keys(d.now.hosts)) {
			if host > after && len(hosts) < most {
				hosts = append(hosts, frontier.Listed{Host: host, Role: d.now.hosts[host].role})
			}
		}
	}
	return hosts, err
}

// names knows the paths of all URLs of a test by their hashes, because peers tell some URLs as hashes only.
type names struct {
	mu    sync.Mutex
	paths map[uint64]string
}

func (n *names) path(hash uint64) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.paths[hash]
}

func (n *names) learn(host, path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paths[hashOf(host, path)] = path
}

// at reads a cursor as a number of URLs.
func at(c frontier.Cursor) int {
	if c == (frontier.Cursor{}) {
		return 0
	}
	return int(c.Append(nil)[2])
}

func cursor(n int) frontier.Cursor {
	c, err := frontier.ParseCursor([]byte{3, 0, byte(n)})
	if err != nil {
		panic(err)
	}
	return c
}

func (d *disk) Export(_ context.Context, host string, from frontier.Cursor, maxURLs, _ int) (frontier.Chunk, frontier.Cursor, bool, error) {
	if err := d.lock(); err != nil {
		return frontier.Chunk{}, from, false, err
	}
	defer d.mu.Unlock()
	h := d.now.hosts[host]
	if h == nil {
		return frontier.Chunk{}, from, true, nil
	}
	all := slices.Sorted(maps.Keys(h.done)) // a URL stays at its place when it ends
	c := frontier.Chunk{Drops: h.drops}
	n := at(from)
	end := min(n+maxURLs, len(all))
	for _, path := range all[min(n, len(all)):end] {
		if h.done[path] {
			c.Done = append(c.Done, hashOf(host, path))
		} else {
			c.Pending = append(c.Pending, frontier.PendingURL{Path: path})
		}
	}
	return c, cursor(end), end == len(all), nil
}

func (d *disk) Import(_ context.Context, host string, c frontier.Chunk, origin frontier.Origin) (added int, err error) {
	if err := d.lock(); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	d.origin = origin
	if d.full {
		return 0, frontier.ErrDiskFull
	}
	if d.now.hosts[host] == nil {
		d.host(host).role = frontier.Replica
	}
	h := d.host(host)
	if c.Drops > h.drops {
		maps.DeleteFunc(h.done, func(_ string, done bool) bool { return !done })
		h.drops = c.Drops
	}
	own := h.role == frontier.Owned
	for _, hash := range c.Done {
		path := d.names.path(hash)
		if h.done[path] {
			continue
		}
		h.done[path] = true
		if own {
			c := d.change(host)
			c.Done = append(c.Done, hash)
		}
	}
	for _, p := range c.Pending {
		if _, known := h.done[p.Path]; known || c.Drops < h.drops {
			continue
		}
		h.done[p.Path] = false
		added++
		if own {
			c := d.change(host)
			c.Added = append(c.Added, p)
		}
	}
	if own {
		d.changed(host)
	}
	return added, nil
}

func (d *disk) Remove(_ context.Context, host string) error {
	if err := d.lock(); err != nil {
		return err
	}
	defer d.mu.Unlock()
	delete(d.now.hosts, host)
	return nil
}

func (d *disk) digest(host string) frontier.Digest {
	h := d.now.hosts[host]
	if h == nil {
		return frontier.Digest{}
	}
	out := frontier.Digest{Drops: h.drops}
	for path, done := range h.done {
		out.Accepted++
		out.AcceptedXor ^= hashOf(host, path)
		if done {
			out.Done++
			out.DoneXor ^= hashOf(host, path)
		}
	}
	return out
}

func (d *disk) DigestOf(_ context.Context, host string) (frontier.Digest, error) {
	if err := d.lock(); err != nil {
		return frontier.Digest{}, err
	}
	defer d.mu.Unlock()
	delete(d.loose, host)
	return d.digest(host), nil
}

func (d *disk) StateOf(context.Context, string) (*frontier.HostState, error) {
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	return &frontier.HostState{TriedBy: d.triedBy}, nil
}

func (d *disk) Changes() map[string]*frontier.Change {
	d.gate()
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.changes
	for _, c := range out {
		if c.Lost {
			*c = frontier.Change{Lost: true}
		}
	}
	d.changes = map[string]*frontier.Change{}
	return out
}

func (d *disk) Unchecked(ctx context.Context) ([]string, error) {
	for {
		d.mu.Lock()
		var out []string
		for name, h := range d.now.hosts {
			if h.role == frontier.Owned && !d.asked[name] {
				d.asked[name] = true
				out = append(out, name)
			}
		}
		d.mu.Unlock()
		if len(out) > 0 {
			return out, nil
		}
		select {
		case <-d.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (d *disk) Active() (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, h := range d.now.hosts {
		if h.role == frontier.Owned {
			out = append(out, name)
		}
	}
	return out
}

func (d *disk) Suspend(reasons map[string]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for host, reason := range reasons {
		d.allowed[host] = reason == ""
	}
}

// tasks returns the pages that may be crawled now, as hosts and paths.
func (d *disk) tasks() (all [][2]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, h := range d.now.hosts {
		if h.role == frontier.Owned && d.allowed[name] && !d.dead && !d.full {
			for path, done := range h.done {
				if !done {
					all = append(all, [2]string{name, path})
				}
			}
		}
	}
	return all
}

// task returns one of them.
func (d *disk) task(n int) (host, path string, ok bool) {
	all := d.tasks()
	if len(all) == 0 {
		return "", "", false
	}
	slices.SortFunc(all, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	return all[n%len(all)][0], all[n%len(all)][1], true
}

// has reports whether a URL is on the disk, keeps whether it would survive a power cut.
func (d *disk) has(host, path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now.has(host, path)
}

func (d *disk) keeps(host, path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.synced.has(host, path)
}

// has reports whether a URL is pending, done, or in the outbox.
func (s state) has(host, path string) bool {
	known := s.outbox[host+path] != nil || s.posted[host+path] > 0
	if h := s.hosts[host]; h != nil && !known {
		_, known = h.done[path]
	}
	return known
}
