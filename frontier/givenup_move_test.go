package frontier

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// sharedGiveUps begins frontiers of nodes that share hosts, and give them up for an hour. events counts what they tell of given-up hosts.
func sharedGiveUps(t *testing.T, n int) (lives []*life, events []int) {
	cfg, polite := testConfig()
	cfg.Shared, polite.RetryName, polite.EndedFor = true, nil, time.Hour
	cfg.Recrawl.Enabled, cfg.Recrawl.Min, cfg.Recrawl.Max = true, time.Minute, time.Hour
	events = make([]int, n)
	for i := range n {
		l := begin(t, "", cfg, polite, Deps{Event: func(Event) { events[i]++ }})
		go l.letAll()
		lives = append(lives, l)
	}
	return lives, events
}

// told is what the replica of a host is sent of the changes since the last time.
func (l *life) told(host string) (chunks []Chunk) {
	l.t.Helper()
	if c := l.Changes()[host]; c != nil {
		chunk := Chunk{Pending: c.Added, Done: c.Done, Pages: c.Pages, Drops: c.Digest.Drops}
		if c.State {
			state, err := l.StateOf(l.t.Context(), host)
			must(l.t, err)
			chunk.State = state
		}
		chunks = append(chunks, chunk)
	}
	return chunks
}

// A host that was given up stays so where it is handed over, and at its replica when that takes it over, for what is left of that time. An
// operator who has it tried again ends that, and so does a URL that another node has found since. Of the copy of a node that has not heard of
// it, nothing changes. To a node that crawls the host, what others think of it is no reason.
func TestGiveUpTravels(t *testing.T) {
	const host = "http://h1.test"
	for what, c := range map[string]struct {
		then    func(owner, to *life)
		refused bool
	}{
		"it is handed over": {func(owner, to *life) { to.imported(host, owner.export(host, Cursor{}, 100)...) }, true},
		"its owner dies":    {func(*life, *life) {}, true},
		"a page of it is due": {func(_, to *life) {
			seen := time.Now().Add(-3 * time.Hour)
			to.imported(host, Chunk{Drops: 1, Pages: []PageRecord{{Path: "/due", Seen: seen, Due: seen.Add(time.Hour)}}})
		}, true},
		"its owner repeats itself": {func(owner, to *life) { to.imported(host, owner.export(host, Cursor{}, 100)[0]) }, true},
		"an old copy knows less":   {func(_, to *life) { to.imported(host, Chunk{State: &HostState{SinceRequest: -1}, Drops: 1}) }, true},
		"an older copy knows less": {func(_, to *life) {
			to.imported(host, Chunk{State: &HostState{SinceRequest: -1}, Pending: []PendingURL{{Path: "/old"}}})
		}, true},
		"it is tried again": {func(owner, to *life) {
			must(t, owner.Retry(owner.t.Context(), host))
			to.imported(host, owner.told(host)...)
		}, false},
		"it is tried again, and an old copy says otherwise": {func(owner, to *life) {
			old := owner.export(host, Cursor{}, 100)
			must(t, owner.Retry(owner.t.Context(), host))
			to.imported(host, append(owner.told(host), old...)...)
		}, false},
		"a URL was found since": {func(_, to *life) { to.imported(host, Chunk{Pending: []PendingURL{{Path: "/new"}}, Drops: 1}) }, false},
		"a URL was found since, and an old copy says otherwise": {func(owner, to *life) {
			to.imported(host, Chunk{Pending: []PendingURL{{Path: "/new"}}, Drops: 1})
			to.imported(host, owner.export(host, Cursor{}, 100)...)
		}, false},
		"an operator drops what was found": {func(owner, to *life) {
			old := owner.export(host, Cursor{}, 100)
			must(t, second(owner.DropHost(owner.t.Context(), host, "unwanted")))
			to.imported(host, append(owner.told(host), old...)...)
		}, false},
		"it is crawled elsewhere": {func(owner, to *life) {
			to.role(host, Owned)
			must(t, to.Retry(to.t.Context(), host))
			must(t, owner.Retry(owner.t.Context(), host))
			must(t, second(owner.giveUp(owner.t.Context(), host, "no answer", time.Now().Add(time.Hour))))
			to.imported(host, owner.told(host)...)
		}, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lives, events := sharedGiveUps(t, 2)
				owner, to := lives[0], lives[1]
				u := owner.unplaced(host)
				to.imported(host, owner.told(host)...)
				must(t, owner.Lost(t.Context(), u, "no such name", false, true))
				if what != "it is handed over" {
					to.imported(host, owner.told(host)...)
				}
				time.Sleep(40 * time.Minute)
				c.then(owner, to)
				to.role(host, Owned)
				synctest.Wait()
				v := to.add(page(host, 1))[0]
				if to.taking(time.Second); (v == GivenUp) != c.refused || c.refused && events[1] > 0 {
					t.Errorf("a link to it is %v; %d events", v, events[1])
				}
				if said := to.Explain(host).Sentence; strings.Contains(said, "given up: no such name") != c.refused {
					t.Errorf("%s", said)
				}
				if d := to.digest(host); c.refused && d.Drops != 1 {
					t.Errorf("it was given up %d times", d.Drops)
				}
				time.Sleep(20 * time.Minute)
				if v := to.add(page(host, 2))[0]; v != Accepted {
					t.Errorf("when the time is over, a link to it is %v", v)
				}
			})
		})
	}
}

