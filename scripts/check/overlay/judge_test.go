package main

import (
	"slices"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/runlog"
	"proxima/scripts/lab"
)

// at is a moment of a test, in ms.
func at(ms int) time.Time { return time.UnixMilli(int64(ms)) }

const site0 = "a.test:80"

// get is a request for a page of site0 by a life of a node.
func get(node, life int, path string, from, to int) lab.Request {
	return lab.Request{Node: node, Life: life, Server: "127.0.3.11", Host: site0, Path: path, Status: 200, Start: at(from), End: at(to)}
}

// sound is a crawl in which all holds: node 0 hands the host to node 1, is killed, and comes back.
func sound() (settings, *evidence) {
	s := settings{nodes: 2, faults: counts{kill: 1}, fetch: 2, slack: time.Second, overlap: 1}
	e := &evidence{
		pages:    []string{site0 + "/", site0 + "/1", site0 + "/2"},
		requests: []lab.Request{get(0, 0, "/robots.txt", 0, 10), get(0, 0, "/", 20, 30), get(1, 0, "/1", 5000, 5010), get(1, 0, "/2", 5010, 5020)},
		faults:   []fault{{kind: kill, node: 0, life: 0, at: at(1000), until: at(2000)}},
		books: []books{
			{node: 0, Queue: runlog.Queue{Line: runlog.Line{Boot: 1}, Accepted: 3, Done: 1, Pending: 2}},
			{node: 0, Queue: runlog.Queue{Line: runlog.Line{Boot: 2}, AtStart: 2, Left: 2}},
			{node: 1, Queue: runlog.Queue{Line: runlog.Line{Boot: 1}, Arrived: 2, Done: 2}},
		},
		disks: map[string]map[int]holding{site0: {0: {frontier.Replica, 3, 3}, 1: {frontier.Owned, 3, 3}}},
	}
	return s, e
}

func failed(list []lab.Verdict) []string {
	var names []string
	for _, v := range list {
		if !v.OK {
			names = append(names, v.Name)
		}
	}
	return names
}

// TestJudge breaks a sound crawl in every way and looks which criterion says so.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(s *settings, e *evidence)
		fails []string
	}{
		{"sound", func(*settings, *evidence) {}, nil},
		{"a page is missing", func(_ *settings, e *evidence) { e.requests = e.requests[:3] }, []string{"coverage"}},
		{"a page was refused", func(_ *settings, e *evidence) { e.requests[3].Status = 0 }, []string{"coverage"}},
		{"a fault did not come", func(s *settings, _ *evidence) { s.faults[freeze] = 1 }, []string{"faults"}},
		{"a node is lost for good", func(s *settings, e *evidence) {
			s.faults, e.faults[0].kind = counts{lose: 1}, lose
			e.books = slices.Delete(e.books, 1, 2)
		}, nil},
		{"a page nobody has", func(_ *settings, e *evidence) { e.requests = append(e.requests, get(1, 0, "/forbidden/1", 6000, 6001)) },
			[]string{"not of the site"}},
		{"somebody unknown", func(_ *settings, e *evidence) { e.requests = append(e.requests, get(-1, -1, "/1", 6000, 6001)) },
			[]string{"not of the site"}},
		{"no robots.txt", func(_ *settings, e *evidence) { e.requests = e.requests[1:] }, []string{"pages before robots.txt"}},
		{"repeats", func(_ *settings, e *evidence) {
			for i := range 3 {
				e.requests = append(e.requests, get(1, 0, "/1", 6000+i, 6001+i))
			}
		}, []string{"overlap"}},
		{"as many repeats as may be", func(s *settings, e *evidence) {
			e.requests = append(e.requests, get(1, 0, "/1", 6000, 6001))
			s.overlap = 34 // of three pages
		}, nil},
		{"two nodes at one server", func(_ *settings, e *evidence) {
			e.requests[2].Node, e.requests[2].Life, e.requests[2].End = 0, 1, at(5011)
		},
			[]string{"requests that meet at a server"}},
		{"a long request over short ones", func(_ *settings, e *evidence) { e.requests[1].End = at(5015); e.faults[0].at = at(7000) },
			[]string{"requests that meet at a server"}},
		{"a request that outlives its node", func(_ *settings, e *evidence) { e.requests[1].End = at(5015) }, nil},
		{"books that do not balance", func(_ *settings, e *evidence) { e.books[0].Pending = 1 }, []string{"books of the nodes"}},
		{"pending at the end", func(_ *settings, e *evidence) { e.books[1].Left, e.books[1].Pending = 1, 1 }, []string{"books of the nodes"}},
		{"no last line", func(_ *settings, e *evidence) { e.books = e.books[:2] }, []string{"books of the nodes"}},
		{"two owners", func(_ *settings, e *evidence) { e.disks[site0][0] = holding{frontier.Owned, 3, 3} }, []string{"hosts on the disks"}},
		{"no owner", func(_ *settings, e *evidence) { e.disks[site0][1] = holding{frontier.Replica, 3, 3} }, []string{"hosts on the disks"}},
		{"stuck on its way", func(_ *settings, e *evidence) { e.disks[site0][0] = holding{frontier.Leaving, 3, 3} }, []string{"hosts on the disks"}},
		{"not done", func(_ *settings, e *evidence) { e.disks[site0][1] = holding{frontier.Owned, 3, 2} }, []string{"hosts on the disks"}},
		{"forgotten", func(_ *settings, e *evidence) { e.disks[site0][1] = holding{frontier.Owned, 2, 2} }, []string{"hosts on the disks"}},
	} {
		s, e := sound()
		c.spoil(&s, e)
		if got := failed(judge(s, e, readTraffic(s, e))); !slices.Equal(got, c.fails) {
			t.Errorf("%s: failed %q, want %q", c.name, got, c.fails)
		}
	}
}

