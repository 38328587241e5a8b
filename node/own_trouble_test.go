package node_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/netsim"
	"proxima/node/placement"
	"proxima/node/runlog"
)

// TestOutage takes the network from a node alone for 70 minutes: no host is blamed, nothing is lost, the crawl does not end,
// and it goes on when the network is back.
func TestOutage(t *testing.T) {
	for name, c := range map[string]struct {
		dial    error // what a connect meets meanwhile
		names   bool  // name servers are silent meanwhile
		local   bool  // the name server is one on the same machine
		reason  string
		blocked bool // no page is crawled meanwhile
	}{
		"no network":          {syscall.ENETDOWN, true, false, "the network is down", true},
		"silence":             {nil, true, false, "no name server answers", true},
		"no name server":      {errGoOn, true, false, "no name server answers", false},
		"behind a resolver":   {nil, true, true, "no name server answers", true},
		"no free descriptors": {syscall.EMFILE, false, false, "too many open files", true},
	} {
		each(t, name, func(t *testing.T, w *trial) {
			const hosts, urls = 6, 150
			dns := &nameServer{names: map[string]string{}, local: c.local}
			var seeds []string
			for i := range hosts {
				host := fmt.Sprintf("h%d.test", i)
				w.Site(host, address(i)).Pages(urls)
				dns.names[host+"."] = address(i)
				seeds = append(seeds, "http://"+host+"/")
			}
			w.byDNS, w.deps.DialDNS = true, dns.dial
			begin, end := w.began.Add(4*time.Minute), w.began.Add(74*time.Minute)
			out := func() bool { now := time.Now(); return now.After(begin) && now.Before(end) }
			w.deps.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if !out() || errors.Is(c.dial, errGoOn) {
					return w.Dial(ctx, network, address)
				}
				return w.fails(ctx, c.dial)
			}
			go func() {
				time.Sleep(begin.Sub(w.began))
				dns.silent.Store(c.names)
				time.Sleep(end.Sub(begin))
				dns.silent.Store(false)
			}()
			w.cfg.Fetch.IdleTimeout = time.Second // each page is dialled for
			var during []node.Status
			w.watch = func(n *node.Node) {
				for at := begin.Add(5 * time.Minute); at.Before(end); at = at.Add(5 * time.Minute) {
					time.Sleep(time.Until(at))
					during = append(during, n.Status())
				}
			}
			got, logs := w.run(seeds...)
			if got.Frontier.Dropped+got.Frontier.Failed != 0 || got.Frontier.Done != hosts*(urls+1) {
				t.Errorf("%d done, %d dropped, %d failed of %d", got.Frontier.Done, got.Frontier.Dropped, got.Frontier.Failed, hosts*(urls+1))
			}
			for _, s := range during {
				if p := s.Frontier.Paused; c.blocked && p != c.reason+"; waiting" && (!c.names || p != "no name server answers; waiting") {
					t.Errorf("the status says %q", p)
				}
				if c.blocked && s.Frontier.Hosts["backoff"] > hosts/2 {
					t.Errorf("hosts are blamed: %v", s.Frontier.Hosts)
				}
			}
			if len(during) != 13 {
				t.Errorf("asked %d times", len(during))
			}
			trouble, over := logs.events.of(runlog.EventOwnTrouble), logs.events.of(runlog.EventOwnTroubleOver)
			if len(trouble) == 0 || len(trouble) != len(over) || len(logs.events.of(runlog.EventHostDropped))+len(logs.events.of(runlog.EventDNS)) != 0 {
				t.Errorf("events %v", logs.events)
			}
			if late := time.Since(end); late > time.Hour {
				t.Errorf("the crawl ended %v after the outage", late)
			}
		})
	}
}

