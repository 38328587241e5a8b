package ownership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

// world is an overlay in memory on a fake clock, and a web that its nodes crawl: every page links to the next one of its
// host and to two others, so that all pages can be found from the first.
type world struct {
	t     testing.TB
	rng   *rand.Rand
	cfg   Config
	hosts []string
	pages int
	names *names
	ctx   context.Context

	mu      sync.Mutex
	nodes   []*actor
	cut     map[[2]int]bool // one-way links that are down
	loss    float64         // of requests, and of answers
	events  []Event
	fetched map[string][]int // by URL: who downloaded it
}

// actor is a node of the world.
type actor struct {
	w     *world
	at    int
	id    string
	disk  *disk
	owner *Ownership
	stop  context.CancelFunc // nil: not running
	over  chan struct{}
	left  bool
	heard map[int]time.Time // when another node was heard last
	// voters are those of whom this node wants to see a majority. They survive a restart.
	voters map[int]bool
	paused bool // it crawls nothing, for the end of a test
}

func newWorld(t testing.TB, seed uint64, nodes, hosts, pages int) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), cfg: Default(), pages: pages, cut: map[[2]int]bool{}, ctx: t.Context(),
		names: &names{paths: map[uint64]string{}}, fetched: map[string][]int{}}
	w.cfg.ChunkURLs = 7
	for i := range hosts {
		host := fmt.Sprintf("http://h%d.test", i)
		w.hosts = append(w.hosts, host)
		for k := range pages {
			w.names.learn(host, path(k))
		}
	}
	for range nodes {
		w.add()
	}
	return w
}

func path(k int) string { return fmt.Sprintf("/%d", k) }

// links are those of a page.
func (w *world) links(host, from string) (out []frontier.Link) {
	var h, k int
	fmt.Sscanf(host, "http://h%d.test", &h) //nolint:errcheck // names of the world
	fmt.Sscanf(from, "/%d", &k)             //nolint:errcheck // names of the world
	for _, to := range [][2]int{{h, k + 1}, {h*7 + k*3 + 1, k}, {h + k + 2, k / 2}, {h + 1, 0}} {
		out = append(out, frontier.Link{URL: identity.URL{Host: w.hosts[to[0]%len(w.hosts)], Path: path(to[1] % w.pages)}})
	}
	return out
}

// add makes a node with an empty disk.
func (w *world) add() *actor {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &actor{w: w, at: len(w.nodes), disk: newDisk(w.names), voters: map[int]bool{}}
	a.id = fmt.Sprintf("%032x", uint64(a.at+1)*0x9e3779b97f4a7c15)
	w.nodes = append(w.nodes, a)
	return a
}

