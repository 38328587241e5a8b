package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node"
	"proxima/node/console"
	"proxima/node/crawl"
)

// onSocket runs a node that does not end by itself, and gives a client of its socket. The node has stopped when the test ends.
func onSocket(t *testing.T, c node.Config, deps node.Deps, list string) (*node.Node, *http.Client) {
	t.Helper()
	c.Crawl.End = crawl.EndNever
	n, err := node.New(c, seeds(t, list), deps)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := n.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	for n.Status().Frontier.Accepted == 0 { // it does not know its seeds yet
		select {
		case <-ended:
			t.FailNow()
		case <-time.After(time.Millisecond):
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
		for {
			var d net.Dialer
			if conn, err = d.DialContext(ctx, "unix", filepath.Join(c.Node.Data, "status.sock")); err == nil || ctx.Err() != nil {
				return conn, err
			}
			time.Sleep(time.Millisecond)
		}
	}}}
	return n, client
}

// try is a call of the API and the status that it is answered with.
type try struct {
	call, body string
	want       int
}

// tries are calls of a node that knows a.test, good ones and bad ones.
func tries() []try {
	return []try{
		{"GET /status", "", 200}, {"POST /status", "", 405}, {"GET /nothing", "", 404},
		{"GET /metrics", "", 200}, {"GET /openapi.json", "", 200},
		{"GET /host?name=a.test", "", 200}, {"GET /host?name=b.test", "", 404}, {"GET /host", "", 400},
		{"GET /sample", "", 200}, {"GET /history", "", 200}, {"GET /decisions", "", 200}, {"GET /servers", "", 200}, {"GET /members", "", 200},
		{"GET /hosts", "", 200}, {"GET /hosts?part=a.te", "", 200}, {"GET /hosts?node=nobody", "", 404},
		{"GET /events", "", 200}, {"GET /events?after=3", "", 200}, {"GET /events?after=-3", "", 400},
		{"GET /places", "", 200}, {"GET /places?t=1", "", 200}, {"GET /places?t=x", "", 400},
		{"POST /pause", "", 200}, {"GET /pause", "", 405}, {"POST /pause?node=other", "", 400}, {"POST /resume", "", 200},
		{"POST /seeds", "http://a.test/1", 200}, {"POST /seeds", "no URL at all", 400}, {"POST /seeds", "", 400},
		{"POST /drop?host=a.test", "", 200}, {"POST /drop?host=nobody.test", "", 404}, {"POST /drop", "", 400},
		{"POST /go-alone", "", 409},
		{"POST /block?on=b.test&why=asked", "", 200}, {"POST /block?on=*", "", 400}, {"POST /block?on=c.test&why=%1b", "", 400}, {"POST /block", "", 400},
		{"POST /block?on=0.0.0.0/0", "", 400}, {"POST /block?on=c.test%0A", "", 400},
		{"GET /blocks", "", 200}, {"POST /unblock?on=b.test", "", 200}, {"POST /unblock?on=nobody.test", "", 200},
		{"POST /retry?host=a.test", "", 200}, {"POST /retry?host=nobody.test", "", 404}, {"POST /retry", "", 400},
		{"POST /move?host=a.test&to=x", "", 409}, {"POST /move?host=a.test", "", 400}, {"POST /drain", "", 409}, {"POST /rotate", "", 409},
		{"GET /requests", "", 200}, {"POST /dismiss?host=a.test", "", 404}, {"POST /dismiss", "", 400},
		{"POST /set?key=politeness.min_gap&value=3s", "", 200}, {"POST /set?key=crawl.fetchers&value=x", "", 400}, {"POST /set?key=crawl.end&value=never", "", 409},
		{"POST /set?key=no.key&value=1", "", 400}, {"POST /set", "", 400}, {"POST /reload", "", 409},
		{"GET /snapshot", "", 200}, {"GET /profile?kind=heap", "", 200}, {"GET /profile?kind=no", "", 400}, {"GET /profile?kind=cpu&seconds=99", "", 400},
		{"GET /profile?kind=cpu&seconds=1", "", 200},
	}
}