// TestNight: for ten hours all names lead to a private address, as behind the portal of a hotel or where a tunnel is down, or a firewall
// refuses all connections, or swallows them. No host is given up, the crawl does not end, and it goes on at once when the night is over.
func TestNight(t *testing.T) {
	for _, name := range []string{"portal", "refused", "silence"} {
		each(t, name, func(t *testing.T, w *trial) {
			dns, seeds := &nameServer{names: make(map[string]string)}, []string(nil)
			for i := range 6 {
				host := fmt.Sprintf("h%d.test", i)
				w.Site(host, address(i)).Pages(150)
				dns.names[host+"."] = address(i)
				seeds = append(seeds, "http://"+host+"/")
			}
			w.byDNS, w.deps.DialDNS = true, dns.dial
			w.cfg.Fetch.IdleTimeout = time.Second // each page is dialled for
			var night atomic.Bool
			w.deps.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				switch {
				case night.Load() && name == "refused":
					return w.fails(ctx, syscall.ECONNREFUSED)
				case night.Load() && name == "silence":
					return w.fails(ctx, nil)
				}
				return w.Dial(ctx, network, address)
			}
			change := func(to bool) func() {
				return func() { night.Store(to); dns.portal.Store(to && name == "portal") }
			}
			time.AfterFunc(2*time.Minute, change(true))
			time.AfterFunc(10*time.Hour, change(false))
			got, logs := w.run(seeds...)
			if got.Frontier.Dropped+got.Frontier.Failed != 0 || got.Frontier.Done != 6*151 {
				t.Errorf("%d done of %d, %d dropped, %d failed", got.Frontier.Done, 6*151, got.Frontier.Dropped, got.Frontier.Failed)
			}
			// Downloads that are under way when names begin to fail may still be answered.
			trouble, over := logs.events.of(runlog.EventOwnTrouble), logs.events.of(runlog.EventOwnTroubleOver)
			if n := len(trouble); n == 0 || n > 6 || len(over) != n || over[n-1].Time.Sub(w.began) > 10*time.Hour+2*time.Minute {
				t.Errorf("trouble %v, over %v", trouble, over)
			}
			if late := time.Since(w.began); late > 10*time.Hour+5*time.Minute {
				t.Errorf("the crawl ended after %v", late)
			}
		})
	}
}

// TestOutageEndsBehindAName: a name that was asked for while the name server was still silent failed by the outage, though
// the server answers again when that is found out.
func TestOutageEndsBehindAName(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Pages(300)
		dns := &nameServer{names: map[string]string{"a.test.": server1}, wakes: w.began.Add(30 * time.Minute)}
		w.byDNS, w.deps.DialDNS = true, dns.dial
		w.deps.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if time.Since(w.began) > 4*time.Minute {
				dns.silent.CompareAndSwap(false, time.Now().Before(dns.wakes))
			}
			if dns.silent.Load() {
				return w.fails(ctx, nil)
			}
			return w.Dial(ctx, network, address)
		}
		w.cfg.Fetch.IdleTimeout = time.Second // each page is dialled for
		got, logs := w.run("http://a.test/")
		if got.Frontier.Done != 301 {
			t.Errorf("ended by %q with %d done of 301", got.Reason, got.Frontier.Done)
		}
		if blamed := logs.events.of(runlog.EventDNS); len(blamed) > 0 {
			t.Errorf("the host is blamed: %v", blamed)
		}
	})
}

// fails is how a connect fails with an error of the system, or for lack of an answer.
func (w *trial) fails(ctx context.Context, err error) (net.Conn, error) {
	if err == nil {
		<-ctx.Done()
		err = ctx.Err()
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
}

// errGoOn lets connects through.
var errGoOn = errors.New("no error")

// TestOneAddressWithoutRoute: what is missing for one address while others answer is no trouble of this node's: the host
// is given up, and the crawl ends.
func TestOneAddressWithoutRoute(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Pages(300)
		w.Site("far.test", server2).Pages(3)
		w.deps.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, server2) {
				return w.fails(ctx, syscall.EHOSTUNREACH)
			}
			return w.Dial(ctx, network, address)
		}
		w.cfg.Politeness.RetryConnect = []time.Duration{time.Minute, time.Minute}
		got, logs := w.run("http://a.test/", "http://far.test/")
		if got.Frontier.Done != 301 || got.Frontier.Dropped != 1 {
			t.Errorf("%d done, %d dropped", got.Frontier.Done, got.Frontier.Dropped)
		}
		w.givenUp(logs, "http://far.test", "unreachable", 1)
	})
}

