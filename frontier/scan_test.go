package frontier

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// scanning is a frontier for 42 hosts that does not run. On its disk are hosts with a block and a page each, and the first of them are on
// its workbench. due is when the pages are due.
func scanning(t *testing.T, here, waiting int, due time.Time) *Frontier {
	cfg, polite := recrawlConfig()
	cfg.FrontHosts = 42
	f := opened(t, cfg, polite)
	must(t, f.store.write(func(txn *tx) {
		for i := range here + waiting {
			host := fmt.Sprintf("http://h%02d.test", i)
			txn.set(pendingKey(host, Discovered, uint64(i+1)), nil)
			txn.set(nextKey(stampOf(due), host), nil)
			if i < here {
				f.bench.enter(host)
			}
		}
	}))
	f.scan = true
	return f
}

// has says whether a channel holds a signal, and takes it.
func has(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A search for hosts whose pages are due goes on behind the last key of the one before, and ends with the first that is not due.
func TestSearchForDueHosts(t *testing.T) {
	now := time.Unix(1e9, 0)
	f := scanning(t, 1, 3, now)
	must(t, f.store.write(func(txn *tx) { txn.set(nextKey(stampOf(now)+1, "http://later.test"), nil) }))
	skip := func(h dueHost) bool { return h.name == "http://h02.test" }
	all, last, end, err := f.store.dueHosts(nil, stampOf(now), skip)
	if err != nil || !end || len(all) != 3 || all[2].name != "http://h03.test" {
		t.Errorf("due are %v, %v, %v", all, end, err)
	}
	rest, _, _, err := f.store.dueHosts(nextKey(all[0].at, all[0].name), stampOf(now), skip)
	if err != nil || !slices.Equal(rest, all[1:]) {
		t.Errorf("behind the first are due %v, %v", rest, err)
	}
	none, same, end, err := f.store.dueHosts(last, stampOf(now), skip)
	if err != nil || !end || len(none) > 0 || !bytes.Equal(same, last) {
		t.Errorf("behind the last are due %v, %v, %v; the next search begins at %q", none, end, err, same)
	}
}

// names are those of some hosts, without what they share, in brackets.
func names(hosts []*host) string {
	var all []string
	for _, h := range hosts {
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(h.name, "http://"), ".test"))
	}
	return "[" + strings.Join(all, " ") + "]"
}

// A scan of the disk goes on behind the hosts that it has looked at, ends when none waits, and rests when all that wait must wait long.
func TestScanForWaitingHosts(t *testing.T) {
	for what, c := range map[string]struct {
		here, waiting int
		useful, more  bool     // a host that came in is useful; after the first step, one more waits than there may be candidates
		want          []string // by step: the hosts that come in, and what is told
	}{
		"none waits":            {40, 0, false, false, []string{"[], goes on, scan", "[], quiet, wrapped"}},
		"one more waits":        {40, 0, false, true, []string{"[], goes on, scan", "[], scan, wrapped"}},
		"one waits behind many": {40, 1, false, false, []string{"[], goes on, scan", "[h40], scan", "[], scan, wrapped", "[], scan, wrapped"}},
		"one that is useful":    {40, 1, true, false, []string{"[], goes on, scan", "[h40], scan", "[], goes on, scan"}},
		"no more than have room": {0, 50, false, false, []string{
			"[h00 h01 h02 h03 h04 h05 h06 h07 h08 h09 h10 h11 h12 h13 h14 h15 h16 h17 h18 h19 h20 h21 h22 h23 h24 h25 h26 h27 h28 h29 h30 h31], scan",
			"[h32 h33 h34 h35 h36 h37 h38 h39 h40 h41], scan", "[], scan"}},
		"none has room": {42, 1, false, false, []string{"[], scan"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := scanning(t, c.here, c.waiting, time.Now())
			for i, want := range c.want {
				f.craving, f.useful = true, c.useful
				if c.more && i == 1 {
					for n := range maxCandidates {
						f.isCandidate[fmt.Sprint(n)] = struct{}{}
					}
					f.nominateLocked("http://h99.test")
				}
				hosts, err := f.nextHosts()
				got := said(names(hosts), "goes on", has(f.hungry), "quiet", has(f.quiet), "scan", f.scan, "wrapped", f.wrapped)
				if err != nil || got != want || f.craving || f.cursor == "" && (f.found || f.useful) || f.wrapped && f.cursor != "" {
					t.Errorf("%s, step %d: %s, %v; want %s", what, i, got, err, want)
					t.Errorf("craving %v, from %q on, found %v, useful %v", f.craving, f.cursor, f.found, f.useful)
				}
			}
		})
	}
}

// No host comes in while no fetcher starves or no task may be taken.
func TestNoHostComesInForNothing(t *testing.T) {
	for what, keep := range map[string]func(f *Frontier){
		"no fetcher waits": func(f *Frontier) { f.waiters.pop() },
		"the disk is full": func(f *Frontier) { f.full = true },
		"it is cut off":    func(f *Frontier) { f.outage = outage{why: "no route", trying: true} },
		"half of the hosts are here for due pages": func(f *Frontier) {
			f.waiters.pop()
			f.bench.recrawl.wanted, f.bench.recrawl.here = true, 21
		},
	} {
		f := scanning(t, 0, 2, time.Now())
		f.waiters.push(newWaiter[*Task]())
		keep(f)
		hosts, err := f.nextHosts()
		due, none := f.nextDueHosts()
		if len(hosts)+len(due) > 0 || err != nil || none != nil {
			t.Errorf("%s: %s and %s come in, %v, %v", what, names(hosts), names(due), err, none)
		}
	}
}