// TestAPI makes every call of the API, good ones and bad ones: the status says which, errors are JSON, and each act that was tried has a line in the
// log that says who, whether it was done or not.
func TestAPI(t *testing.T) {
	web := newWeb(t)
	c := config(t)
	n, client := onSocket(t, c, depsOf(web), "http://a.test/0")
	tried := map[string]bool{}
	acts := 0
	for _, try := range tries() {
		method, path, _ := strings.Cut(try.call, " ")
		req, err := http.NewRequest(method, "http://node/api/v1"+path, strings.NewReader(try.body))
		must(t, err)
		res, err := client.Do(req)
		must(t, err)
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != try.want {
			t.Errorf("%s: %s, want %d: %v: %s", try.call, res.Status, try.want, err, body)
		}
		var failed struct{ Error string }
		if try.want >= 400 && (json.Unmarshal(body, &failed) != nil || failed.Error == "") {
			t.Errorf("%s: the answer is not an error in JSON: %s", try.call, body)
		}
		path, query, _ := strings.Cut(path, "?")
		if tried[method+" "+path] = true; method == "POST" && try.want != 405 && (try.want != 400 || query+try.body != "" && !strings.HasPrefix(query, "node=")) {
			acts++
		}
	}
	if logged := readLogs(t, n.LogDir()).events.actsOf("operator"); len(logged) < acts {
		t.Errorf("%d lines about acts, of %d", len(logged), acts)
	}
	tried["GET /stream"] = true // it does not end
	for path, item := range description(t, node.OpenAPI()).Paths {
		for method := range item {
			if call := strings.ToUpper(method) + " " + path; !tried[call] {
				t.Errorf("%s is not tried", call)
			}
		}
	}
}

// document is what is read of an OpenAPI document.
type document struct {
	Paths      map[string]map[string]any
	Components struct{ Schemas map[string]any }
}

func description(t *testing.T, of any) (d document) {
	t.Helper()
	text, err := json.Marshal(of)
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	must(t, err)
	return d
}

// docs/openapi.json describes the calls that there are, and every schema that it refers to.
func TestOpenAPIIsFresh(t *testing.T) {
	text, err := os.ReadFile("../docs/openapi.json")
	must(t, err)
	want, err := json.MarshalIndent(node.OpenAPI(), "", " ")
	must(t, err)
	if !bytes.Equal(bytes.TrimSpace(text), want) {
		t.Error("docs/openapi.json is not what the routes are: go run ./scripts/generate")
	}
	schemas := description(t, node.OpenAPI()).Components.Schemas
	for _, part := range strings.Split(string(want), "#/components/schemas/")[1:] {
		if name, _, _ := strings.Cut(part, `"`); schemas[name] == nil {
			t.Errorf("no schema %s", name)
		}
	}
}

// A name stands for the hosts of its schemes that are known, whatever comes after it. That a node cannot be asked does not mean that none is running.
func TestCall(t *testing.T) {
	c := config(t)
	n, client := onSocket(t, c, depsOf(newWeb(t)), "http://a.test/")
	if res, err := client.Get("http://node/api/v1/status"); err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, err)
	}
	if s, err := node.AskStatus(t.Context(), c.Node.Data); err != nil || s.Node != n.ID().Node {
		t.Errorf("%+v, %v", s, err)
	}
	for _, name := range []string{"a.test", "http://a.test:80/x"} {
		var hosts []frontier.HostStatus
		err := node.Call(t.Context(), http.MethodGet, c.Node.Data, "/host?name="+name, nil, &hosts)
		if err != nil || len(hosts) != 1 || hosts[0].Host != "http://a.test" {
			t.Errorf("%s: %+v, %v", name, hosts, err)
		}
	}
	err := node.Call(t.Context(), http.MethodGet, c.Node.Data, "/host?name=b.test", nil, &[]frontier.HostStatus{})
	if err == nil || !strings.Contains(err.Error(), "b.test") {
		t.Errorf("an unknown host: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := node.AskStatus(ended, c.Node.Data); err == nil || errors.Is(err, node.ErrNotRunning) {
		t.Errorf("a caller that gave up: %v", err)
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 120)) // no socket has such a path
	must(t, os.Mkdir(long, 0o700))
	if _, err := node.AskStatus(t.Context(), long); err == nil || errors.Is(err, node.ErrNotRunning) ||
		!strings.Contains(err.Error(), "too long for a socket: choose a shorter data directory") {
		t.Errorf("a path that is too long: %v", err)
	}
	if _, err := node.AskStatus(t.Context(), t.TempDir()); !errors.Is(err, node.ErrNotRunning) {
		t.Errorf("no node: %v", err)
	}
}

