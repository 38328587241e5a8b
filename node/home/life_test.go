package home

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

// die says whether the node crashes here, or has already.
func (l *life) die(op string) bool {
	l.mu.Lock()
	slow := l.slow
	l.mu.Unlock()
	if slow != nil {
		slow(op)
	}
	if l.crashed.Load() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.step != nil && l.step(op) {
		l.crashed.Store(true)
	}
	return l.crashed.Load()
}

func (l *life) tell(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *life) warn(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.warned = append(l.warned, err)
}

// had says how many events of a kind there were.
func (l *life) had(kind EventKind) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// hurry makes hosts that are on their way here look as if they had been so for long; it reports whether there are any.
func (l *life) hurry() bool {
	l.home.mu.Lock()
	defer l.home.mu.Unlock()
	for _, a := range l.home.arrive {
		a.last = a.last.Add(-testConfig().TakeAfter)
	}
	return len(l.home.arrive) > 0
}

// What changes the disk, or other nodes, may be where a node crashes.

func (l *life) SetHold(ctx context.Context, host string, h frontier.Hold) error {
	if l.die("hold " + h.String()) {
		return errCrashed
	}
	return l.Frontier.SetHold(ctx, host, h)
}

func (l *life) Import(ctx context.Context, host string, c frontier.Chunk, origin frontier.Origin) (int, error) {
	if l.die("import") {
		return 0, errCrashed
	}
	return l.Frontier.Import(ctx, host, c, origin)
}

func (l *life) Remove(ctx context.Context, host string) error {
	if l.die("remove") {
		return errCrashed
	}
	return l.Frontier.Remove(ctx, host)
}

// Add is that of the outbox and not of the frontier: Home has both.
func (l *life) Add(ctx context.Context, links []frontier.Link) ([]frontier.Verdict, error) {
	if l.die("add") {
		return nil, errCrashed
	}
	return l.Frontier.Add(ctx, links)
}

// guarded is the shelf of the records.
type guarded struct {
	l *life
	*frontier.Shelf
}

func (g guarded) Put(key, value []byte) error {
	if g.l.die("put record") {
		return errCrashed
	}
	return g.Shelf.Put(key, value)
}

func (g guarded) Delete(key []byte) error {
	if g.l.die("delete record") {
		return errCrashed
	}
	return g.Shelf.Delete(key)
}

func (l *life) Renew(ctx context.Context, to string, req *wire.RenewRequest) (*wire.RenewResponse, error) {
	return carry(ctx, l, to, req, (*Home).Renew)
}

func (l *life) Claim(ctx context.Context, to string, req *wire.ClaimRequest) (*wire.ClaimResponse, error) {
	if l.die("claim") {
		return nil, errCrashed
	}
	return carry(ctx, l, to, req, (*Home).Claim)
}

func (l *life) Transfer(ctx context.Context, to string, req *wire.TransferRequest) (*wire.TransferResponse, error) {
	if l.die("transfer") {
		return nil, errCrashed
	}
	return carry(ctx, l, to, req, (*Home).Transfer)
}

func (l *life) Backup(ctx context.Context, to string, req *wire.BackupRequest) (*wire.BackupResponse, error) {
	return carry(ctx, l, to, req, (*Home).Backup)
}

func (l *life) Deliver(ctx context.Context, to string, req *wire.DeliverRequest) (*wire.DeliverResponse, error) {
	return carry(ctx, l, to, req, (*Home).Deliver)
}

// carry takes a call to another node and its answer back.
func carry[Q, A proto.Message](ctx context.Context, l *life, to string, req Q, f func(*Home, context.Context, string, Q) (A, error)) (A, error) {
	var none A
	w := l.town
	req = proto.CloneOf(req)
	time.Sleep(5 * time.Millisecond)
	w.mu.Lock()
	var there *life
	if h := w.houses[to]; h != nil {
		there = h.life
	}
	before, after := w.before, w.after
	w.mu.Unlock()
	switch {
	case there == nil || there.crashed.Load() || l.crashed.Load():
		return none, errGone
	case before != nil:
		if err := before(l.id, to, req); err != nil {
			return none, err
		}
	}
	res, err := f(there.home, context.WithoutCancel(ctx), l.id, req)
	if err == nil && after != nil {
		err = after(l.id, to, req, res)
	}
	time.Sleep(5 * time.Millisecond)
	if l.crashed.Load() || there.crashed.Load() {
		return none, errGone
	}
	if err != nil {
		return none, err
	}
	return proto.CloneOf(res), nil
}

var errGone = errors.New("no answer")

// addressOf is where a host is.
func addressOf(string) netip.Addr { return netip.MustParseAddr("192.0.2.1") }

// resolve answers where hosts are.
func (l *life) resolve(ctx context.Context) {
	for {
		u, err := l.Resolve(ctx)
		if err != nil {
			return
		}
		l.Place(u, []netip.Addr{addressOf(u.Host)}, time.Hour, 0)
	}
}

func pageOf(host string, n int) frontier.Link {
	u, err := identity.Parse(fmt.Sprintf("%s/page-%d?of=%d", host, n, n%7))
	if err != nil {
		panic(err)
	}
	return frontier.Link{URL: u, Depth: uint8(n % 5)}
}

// pages are some pages of a host.
func pages(host string, from, to int) (links []frontier.Link) {
	for i := from; i < to; i++ {
		links = append(links, pageOf(host, i))
	}
	return links
}

// offer finds links at a node, as its crawl does: when it returns without an error they are on a disk.
func (l *life) offer(links ...frontier.Link) error {
	mine, done, err := l.home.Route(context.Background(), links)
	if err != nil {
		return fmt.Errorf("route: %w", err)
	}
	defer done()
	verdicts, err := l.Frontier.Add(context.Background(), mine)
	if err != nil {
		return fmt.Errorf("add: %w", err)
	}
	if slices.Contains(verdicts, frontier.NotOwn) {
		return errors.New("add: routed here, and not held")
	}
	return nil
}

// Outbox: it has the same method as the frontier, with other links.
type outboxOf struct{ *life }

func (o outboxOf) Add(ctx context.Context, to string, links []*wire.Link) error {
	if o.crashed.Load() {
		return errCrashed
	}
	return o.outbox.Add(ctx, to, links)
}

// crawl downloads n pages at a node, and returns what it asked for. Its robots.txt says so and so.
func (l *life) crawl(n int) (asked []*frontier.Task) {
	l.town.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for range n {
		task, err := l.Take(ctx)
		if err != nil {
			l.town.t.Fatalf("%s: take: %v", l.id, err)
		}
		out := frontier.Outcome{Asked: true, Elapsed: 100 * time.Millisecond}
		if task.Kind == frontier.Robots {
			out.Robots = &frontier.RobotsOutcome{Body: []byte(robotsText), Lifetime: 24 * time.Hour, CrawlDelay: crawlDelay}
		}
		time.Sleep(out.Elapsed)
		if _, err := l.Finish(ctx, task, out); err != nil {
			l.town.t.Fatalf("%s: finish: %v", l.id, err)
		}
		asked = append(asked, task)
	}
	return asked
}

const (
	robotsText = "User-agent: *\nCrawl-delay: 17\n"
	crawlDelay = 17 * time.Second
)

// digestOf is that of a host with these pages, done and not.
func digestOf(links []frontier.Link, done []identity.URL) (d frontier.Digest) {
	for _, l := range links {
		d.Accepted++
		d.AcceptedXor ^= l.URL.Hash()
	}
	for _, u := range done {
		d.Done++
		d.DoneXor ^= u.Hash()
	}
	return d
}
