package node_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/ownership"
	"proxima/node/peer"
	"proxima/node/view"
	"proxima/node/wire"
)

// mover is a node that has a home and a frontier, and nothing to crawl.
type mover struct {
	id       string
	frontier *frontier.Frontier
	owners   *ownership.Ownership
	client   *peer.Client
}

// movers connects two nodes by TCP, as in the overlay.
func movers(b *testing.B) (from, to *mover) {
	b.Helper()
	ids := []string{strings.Repeat("a", 32), strings.Repeat("b", 32)}
	addrs := map[string]string{}
	listeners := map[string]net.Listener{}
	for _, id := range ids {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(b, err)
		addrs[id], listeners[id] = l.Addr().String(), l
	}
	all := make([]*mover, len(ids))
	for i, id := range ids {
		all[i] = newMover(b, id, listeners[id], addrs)
		all[i].owners.SetView(view.View{Self: id, Settled: ids, Alive: ids, Majority: true})
	}
	time.Sleep(100 * time.Millisecond) // homes have collected
	return all[0], all[1]
}

func newMover(b *testing.B, id string, l net.Listener, addrs map[string]string) *mover {
	m := &mover{id: id}
	fcfg, polite := frontier.Default(), frontier.DefaultPoliteness()
	fcfg.MinFreeMiB, fcfg.MaxHostURLs, fcfg.Shared = 0, 0, true
	var err error
	if m.frontier, err = frontier.Open(b.TempDir(), fcfg, polite, frontier.Deps{}); err != nil {
		b.Fatal(err)
	}
	secret := peer.NewSecret([32]byte{1})
	client, err := peer.NewClient(peer.Default(), peer.ClientDeps{ID: id, Boot: 1, Run: "bench", Secret: secret,
		Addr: func(id string) (string, bool) { a, ok := addrs[id]; return a, ok }})
	must(b, err)
	m.client = client
	cfg := ownership.Default()
	cfg.Collect = 10 * time.Millisecond
	m.owners = ownership.New(cfg, ownership.Deps{Frontier: m.frontier, Peers: client.Calls, Outbox: noOutbox{}, Records: m.frontier.Shelf('r'),
		Admit: func(frontier.Link) string { return "" }, Warn: func(err error) { b.Log(err) }, Event: func(ownership.Event) {},
	})
	server, err := peer.NewServer(peer.Default(), peer.ServerDeps{ID: id, Run: "bench", Secret: secret, Listener: l,
		Handler: &peer.Calls{Renew: m.owners.Renew, Claim: m.owners.Claim, Store: m.owners.Store, Load: m.owners.Load, Commit: m.owners.Commit}})
	must(b, err)
	ctx, stop := context.WithCancel(context.Background())
	fctx, closeStore := context.WithCancel(context.Background())
	var parts, store sync.WaitGroup
	run := func(wg *sync.WaitGroup, ctx context.Context, part func(context.Context) error) {
		wg.Go(func() {
			if err := part(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	run(&store, fctx, m.frontier.Run)
	run(&parts, ctx, m.owners.Run)
	run(&parts, ctx, server.Run)
	b.Cleanup(func() {
		stop()
		client.Close()
		parts.Wait()
		closeStore()
		store.Wait()
	})
	return m
}

type noOutbox struct{}

func (noOutbox) Add(context.Context, map[string][]*wire.Link) error          { return nil }
func (noOutbox) Keep(context.Context, string, map[string][]*wire.Link) error { return nil }
func (noOutbox) Settled(time.Time) bool                                      { return true }
func (noOutbox) Hurry()                                                      {}

// fill gives a node n URLs, of hosts whose home it is.
func (m *mover) fill(b *testing.B, n, perHost int) (hosts []string) {
	ctx := context.Background()
	for i := 0; n > 0; i++ {
		host := fmt.Sprintf("https://www.site-%d.example", i)
		if m.owners.HomeOf(host) != m.id {
			continue
		}
		hosts = append(hosts, host)
		var links []frontier.Link
		for k := range min(n, perHost) {
			links = append(links, frontier.Link{URL: identity.URL{Host: host,
				Path: fmt.Sprintf("/docs/section-%d/article-%x.html", k%50, k*7919)}})
		}
		n -= len(links)
		for part := range slices.Chunk(links, 5000) {
			mine, err := m.owners.Route(ctx, part)
			if err != nil || len(mine) != len(part) {
				b.Fatalf("%d of %d links are for this node, %v", len(mine), len(part), err)
			}
			if _, err = m.frontier.Add(ctx, mine); err != nil {
				b.Fatal(err)
			}
		}
	}
	return hosts
}

// BenchmarkMove brings URLs from one node to another with all that belongs to it, and then makes the other their owner: two
// nodes with stores on disk, and between them mutual TLS and zstd on a TCP connection. An iteration is a URL. As the other
// has all of it by then, the hand-off ships nothing.
//
//	go test -run - -bench Move -benchtime 1000000x ./node
func BenchmarkMove(b *testing.B) {
	for _, perHost := range []int{500, 20_000, 1_000_000} {
		b.Run(fmt.Sprintf("%d_a_host", perHost), func(b *testing.B) {
			from, to := movers(b)
			b.ResetTimer()
			hosts := from.fill(b, b.N, perHost)
			from.settle(b, to, hosts)
			replicated := float64(b.N) / b.Elapsed().Seconds()
			sent := from.client.Counts().Procedures["Store"].BytesSent
			b.ResetTimer() // it forgets metrics, too
			var g errgroup.Group
			g.SetLimit(8)
			for _, host := range hosts {
				g.Go(func() error { return from.owners.HandOff(context.Background(), host, to.id, true, "bench") })
			}
			must(b, g.Wait())
			b.StopTimer()
			b.ReportMetric(replicated, "URLs/s")
			b.ReportMetric(float64(sent)/float64(b.N), "B/URL")
			b.ReportMetric(float64(len(hosts))/b.Elapsed().Seconds(), "hosts/s")
			moved := uint64(0)
			for _, host := range hosts {
				moved += to.digest(b, host).Accepted
			}
			if moved != uint64(b.N) {
				b.Errorf("%d of %d URLs arrived", moved, b.N)
			}
		})
	}
}

// digest is what a node has of a host.
func (m *mover) digest(b *testing.B, host string) frontier.Digest {
	d, err := m.frontier.DigestOf(context.Background(), host)
	must(b, err)
	return d
}

// settle waits until the second copies of hosts are whole.
func (m *mover) settle(b *testing.B, other *mover, hosts []string) {
	began := time.Now()
	for _, host := range hosts {
		for m.digest(b, host) != other.digest(b, host) {
			if time.Since(began) > 2*time.Minute {
				b.Fatalf("the copy of %s has %d of %d", host, other.digest(b, host).Accepted, m.digest(b, host).Accepted)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}
