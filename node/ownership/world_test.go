package ownership

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/lease"
)

// world is an overlay on a fake clock, with a web that its nodes crawl. Every page links to the next one of its host and to three others,
// so that all pages can be found from the first. A world lives in a synctest bubble.
type world struct {
	t      testing.TB
	rng    *rand.Rand
	cfg    Config
	leases lease.Config
	hosts  []string
	pages  int
	names  *names
	ctx    context.Context

	mu      sync.Mutex
	nodes   []*actor
	cut     map[[2]int]bool        // one-way links that are down
	loss    float64                // share of requests, and of answers, that are lost
	late    float64                // share of requests that take up to half a minute
	lags    map[[2]int]bool        // one-way links on which all takes longer
	lag     [2]time.Duration       // how much, at least and at most
	visit   time.Duration          // how long a web server takes to answer, and is left alone then, at most
	picky   map[int]map[string]int // nodes that answer some calls only: what was drawn for each kind of call
	sets    []map[int]bool         // the voters that were decided on, one set after the other
	events  []Event
	fetched map[string][]int // by URL: who downloaded it
	asking  map[netip.Addr]int
	asked   int // number of requests to web servers
}

// actor is a node of the world, with its disk.
type actor struct {
	w        *world
	at       int
	id       string
	disk     *disk // nil if it is lost, and the node with it
	boot     uint64
	owner    *Ownership // of the present or the last life
	now      *life
	stop     context.CancelFunc // nil if it does not run
	over     chan struct{}
	left     bool
	paused   bool // it crawls nothing, for the end of a test
	outbound bool // it cannot be dialled. The lock of the world guards it, and mute
	mute     bool // no call reaches it, and none of its calls reaches another node
	backup   *backup
	seat
}

func newWorld(t testing.TB, seed uint64, nodes, pages int) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), cfg: Default(), leases: lease.Default(), pages: pages, ctx: t.Context(),
		cut: map[[2]int]bool{}, lags: map[[2]int]bool{}, picky: map[int]map[string]int{}, names: &names{paths: map[uint64]string{}},
		fetched: map[string][]int{}, asking: map[netip.Addr]int{}, lag: [2]time.Duration{20 * time.Second, 40 * time.Second}, visit: 10 * time.Second}
	w.cfg.ChunkURLs = 7
	for i := range 8 { // hosts
		host := fmt.Sprintf("http://h%d.test", i)
		w.hosts = append(w.hosts, host)
		for k := range pages {
			w.names.learn(host, path(k))
		}
	}
	founders := map[int]bool{}
	for i := range nodes {
		w.add()
		founders[i] = true
	}
	w.sets = []map[int]bool{nil, founders} // the first is that of nodes that have met nobody yet
	for _, a := range w.nodes {
		a.voters, a.declared = 1, true
	}
	return w
}

func path(k int) string { return fmt.Sprintf("/%d", k) }

// links returns the links of a page. To every third page of a host, only one page of another host has a link.
func (w *world) links(host, from string) (out []frontier.Link) {
	h, k := numbers(host, from)
	add := func(h, k int) {
		out = append(out, frontier.Link{URL: identity.URL{Host: w.hosts[h%len(w.hosts)], Path: path(k)}})
	}
	for _, to := range [][2]int{{h, k + 1}, {h, k + 2}, {h*7 + k*3 + 1, k}, {h + k + 2, k / 2}, {h + 1, 0}} {
		if to[1] < w.pages && to[1]%3 != 2 {
			add(to[0], to[1])
		}
	}
	if k%3 == 1 && k+1 < w.pages {
		add(h+1, k+1)
	}
	return out
}

// numbers returns the numbers of a host and a path.
func numbers(host, path string) (h, k int) {
	fmt.Sscanf(host, "http://h%d.test", &h) //nolint:errcheck // names of the world
	fmt.Sscanf(path, "/%d", &k)             //nolint:errcheck // names of the world
	return h, k
}

// add makes a node with an empty disk.
func (w *world) add() *actor {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &actor{w: w, at: len(w.nodes), disk: newDisk(w.names)}
	a.id = fmt.Sprintf("%032x", uint64(a.at+1)*0x9e3779b97f4a7c15)
	w.nodes = append(w.nodes, a)
	return a
}

func (a *actor) running() bool {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	return a.stop != nil
}

// hit reports whether a message is one of those that are lost, or late.
func (w *world) hit(share *float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.Float64() < *share
}

func (w *world) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// upTo returns a random time below d.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.draw(int(d))) }

// all returns the nodes, including those that are gone.
func (w *world) all() []*actor {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.nodes)
}

// each calls f for all URLs of the web.
func (w *world) each(f func(host, path string)) {
	for _, host := range w.hosts {
		for k := range w.pages {
			f(host, path(k))
		}
	}
}

