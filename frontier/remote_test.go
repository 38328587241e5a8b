package frontier

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"
)

// Remote fetches need no lease and no robots.txt. They are work to be done, but neither they nor their links count in the books.
func TestRemoteFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://far.test"
		cfg, polite := testConfig()
		cfg.Leases, cfg.Shared, cfg.RemoteFetches = true, true, 2
		l := begin(t, "", cfg, polite, Deps{})
		l.role(host, Replica)
		fetch := RemoteFetch{URL: page(host, 1).URL, Server: addr1, Origin: Estimate, Depth: 3, Hops: 1, Attempt: 2, Tag: "tag"}
		for i, want := range []bool{true, true, false} {
			if got := l.Enqueue(fetch); got != want {
				t.Errorf("remote fetch %d of 2: %v", i+1, got)
			}
		}
		if l.Idle(time.Minute) {
			t.Error("idle with remote fetches")
		}
		time.Sleep(time.Second)
		task := l.taking(time.Second)
		want := &Task{Kind: Page, URL: fetch.URL, Host: host, Server: addr1, Origin: Estimate, Depth: 3, Hops: 1, Attempt: 2, Tag: "tag",
			Waited: time.Second, remote: true}
		if !reflect.DeepEqual(task, want) || !task.IsRemoteFetch() || task.Lease().Done() != nil {
			t.Errorf("took %+v, want %+v", task, want)
		}
		if s := l.Status(); s.Queues["estimate"] != 1 || len(s.Queues) != int(origins) || s.InFlight != 1 || s.RemoteFetches != 2 {
			t.Errorf("with an estimate waiting and another out: %+v", s)
		}
		if other := l.taking(time.Second); other != nil {
			t.Errorf("%s while one to its server is out", other.URL)
		}
		links := []Link{page("http://h1.test", 1)} // they are of who asked
		if res := l.finish(task, Outcome{Ending: Failed, Links: links}); res.Accepted != 0 || res.Ending != Failed {
			t.Errorf("%+v", res)
		}
		if !l.Enqueue(fetch) {
			t.Error("no room after one has ended")
		}
		task = l.taking(time.Second)
		go l.finish(task, Outcome{Ending: Again, Trouble: Broken})
		l.finish(l.taking(time.Second), Outcome{}) // for which this fetcher waited
		if s := l.Status(); s.Done+s.Failed+s.Accepted != 0 || s.RemoteFetches != 0 {
			t.Errorf("books: %+v", s)
		}
		if n := len(l.bench.remote.behind); n != 0 {
			t.Errorf("%d servers are remembered for nothing", n)
		}
	})
}
