package placement

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"proxima/assign"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/ncoord"
	"proxima/node/bell"
	"proxima/node/lease"
	"proxima/node/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var serverAddr = netip.MustParseAddr("192.0.2.7")

func mustURL(t testing.TB, raw string) identity.URL {
	t.Helper()
	u, err := identity.Parse(raw)
	must(t, err)
	return u
}

// network carries calls between the nodes of a test.
type network struct {
	mu    sync.Mutex
	nodes map[string]*node
	calls int
	// lose decides what happens to a call: the request is lost, or the answer.
	lose func() (request, answer bool)
}

// node is a node of a test: its Remote, and fetchers that carry out its work.
type node struct {
	*Remote
	jobs chan *Work
	// work returns how long a download takes, and its result.
	work    func(*Work) (time.Duration, Result)
	mu      sync.Mutex
	started map[string]int // downloads by URL
	clock   *lease.Clock
	jump    atomic.Int64 // how far its wall clock was set
	stop    func()
}

func newNetwork() *network {
	return &network{nodes: make(map[string]*node), lose: func() (bool, bool) { return false, false }}
}

// inNetwork runs a test on a fake clock, with the nodes a and b. b makes so many downloads at once.
func inNetwork(t *testing.T, fetchers int, test func(t *testing.T, n *network, a, b *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		test(t, n, n.add(t, "a", 1), n.add(t, "b", fetchers))
	})
}

var errLost = errors.New("lost")

// delay is how long a message takes.
const delay = 20 * time.Millisecond

// sender sends the calls of one node.
type sender struct {
	net  *network
	from string
}

// Fetch carries a call. The request is encoded and decoded, as on a wire.
func (s sender) Fetch(ctx context.Context, to string, req *wire.FetchRequest) (*wire.FetchResponse, error) {
	if err := bell.Sleep(ctx, delay); err != nil {
		return nil, err
	}
	b, err := proto.Marshal(req)
	if err != nil {
		return nil, err
	}
	got := new(wire.FetchRequest)
	if err := proto.Unmarshal(b, got); err != nil {
		return nil, err
	}
	s.net.mu.Lock()
	s.net.calls++
	noRequest, noAnswer := s.net.lose()
	n := s.net.nodes[to]
	s.net.mu.Unlock()
	if noRequest || n == nil {
		return nil, errLost
	}
	res, err := n.Fetch(ctx, s.from, got)
	if err != nil || noAnswer {
		return nil, errors.Join(err, errLost)
	}
	return res, bell.Sleep(ctx, delay)
}

func anyLife(_ string, _ uint64, take func()) bool {
	take()
	return true
}

func page200(total time.Duration) Result {
	return Result{Outcome: frontier.Outcome{Asked: true}, Status: 200, HTML: true,
		Timing: assign.Timing{Connect: total / 4, FirstByte: total / 2, Total: total, Bytes: 12_345}}
}

func coordinateOf(id string) ncoord.Coordinate {
	return ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{float64(len(id)) * 8, 16}, Height: 2, Error: 0.5}
}

// add starts a node that makes so many downloads at once. Without fetchers its work stays queued.
func (n *network) add(t *testing.T, id string, fetchers int, change ...func(*RemoteDeps)) *node {
	t.Helper()
	x := &node{jobs: make(chan *Work, 10_000), started: make(map[string]int)}
	x.takes(400 * time.Millisecond)
	x.clock = lease.NewClock(func() time.Duration { return time.Duration(x.jump.Load()) })
	deps := RemoteDeps{
		Self: id, Clock: x.clock, Fetch: sender{n, id}.Fetch, FromLife: anyLife,
		Enqueue: func(j *Work) bool {
			select {
			case x.jobs <- j:
				return true
			default:
				return false
			}
		},
		Coordinate:  func() (ncoord.Coordinate, bool) { return coordinateOf(id), true },
		Check:       func(netip.Addr) error { return nil },
		Blocked:     func(identity.URL, netip.Addr) string { return "" },
		LeasedUntil: func(netip.Addr) time.Time { return time.Now().Add(time.Hour) },
	}
	for _, f := range change {
		f(&deps)
	}
	x.Remote = NewRemote(RemoteWait, deps)
	n.mu.Lock()
	n.nodes[id] = x
	n.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	var g sync.WaitGroup
	g.Go(func() { _ = x.clock.Run(ctx) })
	g.Go(func() {
		if err := x.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for range fetchers {
		g.Go(func() { x.crawl(ctx) })
	}
	x.stop = func() {
		cancel()
		g.Wait()
	}
	t.Cleanup(x.stop)
	return x
}

// takes has the node's downloads take so long. Their pages have these links.
func (x *node) takes(d time.Duration, links ...frontier.Link) {
	r := page200(d)
	r.Links = links
	x.work = func(*Work) (time.Duration, Result) { return d, r }
}

// begin begins the work that was queued first.
func (x *node) begin(t *testing.T) *Work {
	t.Helper()
	w, ok := x.Start(<-x.jobs)
	if !ok {
		t.Fatal("it cannot begin")
	}
	return w
}

// ask sends a call for a page to a node.
func (x *node) ask(t *testing.T, number uint64, within time.Duration) *wire.FetchResponse {
	t.Helper()
	resp, err := x.Fetch(t.Context(), "a", &wire.FetchRequest{Number: number, Page: encodeFetch(estimateOf(t, "")), WithinMs: within.Milliseconds()})
	must(t, err)
	return resp
}

// remembered returns how much work a node remembers, and the bytes of links that it keeps.
func (x *node) remembered() (work, links int) {
	x.Remote.mu.Lock()
	defer x.Remote.mu.Unlock()
	return len(x.Remote.work), x.Remote.links
}

// crawl is a fetcher: it carries out work until the context ends.
func (x *node) crawl(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case queued := <-x.jobs:
			job, ok := x.Start(queued)
			if !ok {
				continue
			}
			x.mu.Lock()
			x.started[job.URL.String()]++
			x.mu.Unlock()
			d, r := x.work(job)
			if left := time.Until(job.Until); d > left { // it is broken off
				d, r = left, Result{Outcome: frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Asked: true, Reason: "interrupted"}}
			}
			time.Sleep(d)
			x.Finished(job, r)
		}
	}
}

func estimateOf(t testing.TB, path string) RemoteFetch {
	return RemoteFetch{URL: mustURL(t, "http://example.org/"+path), Server: serverAddr, Batch: "a-1-1", Labels: []string{"nearest"},
		Epoch: 7, Fresh: true, Depth: 3, Hops: 1, Attempt: 2}
}
