package frontier

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier/identity"
)

func fetchAt(addr netip.Addr, i int, o Origin) RemoteFetch {
	return RemoteFetch{URL: identity.URL{Host: "http://far.test", Path: fmt.Sprintf("/%d", i)}, Server: addr, Origin: o,
		Depth: 3, Hops: 1, Attempt: 2, Tag: i}
}

func TestRemoteFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.Leases, cfg.Shared, cfg.RemoteFetches = true, true, 3
		l := begin(t, "", cfg, polite, Deps{})
		l.role("http://far.test", Replica)
		addr2 := netip.MustParseAddr("192.0.2.2")
		for i, want := range []bool{true, true, true, false} {
			addr := addr1
			if i == 2 {
				addr = addr2
			}
			if got := l.Enqueue(fetchAt(addr, i, Estimate)); got != want {
				t.Errorf("remote fetch %d of 3: %v", i, got)
			}
		}
		if idle, _ := l.Idle(time.Minute); idle {
			t.Error("idle with remote fetches")
		}
		if q := l.Status().Queues; q["estimate"] != 3 || len(q) != int(origins) {
			t.Errorf("queues with 3 estimates are %v", q)
		}
		time.Sleep(time.Second)
		// One at a time for each server, in order, and without robots.txt.
		a, b := l.taking(time.Second), l.taking(time.Second)
		if s := l.Status(); s.Queues["estimate"] != 1 || s.InFlight != 2 || s.RemoteFetches != 3 {
			t.Errorf("with 1 estimate waiting and 2 out: %+v", s)
		}
		if a.Tag != 0 || b.Tag != 2 || a.Server != addr1 || b.Server != addr2 || !a.IsRemoteFetch() || a.Kind != Page {
			t.Errorf("took %+v and %+v", a, b)
		}
		if a.Waited != time.Second || a.Depth != 3 || a.Hops != 1 || a.Attempt != 2 || a.URL.Path != "/0" || a.Host != "http://far.test" {
			t.Errorf("took %+v", a)
		}
		if a.Lease().Done() != nil {
			t.Error("a remote fetch has a lease")
		}
		if c := l.taking(time.Second); c != nil {
			t.Errorf("%s while one to its server is out", c.URL)
		}
		res := l.finish(a, Outcome{Ending: Failed, Links: []Link{page("http://h1.test", 1)}}) // its links are of who asked
		if res.Accepted != 0 || res.Ending != Failed {
			t.Errorf("%+v", res)
		}
		if !l.Enqueue(fetchAt(addr2, 3, Estimate)) {
			t.Error("no room after one has ended")
		}
		if c := l.taking(time.Second); c == nil || c.Tag != 1 {
			t.Errorf("then %+v", c)
		} else {
			l.finish(c, Outcome{Ending: Again, Trouble: Broken})
		}
		l.finish(b, Outcome{})
		if c := l.taking(time.Second); c == nil || c.Tag != 3 {
			t.Errorf("last %+v", c)
		} else {
			l.finish(c, Outcome{})
		}
		if s := l.Status(); s.Done+s.Failed+s.Accepted != 0 || s.RemoteFetches != 0 {
			t.Errorf("books: %+v", s)
		}
		if n := len(l.bench.remote.behind); n != 0 {
			t.Errorf("%d servers are remembered for nothing", n)
		}
	})
}

// Remote fetches share the draws of their queue with the hosts in it, and starve neither those nor the other queues.
func TestRemoteFetchesTakeTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := ownServers(testConfig())
		cfg.RemoteFetches = 2000
		l := begin(t, "", cfg, polite, Deps{})
		l.placing(addr1)
		links := pages("http://h1.test", 0, 1500)
		for i := range links {
			links[i].Origin = Discovered
			if i%2 == 0 {
				links[i].Origin = Assigned
			}
		}
		l.add(links...)
		for i := range 1000 {
			o := Estimate
			if i%2 == 0 {
				o = Assigned
			}
			l.Enqueue(fetchAt(netip.AddrFrom4([4]byte{10, 0, byte(i / 256), byte(i)}), i, o))
		}
		l.finish(l.taking(time.Minute), Outcome{})
		got := map[string]int{}
		for range 800 {
			task := l.taking(time.Minute)
			if task.Kind == Robots {
				l.finish(task, Outcome{})
				continue
			}
			got[fmt.Sprintf("%v%v", task.Origin, task.IsRemoteFetch())]++
			l.finish(task, Outcome{})
			synctest.Wait() // windows are filled
		}
		for what, want := range map[string]int{"assignedtrue": 320, "assignedfalse": 320, "estimatetrue": 80, "discoveredfalse": 80} {
			if n := got[what]; n < want/2 || n > 2*want {
				t.Errorf("%s: %d, about %d expected", what, n, want)
			}
		}
	})
}