// However a host moves between nodes, is given up, tried again and told late, it is refused for no longer than it was given up, and the time
// that messages took.
func TestGiveUpsEnd(t *testing.T) {
	const host = "http://h1.test"
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 50))
			lives, _ := sharedGiveUps(t, 3)
			owner, refused := 0, 0
			lives[0].add(page(host, 0))
			var last time.Time     // when it was given up last
			var late time.Duration // what messages took since
			knows := false         // the owner has heard of that, and of nothing that ends it
			type copied struct {
				chunk Chunk
				at    time.Time
			}
			var old []copied // what was exported before
			for i := range 200 {
				l := lives[owner]
				switch rnd.IntN(7) {
				case 0:
					must(t, second(l.giveUp(t.Context(), host, "no answer", time.Now().Add(time.Hour))))
					last, late, knows = time.Now(), 0, true
				case 1:
					for _, c := range l.export(host, Cursor{}, 100) {
						old = append(old, copied{c, time.Now()})
					}
				case 2: // a copy comes late
					if len(old) > 0 {
						c := old[rnd.IntN(len(old))]
						lives[rnd.IntN(3)].imported(host, c.chunk)
						late += time.Since(c.at)
						knows = false // it may have had URLs that were found since
					}
				case 3: // the replica takes the host over, or it is handed over
					next := rnd.IntN(3)
					l.role(host, Leaving)
					chunks, wait := l.export(host, Cursor{}, 100), time.Duration(rnd.IntN(60))*time.Second
					time.Sleep(wait)
					late += wait
					lives[next].imported(host, chunks...)
					l.role(host, Replica)
					lives[next].role(host, Owned)
					owner = next
				case 4:
					if rnd.IntN(4) == 0 {
						must(t, l.Retry(t.Context(), host))
						knows = false
					}
				default:
					time.Sleep(time.Duration(rnd.IntN(20)) * time.Minute)
				}
				v := lives[owner].add(page(host, i+1))[0]
				left := time.Until(last.Add(time.Hour))
				if v == GivenUp {
					refused++
				}
				if v == GivenUp && left+late <= 0 || v == Accepted && knows && left > 0 {
					t.Fatalf("seed %d, step %d: a link is %v, %v before the end of the give-up, after %v", seed, i, v, left, late)
				}
			}
			if refused == 0 {
				t.Error("nothing was refused")
			}
			time.Sleep(3 * time.Hour)
			for i, l := range lives {
				l.role(host, Owned)
				if v := l.add(page(host, 1000)); v[0] == GivenUp {
					t.Errorf("node %d: %v", i, v)
				}
			}
		})
	}
}

// Where a host is crawled that another node has given up, its pending URLs are dropped, and an event says so. At a replica, nothing is dropped that
// was to be crawled there.
func TestDropOfAnotherNodeIsTold(t *testing.T) {
	const host = "http://h1.test"
	for _, role := range []Role{Owned, Replica} {
		synctest.Test(t, func(t *testing.T) {
			lives, events := sharedGiveUps(t, 1)
			l := lives[0]
			l.add(pages(host, 0, 3)...)
			l.role(host, role)
			l.imported(host, Chunk{Drops: 1}, Chunk{Drops: 1}, Chunk{Drops: 2})
			if want := map[Role]int{Owned: 1, Replica: 0}[role]; events[0] != want || l.digest(host).Pending() != 0 {
				t.Errorf("%v: %d events, want %d; %d URLs are left", role, events[0], want, l.digest(host).Pending())
			}
		})
	}
}
