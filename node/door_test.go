package node_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/netsim"
	"proxima/node/webmaster"
)

// withDoor gives the node a page for web masters, at a port to which nothing leads: a listener of the system is nothing that a bubble waits for.
func (w *trial) withDoor() {
	place, err := netsim.New(nil).Open(netip.MustParseAddr("203.0.113.1"))
	must(w.t, err)
	w.cfg.WebMaster.Listen, w.deps.Listen = "203.0.113.1:80", place.Listen
}

// knock asks the page for web masters.
func knock(n *node.Node, method, target string, form url.Values) (code int, body string) {
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	out := httptest.NewRecorder()
	n.Door().ServeHTTP(out, r)
	return out.Code, out.Body.String()
}

// A web master sees what was asked of the site, puts a file there and has it left alone; another one only asks, and the operator decides.
func TestWebMaster(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.withDoor()
		token := ""
		a := w.Site("a.test", server1).Pages(200).Handle("/.well-known/proxima.txt", func(out http.ResponseWriter, _ *http.Request) { fmt.Fprintln(out, token) })
		w.Site("b.test", server2).Pages(5)
		w.Site("c.test", server3).Pages(100)
		w.Site("private.test", "10.0.0.1")
		leave := func(n *node.Node, site, way string) (int, string) {
			_, body := knock(n, "GET", "/?site="+site, nil)
			token = regexp.MustCompile(`proxima-[a-z2-7]{32}`).FindString(body)
			ticket := regexp.MustCompile(`name="ticket" value="([^"]*)"`).FindStringSubmatch(body)
			time.Sleep(20 * time.Second)
			if site == "a.test" && !strings.Contains(body, "http://a.test/") {
				w.t.Errorf("what was asked of it is not shown:\n%s", body)
			}
			return knock(n, "POST", "/", url.Values{"site": {site}, "ticket": {ticket[1]}, "way": {way}, "note": {"please"}})
		}
		var ended *node.Node
		w.watch = func(n *node.Node) {
			ended = n
			time.Sleep(30 * time.Second)
			if code, body := leave(n, "private.test", "file"); code != http.StatusForbidden {
				w.t.Errorf("a private address: %d\n%s", code, body)
			}
			if code, _ := leave(n, "b.test", "ask"); code != 200 {
				w.t.Errorf("a request: %d", code)
			}
			var all []webmaster.Request
			if code := called(w.t, n, "GET", "/requests", &all); code != 200 || len(all) != 1 || all[0].Host != "b.test" || all[0].Note != "please" {
				w.t.Errorf("requests %v: %d", all, code)
			}
			var acted node.Acted
			for host, want := range map[string]int{"d.test": 404, "b.test": 200} { // nobody has asked for the first
				if code := called(w.t, n, "POST", "/dismiss?host="+host, &acted); code != want {
					w.t.Errorf("dismiss %s: %d, want %d", host, code, want)
				}
			}
			if code, body := leave(n, "a.test", "file"); code != 200 {
				w.t.Errorf("with the file: %d\n%s", code, body)
			}
			if b := n.Operator().Blocks(); len(b) != 1 || b[0].On != "a.test" || b[0].By != "web master" {
				w.t.Errorf("blocks %v", b)
			}
			if code := called(w.t, n, "GET", "/requests", &all); code != 200 || len(all) != 0 {
				w.t.Errorf("requests %v: %d", all, code)
			}
		}
		w.run("http://a.test/", "http://b.test/", "http://c.test/")
		if _, changed, err := ended.Operator().Block("d.test", "ann", "", false); changed || err == nil || len(ended.Operator().Blocks()) != 1 {
			w.t.Errorf("a block of a node that has ended: %t, %v, %v", changed, err, ended.Operator().Blocks())
		}
		if n := len(pages(a.Visits())); n > 100 {
			w.t.Errorf("%d pages of a site that is left alone", n)
		}
	})
}

// What web masters and operators say of sites does not wait for room on the disk. Peers and pages that need what is blocked would wait with it.
func TestSitesAreBlockedWhileTheDiskIsFull(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.withDoor()
		w.Site("a.test", server1).Pages(50)
		free := w.disk(1 << 40)
		w.watch = func(n *node.Node) {
			time.Sleep(10 * time.Second)
			free.Store(0)
			time.AfterFunc(5*time.Minute, func() { free.Store(1 << 40) })
			time.Sleep(time.Minute)
			began := time.Now()
			if _, changed, err := n.Operator().Block("b.test", "ann", "", false); err != nil || !changed || len(n.Operator().Blocks()) != 1 {
				w.t.Errorf("blocked: %v, %v", changed, err)
			}
			if code, _ := knock(n, "GET", "/?site=a.test", nil); code != http.StatusServiceUnavailable { // its key is not on disk
				w.t.Errorf("the page: %d", code)
			}
			if took := time.Since(began); took > time.Second {
				w.t.Errorf("it took %v", took)
			}
		}
		w.run("http://a.test/")
	})
}
