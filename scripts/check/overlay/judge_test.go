package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/journal"
)

// at is a moment of a test, in ms.
func at(ms int) time.Time { return time.UnixMilli(int64(ms)) }

const site0 = "a.test:80"

// get is a request for a page of site0 by a life of a node.
func get(node, life int, uri string, from, to int) request {
	return request{node: node, life: life, server: "127.0.3.11", host: site0, uri: uri, status: 200, start: at(from), end: at(to)}
}

// sound is a crawl in which all holds: node 0 hands the host to node 1, is killed, and comes back.
func sound() (settings, *evidence) {
	s := settings{nodes: 2, kills: 1, fetch: 2, slack: time.Second, copied: 300 * time.Millisecond}
	e := &evidence{
		pages:    []string{site0 + "/", site0 + "/1", site0 + "/2"},
		requests: []request{get(0, 0, "/robots.txt", 0, 10), get(0, 0, "/", 20, 30), get(1, 0, "/1", 5000, 5010), get(1, 0, "/2", 5010, 5020)},
		kills:    []kill{{node: 0, life: 0, at: at(1000), down: time.Second}},
		ids:      map[string]int{"zero": 0, "one": 1},
		books: []books{
			{node: 0, Queue: journal.Queue{Line: journal.Line{Boot: 1}, Accepted: 3, Done: 1, Pending: 2}},
			{node: 0, last: true, Queue: journal.Queue{Line: journal.Line{Boot: 2}, AtStart: 2, Left: 2}},
			{node: 1, last: true, Queue: journal.Queue{Line: journal.Line{Boot: 1}, Arrived: 2, Done: 2}},
		},
		moves: []move{
			{0, journal.Member{Line: journal.Line{Time: at(3000)}, Change: handedOver, Host: site0, Epoch: 2, Peer: "one"}},
			{1, journal.Member{Line: journal.Line{Time: at(3000)}, Change: received, Host: site0, Epoch: 2, Peer: "zero"}},
		},
		disks: map[string]map[int]holding{site0: {0: {frontier.Backup, 3, 3}, 1: {frontier.Own, 3, 3}}},
	}
	return s, e
}

