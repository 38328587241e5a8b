package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
		links[i] = frontier.Link{URL: identity.URL{Host: "http://example.org", Path: fmt.Sprintf("/%0100d", i)},
			Depth: 4, Hops: uint8(i % 3), Sitemap: i%7 == 0}
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
		inNetwork(t, 1, func(t *testing.T, n *network, _, b *node) {
			c := n.add(t, "c", 1, func(d *RemoteDeps) { d.Fetch = bounded{sender{n, "c"}, t}.Fetch })
			want := manyLinks(count)
			b.takes(time.Second, want...)
			n.lose = func() (request, answer bool) { return n.calls%5 == 2, n.calls%5 == 4 }
			r, err := c.Do(t.Context(), "b", estimateOf(t, "page"))
			if err != nil || !slices.Equal(r.Links, want) || r.Status != 200 {
				t.Errorf("%d links of %d: %v", len(r.Links), count, err)
			}
			time.Sleep(2 * time.Minute)
			if work, links := b.remembered(); work+links > 0 || b.started["http://example.org/page"] != 1 {
				t.Errorf("%d bytes of links are left, downloaded %v", links, b.started)
			}
		})
	}
}

// As many links go into an answer as fit, and one always does.
func TestPortionsOfLinks(t *testing.T) {
	for _, c := range []struct {
		sizes     []int
		had, want int
		more      bool
	}{
		{[]int{1<<20 - 100, 100}, 0, 2, false},
		{[]int{1<<20 - 100, 101}, 0, 1, true},
		{[]int{1<<20 - 100, 101}, 1, 1, false},
		{[]int{1<<20 + 1, 100}, 0, 1, true},
		{[]int{100}, 1, 0, false},
		{[]int{100}, 2, 0, false},
	} {
		var links []frontier.Link
		for _, size := range c.sizes {
			const host = "http://example.org"
			links = append(links, frontier.Link{URL: identity.URL{Host: host, Path: "/" + strings.Repeat("x", size-len(host)-41)}})
		}
		if got, more := encodeLinks(links, c.had); len(got) != c.want || more != c.more {
			t.Errorf("of links of %v bytes, %d had: %d, more %v", c.sizes, c.had, len(got), more)
		}
	}
}

// The links of results that wait for their askers take 32 MiB. A result beyond that is lost, unless it is the only one.
func TestResultsAtTheBoundOfLinks(t *testing.T) {
	links, huge := manyLinks(10), manyLinks(1)
	size := linkBytes(links)
	if one := linkBytes(huge); size != 10*one {
		t.Errorf("ten links take %d bytes, and one %d", size, one)
	}
	huge[0].URL.Path = strings.Repeat("/", 33<<20)
	for _, c := range []struct {
		waiting int
		links   []frontier.Link
		kept    bool
	}{{0, links, true}, {0, huge, true}, {32<<20 - size, links, true}, {32<<20 - size + 1, links, false}, {32<<20 + 1, nil, true}} {
		inNetwork(t, 0, func(t *testing.T, _ *network, _, b *node) {
			b.ask(t, 1, 30*time.Second)
			w := b.begin(t)
			b.Remote.mu.Lock()
			b.Remote.links = c.waiting
			b.Remote.mu.Unlock()
			r := page200(time.Second)
			r.Links = c.links
			b.Finished(w, r)
			if _, n := b.remembered(); w.result.HTML != c.kept || n != c.waiting+linkBytes(w.result.Links) || !w.result.Asked {
				t.Errorf("%d bytes wait: %d links are kept, %d bytes are counted", c.waiting, len(w.result.Links), n)
			}
			time.Sleep(2 * time.Minute)
			if _, n := b.remembered(); n != c.waiting {
				t.Errorf("%d bytes are counted in the end, want %d", n, c.waiting)
			}
		})
	}
}

// A result may expire while a call for it is under way. What its links took is freed once.
func TestResultExpiresDuringACall(t *testing.T) {
	inNetwork(t, 0, func(t *testing.T, _ *network, _, b *node) {
		b.ask(t, 1, 30*time.Second)
		res := page200(time.Second)
		res.Links = manyLinks(1)
		b.Finished(b.begin(t), res)
		b.deps.FromLife = func(_ string, _ uint64, take func()) bool {
			take()
			time.Sleep(2 * time.Minute)
			return true
		}
		b.ask(t, 1, time.Second)
		time.Sleep(time.Hour)
		synctest.Wait()
		if _, n := b.remembered(); n != 0 {
			t.Errorf("%d bytes of links are kept", n)
		}
	})
}
