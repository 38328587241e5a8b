package node_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"proxima/fetch/sign"
	"proxima/node"
	"proxima/node/peer"
	"proxima/node/runlog"
)

// The secret of an overlay is changed while it crawls: each node gets the file of each step some time after the others. Nobody is lost on the way;
// a node that has only the old secret is out at the end, and back when it is started with the new one. All the time requests are signed, robots.txt included, with keys that the directory has.
func TestOverlaySecretIsRotated(t *testing.T) {
	inBed(t, []point{{0, 0, 1}, {40, 0, 1}, {0, 40, 1}, {40, 40, 1}}, func(b *bed) {
		file := func(i int) string { return filepath.Join(b.dir, b.name(i)+".secret") }
		give := func(i int) {
			text, err := os.ReadFile(b.secret)
			must(b.t, errors.Join(err, os.WriteFile(file(i), text, 0o600)))
		}
		b.cfg = func(i int, c *node.Config) { c.Peer.Secret, c.Fetch.SignatureAgent = file(i), "https://bot.example" }
		for i := range b.nodes {
			give(i)
		}
		var mu sync.Mutex
		keys, used := directory(b), map[string]int{}
		signed := func(answer http.HandlerFunc) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
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
				answer(w, r)
			}
		}
		for i, name := range []string{"one.example", "two.example"} {
			b.site(name, address(i), beside(b.nodes[i].at), 200, 5)
			site := b.Site(name, address(i)).Took(20*time.Millisecond).Handle("/", signed(html(numbered(200)...)))
			site.Handle("/robots.txt", signed(http.NotFound))
			for _, path := range numbered(200) {
				site.Handle(path, signed(html()))
			}
		}
		b.startAll(2 * time.Second)
		see := func(want ...int) func() bool {
			return func() bool {
				return slices.EqualFunc(b.nodes, want, func(n *bedNode, want int) bool { return n.node.Status().Overlay.Alive == want })
			}
		}
		b.await("the overlay", time.Minute, see(4, 4, 4, 4))
		b.awaitPages(20)
		for step := range 3 {
			if _, err := peer.Rotate(b.secret); err != nil {
				b.t.Fatal(err)
			}
			mu.Lock()
			maps.Copy(keys, directory(b))
			mu.Unlock()
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
		b.awaitPages(len(pages(b.Visits(nil))) + 20)
		says := b.nodes[0].node.Status().Overlay.Secret
		for i := range 3 {
			changes := len(b.events(i).of(runlog.EventSecret))
			if s := b.nodes[i].node.Status().Overlay.Secret; s != says || strings.Contains(s, ",") || changes != 3 {
				b.t.Errorf("%s uses secret %s, not %s, and changed it %d times", b.name(i), s, says, changes)
			}
		}
		b.leave(3)
		b.start(3) // as one that did not run all the while: only a restart with the new file helps
		give(3)
		time.Sleep(30 * time.Second)
		reason, said := b.nodes[3].node.Status().Overlay.Reason, fmt.Sprint(b.events(3).of(runlog.EventWarning).reasons())
		if !strings.Contains(reason, "another version, secret,") || !strings.Contains(said, "a restart takes the file as it is") {
			b.t.Errorf("with the old secret it waits for %q, and said %s", reason, said)
		}
		b.leave(3)
		b.start(3)
		b.await("all of them again", time.Minute, see(4, 4, 4, 4))
		mu.Lock()
		defer mu.Unlock()
		if last := directory(b); len(used) != 2 || used[""] > 0 || len(last) != 1 {
			b.t.Errorf("requests by key: %v; want those of two keys; %d keys in the directory at the end", used, len(last))
		}
	})
}

// directory is what proves the requests of a bed's nodes now.
func directory(b *bed) map[string]ed25519.PublicKey {
	b.t.Helper()
	secret, err := peer.Load(b.secret)
	must(b.t, err)
	text, err := sign.Directory(secret.SiteKeys())
	must(b.t, err)
	var d struct {
		Keys []struct{ Kid, X string }
	}
	must(b.t, json.Unmarshal(text, &d))
	keys := map[string]ed25519.PublicKey{}
	for _, k := range d.Keys {
		if keys[k.Kid], err = base64.RawURLEncoding.DecodeString(k.X); err != nil {
			b.t.Fatal(err)
		}
	}
	return keys
}
