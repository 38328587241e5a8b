package frontier

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever reads what is damaged on the disk tells it, and makes no guess of what was there. Adding links reads nothing, and a
// record that is in memory is not read again.
func TestWhoTellsOfDamage(t *testing.T) {
	const host = "http://h1.test"
	first := page(host, 1)
	hash, now := first.URL.Hash(), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	pageOf := func(at time.Time) Chunk {
		return Chunk{Pages: []PageRecord{{Path: first.URL.Path, Seen: at, Due: at}}}
	}
	acts := map[string]func(context.Context, *life) error{
		"add":     func(ctx context.Context, l *life) error { return second(l.Add(ctx, pages(host, 7, 1))) },
		"role":    func(ctx context.Context, l *life) error { return third(l.RoleOf(ctx, host)) },
		"replica": func(ctx context.Context, l *life) error { return l.SetRole(ctx, host, Replica) },
		"state":   func(ctx context.Context, l *life) error { return second(l.StateOf(ctx, host)) },
		"digest":  func(ctx context.Context, l *life) error { return second(l.DigestOf(ctx, host)) },
		"export":  func(ctx context.Context, l *life) error { return fourth(l.Export(ctx, host, Cursor{}, 100, 1<<20)) },
		"import": func(ctx context.Context, l *life) error {
			return second(l.Import(ctx, host, Chunk{Done: []uint64{hash}, Drops: 1}, Assigned))
		},
		"import-page": func(ctx context.Context, l *life) error {
			return second(l.Import(ctx, host, pageOf(time.Now()), Assigned))
		},
		"hint": func(ctx context.Context, l *life) error {
			link := first
			link.Modified = time.Now().Add(time.Hour)
			return l.hint(ctx, host, []Link{link})
		},
		"remove": func(ctx context.Context, l *life) error { return l.Remove(ctx, host) },
		"drop":   func(ctx context.Context, l *life) error { return second(l.DropHost(ctx, host, "test")) },
		"retry":  func(ctx context.Context, l *life) error { return l.Retry(ctx, host) },
		"robots": func(_ context.Context, l *life) error { return second(l.RobotsBody(host)) },
		"list":   func(ctx context.Context, l *life) error { return second(l.List(ctx, "", 10)) },
		"ready":  func(_ context.Context, l *life) error { return third(l.Ready("", 1, 10)) },
	}
	unknown := func(*life) {}
	known := func(l *life) {
		l.role(host, Replica)
		l.add(pages(host, 1, 3)...)
	}
	withPage := func(l *life) {
		l.role(host, Replica)
		l.imported(host, pageOf(now))
		l.role(host, Owned)
	}
	for _, c := range []struct {
		what       string
		before     func(*life) // what the node did before
		key, value []byte
		told       string // by whom
	}{
		{"the record of a host", unknown, hostKey(kindHost, host), []byte{recordVersion + 1},
			"digest drop export hint import import-page list remove replica retry role state"},
		{"a block of an unknown host", unknown, pendingKey(host, Discovered, 1<<40), []byte{blockVersion + 1}, "drop export import remove retry"},
		{"a depth of an unknown host", unknown, numberKey(kindDepth, host, hash), nil, "drop export import remove"},
		{"a depth that is two", unknown, numberKey(kindDepth, host, hash), []byte{1, 2}, "drop export import remove"},
		{"a depth of more than a page", unknown, append(numberKey(kindDepth, host, hash), 0), []byte{1}, "drop export import remove"},
		{"a depth of no page", unknown, hostKey(kindDepth, host), []byte{1}, "drop export import remove"},
		{"the record of a known host", known, hostKey(kindHost, host), []byte{recordVersion + 1}, "export list role state"},
		{"a block", known, pendingKey(host, Discovered, 1<<40), []byte{blockVersion + 1}, "drop export import remove"},
		{"a depth", known, numberKey(kindDepth, host, hash), nil, "drop export import remove"},
		{"a page", known, numberKey(kindPage, host, 5), []byte{1}, "export"},
		{"the time of a page", withPage, numberKey(kindPage, host, hash), []byte{1}, "export hint import-page replica"},
		{"what is known of a page", withPage, dueKey(host, stampOf(now), hash), []byte{pageVersion + 1}, "export hint import-page retry"},
	} {
		var told []string
		for name, act := range acts {
			synctest.Test(t, func(t *testing.T) {
				cfg, polite := testConfig()
				cfg.Recrawl.Enabled = true
				l := begin(t, "", cfg, polite, Deps{})
				c.before(l)
				must(t, l.store.write(func(txn *tx) { txn.set(c.key, c.value) }))
				if err := act(t.Context(), l); err != nil {
					told = append(told, name)
					if errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}
				_ = l.halt()
			})
		}
		slices.Sort(told)
		if told := strings.Join(told, " "); told != c.told {
			t.Errorf("damage to %s is told by %q, want %q", c.what, told, c.told)
		}
	}
}