// start begins a life of a node.
func (a *actor) start() {
	w := a.w
	disk := a.disk
	owner, err := New(w.cfg, Deps{Frontier: disk, Peers: a, Outbox: outbox{disk}, Records: disk,
		Admit: func(frontier.Link) string { return "" },
		Event: func(e Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
		Warn: func(error) {},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	w.mu.Lock()
	over := make(chan struct{})
	a.owner, a.stop, a.over, a.left, a.heard = owner, cancel, over, false, map[int]time.Time{}
	w.mu.Unlock()
	var all sync.WaitGroup
	all.Go(func() {
		if err := owner.Run(ctx); err != nil && !errors.Is(err, frontier.ErrClosed) {
			w.t.Errorf("node %d: %v", a.at, err)
		}
	})
	w.see(a)
	all.Go(func() { a.crawl(ctx, owner, disk) })
	all.Go(func() { a.deliver(ctx, owner, disk) })
	go func() { all.Wait(); close(over) }()
}

// kill ends a life; after a power cut the disk is as it was synced last.
func (a *actor) kill(powerCut bool) {
	if a.stop == nil {
		return
	}
	a.disk = a.disk.next(powerCut)
	a.stop()
	<-a.over
	a.w.mu.Lock()
	a.stop = nil
	a.w.mu.Unlock()
}

func (a *actor) running() bool {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	return a.stop != nil
}

// connected says whether a message gets through.
func (w *world) connected(from, to int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.cut[[2]int{from, to}] && w.nodes[from].stop != nil && w.nodes[to].stop != nil
}

func (w *world) lucky() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.Float64() >= w.loss
}

func (w *world) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// watch makes the views of all nodes, once a second.
func (w *world) watch(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.mu.Lock()
		nodes := slices.Clone(w.nodes)
		w.mu.Unlock()
		for _, a := range nodes {
			if a.running() {
				w.see(a)
			}
		}
	}
}

const (
	deadAfter   = 5 * time.Second
	forgetAfter = time.Minute
)

// see makes the view of a node.
func (w *world) see(a *actor) {
	now := time.Now()
	v := View{Self: a.id}
	w.mu.Lock()
	for _, b := range w.nodes {
		if a == b || b.stop != nil && !w.cut[[2]int{a.at, b.at}] && !w.cut[[2]int{b.at, a.at}] {
			a.heard[b.at] = now
		}
		heard, ever := a.heard[b.at]
		if b.left && now.Sub(heard) > time.Second {
			delete(a.heard, b.at)
			delete(a.voters, b.at)
			continue
		}
		if ever && now.Sub(heard) < deadAfter {
			v.Alive = append(v.Alive, b.id)
		}
		if ever && now.Sub(heard) < forgetAfter {
			v.Settled = append(v.Settled, b.id)
		}
	}
	alive := func(at int) bool { return now.Sub(a.heard[at]) < deadAfter }
	seen := 0
	for at := range a.voters {
		if alive(at) {
			seen++
		}
	}
	if v.Majority = len(a.voters) == 0 || 2*seen > len(a.voters); v.Majority {
		// Voters are forgotten, and new ones taken up, by a majority only.
		maps.DeleteFunc(a.voters, func(at int, _ bool) bool { return now.Sub(a.heard[at]) > forgetAfter })
		for at := range a.heard {
			if alive(at) {
				a.voters[at] = true
			}
		}
	}
	owner := a.owner
	w.mu.Unlock()
	slices.Sort(v.Settled)
	owner.SetView(v)
}

// crawl downloads pages.
func (a *actor) crawl(ctx context.Context, owner *Ownership, disk *disk) {
	for ctx.Err() == nil {
		sleep(ctx, 200*time.Millisecond)
		a.w.mu.Lock()
		paused := a.paused
		a.w.mu.Unlock()
		host, from, ok := disk.task(a.w.draw(1 << 30))
		if !ok || paused {
			continue
		}
		mine, err := owner.Route(ctx, a.w.links(host, from))
		if err != nil {
			continue
		}
		away, ok := disk.finish(host, from, mine)
		if len(away) > 0 {
			if owner.PassOn(ctx, away) != nil {
				continue
			}
			left := slices.DeleteFunc(mine, func(l frontier.Link) bool {
				return slices.ContainsFunc(away, func(o frontier.Link) bool { return o.URL == l.URL })
			})
			_, ok = disk.finish(host, from, left)
		}
		if ok {
			a.w.mu.Lock()
			a.w.fetched[host+from] = append(a.w.fetched[host+from], a.at)
			a.w.mu.Unlock()
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// outbox is where links for other nodes wait on the disk.
type outbox struct{ disk *disk }

func (o outbox) Add(_ context.Context, links map[string][]*wire.Link) error {
	if err := o.disk.lock(); err != nil {
		return err
	}
	defer o.disk.mu.Unlock()
	for to, links := range links {
		for _, l := range links {
			o.disk.now.outbox[l.GetUrl()] = &parcel{to: to, born: time.Now()}
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

// deliver sends what is in the outbox.
func (a *actor) deliver(ctx context.Context, owner *Ownership, disk *disk) {
	for ctx.Err() == nil {
		sleep(ctx, 500*time.Millisecond)
		for to, links := range disk.linksTo() {
			res, err := call(a, to, &wire.DeliverRequest{Links: links}, (*Ownership).Deliver)
			if err != nil {
				for _, l := range links { // a peer that is gone gets nothing
					if v := owner.view(); !v.alive(to) {
						disk.moveLink(l.GetUrl(), owner.Destination(l))
					}
				}
				continue
			}
			for i, answer := range res.GetAnswers() {
				switch answer.GetVerdict() {
				case wire.Verdict_VERDICT_ACCEPTED, wire.Verdict_VERDICT_DUPLICATE:
					disk.moveLink(links[i].GetUrl(), "")
				case wire.Verdict_VERDICT_MOVED:
					if owner.Moved(answer.GetRecord()) == nil {
						disk.moveLink(links[i].GetUrl(), owner.Destination(links[i]))
					}
				}
			}
		}
	}
}

// call carries a message to another node, or loses it.
func call[Q, R any](a *actor, to string, req *Q, handle func(*Ownership, context.Context, string, *Q) (*R, error)) (*R, error) {
	w := a.w
	w.mu.Lock()
	i := slices.IndexFunc(w.nodes, func(b *actor) bool { return b.id == to })
	w.mu.Unlock()
	if i < 0 {
		return nil, errors.New("nobody has that id")
	}
	// peer is the life that the other node leads when the message arrives.
	peer := func() *Ownership {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.nodes[i].owner
	}
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
	defer cancel()
	if i != a.at {
		sleep(ctx, time.Duration(5+w.draw(100))*time.Millisecond)
		if !w.connected(a.at, i) || !w.lucky() {
			sleep(ctx, 5*time.Second)
			return nil, errors.New("no answer")
		}
	}
	res, err := handle(peer(), ctx, a.id, req)
	if i != a.at {
		if w.draw(50) == 0 && w.connected(a.at, i) { // it arrives twice
			_, _ = handle(peer(), ctx, a.id, req)
		}
		sleep(ctx, time.Duration(5+w.draw(100))*time.Millisecond)
		if !w.connected(i, a.at) || !w.lucky() {
			sleep(ctx, 5*time.Second)
			return nil, errors.New("no answer")
		}
	}
	return res, err
}

func (a *actor) Renew(_ context.Context, to string, q *wire.RenewRequest) (*wire.RenewResponse, error) {
	return call(a, to, q, (*Ownership).Renew)
}

func (a *actor) Claim(_ context.Context, to string, q *wire.ClaimRequest) (*wire.ClaimResponse, error) {
	return call(a, to, q, (*Ownership).Claim)
}

func (a *actor) Store(_ context.Context, to string, q *wire.StoreRequest) (*wire.StoreResponse, error) {
	return call(a, to, q, (*Ownership).Store)
}

func (a *actor) Load(_ context.Context, to string, q *wire.LoadRequest) (*wire.LoadResponse, error) {
	return call(a, to, q, (*Ownership).Load)
}

func (a *actor) Commit(_ context.Context, to string, q *wire.CommitRequest) (*wire.CommitResponse, error) {
	return call(a, to, q, (*Ownership).Commit)
}

// copies says on how many disks of nodes that run, or can run again, a URL is.
func (w *world) copies(host, path string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.nodes {
		if a.disk != nil && a.disk.has(host, path) {
			n++
		}
	}
	return n
}

// thin are the accepted URLs that are on fewer than two disks.
func (w *world) thin(least int) (out []string) {
	for _, host := range w.hosts {
		for k := range w.pages {
			if n := w.copies(host, path(k)); n > 0 && n < least {
				out = append(out, host+path(k))
			}
		}
	}
	return out
}

// sound says what is wrong at the end: each host has one owner who has done all its pages, and one replica that is the
// same, nobody else has anything of it, and no node has anything left to do.
func (w *world) sound() (faults []string) {
	for _, a := range w.nodes {
		if a.running() && a.owner.Busy() {
			faults = append(faults, fmt.Sprintf("node %d is busy", a.at))
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
				copies = append(copies, fmt.Sprintf("%d (%v)", a.at, role))
			}
		}
		if len(owners) != 1 || len(copies) != 1 || len(digests) == 2 && digests[0] != digests[1] {
			faults = append(faults, fmt.Sprintf("%s: owners %s, copies %s, %+v", host, strings.Join(owners, " "), strings.Join(copies, " "), digests))
		}
	}
	return faults
}
