package placement

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"proxima/assign"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/ncoord"
	"proxima/node/lease"
	"proxima/node/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var serverAddr = netip.MustParseAddr("192.0.2.7")

func mustURL(t testing.TB, raw string) identity.URL {
	t.Helper()
	u, err := identity.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// network joins the nodes of a test. Messages are encoded and decoded, as on a wire.
type network struct {
	delay time.Duration

	mu    sync.Mutex
	nodes map[string]*node
	sent  map[string]int // messages by kind
	// lose says what happens to a message: lost before or after it was handled.
	lose func(kind, from, to string) (before, after bool)
}

// node is one node: its room, and a crawl loop that takes the jobs.
type node struct {
	*Remote
	net  *network
	id   string
	jobs chan *Work
	// work is how long a download takes; a job whose start is refused is counted.
	work    func(*Work) (time.Duration, Result)
	mu      sync.Mutex
	started map[string]int // by URL
	skipped int
	clock   *lease.Clock
	jump    atomic.Int64 // of its wall clock
}

func newNetwork() *network {
	return &network{nodes: make(map[string]*node), sent: make(map[string]int), delay: 20 * time.Millisecond,
		lose: func(string, string, string) (bool, bool) { return false, false }}
}

var errLost = errors.New("lost")

func pass[T proto.Message](ctx context.Context, n *network, kind, from, to string, m, into T) (*node, bool, error) {
	if err := travel(ctx, n.delay); err != nil {
		return nil, false, err
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, false, err
	}
	if err := proto.Unmarshal(b, into); err != nil {
		return nil, false, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent[kind]++
	before, after := n.lose(kind, from, to)
	if before || n.nodes[to] == nil {
		return nil, false, errLost
	}
	return n.nodes[to], after, nil
}

// sender is the network as one node sees it.
type sender struct {
	net  *network
	from string
}

func (s sender) Fetch(ctx context.Context, to string, req *wire.FetchRequest) (*wire.FetchResponse, error) {
	got := new(wire.FetchRequest)
	n, lost, err := pass(ctx, s.net, "fetch", s.from, to, req, got)
	if err == nil {
		var res *wire.FetchResponse
		if res, err = n.Fetch(ctx, s.from, got); err == nil && !lost {
			return res, travel(ctx, s.net.delay)
		}
		err = errors.Join(err, errLost)
	}
	return nil, err
}

// travel takes a while, unless the context ends before.
func travel(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func anyLife(_ string, _ uint64, take func()) bool {
	take()
	return true
}

func page200(total time.Duration) Result {
	return Result{Asked: true, Status: 200, HTML: true,
		Timing: assign.Timing{Connect: total / 4, FirstByte: total / 2, Total: total, Bytes: 12_345, Fresh: true}}
}

func coordinateOf(id string) ncoord.Coordinate {
	return ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{float64(len(id)) * 8, 16}, Height: 2, Error: 0.5}
}

// add starts a node; fetchers is how many downloads it makes at once, 0 for a node whose queue nobody serves.
func (n *network) add(t *testing.T, id string, cfg RemoteConfig, fetchers int, change ...func(*RemoteDeps)) *node {
	t.Helper()
	x := &node{net: n, id: id, jobs: make(chan *Work, 10_000), started: make(map[string]int)}
	x.work = func(*Work) (time.Duration, Result) { return 400 * time.Millisecond, page200(400 * time.Millisecond) }
	x.clock = lease.NewClock(func() time.Duration { return time.Duration(x.jump.Load()) })
	deps := RemoteDeps{
		Self: id, Clock: x.clock, Peers: sender{n, id}, FromLife: anyLife,
		Enqueue: func(j *Work) bool {
			select {
			case x.jobs <- j:
				return true
			default:
				return false
			}
		},
		Coordinate: func() (ncoord.Coordinate, bool) { return coordinateOf(id), true },
		Check:      func(netip.Addr) error { return nil },
		Blocked:    func(identity.URL, netip.Addr) string { return "" },
		Lent:       func(netip.Addr) time.Time { return time.Now().Add(time.Hour) },
	}
	for _, f := range change {
		f(&deps)
	}
	room := NewRemote(cfg, deps)
	x.Remote = room
	n.mu.Lock()
	n.nodes[id] = x
	n.mu.Unlock()
	ctx, stop := context.WithCancel(context.Background())
	var g sync.WaitGroup
	g.Go(func() { _ = x.clock.Run(ctx) })
	g.Go(func() {
		if err := room.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for range fetchers {
		g.Go(func() { x.crawl(ctx) })
	}
	t.Cleanup(func() {
		stop()
		g.Wait()
	})
	return x
}

func (x *node) crawl(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-x.jobs:
			job, ok := x.Start(j)
			x.mu.Lock()
			if !ok {
				x.skipped++
				x.mu.Unlock()
				continue
			}
			x.started[job.URL.String()]++
			x.mu.Unlock()
			d, r := x.work(job)
			if left := time.Until(job.Until); d > left { // broken off
				d, r = left, Result{Ending: frontier.Again, Trouble: frontier.Interrupted, Asked: true, Reason: "interrupted"}
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
