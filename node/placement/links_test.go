package placement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

// manyLinks makes n links.
func manyLinks(n int) []frontier.Link {
	links := make([]frontier.Link, n)
	for i := range links {
		links[i] = frontier.Link{URL: identity.URL{Host: "http://example.org", Path: fmt.Sprintf("/%0100d", i)}, Depth: 4, Hops: uint8(i % 3), Sitemap: i%7 == 0}
	}
	return links
}

// bounded checks that answers fit into messages.
type bounded struct {
	sender
	t *testing.T
}

func (b bounded) Fetch(ctx context.Context, to string, req *wire.FetchRequest) (*wire.FetchResponse, error) {
	resp, err := b.sender.Fetch(ctx, to, req)
	if size := proto.Size(resp); size > maxPortion+1<<10 {
		b.t.Errorf("an answer of %d bytes", size)
	}
	return resp, err
}

// The links of a page come with its answer, in as many portions as needed, even if messages are lost. The page is downloaded once, and
// forgotten in the end.
func TestLinksComeWithTheAnswer(t *testing.T) {
	for _, count := range []int{0, 3, maxPageLinks} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			a := n.add(t, "a", 1, func(d *RemoteDeps) { d.Peers = bounded{sender{n, "a"}, t} })
			b := n.add(t, "b", 1)
			want := manyLinks(count)
			b.work = func(*Work) (time.Duration, Result) {
				r := page200(time.Second)
				r.Links = want
				return time.Second, r
			}
			n.lose = func() (request, answer bool) {
				return n.calls%5 == 2, n.calls%5 == 4
			}
			r, err := a.Do(t.Context(), "b", estimateOf(t, "page"))
			if err != nil || !slices.Equal(r.Links, want) || r.Status != 200 {
				t.Errorf("%d links of %d: %v", len(r.Links), count, err)
			}
			time.Sleep(2 * time.Minute)
			b.Remote.mu.Lock()
			defer b.Remote.mu.Unlock()
			if b.links != 0 || len(b.Remote.work) != 0 || b.started["http://example.org/page"] != 1 {
				t.Errorf("%d bytes of links are left, downloaded %v", b.links, b.started)
			}
		})
	}
}

// If a node dies when only some links of a page have arrived, the page is downloaded again.
func TestDeathWithLinksOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, "a", 1), n.add(t, "b", 1)
		b.work = func(*Work) (time.Duration, Result) {
			r := page200(time.Second)
			r.Links = manyLinks(maxPageLinks)
			return time.Second, r
		}
		answers := 0
		n.lose = func() (request, answer bool) { answers++; return answers > 2, false }
		time.AfterFunc(10*time.Second, func() { a.SetAlive(nil) })
		r, err := a.Do(t.Context(), "b", estimateOf(t, "page"))
		if !errors.Is(err, ErrGone) || r.Links != nil {
			t.Fatalf("%d links, %v", len(r.Links), err)
		}
		if out := outcome("a", "b", r, err); out.Ending != frontier.Again || out.Trouble != frontier.Interrupted {
			t.Errorf("the page counts as %+v", out)
		}
	})
}

// The links that wait for their askers are bounded. A page beyond the bound is downloaded again.
func TestLinksThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, "a", 1), n.add(t, "b", 1)
		many := manyLinks(maxLinks / 160)
		b.work = func(*Work) (time.Duration, Result) {
			r := page200(time.Second)
			r.Links = many[:len(many)/3]
			return time.Second, r
		}
		var ends []frontier.Ending
		for i := range 4 {
			r, err := a.Do(t.Context(), "b", estimateOf(t, fmt.Sprint(i)))
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, r.Ending)
		}
		if !slices.Equal(ends, []frontier.Ending{frontier.Done, frontier.Done, frontier.Done, frontier.Again}) {
			t.Errorf("%v", ends)
		}
	})
}
