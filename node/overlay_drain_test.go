package node_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/placement"
)

// awaitDrained waits until a node has handed over all its hosts and stopped. It is not waited for any more.
func (b *bed) awaitDrained(i int) {
	b.t.Helper()
	n := b.nodes[i]
	b.await("the drain", 10*time.Minute, n.hasEnded)
	if n.end.Reason != "drained" || n.err != nil {
		b.t.Errorf("it ended as %q: %v", n.end.Reason, n.err)
	}
	n.dead.Store(true)
}

// A node that is drained stops when each of its hosts is another node's: its disk can go, and still every page is crawled, once.
func TestOverlayDrains(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		for i := range 12 {
			b.site(fmt.Sprintf("s%d.example", i), address(i), beside(b.nodes[i%4].at), 60, 1)
		}
		b.startAll(2 * time.Second)
		b.await("pages", 10*time.Minute, func() bool { return len(b.Visits(nil)) > 150 })
		if _, err := b.nodes[1].node.Operator().Move(b.t.Context(), "nobody.example", "0", "ann"); !errors.Is(err, node.ErrNotHere) && !errors.Is(err, node.ErrNotNow) {
			b.t.Errorf("an unknown host is moved: %v", err)
		}
		if err := b.nodes[1].node.Operator().Drain("ann"); err != nil {
			b.t.Fatal(err)
		}
		if err := b.nodes[1].node.Operator().Drain("ann"); err != nil {
			b.t.Errorf("drained twice: %v", err)
		}
		b.awaitDrained(1)
		b.awaitEnd(2 * time.Hour)
		b.complete(60, false)
	})
}

// A node that is drained while another one dies waits until its hosts are somewhere else, and one that is killed meanwhile leaves nothing behind
// that is nowhere.
func TestOverlayDrainsInTrouble(t *testing.T) {
	inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
		for i := range 10 {
			b.site(fmt.Sprintf("s%d.example", i), address(i), beside(b.nodes[i%4].at), 60, 1)
		}
		b.startAll(2 * time.Second)
		b.await("pages", 10*time.Minute, func() bool { return len(b.Visits(nil)) > 150 })
		for _, i := range []int{1, 3} {
			if err := b.nodes[i].node.Operator().Drain("ann"); err != nil {
				b.t.Fatal(err)
			}
		}
		b.kill(2) // some of their hosts were to go there
		time.Sleep(300 * time.Millisecond)
		b.kill(3) // in the middle of its own
		b.start(2)
		b.start(3)
		b.awaitDrained(1)
		b.awaitEnd(3 * time.Hour)
		b.complete(60, true)
	})
}

// A host is moved to the member that is named, with the others of its server.
func TestOverlayMoves(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		b.cfg = func(i int, c *node.Config) { c.Batch.Mode = placement.ModeCrawl }
		b.site("one.example", address(0), point{50, 50, 1}, 400, 1)
		b.site("two.example", address(0), point{50, 50, 1}, 400, 1)
		b.startAll(2 * time.Second)
		b.await("pages", 10*time.Minute, func() bool { return len(b.pagesOf("one.example")) > 5 && len(b.pagesOf("two.example")) > 5 })
		var owner, to int
		for i := range b.nodes {
			if b.by("one.example", time.Now().Add(-30*time.Second))[b.name(i)] > 0 {
				owner = i
			}
		}
		to = (owner + 1) % 4
		id := b.nodes[to].node.ID().Node
		for _, c := range []struct{ host, to string }{{"one.example", ""}, {"one.example", "zz"}, {"one.example", b.nodes[owner].node.ID().Node}, {"nobody.example", id}} {
			if moved, err := b.nodes[owner].node.Operator().Move(b.t.Context(), c.host, c.to, "ann"); err == nil {
				b.t.Errorf("%s moved to %q: %v", c.host, c.to, moved)
			}
		}
		moved, err := b.nodes[owner].node.Operator().Move(b.t.Context(), "one.example", id, "ann")
		if err != nil || strings.Join(moved, " ") != "http://one.example http://two.example" {
			b.t.Fatalf("moved %v: %v", moved, err)
		}
		at := time.Now()
		b.await("pages there", 10*time.Minute, func() bool { return b.by("one.example", at)[b.name(to)] > 5 && b.by("two.example", at)[b.name(to)] > 5 })
	})
}

// A host that waits because its server is busy is asked as soon as it is told to be.
func TestRetry(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.cfg.Crawl.Patience = 2 * time.Hour
		var well atomic.Bool
		a := w.Site("a.test", server1).Handle("/", func(out http.ResponseWriter, _ *http.Request) {
			if !well.Load() {
				out.Header().Set("Retry-After", "3000")
				out.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		w.watch = func(n *node.Node) {
			time.Sleep(30 * time.Second)
			well.Store(true)
			if err := n.Operator().Retry(w.t.Context(), "nobody.test", "ann"); !errors.Is(err, node.ErrNotHere) {
				w.t.Errorf("an unknown host is asked again: %v", err)
			}
			if tried := a.Count("/"); tried != 1 {
				w.t.Errorf("it was asked %d times before", tried)
			}
			if err := n.Operator().Retry(w.t.Context(), "a.test", "ann"); err != nil {
				w.t.Error(err)
			}
		}
		w.run("http://a.test/")
		if took, tried := time.Since(w.began), a.Count("/"); took > time.Minute || tried != 2 {
			w.t.Errorf("it was asked %d times within %v", tried, took)
		}
	})
}

// A snapshot has the hosts and what is pending of them, and ends with their numbers.
func TestSnapshot(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Pages(50)
		w.Site("b.test", server2).Pages(50)
		w.watch = func(n *node.Node) {
			time.Sleep(20 * time.Second)
			if err := n.Operator().Pause("ann"); err != nil {
				w.t.Error(err)
			}
			time.Sleep(time.Minute)
			var b bytes.Buffer
			if err := n.Snapshot(w.t.Context(), &b); err != nil {
				w.t.Error(err)
			}
			hosts, urls, pending := 0, map[string]bool{}, n.Status().Frontier.Pending
			lines := strings.Split(strings.TrimSpace(b.String()), "\n")
			for _, line := range lines {
				var l struct{ Host, URL, Role string }
				if err := json.Unmarshal([]byte(line), &l); err != nil {
					w.t.Errorf("%s: %v", line, err)
				}
				if l.Role != "" {
					hosts++
				}
				if l.URL != "" {
					urls[l.URL] = true
				}
			}
			if hosts != 2 || len(urls) != int(pending) || pending == 0 {
				w.t.Errorf("%d hosts and %d URLs of %d", hosts, len(urls), pending)
			}
			if want := fmt.Sprintf(`{"hosts":2,"urls":%d}`, pending); lines[len(lines)-1] != want {
				w.t.Errorf("the last line is %s, not %s", lines[len(lines)-1], want)
			}
			if err := n.Operator().Resume("ann"); err != nil {
				w.t.Error(err)
			}
		}
		w.run("http://a.test/", "http://b.test/")
	})
}