// A node that has been without the web for long hands its hosts to the others, who crawl them, and takes a single one. When that shows it that the
// web is back, it takes others, too. If it never is, the crawl ends all the same.
func TestOverlayWithoutWeb(t *testing.T) {
	const perSite, without = 90, 1
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprint(again), func(t *testing.T) {
			inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
				b.cfg = func(_ int, c *node.Config) { c.Batch.Mode, c.Politeness.MinGap = placement.ModeCrawl, 15*time.Second }
				b.sitesBeside(15, perSite, 1)
				b.startAll(2 * time.Second)
				b.awaitPages(50)
				b.Cut(b.name(without), true)
				time.Sleep(15 * time.Minute)
				for _, site := range b.sites {
					if all := b.pagesOf(site); time.Since(all[len(all)-1].Start) > 3*time.Minute {
						t.Errorf("%s had no page for %v", site, time.Since(all[len(all)-1].Start))
					}
				}
				if again {
					b.Cut(b.name(without), false)
					for _, site := range b.sites[:2] {
						if _, err := b.operator(b.ownerOf(site)).Move(b.t.Context(), site, netsim.ID(without), "ann"); err != nil {
							t.Error(err)
						}
						b.await("it crawls "+site, time.Minute, func() bool { return b.by(site, time.Now().Add(-time.Minute))[b.name(without)] > 0 })
						time.Sleep(time.Minute) // until it takes all
					}
				}
				b.awaitEnd(3 * time.Hour)
				b.complete(perSite, true)
			})
		})
	}
}

// barring fails a node's dials to the servers that are barred from it, like a firewall that rejects them.
func (b *bed) barring(i int, dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if b.barred != nil && b.barred(i, netip.MustParseAddrPort(address).Addr()) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return dial(ctx, network, address)
	}
}

// A host that its owner alone cannot reach, from the start or any more, goes to another node, which crawls it. If none can reach it, two have
// tried when the crawl ends.
func TestOverlayServerOutOfReach(t *testing.T) {
	const perSite, which = 20, 3
	for _, later := range []bool{false, true} {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprintf("later %v, for all %v", later, all), func(t *testing.T) {
				inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
					b.cfg = func(_ int, c *node.Config) { c.Batch.Mode, c.Politeness.MinGap = placement.ModeCrawl, 5*time.Second }
					b.sitesBeside(10, perSite, 1)
					site, server := b.sites[which], netip.MustParseAddr(address(which))
					owner, barred, tried := b.homeOf(site), new(atomic.Bool), new(sync.Map)
					b.barred = func(i int, to netip.Addr) bool {
						if to != server || !barred.Load() || !all && i != owner {
							return false
						}
						tried.Store(i, true)
						return true
					}
					barred.Store(!later)
					b.startAll(2 * time.Second)
					if later {
						b.await("it is crawled", time.Hour, func() bool { return len(b.pagesOf(site)) > perSite/2 })
						barred.Store(true)
						b.Reset(b.name(owner))
					}
					b.await("all nodes end", 3*time.Hour, b.ended)
					if !all {
						b.complete(perSite, true)
					}
					nodes := 0
					tried.Range(func(any, any) bool { nodes++; return true })
					if want := map[bool]int{false: 1, true: 2}[all]; nodes != want {
						t.Errorf("%d nodes tried it in vain, want %d", nodes, want)
					}
				})
			})
		}
	}
}