// The search for hosts whose pages are due is like the scan. It finds those of the present and of far ahead, but none between.
func TestSearchForHostsThatAreDue(t *testing.T) {
	for what, c := range map[string]struct {
		here, waiting int
		due           time.Duration
		want          []string // before the third step h42 comes in and two others leave
	}{
		"none is due":       {0, 2, time.Second, []string{"[], quiet, done, over"}},
		"none waits":        {40, 0, 0, []string{"[], quiet, done, over"}},
		"two are due":       {0, 2, 0, []string{"[h00 h01]", "[], quiet, done, over"}},
		"a clock was ahead": {0, 2, 20 * 365 * 24 * time.Hour, []string{"[h00 h01]", "[], quiet, done, over"}},
		"few have room":     {40, 3, 0, []string{"[h40 h41]", "[]", "[], goes on"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := scanning(t, c.here, c.waiting, time.Now().Add(c.due))
			f.waiters.push(newWaiter[*Task]())
			var came []*host
			for i, want := range c.want {
				r := &f.bench.recrawl
				if r.wanted = true; i == 2 {
					f.bench.enter("http://h42.test")
					delete(f.bench.hosts, "http://h00.test")
					delete(f.bench.hosts, "http://h01.test")
				}
				hosts, err := f.nextDueHosts()
				got := said(names(hosts), "goes on", has(f.hungry), "quiet", has(f.quiet), "done", r.done, "over", r.over)
				if err != nil || got != want || r.wanted {
					t.Errorf("%s, step %d: %s, %v; want %s", what, i, got, err, want)
				}
				came = append(came, hosts...)
			}
			for _, h := range came {
				if n := f.bench.recrawl.here; n != len(came) {
					t.Errorf("%s: %d of %d hosts are here for due pages", what, n, len(came))
				}
				f.bench.leave(h, time.Now())
				came = came[1:]
			}
		})
	}
}

// What a host is told while it is read from disk is newer than what is read: smaller depths, and that it was given up.
func TestToldWhileItIsRead(t *testing.T) {
	const name = "http://h1.test"
	for what, c := range map[string]struct {
		tell    func(h *host)
		depths  map[uint64]uint8
		windows [2]int // of new URLs and of due pages
	}{
		"nothing":         {func(*host) {}, map[uint64]uint8{7: 5, 8: 5}, [2]int{1, 1}},
		"a smaller depth": {func(h *host) { h.depths[7] = 3 }, map[uint64]uint8{7: 3, 8: 5}, [2]int{1, 1}},
		"it is given up":  {func(h *host) { h.forget(1) }, nil, [2]int{0, 0}},
	} {
		f := scanning(t, 0, 0, time.Now())
		f.cfg.TrackDepth = true
		due := time.Unix(1e9, 0)
		must(t, f.store.write(func(txn *tx) {
			txn.set(pendingKey(name, Discovered, 1), f.store.codec.seal(bodyOf([]entry{newEntry(name, PendingURL{Path: "/"})})))
			txn.set(numberKey(kindDepth, name, 7), []byte{5})
			txn.set(numberKey(kindDepth, name, 8), []byte{5})
			txn.set(dueKey(name, stampOf(due), 9), AppendPage(nil, &PageRecord{Path: "/", Due: due, Seen: due}, due))
		}))
		h := f.bench.enter(name)
		c.tell(h)
		err := f.read(h)
		if got := [2]int{len(h.window[Discovered]), len(h.window[Revisit])}; err != nil || !maps.Equal(h.depths, c.depths) || got != c.windows {
			t.Errorf("told %s: depths %v, in the windows %v, %v", what, h.depths, got, err)
		}
	}
}

// A host is useful to fetchers that starve if it need not wait for more than a minute, for its own sake or for its hours.
func TestUsefulHosts(t *testing.T) {
	for _, wait := range []time.Duration{time.Minute, time.Minute + time.Second} {
		for _, hours := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				until := time.Now().Add(wait)
				cfg, polite := testConfig()
				l := begin(t, "", cfg, polite, Deps{Site: func(string) *Site {
					if hours {
						return &Site{Hours: shut{until: until}}
					}
					return nil
				}})
				l.add(page("http://h1.test", 1))
				err := l.ledger.onHost(t.Context(), together, "http://h1.test", func(b *batch, h *hostEntry) error {
					if !hours {
						h.rec.notBefore = until
					}
					return nil
				})
				if err = errors.Join(err, l.Activate(t.Context(), "http://h1.test")); err != nil || l.useful != (wait <= longSleep) {
					t.Errorf("it waits %v, for its hours %v: useful %v, %v", wait, hours, l.useful, err)
				}
			})
		}
	}
}