// called makes a call of a node's API and reads its JSON.
func called(t *testing.T, n *node.Node, method, path string, to any) int {
	t.Helper()
	w := httptest.NewRecorder()
	n.API(func(*http.Request) string { return "tester" }).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "http://node/api/v1"+path, nil))
	if err := json.Unmarshal(w.Body.Bytes(), to); err != nil {
		t.Errorf("%s %s: %v: %s", method, path, err, w.Body)
	}
	return w.Code
}

// Who watches one node sees all: what each of them does, its hosts with their replicas, and its servers with what is expected of the nodes.
func TestOverlayIsWatched(t *testing.T) {
	inBed(t, square()[:3], func(b *bed) {
		b.sitesBeside(3, 600, 1)
		b.startAll(0)
		n := b.nodes[0].node
		var members []node.MemberRow
		b.await("all members with their places, and pages", 10*time.Minute, func() bool {
			members = nil
			called(b.t, n, "GET", "/members", &members)
			for _, m := range members {
				var s console.Sample
				if called(b.t, n, "GET", "/sample?node="+m.ID, &s) != 200 || len(m.Vector) == 0 || s.Pages == 0 && m.ID == n.ID().Node {
					return false
				}
			}
			return len(members) == 3 && len(pages(b.Visits(nil))) > 100
		})
		hosts, copied, expected := 0, 0, 0
		for _, m := range members {
			var list node.HostList
			var servers []node.ServerRow
			if called(b.t, n, "GET", "/hosts?part=.Example&node="+m.ID, &list) != 200 || called(b.t, n, "GET", "/servers?node="+m.ID, &servers) != 200 {
				t.Errorf("%s does not answer", m.ID)
			}
			for _, h := range list.Hosts {
				hosts++
				if h.Owner != m.ID || h.Replica == "" || h.Replica == h.Owner || h.Sentence == "" {
					b.t.Errorf("%s has %+v", m.ID, h)
				}
				var copies []frontier.HostStatus
				if called(b.t, n, "GET", "/host?name="+h.Host+"&node="+h.Replica, &copies) == 200 {
					copied++
					if !strings.Contains(copies[0].Sentence, "another node owns it") {
						b.t.Errorf("the replica of %s says %q", h.Host, copies[0].Sentence)
					}
				}
			}
			for _, s := range servers {
				expected += len(s.Predicted)
			}
			for _, path := range []string{"/history", "/events", "/decisions"} {
				var some []any
				if called(b.t, n, "GET", path+"?node="+m.ID, &some) != 200 {
					t.Errorf("%s: %s does not answer", path, m.ID)
				}
			}
		}
		if hosts < 3 || copied == 0 || expected == 0 {
			t.Errorf("%d hosts, %d replicas, %d predictions", hosts, copied, expected)
		}
		var failed struct{ Error string }
		b.kill(2)
		if status := called(b.t, n, "GET", "/sample?node="+b.nodes[2].node.ID().Node, &failed); status != 503 || failed.Error == "" {
			t.Errorf("a dead node answers with %d, %q", status, failed.Error)
		}
		if status := called(b.t, n, "POST", "/pause?node="+b.nodes[1].node.ID().Node, &failed); status != 400 || n.Status().Frontier.Paused != "" {
			b.t.Errorf("an act for another node: %d, %q", status, failed.Error)
		}
	})
}
