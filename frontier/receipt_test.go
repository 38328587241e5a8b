package frontier

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// receipts are the keys on a shelf.
func (l *life) receipts() (keys []string) {
	l.t.Helper()
	must(l.t, l.Shelf('r').Scan(nil, func(key, _ []byte) error { keys = append(keys, string(key)); return nil }))
	return keys
}

// A receipt is on disk exactly when the end of its task is, of whatever kind that is.
func TestReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		dir := t.TempDir()
		l := begin(t, dir, cfg, polite, Deps{})
		l.add(page("http://h1.test", 0))
		l.role("http://away.test", Leaving)
		receipt := func(key string) *Receipt { return &Receipt{Shelf: l.Shelf('r'), Key: []byte(key)} }
		wanted := 0
		want := func(what string, n int) {
			t.Helper()
			if wanted += n; len(l.receipts()) != wanted {
				t.Errorf("%s: receipts %q, want %d", what, l.receipts(), wanted)
			}
		}
		l.placing(addr1)
		l.finish(l.taking(time.Minute), Outcome{Asked: true, Robots: &RobotsOutcome{Lifetime: time.Hour}, Receipt: receipt("robots")})
		want("robots.txt", 1)
		l.finish(l.taking(time.Minute), Outcome{Ending: Again, Trouble: Busy, Asked: true, Receipt: receipt("busy")})
		want("a page that comes again", 1)
		lost := errors.New("nobody takes it")
		out := Outcome{Asked: true, Links: []Link{page("http://away.test", 2)}, Receipt: receipt("page"),
			Elsewhere: func(context.Context, []Link) error { return lost }}
		if _, err := l.Finish(t.Context(), l.taking(time.Hour), out); !errors.Is(err, lost) {
			t.Error(err)
		}
		want("a page whose links are nowhere", 0)
		out.Elsewhere = func(context.Context, []Link) error { want("a page whose links are not passed on yet", 0); return nil }
		l.finish(l.taking(time.Hour), out)
		want("a page that is done", 1)
		l.add(page("http://h1.test", 1))
		task := l.taking(time.Hour)
		if _, err := l.DropHost(t.Context(), "http://h1.test", "dropped"); err != nil {
			t.Error(err)
		}
		l.finish(task, Outcome{Asked: true, Receipt: receipt("dropped")})
		want("a page whose host was dropped meanwhile", 1)
		l.Enqueue(RemoteFetch{URL: page("http://far.test", 1).URL, Server: netip.MustParseAddr("192.0.2.9")})
		l.finish(l.taking(time.Minute), Outcome{Asked: true, Receipt: receipt("remote")})
		want("a page of another node", 1)
		l.stop()
		l = begin(t, dir, cfg, polite, Deps{})
		want("the next life", 0)
	})
}

// Links that are for elsewhere are passed on once each, also those of a page with more of them than fit into a transaction.
func TestManyLinksForElsewhere(t *testing.T) {
	cfg, polite := testConfig()
	l := begin(t, "", cfg, polite, Deps{})
	l.add(page("http://h1.test", 0))
	l.role("http://away.test", Leaving)
	l.placing(addr1)
	l.finish(l.taking(time.Minute), Outcome{Robots: &RobotsOutcome{Lifetime: time.Hour}})
	var passed []Link
	out := Outcome{Links: pages("http://away.test", 0, 2*maxRequestURLs), Elsewhere: func(_ context.Context, some []Link) error {
		passed = append(passed, some...)
		return nil
	}}
	res := l.finish(l.taking(time.Minute), out)
	if !slices.Equal(passed, out.Links) || !slices.Equal(res.NotOwned, out.Links) {
		t.Errorf("of %d links %d were passed on; %d are not owned", len(out.Links), len(passed), len(res.NotOwned))
	}
}

// A URL whose links found nobody waits for its next try, unless its host was dropped meanwhile.
func TestDropWhileLinksFindNobody(t *testing.T) {
	for _, dropped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := testConfig()
			l := begin(t, t.TempDir(), cfg, polite, Deps{})
			l.add(page("http://h1.test", 0))
			l.role("http://away.test", Leaving)
			l.placing(addr1)
			l.finish(l.taking(time.Minute), Outcome{Asked: true, Robots: &RobotsOutcome{Lifetime: 24 * time.Hour}})
			lost := errors.New("nobody takes it")
			out := Outcome{Asked: true, Links: []Link{page("http://away.test", 2)}, Elsewhere: func(ctx context.Context, _ []Link) error {
				if dropped {
					if _, err := l.DropHost(ctx, "http://h1.test", "dropped"); err != nil {
						t.Error(err)
					}
				}
				return lost
			}}
			if _, err := l.Finish(t.Context(), l.taking(time.Minute), out); !errors.Is(err, lost) {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if task, _ := l.Take(ctx); (task == nil) != dropped {
				t.Errorf("dropped %v: then comes %v", dropped, task)
			} else if task != nil {
				l.finish(task, Outcome{Asked: true})
			}
			l.stop()
		})
	}
}