// copies counts the disks that have a URL and are not lost.
func (w *world) copies(host, path string) (n int) {
	for _, a := range w.all() {
		if a.disk != nil && a.disk.has(host, path) {
			n++
		}
	}
	return n
}

// thin returns the URLs of a set that are on too few disks.
func (w *world) thin(of map[string]bool, least int) (out []string) {
	w.each(func(host, path string) {
		if of[host+path] && w.copies(host, path) < least {
			out = append(out, host+path)
		}
	})
	return out
}

// accepted adds the URLs that are on a disk now and would survive a power cut.
func (w *world) accepted(to map[string]bool) map[string]bool {
	for _, a := range w.all() {
		if a.disk != nil {
			w.each(func(host, path string) {
				if a.disk.keeps(host, path) {
					to[host+path] = true
				}
			})
		}
	}
	return to
}

// sound returns what is wrong at the end. Each host must have one owner that has done all its pages, and one equal replica. No other node
// may have anything of it, and no node may be busy.
func (w *world) sound() (faults []string) {
	for _, a := range w.nodes {
		if a.running() && a.owner.Busy() {
			faults = append(faults, fmt.Sprintf("node %d is busy: %s", a.at, w.errands(a.owner)))
		}
		if a.running() && a.now.outbox.Pending() > 0 {
			faults = append(faults, fmt.Sprintf("node %d has %d links for others: %v", a.at, a.now.outbox.Pending(), a.disk.now.posted))
		}
	}
	for _, host := range w.hosts {
		var owners, copies []string
		var digests []frontier.Digest
		for _, a := range w.nodes {
			if !a.running() {
				continue
			}
			role, known, err := a.disk.RoleOf(w.ctx, host)
			if err != nil || !known {
				continue
			}
			d, _ := a.disk.DigestOf(w.ctx, host) //nolint:errcheck // it is a map
			digests = append(digests, d)
			if role == frontier.Owned {
				owners = append(owners, fmt.Sprint(a.at))
				if d.Done != uint64(w.pages) || d.Accepted != d.Done {
					faults = append(faults, fmt.Sprintf("%s: %d of %d pages done at %d", host, d.Done, w.pages, a.at))
				}
			} else {
				copies = append(copies, fmt.Sprint(a.at))
			}
		}
		if len(owners) != 1 || len(copies) != 1 || len(digests) == 2 && digests[0] != digests[1] {
			faults = append(faults, host+w.describe(host))
		}
	}
	return faults
}

// errands tells what a node is busy with, and how it fares with hosts that are urgent.
func (w *world) errands(o *Ownership) string {
	o.queue.mu.Lock()
	urgent := map[string]int{}
	for host, it := range o.queue.items {
		if it.urgent {
			urgent[host] = it.tries
		}
	}
	hurry := o.queue.hurry
	o.queue.mu.Unlock()
	o.mu.Lock()
	v := o.views.Now()
	out := fmt.Sprintf("%d urgent, leaving %v, unconfirmed %v, counting %t, home for %v who say %v, alive %v", hurry, o.proposals,
		o.rights.unconfirmed, o.tallies.counting, o.tallies.byOwner, o.census.said, v.Alive)
	o.mu.Unlock()
	for host, tries := range urgent {
		out += fmt.Sprintf("\n%s after %d tries: %v%s", host, tries, o.reconciler.step(w.ctx, &item{host: host}), w.describe(host))
	}
	return out
}

// describe tells what every node has and knows of a host.
func (w *world) describe(host string) string {
	var b strings.Builder
	short := func(id string) string { return fmt.Sprintf("%.4s", strings.TrimLeft(id, "0")) }
	for _, a := range w.all() {
		if a.disk == nil {
			continue
		}
		role, known, _ := a.disk.RoleOf(w.ctx, host) //nolint:errcheck // it is a map
		d, _ := a.disk.DigestOf(w.ctx, host)         //nolint:errcheck // it is a map
		fmt.Fprintf(&b, "\n  node %d (%s)", a.at, short(a.id))
		if known {
			fmt.Fprintf(&b, " %v, %d of %d done", role, d.Done, d.Accepted)
		}
		if !a.running() {
			b.WriteString(", down")
			continue
		}
		v := a.owner.view()
		r, _, _ := a.owner.Record(host) //nolint:errcheck // for people
		fmt.Fprintf(&b, ": epoch %d of %s, home %s, replica %s, majority %v, %d settled, %d alive, suspended %q", r.Epoch, short(r.Owner),
			short(v.Home(host)), short(v.Replica(host, r.Owner)), v.Majority, len(v.Settled), len(v.Alive), a.owner.suspended(host, r, time.Now()))
	}
	return b.String()
}