func failed(list []verdict) []string {
	var names []string
	for _, v := range list {
		if !v.ok {
			names = append(names, v.name)
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
		{"a page was refused", func(_ *settings, e *evidence) { e.requests[3].status = 499 }, []string{"coverage"}},
		{"a kill did not come", func(s *settings, _ *evidence) { s.kills = 2 }, []string{"kills"}},
		{"a page nobody has", func(_ *settings, e *evidence) { e.requests = append(e.requests, get(1, 0, "/forbidden/1", 6000, 6001)) },
			[]string{"not of the site"}},
		{"somebody unknown", func(_ *settings, e *evidence) { e.requests = append(e.requests, get(-1, -1, "/1", 6000, 6001)) },
			[]string{"not of the site"}},
		{"no robots.txt", func(_ *settings, e *evidence) { e.requests = e.requests[1:] }, []string{"pages before robots.txt"}},
		{"repeats", func(_ *settings, e *evidence) {
			for i := range 3 {
				e.requests = append(e.requests, get(1, 0, "/1", 6000+i, 6001+i))
			}
		}, []string{"repeats", "overlap"}},
		{"two nodes at one server", func(_ *settings, e *evidence) {
			e.requests[2].node, e.requests[2].life, e.requests[2].end = 0, 1, at(5011)
		},
			[]string{"requests that meet at a server"}},
		{"a long request over short ones", func(_ *settings, e *evidence) { e.requests[1].end = at(5015); e.kills[0].at = at(7000) },
			[]string{"requests that meet at a server"}},
		{"a request that outlives its node", func(_ *settings, e *evidence) { e.requests[1].end = at(5015) }, nil},
		{"books that do not balance", func(_ *settings, e *evidence) { e.books[0].Pending = 1 }, []string{"books of the nodes"}},
		{"pending at the end", func(_ *settings, e *evidence) { e.books[1].Left, e.books[1].Pending = 1, 1 }, []string{"books of the nodes"}},
		{"no last line", func(_ *settings, e *evidence) { e.books = e.books[:2] }, []string{"books of the nodes"}},
		{"not received", func(_ *settings, e *evidence) { e.moves = e.moves[:1] }, []string{"hand-offs"}},
		{"received by another epoch", func(_ *settings, e *evidence) { e.moves[1].Epoch = 3 }, []string{"hand-offs"}},
		{"received by another node", func(_ *settings, e *evidence) { e.moves[1].node = 0 }, []string{"hand-offs"}},
		{"received, and killed before it was logged", func(_ *settings, e *evidence) {
			e.moves = e.moves[:1]
			e.kills[0] = kill{node: 1, at: at(3500)}
		}, nil},
		{"received twice", func(_ *settings, e *evidence) {
			again := e.moves[1]
			again.node = 0
			e.moves = append(e.moves, again)
		}, []string{"hand-offs"}},
		{"two owners", func(_ *settings, e *evidence) { e.disks[site0][0] = holding{frontier.Own, 3, 3} }, []string{"owners at the end"}},
		{"no owner", func(_ *settings, e *evidence) { e.disks[site0][1] = holding{frontier.Backup, 3, 3} }, []string{"owners at the end"}},
		{"stuck on its way", func(_ *settings, e *evidence) { e.disks[site0][0] = holding{frontier.Leaving, 3, 3} }, []string{"owners at the end"}},
		{"not done", func(_ *settings, e *evidence) { e.disks[site0][1] = holding{frontier.Own, 3, 2} }, []string{"URLs on the owners' disks"}},
		{"forgotten", func(_ *settings, e *evidence) { e.disks[site0][1] = holding{frontier.Own, 2, 2} }, []string{"URLs on the owners' disks"}},
	} {
		s, e := sound()
		c.spoil(&s, e)
		if got := failed(judge(s, e)); !slices.Equal(got, c.fails) {
			t.Errorf("%s: failed %q, want %q", c.name, got, c.fails)
		}
	}
}

// TestRepeatsAfterATakeover: what the second copy did not have is allowed for, but only where it was used.
func TestRepeatsAfterATakeover(t *testing.T) {
	s, e := sound()
	s.fetch = 1
	e.pages, e.requests = nil, []request{get(0, 0, "/robots.txt", 0, 1)}
	for i := range 200 {
		uri := "/" + strings.Repeat("x", i)
		e.pages = append(e.pages, site0+uri)
		e.requests = append(e.requests, get(0, 0, uri, 4*i+100, 4*i+101)) // the last ends at 897, the kill is at 1000
	}
	for i := 197; i < 200; i++ {
		e.requests = append(e.requests, get(1, 0, "/"+strings.Repeat("x", i), 9000+i, 9001+i))
	}
	e.disks[site0][1] = holding{frontier.Own, 200, 200}
	if got := failed(judge(s, e)); !slices.Equal(got, []string{"repeats"}) {
		t.Errorf("without a takeover: %q", got)
	}
	e.moves = append(e.moves, move{1, journal.Member{Line: journal.Line{Time: at(2500)}, Change: took, Host: site0, Epoch: 3, Peer: "zero"}})
	if got := failed(judge(s, e)); got != nil {
		t.Errorf("with a takeover: %q", got)
	}
	if n := readTraffic(s, e).cut; n != 3 {
		t.Errorf("%d repeats are laid at the kill", n)
	}
}

func TestParseRequest(t *testing.T) {
	line := `{"time":1795269267.269,"took":0.019,"connection":2,"request":1,"server":"127.0.3.11","host":"h00.test:40147","uri":"/p0/1.html","status":200,"bytes":177,"agent":"Proxima/7.12"}`
	got, err := parseRequest([]byte(line))
	want := request{node: 7, life: 12, server: "127.0.3.11", host: "h00.test:40147", uri: "/p0/1.html", status: 200,
		start: time.UnixMilli(1795269267250), end: time.UnixMilli(1795269267269)}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got.page() != "h00.test:40147/p0/1.html" {
		t.Errorf("page %s", got.page())
	}
	if other, err := parseRequest([]byte(`{"time":1,"took":0,"agent":"curl/8"}`)); err != nil || other.node != -1 {
		t.Errorf("of another agent: %+v, %v", other, err)
	}
	if _, err := parseRequest([]byte(`{"time":`)); err == nil {
		t.Error("a torn line has no error")
	}
}

// TestShow: one criterion that fails is enough.
func TestShow(t *testing.T) {
	var out strings.Builder
	if !show(&out, []verdict{{name: "a", ok: true}}) || !strings.HasSuffix(out.String(), "\nPASS\n") {
		t.Errorf("%s", &out)
	}
	out.Reset()
	faults := make([]string, maxShown+5)
	if show(&out, []verdict{{name: "a", ok: true}, {name: "b", faults: faults}}) || !strings.Contains(out.String(), "b: and 5 more\nFAIL\n") {
		t.Errorf("%s", &out)
	}
}
