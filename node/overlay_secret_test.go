package node_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/peer"
	"proxima/node/runlog"
)

// The secret of an overlay is changed while it crawls: each node gets the file of each step some time after the others.
// Nobody is lost on the way; a node that has only the old secret is out at the end.
func TestOverlaySecretIsRotated(t *testing.T) {
	inBed(t, []point{{0, 0, 1}, {40, 0, 1}, {0, 40, 1}, {40, 40, 1}}, func(b *bed) {
		file := func(i int) string { return filepath.Join(b.dir, b.name(i)+".secret") }
		give := func(i int) {
			text, err := os.ReadFile(b.secret)
			if err != nil {
				b.t.Fatal(err)
			}
			if err := os.WriteFile(file(i), text, 0o600); err != nil {
				b.t.Fatal(err)
			}
		}
		b.cfg = func(i int, c *node.Config) { c.Peer.Secret = file(i) }
		for i := range b.nodes {
			give(i)
		}
		b.site("one.example", address(0), point{1, 1, 1}, 60, 5)
		b.site("two.example", address(1), point{39, 1, 1}, 60, 5)
		b.startAll(2 * time.Second)
		see := func(want ...int) func() bool {
			return func() bool {
				return slices.EqualFunc(b.nodes, want, func(n *bedNode, want int) bool { return n.node.Status().Overlay.Alive == want })
			}
		}
		b.await("the overlay", time.Minute, see(4, 4, 4, 4))
		for step := range 3 {
			if _, err := peer.Rotate(b.secret); err != nil {
				b.t.Fatal(err)
			}
			for i := range 3 { // the last one gets nothing
				give(i)
				time.Sleep(5 * time.Second)
				for j := range 3 {
					if n := b.nodes[j].node.Status().Overlay.Alive; n < 3 {
						b.t.Errorf("at step %d %s sees %d nodes", step+1, b.name(j), n)
					}
				}
			}
		}
		b.await("the end of the old one", 5*time.Minute, see(3, 3, 3, 1))
		says := b.nodes[0].node.Status().Overlay.Secret
		for i := range 3 {
			changes := len(b.events(i).of(runlog.EventSecret))
			if s := b.nodes[i].node.Status().Overlay.Secret; s != says || strings.Contains(s, ",") || changes != 3 {
				b.t.Errorf("%s uses secret %s, not %s, and changed it %d times", b.name(i), s, says, changes)
			}
		}
		b.leave(3)
	})
}

// Requests are signed, robots.txt included, before, while and after the secret changes: with keys that the directory of that time has.
func TestOverlaySignsRequests(t *testing.T) {
	inBed(t, []point{{0, 0, 1}, {40, 0, 1}}, func(b *bed) {
		b.cfg = func(_ int, c *node.Config) { c.Fetch.SignatureAgent = "https://bot.example" }
		var mu sync.Mutex
		keys, used := directory(b), map[string]int{}
		b.servers[netip.MustParseAddr(address(0))], b.sites = point{1, 1, 1}, []string{"one.example"}
		signed := func(w http.ResponseWriter, r *http.Request) {
			params := strings.TrimPrefix(r.Header.Get("Signature-Input"), "sig1=")
			_, id, _ := strings.Cut(params, `keyid="`)
			id, _, _ = strings.Cut(id, `"`)
			signature, err := base64.StdEncoding.DecodeString(strings.Trim(strings.TrimPrefix(r.Header.Get("Signature"), "sig1="), ":"))
			base := fmt.Sprintf("\"@authority\": %s\n\"signature-agent\";key=\"sig1\": %q\n\"@signature-params\": %s", r.Host, "https://bot.example", params)
			mu.Lock()
			defer mu.Unlock()
			used[id]++
			if keys[id] == nil || err != nil || !ed25519.Verify(keys[id], []byte(base), signature) {
				b.t.Errorf("%s: Signature-Input %q, Signature %q: by none of %d keys", r.URL.Path, params, r.Header.Get("Signature"), len(keys))
			}
		}
		site := b.Site("one.example", address(0)).Took(20 * time.Millisecond).Pages(80)
		site.Handle("/robots.txt", func(w http.ResponseWriter, r *http.Request) { signed(w, r); http.NotFound(w, r) })
		for i := range 80 {
			site.Handle(fmt.Sprintf("/%d", i), signed)
		}
		b.startAll(2 * time.Second)
		for range 3 {
			b.await("pages", 10*time.Minute, func() bool { return len(b.pagesOf("one.example")) >= 20 })
			if _, err := peer.Rotate(b.secret); err != nil {
				b.t.Fatal(err)
			}
			mu.Lock()
			maps.Copy(keys, directory(b))
			mu.Unlock()
			time.Sleep(5 * time.Second)
		}
		b.awaitEnd(time.Hour)
		if len(used) != 2 || used[""] > 0 {
			b.t.Errorf("requests by key: %v; want those of two keys", used)
		}
		if last := directory(b); len(last) != 1 {
			b.t.Errorf("%d keys in the directory at the end", len(last))
		}
	})
}

// directory is what proves the requests of a bed's nodes now.
func directory(b *bed) map[string]ed25519.PublicKey {
	b.t.Helper()
	text, err := node.Directory(b.secret)
	if err != nil {
		b.t.Fatal(err)
	}
	var d struct {
		Keys []struct{ Kid, X string }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		b.t.Fatal(err)
	}
	keys := map[string]ed25519.PublicKey{}
	for _, k := range d.Keys {
		if keys[k.Kid], err = base64.RawURLEncoding.DecodeString(k.X); err != nil {
			b.t.Fatal(err)
		}
	}
	return keys
}
