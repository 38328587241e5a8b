package frontier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errBroken = errors.New("broken")

// breaking begins a frontier whose disk fails after arm was called, as soon as so many more transactions are written: once, or from then on.
func breaking(t *testing.T, dir string, cfg Config, polite Politeness, once bool) (l *life, arm func(after uint64)) {
	var armed atomic.Uint64
	l = beginWith(t, dir, cfg, polite, Deps{}, func(f *Frontier) {
		f.store.fault = func() error {
			most := armed.Load()
			if most == 0 || f.store.written.Load() < most {
				return nil
			}
			if once {
				armed.Store(0)
			}
			return errBroken
		}
	})
	return l, func(after uint64) { armed.Store(l.store.written.Load() + after) }
}

// faulty is a frontier whose disk can fail. It owns h1.test and has a replica, h2.test, both with URLs that are pending and done, and
// with pages. Nothing of them is in memory.
func faulty(t *testing.T) (l *life, ops *atomic.Int64) {
	ops = new(atomic.Int64) // operations until the one that fails; nothing fails while it is negative
	ops.Store(-1)
	cfg, polite := recrawlConfig()
	cfg.Shared, cfg.TrackDepth, cfg.MaxHostURLs = true, true, 40
	l = beginWith(t, "", cfg, polite, Deps{}, func(f *Frontier) {
		f.store.fault = func() error {
			if ops.Load() >= 0 && ops.Add(-1) < 0 {
				return errBroken
			}
			return nil
		}
	})
	l.placing(addr1)
	go l.letAll()
	deep := pages("http://h1.test", 0, 30)
	for i := range deep {
		deep[i].Depth = 7
	}
	l.add(deep...)
	l.visit(20, func(*Task) Outcome { return asSeen(1) })
	deep[25].Depth = 3
	l.add(deep[25])
	l.imported("http://h2.test", chunkOf("http://h2.test", 0))
	l.imported("http://h2.test", chunkOf("http://h2.test", 5))
	ahead := PageRecord{Path: "/ahead", Seen: time.Now(), Due: time.Now().Add(20 * 365 * 24 * time.Hour)} // as a wrong clock said
	l.imported("http://h2.test", Chunk{Pages: []PageRecord{ahead}})
	synctest.Wait()
	err := l.ledger.do(t.Context(), alone, func(*batch) error {
		l.ledger.hosts.Purge()
		l.ledger.sets.hosts.Purge()
		l.ledger.seen.forgetAll()
		return nil
	})
	must(t, err)
	l.Changes()
	return l, ops
}

// eachFailure lets an act fail at each of its operations on the disk in turn, each time in a new frontier, and at last at none. begin
// returns the act. then judges how it ended; what names the operation.
func eachFailure(t *testing.T, begin func(l *life) func() error, then func(l *life, what string, failed bool, err error)) {
	for n, failed := int64(0), true; failed; n++ {
		synctest.Test(t, func(t *testing.T) {
			l, ops := faulty(t)
			act := begin(l)
			ops.Store(n)
			err := act()
			failed = ops.Load() < 0
			ops.Store(-1)
			then(l, fmt.Sprintf("operation %d fails %v: %v", n+1, failed, err), failed, err)
			if l.end != nil {
				_ = l.halt()
			}
		})
	}
}

// chunkOf has pending URLs, done URLs and pages of a host, and its state.
func chunkOf(host string, first int) (c Chunk) {
	now := time.Now()
	for _, link := range pages(host, first, 10) {
		c.Pending = append(c.Pending, PendingURL{Path: link.URL.Path})
	}
	for _, link := range pages(host, first+5, 3) {
		c.Done = append(c.Done, link.URL.Hash())
		c.Pages = append(c.Pages, PageRecord{Path: link.URL.Path, Seen: now.Add(time.Duration(first) * time.Minute), Due: now.Add(time.Hour)})
	}
	c.State = &HostState{SinceRequest: time.Hour, Robots: &RobotsFile{Body: []byte("allow"), Valid: time.Duration(1+first) * time.Hour}}
	return c
}

