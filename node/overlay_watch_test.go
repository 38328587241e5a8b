package node_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node"
	"proxima/node/console"
)

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
