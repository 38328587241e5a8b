package crawl

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
)

// TestNoRight: what there is no right to ask for goes back as it was, without a line in the log or a failure of the host,
// and not in a tight circle. As soon as there is a right, it is asked for: robots.txt and the page.
func TestNoRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		denied, looks := errors.New("the lease is over"), 0
		w := new(web)
		b := newBed(t, w)
		b.cfg.End = EndIdle // which it is not without a right
		b.over.mayAsk = func(addr netip.Addr) error {
			mu.Lock()
			defer mu.Unlock()
			if addr != netip.MustParseAddr("10.0.0.1") {
				t.Errorf("asked about %v", addr)
			}
			looks++
			return denied
		}
		b.crawl(func() {
			time.Sleep(10 * time.Second)
			mu.Lock()
			if asked, s := w.requests(), b.Stats(); asked != "" || s.Requests != 0 || s.Pages != 0 || looks < 2 || looks > 101 {
				t.Errorf("without a right: %q asked, %+v, %d looks", asked, s, looks)
			}
			denied = nil
			mu.Unlock()
			time.Sleep(time.Minute)
			if got := w.requests(); got != "/robots.txt /page" {
				t.Errorf("with a right: %q asked", got)
			}
		})
		if text, err := os.ReadFile(b.log); err != nil || strings.Count(string(text), "\n") != 2 || strings.Contains(string(text), "no_right") {
			t.Errorf("log: %s, %v", text, err)
		}
	})
}

// TestNoRightOfAnother: a page for another node is asked for under that node's right, whatever this node may ask.
func TestNoRightOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(web)
		b := newBed(t, w)
		b.over.mayAsk = func(netip.Addr) error { return errors.New("none of its own") }
		b.over.right = errors.New("it slept")
		b.crawl(func() {
			for _, path := range []string{"/late", "/now"} {
				b.enqueue("http://b.example", path, "10.0.0.2")
				time.Sleep(10 * time.Second)
				b.over.mu.Lock()
				b.over.right = nil
				b.over.mu.Unlock()
			}
		})
		if got := w.requests(); got != "/now" {
			t.Errorf("%q asked", got)
		}
		if got := b.over.ended; len(got) != 2 || got[0].Asked || got[0].Ending != frontier.Again || !got[1].Asked {
			t.Errorf("ended %+v", got)
		}
	})
}
