package frontier

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// Whoever reads what is damaged on the disk tells it, and makes no guess of what was there. Adding links reads nothing, and a
// record that is in memory is not read again.
func TestWhoTellsOfDamage(t *testing.T) {
	const host = "http://h1.test"
	acts := map[string]func(context.Context, *life) error{
		"add":     func(ctx context.Context, l *life) error { _, err := l.Add(ctx, pages(host, 7, 1)); return err },
		"role":    func(ctx context.Context, l *life) error { _, _, err := l.RoleOf(ctx, host); return err },
		"replica": func(ctx context.Context, l *life) error { return l.SetRole(ctx, host, Replica) },
		"state":   func(ctx context.Context, l *life) error { _, err := l.StateOf(ctx, host); return err },
		"digest":  func(ctx context.Context, l *life) error { _, err := l.DigestOf(ctx, host); return err },
		"export": func(ctx context.Context, l *life) error {
			_, _, _, err := l.Export(ctx, host, Cursor{}, 100, 1<<20)
			return err
		},
		"import": func(ctx context.Context, l *life) error {
			_, err := l.Import(ctx, host, Chunk{Done: []uint64{page(host, 1).URL.Hash()}, Drops: 1}, Assigned)
			return err
		},
		"drop":   func(ctx context.Context, l *life) error { _, err := l.DropHost(ctx, host, "test"); return err },
		"retry":  func(ctx context.Context, l *life) error { return l.Retry(ctx, host) },
		"robots": func(_ context.Context, l *life) error { _, err := l.RobotsBody(host); return err },
		"list":   func(ctx context.Context, l *life) error { _, err := l.List(ctx, "", 10); return err },
		"ready":  func(_ context.Context, l *life) error { _, _, err := l.Ready("", 1, 10); return err },
	}
	for _, c := range []struct {
		what       string
		known      bool // to the node, from what it did before
		key, value []byte
		told       string // by whom
	}{
		{"the record of a host", false, hostKey(kindHost, host), []byte{recordVersion + 1}, "digest drop export import list replica retry role state"},
		{"a block of an unknown host", false, pendingKey(host, Discovered, 1<<40), []byte{blockVersion + 1}, "drop export import retry"},
		{"a depth of an unknown host", false, numberKey(kindDepth, host, page(host, 1).URL.Hash()), nil, "drop export import"},
		{"the record of a known host", true, hostKey(kindHost, host), []byte{recordVersion + 1}, "export list role state"},
		{"a block", true, pendingKey(host, Discovered, 1<<40), []byte{blockVersion + 1}, "drop export import"},
		{"a depth", true, numberKey(kindDepth, host, page(host, 1).URL.Hash()), nil, "drop export import"},
		{"a page", true, numberKey(kindPage, host, 5), []byte{1}, "export"},
	} {
		told := whoTells(t, acts, func(l *life) (key, value []byte) {
			if c.known {
				l.role(host, Replica)
				l.add(pages(host, 1, 3)...)
			}
			return c.key, c.value
		})
		if told != c.told {
			t.Errorf("damage to %s is told by %q, want %q", c.what, told, c.told)
		}
	}
}

// whoTells returns the names of the acts that fail, each in a frontier of its own, with a value on disk that prepare has made.
func whoTells(t *testing.T, acts map[string]func(context.Context, *life) error, prepare func(l *life) (key, value []byte)) string {
	var told []string
	for name, act := range acts {
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := testConfig()
			cfg.Recrawl.Enabled = true
			l := begin(t, "", cfg, polite, Deps{})
			key, value := prepare(l)
			if err := l.store.write(func(txn *tx) error { return txn.Set(key, value) }); err != nil {
				t.Fatal(err)
			}
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
	return strings.Join(told, " ")
}