// asking is what callers ask of a host, and have done to it.
func asking(host string) map[string]func(*life) error {
	ctx := context.Background()
	return map[string]func(*life) error{
		"role":   func(l *life) error { return third(l.RoleOf(ctx, host)) },
		"state":  func(l *life) error { return second(l.StateOf(ctx, host)) },
		"digest": func(l *life) error { return second(l.DigestOf(ctx, host)) },
		"export": func(l *life) error { return fourth(l.Export(ctx, host, Cursor{}, 1000, 1<<20)) },
		"drop":   func(l *life) error { return second(l.DropHost(ctx, host, "test")) },
		"remove": func(l *life) error { return l.Remove(ctx, host) },
		"retry":  func(l *life) error { return l.Retry(ctx, host) },
		"robots": func(l *life) error { return second(l.RobotsBody(host)) },
		"list":   func(l *life) error { return second(l.List(ctx, "", 10)) },
		"ready":  func(l *life) error { return third(l.Ready("", 1, 10)) },
	}
}

// Whichever operation on the disk fails, whoever needed it hears of it: the caller, or else the frontier ends with the error. That holds for
// all that callers can ask for. After a failed read the counts are still those of what is on disk, and so they are when the caller tries again.
func TestNoFailureOfTheDiskIsLost(t *testing.T) {
	const own, copied, fresh = "http://h1.test", "http://h2.test", "http://h3.test"
	ctx := context.Background()
	union := func(host string, c Chunk) func(*life) error {
		return func(l *life) error { return second(l.Import(ctx, host, c, Assigned)) }
	}
	var rest Chunk
	for _, link := range pages(copied, 0, 15) {
		rest.Done = append(rest.Done, link.URL.Hash())
	}
	known := Chunk{Pending: append(chunkOf(own, 3).Pending, PendingURL{Path: "/new"}), Done: chunkOf(own, 0).Done[:1]}
	acts := asking(own)
	maps.Copy(acts, map[string]func(*life) error{
		"add":                func(l *life) error { return second(l.Add(ctx, pages(own, 28, 4))) },
		"add nearer":         func(l *life) error { return second(l.Add(ctx, pages(own, 20, 10))) },
		"add to a full host": func(l *life) error { return second(l.Add(ctx, pages(own, 35, 20))) },
		"add a host":         func(l *life) error { return second(l.Add(ctx, pages(fresh, 0, 3))) },
		"come in for pages": func(l *life) error {
			return l.ledger.onHost(ctx, alone, copied, func(b *batch, h *hostEntry) error { return l.ledger.decideNext(b, h, h.next) })
		},
		"hand over":             func(l *life) error { return l.SetRole(ctx, own, Replica) },
		"take over":             func(l *life) error { return l.SetRole(ctx, copied, Owned) },
		"import":                func(l *life) error { return union(copied, chunkOf(copied, 9))(l) },
		"import anew":           func(l *life) error { return union(fresh, chunkOf(fresh, 0))(l) },
		"import into one's own": func(l *life) error { return union(own, chunkOf(own, 15))(l) },
		"import known URLs":     union(copied, known),
		"import the end":        union(copied, rest),
		"import a drop":         union(copied, Chunk{Drops: 1, Pending: []PendingURL{{Path: "/new"}}}),
		"give up":               func(l *life) error { return second(l.giveUp(ctx, own, "test", time.Now().Add(time.Hour))) },
		"remove a replica":      func(l *life) error { return l.Remove(ctx, copied) },
		"hint": func(l *life) error {
			links := pages(own, 0, 30)
			for i := range links {
				links[i].Modified = time.Now().Add(-time.Second)
			}
			return l.hint(ctx, own, links)
		},
		"replan":  func(l *life) error { return l.replan() },
		"age":     func(l *life) error { return l.ledger.reschedule(time.Hour) },
		"recover": func(l *life) error { return second(newLedger(l.cfg, l.store, nil).recover()) },
		"get":     func(l *life) error { return second(l.Shelf('x').Get([]byte("k"))) },
		"put":     func(l *life) error { return l.Shelf('x').Put([]byte("k"), nil) },
		"delete":  func(l *life) error { return l.Shelf('x').Delete([]byte("k")) },
		"crawl": func(l *life) error {
			task := l.taking(time.Minute)
			if task == nil {
				return nil // the frontier has ended
			}
			out := asSeen(2)
			out.Links = pages(fresh, 0, 3)
			out.Receipt = &Receipt{Shelf: l.Shelf('x'), Key: []byte("k")}
			return second(l.Finish(ctx, task, out))
		},
		"crawl what is done elsewhere": func(l *life) error {
			if err := l.SetRole(ctx, copied, Owned); err != nil {
				return err
			}
			return l.Activate(ctx, copied)
		},
	})
	for what, act := range acts {
		begin := func(l *life) func() error { return func() error { return act(l) } }
		eachFailure(t, begin, func(l *life, operation string, failed bool, err error) {
			counts := func(when string) {
				synctest.Wait() // the ledger still writes what a request had changed before it failed
				disk := newLedger(l.cfg, l.store, nil)
				must(l.t, second(disk.recover()))
				got, want := l.ledger.count.totals(), disk.count.totals()
				if got.Pending != want.Pending || got.Held != want.Held || got.Pages != want.Pages || got.Due != want.Due {
					l.t.Errorf("%s, %s, %s: %+v, on disk %+v", what, operation, when, got, want)
				}
			}
			written := err == nil || !strings.Contains(err.Error(), "write to store")
			if written && l.ledger.failure.Load() == nil { // else it is no read that has failed
				counts("before the second try")
				if err := act(l); err != nil {
					l.t.Errorf("%s, %s, and at the second try: %v", what, operation, err)
				}
				counts("after it")
			}
			if ended := l.halt(); failed && !errors.Is(err, errBroken) && !errors.Is(ended, errBroken) {
				l.t.Errorf("%s, %s: that is lost, and it ends with %v", what, operation, ended)
			}
			if !failed && err != nil {
				l.t.Errorf("%s without a failure: %v", what, err)
			}
		})
	}
}