// TestExplains: a fault explains repeats of what it may have lost, and of what a node did that was cut off.
func TestExplains(t *testing.T) {
	e := &evidence{faults: []fault{{kind: isolate, node: 1, at: at(10_000), until: at(20_000)}, {kind: join, node: 2, at: at(50_000), until: at(50_000)}}}
	for _, c := range []struct {
		name         string
		first, again lab.Request
		want         bool
	}{
		{"just before the fault", get(0, 0, "/", 9000, 9500), get(2, 0, "/", 30_000, 30_001), true},
		{"by the node that is cut off", get(0, 0, "/", 0, 1), get(1, 0, "/", 15_000, 15_001), true},
		{"of what it did", get(1, 0, "/", 15_000, 15_001), get(0, 0, "/", 40_000, 40_001), true},
		{"by others", get(0, 0, "/", 15_000, 15_001), get(2, 0, "/", 16_000, 16_001), false},
		{"long after", get(1, 0, "/", 30_000, 30_001), get(0, 0, "/", 40_000, 40_001), false},
		{"at a join", get(0, 0, "/", 49_900, 49_999), get(1, 0, "/", 60_000, 60_001), false},
	} {
		if got := e.explains(c.first, c.again, time.Second); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestConfigure: the shorter times are valid at both ends.
func TestConfigure(t *testing.T) {
	l := lab.NewLayout(subnet, 100, 18, 12)
	for _, faster := range []float64{1, 7.5, 15, 20} {
		c := configure(settings{fetch: 4, faster: faster}, &l, &lab.Node{Index: 1, Life: 2})
		for _, err := range c.Validate() {
			t.Errorf("faster by %v: %v", faster, err)
		}
		if c.Fetch.UserAgent != "Proxima/1.2" || len(c.Fetch.DNS.Hosts) != 18 {
			t.Errorf("%+v", c.Fetch)
		}
	}
}

func TestJudgeBehind(t *testing.T) {
	for pages, ok := range map[int]bool{1: true, 0: false} {
		if v := judgeBehind(settings{nodes: 3, nat: 2}, traffic{byNode: map[int]int{0: 9, 1: 1, 2: pages}}); v.OK != ok {
			t.Errorf("where the last has %d pages: %+v", pages, v)
		}
	}
}
