package node_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/netsim"
	"proxima/node/runlog"
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

// A web master sees what was asked of the site for another one, too, whose robots.txt is redirected there.
func TestWebMasterOfARedirectedRobots(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.withDoor()
		w.Site("a.test", server1).Pages(20).Redirect("/robots.txt", "http://b.test/rules")
		w.Site("b.test", server2).Handle("/rules", Text("text/plain", "User-agent: *\nDisallow: /private"))
		w.watch = func(n *node.Node) {
			time.Sleep(15 * time.Second)
			for site, want := range map[string]string{"a.test": "http://a.test/robots.txt", "b.test": "http://b.test/rules"} {
				if code, body := knock(n, "GET", "/?site="+site, nil); code != 200 || !strings.Contains(body, want) {
					w.t.Errorf("%d, without %s:\n%s", code, want, body)
				}
			}
		}
		_, logs := w.run("http://a.test/")
		for _, f := range logs.fetches {
			if !strings.HasPrefix(f.URL, f.Host+"/") {
				w.t.Errorf("the host of %s is %s in the log", f.URL, f.Host)
			}
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

// readDoor returns the token and the ticket that the page shows for a site.
func readDoor(n *node.Node, site string) (token, ticket string) {
	_, body := knock(n, "GET", "/?site="+site, nil)
	found := regexp.MustCompile(`name="ticket" value="([^"]*)"`).FindStringSubmatch(body)
	if found == nil {
		return "", ""
	}
	return regexp.MustCompile(`proxima-[a-z2-7]{32}`).FindString(body), found[1]
}

// All who read the page before there is a key are shown tokens of the same one.
func TestFirstReadersGetOneKey(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.withDoor()
		w.Site("a.test", server1).Pages(1)
		w.opened = func(n *node.Node) {
			var tokens [16]string
			var all sync.WaitGroup
			begin := make(chan struct{})
			for i := range tokens {
				all.Go(func() {
					<-begin
					tokens[i], _ = readDoor(n, "a.test")
				})
			}
			close(begin)
			all.Wait()
			now, _ := readDoor(n, "a.test")
			for _, token := range tokens {
				if token != now || token == "" {
					w.t.Errorf("a token is %q, and later %q", token, now)
				}
			}
		}
		w.run("http://a.test/")
	})
}

// What a web master has asked for and the disk refuses is told to the web master without the reason, and to the operator with it.
func TestWebMasterWithoutADisk(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.withDoor()
		free := w.disk(1 << 40)
		token := ""
		w.Site("a.test", server1).Pages(20).Handle("/.well-known/proxima.txt", func(out http.ResponseWriter, _ *http.Request) { fmt.Fprintln(out, token) })
		w.watch = func(n *node.Node) {
			time.Sleep(5 * time.Second)
			var ticket string
			token, ticket = readDoor(n, "a.test")
			time.Sleep(5 * time.Second)
			hindrance := filepath.Join(w.cfg.Node.Data, "crawl.json.new")
			must(w.t, os.Mkdir(hindrance, 0o700))
			free.Store(0)
			time.Sleep(5 * time.Second)
			for _, way := range []string{"file", "ask"} {
				code, body := knock(n, "POST", "/", url.Values{"site": {"a.test"}, "ticket": {ticket}, "way": {way}})
				if code != http.StatusServiceUnavailable || strings.Contains(body, w.cfg.Node.Data) {
					w.t.Errorf("%s: %d\n%s", way, code, body)
				}
			}
			free.Store(1 << 40)
			time.Sleep(15 * time.Second)
			if code, body := knock(n, "POST", "/", url.Values{"site": {"a.test"}, "ticket": {ticket}, "way": {"ask"}}); code != 200 {
				w.t.Errorf("with room again: %d\n%s", code, body)
			}
			_, _, err := n.Operator().Block("a.test", "ann", "", false)
			var all []webmaster.Request
			if code := called(w.t, n, "GET", "/requests", &all); err == nil || strings.Contains(err.Error(), "seeds") || code != 200 || len(all) != 1 {
				w.t.Errorf("after a block that failed (%v): requests %v: %d", err, all, code)
			}
			must(w.t, os.Remove(hindrance))
		}
		_, logs := w.run("http://a.test/")
		if acts := strings.Join(logs.events.actsOf("web master"), "\n"); !strings.Contains(acts, "block failed: ") {
			w.t.Errorf("the log has of the block: %s", acts)
		}
		if warned := strings.Join(logs.events.of(runlog.EventWarning).reasons(), "\n"); !strings.Contains(warned, "keep what was asked for a.test: the disk is full") {
			w.t.Errorf("it warns: %s", warned)
		}
	})
}

// A web master is told that there is no answer, and not whom this machine asks for it.
func TestWebMastersDoNotLearnTheNameServer(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.withDoor()
		w.Site("a.test", server1).Pages(30)
		w.deps.DialDNS = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
		w.watch = func(n *node.Node) {
			time.Sleep(5 * time.Second)
			for site, way := range map[string]string{"a.test": "dns", "nobody.test": "file"} {
				_, ticket := readDoor(n, site)
				time.Sleep(5 * time.Second)
				code, body := knock(n, "POST", "/", url.Values{"site": {site}, "ticket": {ticket}, "way": {way}})
				if code != http.StatusForbidden || !strings.Contains(body, "no answer from name servers") || strings.Contains(body, "127.0.0.1") {
					w.t.Errorf("%s by %s: %d\n%s", site, way, code, body)
				}
			}
		}
		w.run("http://a.test/")
	})
}