// A read that has failed leaves nothing behind that is taken for all URLs of a host.
func TestNoPartOfASetIsTakenForTheWhole(t *testing.T) {
	const own = "http://h1.test"
	begin := func(l *life) func() error {
		return func() error { return second(l.Add(context.Background(), pages(own, 0, 30))) }
	}
	eachFailure(t, begin, func(l *life, operation string, failed bool, err error) {
		if failed && err == nil {
			l.t.Errorf("%s: that is lost", operation)
		}
		if v, err := l.Add(context.Background(), pages(own, 0, 30)); err == nil && !allAre(v, Duplicate) {
			l.t.Errorf("%s, and then what is known is %v", operation, v)
		}
	})
}

// A host that could not be read from disk comes in at the next try.
func TestHostThatWasNotReadComesInAgain(t *testing.T) {
	const host = "http://h2.test"
	begin := func(l *life) func() error {
		l.role(host, Owned)
		return func() error { return l.Activate(context.Background(), host) }
	}
	eachFailure(t, begin, func(l *life, operation string, failed bool, err error) {
		if failed && err == nil {
			l.t.Errorf("%s: that is lost", operation)
		}
		if l.ledger.failure.Load() == nil { // a failed write ends the frontier
			err := l.Activate(context.Background(), host)
			if s := l.Explain(host); err != nil || !s.Known || s.InMemory == 0 || s.Wait == "reading" {
				l.t.Errorf("%s, and then %+v, %v", operation, s, err)
			}
		}
	})
}

// A page whose end is not written because a read fails has no receipt: it is downloaded again.
func TestNoReceiptAfterAFailedRead(t *testing.T) {
	begin := func(l *life) func() error {
		task := l.taking(time.Minute)
		out := asSeen(2)
		out.Receipt = &Receipt{Shelf: l.Shelf('r'), Key: []byte("k")}
		return func() error { return second(l.Finish(context.Background(), task, out)) }
	}
	eachFailure(t, begin, func(l *life, operation string, _ bool, err error) {
		if err != nil && strings.Contains(err.Error(), "read") && len(l.receipts()) > 0 {
			l.t.Errorf("%s, and there is a receipt", operation)
		}
	})
}

// Whoever reads what is damaged on the disk tells it, and makes no guess of what was there. Adding links reads nothing, and a
// record that is in memory is not read again.
func TestWhoTellsOfDamage(t *testing.T) {
	const host = "http://h1.test"
	first := page(host, 1)
	hash, now := first.URL.Hash(), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	pageOf := func(at time.Time) Chunk {
		return Chunk{Pages: []PageRecord{{Path: first.URL.Path, Seen: at, Due: at}}}
	}
	ctx := context.Background()
	acts := asking(host)
	maps.Copy(acts, map[string]func(*life) error{
		"add":     func(l *life) error { return second(l.Add(ctx, pages(host, 7, 1))) },
		"replica": func(l *life) error { return l.SetRole(ctx, host, Replica) },
		"import": func(l *life) error {
			return second(l.Import(ctx, host, Chunk{Done: []uint64{hash}, Drops: 1}, Assigned))
		},
		"import-page": func(l *life) error { return second(l.Import(ctx, host, pageOf(time.Now()), Assigned)) },
		"hint": func(l *life) error {
			link := first
			link.Modified = time.Now().Add(time.Hour)
			return l.hint(ctx, host, []Link{link})
		},
	})
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
				if err := act(l); err != nil {
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
