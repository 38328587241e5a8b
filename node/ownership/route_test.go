package ownership

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/view"
	"proxima/node/wire"
)

// A record in the answer to a link counts only if it is newer than the known one. The answer may be late.
func TestAnswerToALinkBringsNewerRecordsOnly(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.hostOf(1, 2, 3)
		s.lose(func(letter) bool { return true })
		for _, c := range []struct {
			at    int // node 1 is the home
			known Record
			said  Record
			is    int
		}{
			{1, rec(host, 2, 2), rec(host, 1, 3), 2},
			{1, rec(host, 2, 2), rec(host, 2, 3), 2},
			{1, rec(host, 2, 2), rec(host, 3, 1), 2}, // what concerns the node itself its home says
			{1, rec(host, 2, 2), rec(host, 3, 3), 3},
			{2, rec(host, 2, 2), rec(host, 9, 3), 2},
			{1, Record{Host: host}, rec(host, 1, 3), 0}, // a home relies on claims, and not on what others say of owners
		} {
			p := s.node(c.at)
			p.put(c.known)
			if err := p.own.Moved(c.said.wire()); err != nil {
				t.Fatal(err)
			}
			if r := p.record(host); numberOf(r.Owner) != c.is || p.rumour(host) != (Record{}) {
				t.Errorf("told %+v, node %d believes %+v, and by hearsay %+v", c.said, c.at, r, p.rumour(host))
			}
		}
	})
}

// If the owner in a record or rumour says that it does not know the host, the record or rumour is dropped. It stays if another node
// says so, and at nodes that must keep the record.
func TestOwnerThatKnowsNothing(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4, 5}, func(s *stage) {
		host := s.hostOf(1, 2, 3, 4, 5)
		s.lose(func(letter) bool { return true })
		for _, k := range []struct {
			at     int
			rumour bool
			owner  int
			who    int
			stays  bool
		}{{5, true, 3, 3, false}, {5, true, 3, 2, true}, {5, false, 3, 3, false}, {5, false, 3, 2, true}, {5, false, 5, 5, true},
			{2, false, 1, 1, true}, {3, false, 1, 1, true}, {4, false, 1, 1, false}, {1, false, 3, 3, true}} {
			p, r := s.node(k.at), rec(host, 1, k.owner)
			if p.put(r); k.rumour {
				p.put(Record{Host: host})
				p.with(func() { p.own.rumours[host] = r })
			}
			if err := p.own.Moved(&wire.Record{Host: host, Home: idOf(k.who)}); err != nil {
				t.Fatal(err)
			}
			if stays := p.record(host) == r || p.rumour(host) == r; stays != k.stays {
				t.Errorf("%+v: it stays %v", k, stays)
			}
		}
	})
}

// stern is a Frontier that gives links its verdicts. Then it calls then.
type stern struct {
	Frontier
	verdicts []frontier.Verdict
	then     func()
}

func (f stern) Add(context.Context, []frontier.Link) ([]frontier.Verdict, error) {
	f.then()
	return f.verdicts, nil
}

// The answers to links that are delivered, by what the frontier says of them, and by the rules of this node.
func TestAnswersToLinks(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(1), s.found(1, 1, 2, 3)
		own := p.own
		p.halt() // the test changes what it depends on
		const late, full = "later: its replica does not have it yet", frontier.HostFull
		nothing := func() {}
		behind := func() {
			own.stream.take(map[string]*frontier.Change{host: {Added: []frontier.PendingURL{{Path: "/1"}}}}, time.Now())
		}
		for _, c := range []struct {
			admit     string
			verdict   frontier.Verdict // of the second link; the host is full for the first
			then      func()
			want      string
			delivered uint64
		}{
			{"", frontier.Accepted, nothing, "accepted", 2},
			{"", frontier.Duplicate, nothing, "duplicate", 2},
			{"", frontier.NotOwned, nothing, "later: the host is on its way", 2},
			{"", full, nothing, "refused: " + full.String(), 2},
			{"blocked", frontier.Accepted, nothing, "refused: blocked", 0},
			{"", frontier.Accepted, behind, late, 2},
			{"", frontier.Duplicate, behind, late, 2},
			{"", frontier.GivenUp, nothing, "refused: " + frontier.GivenUp.String(), 2},
			{"", frontier.GivenUp, behind, late, 2},                             // or a replica that takes the host over would not know why it lacks the link
			{"", frontier.Accepted, func() { p.put(rec(host, 2, 2)) }, late, 2}, // it moves
		} {
			p.put(rec(host, 1, 1))
			own.stream.stored(slices.Collect(maps.Keys(own.stream.next()))...)
			own.deps.Admit, own.deps.Frontier = func(frontier.Link) string { return c.admit }, stern{p.disk, []frontier.Verdict{full, c.verdict}, c.then}
			before := own.Counts().LinksDelivered
			res, err := own.Deliver(s.t.Context(), idOf(2), &wire.DeliverRequest{Links: []*wire.Link{LinkToWire(link(host, 1)), LinkToWire(link(host, 2))}})
			if err != nil || len(res.GetAnswers()) != 2 || own.Counts().LinksDelivered-before != c.delivered {
				t.Fatal(res, err)
			}
			if got := (&scene{}).delivered(res.GetAnswers()[1]); got != c.want {
				t.Errorf("%v, %q: %s, want %s", c.verdict, c.admit, got, c.want)
			}
		}
	})
}

// Where links go, by what is heard of a host without a record. A home relies on claims, and nobody on a node that is gone.
func TestWhatHearsayIsGoodFor(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		time.Sleep(2 * s.cfg.Collect)
		for _, c := range []struct{ at, said, to int }{{2, 3, 3}, {2, 7, 1}, {1, 2, 1}} {
			p, host := s.node(c.at), s.hostOf(1, 2, 3)
			p.with(func() { p.own.rumours[host] = rec(host, 2, c.said) })
			if to := p.own.Destination(LinkToWire(link(host, 0))); numberOf(to) != c.to {
				t.Errorf("node %d hears of node %d, and sends links to %d", c.at, c.said, numberOf(to))
			}
		}
		p, host := s.node(2), s.hostOf(1, 2, 3)
		for _, said := range []Record{rec(host, 3, 3), rec(host, 2, 1)} { // the second is older
			p.put(Record{Host: host})
			if err := p.own.Moved(said.wire()); err != nil || p.rumour(host).Epoch != 3 {
				t.Errorf("told %+v it believes %+v, %v", said, p.rumour(host), err)
			}
		}
		p.role(host, frontier.Replica)
		p.occupy(host)
		if err := p.own.Moved(&wire.Record{Host: host, Home: idOf(3)}); err != nil {
			t.Error(err)
		}
		if it, _ := p.queued(host); !it.anew {
			t.Error("nobody brings a copy to the owner, which knows nothing of it")
		}
	})
}

// Links join the queue that the record names: at the owner, and with a copy at the node with the replica. Links to a host that leaves go on.
func TestQueueOfALink(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(1), s.found(3, 1, 2, 3)
		for assigned, want := range map[bool]frontier.Origin{true: frontier.Assigned, false: frontier.Discovered} {
			if err := p.own.HandOff(s.t.Context(), host, idOf(1), assigned, "test"); err != nil {
				t.Fatal(err)
			}
			mine, err := p.own.Route(s.t.Context(), []frontier.Link{link(host, 2), link(s.hostOf(2, 1, 3), 0), link(host, 3)})
			delivered, _, err2 := p.own.judge(LinkToWire(link(host, 2)))
			if err != nil || err2 != nil || len(mine) != 2 || mine[0].Origin != want || mine[1].Origin != want || delivered.Origin != want {
				t.Errorf("assigned, %v: links join the queue of %v and %v", assigned, mine, delivered)
			}
			s.node(2).spoil(host, 1)
			if _, err := p.own.push(s.t.Context(), idOf(2), p.record(host), true); err != nil || s.node(2).disk.origin != want {
				t.Errorf("assigned, %v: at the replica links join queue %v, %v", assigned, s.node(2).disk.origin, err)
			}
			if err := p.own.pull(s.t.Context(), idOf(2), p.record(host)); err != nil || p.disk.origin != want {
				t.Errorf("assigned, %v: at the owner links join queue %v, %v", assigned, p.disk.origin, err)
			}
		}
		if err := p.own.PassOn(s.t.Context(), links(host, 7, 8)); err != nil || len(s.keepers(link(host, 7))) != 1 {
			t.Errorf("a link that is passed on is not in the outbox: %v", err)
		}
		p.with(func() { p.own.proposals[host] = proposal{} })
		if p.begins(host, 2) {
			t.Error("a link to a host that leaves is kept")
		}
		if to := p.own.Destination(&wire.Link{Url: "nothing"}); to != idOf(1) {
			t.Errorf("what is no link goes to %s", to)
		}
		p.with(func() { p.own.views.Set(view.View{Self: idOf(1)}, time.Now()) })
		if to := p.own.Destination(LinkToWire(link(s.hostOf(2, 1, 3), 0))); to != idOf(1) {
			t.Errorf("without members a link goes to %q", to)
		}
	})
}

// Links to a host that is found here count for the epoch with which its record begins.
func TestEpochOfAHostThatIsFound(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(1), s.hostOf(1, 2, 3)
		for _, found := range []bool{true, false} { // at first it is new
			to, err := p.own.whereTo(host)
			if err != nil || !to.here || to.found != found || to.epoch != 1 || p.record(host) != rec(host, 1, 1) {
				t.Errorf("found just now, %v: its links go to %+v, %v; its record is %+v", found, to, err, p.record(host))
			}
		}
	})
}

// The record of a new host is on disk before its URLs, wherever its links stand among those of known hosts.
func TestRecordsOfNewHostsComeFirst(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		hosts, p := s.hostsOf(4, 1, 2, 3), s.node(1)
		known := hosts[3]
		p.find(link(known, 0))
		p.halt() // nothing else writes records
		for i, find := range []func() error{
			func() error {
				return second(p.own.Route(s.t.Context(), []frontier.Link{link(hosts[0], 0), link(known, 1)}))
			},
			func() error {
				return second(p.own.Route(s.t.Context(), []frontier.Link{link(known, 2), link(hosts[1], 0)}))
			},
			func() error {
				return second(p.own.Deliver(s.t.Context(), idOf(2), &wire.DeliverRequest{Links: []*wire.Link{LinkToWire(link(hosts[2], 0))}}))
			},
		} {
			if err := find(); err != nil {
				t.Fatal(err)
			}
			if b, err := p.disk.Get([]byte(hosts[i])); err != nil || b == nil {
				t.Errorf("the record of the new host %d is not on disk: %v", i, err)
			}
		}
	})
}

// A home may assign a host that it owns without an assignment and may crawl.
func TestHostsToAssign(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		time.Sleep(2 * s.cfg.Collect)
		p, host, away := s.node(1), s.hostOf(1, 2, 3), s.hostOf(2, 1, 3)
		for _, c := range []struct {
			what      string
			r         Record
			suspended bool
			mine      bool
		}{
			{"its own", rec(host, 1, 1), false, true},
			{"an assigned one", Record{Host: host, Epoch: 1, Owner: idOf(1), Assigned: true}, false, false},
			{"another's", rec(host, 1, 2), false, false},
			{"of another home", rec(away, 1, 1), false, false},
			{"of which none is", Record{Host: host}, false, false},
			{"a suspended one", rec(host, 1, 1), true, false},
		} {
			p.put(c.r)
			p.with(func() {
				clear(p.own.unconfirmed)
				if clear(p.own.proposals); c.suspended {
					p.own.proposals[host] = proposal{}
				}
			})
			if p.own.Mine(c.r.Host) != c.mine {
				t.Errorf("%s: it may assign it: %v", c.what, !c.mine)
			}
		}
	})
}

// A wish counts for a host that is owned here, and for a node that is alive.
func TestWishesThatCount(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(1), s.hostOf(1, 2, 3)
		for _, c := range []struct {
			what   string
			r      Record
			to     int
			counts bool
		}{
			{"an owned host", rec(host, 1, 1), 3, true},
			{"another's host", rec(host, 1, 2), 3, false},
			{"an unknown host", Record{Host: host}, 3, false},
			{"for a node that is gone", rec(host, 1, 1), 7, false},
		} {
			p.put(c.r)
			p.occupy(host) // it is not handed over before the test has seen the wish
			p.own.Wish(host, idOf(c.to), "test")
			p.with(func() {
				if w, counts := p.own.wishes[host]; counts != c.counts || counts && w != (wish{idOf(c.to), "test"}) {
					t.Errorf("%s: %+v", c.what, w)
				}
				delete(p.own.wishes, host)
			})
			if it, _ := p.queued(host); it.anew != c.counts {
				t.Errorf("%s: it is looked at: %v", c.what, !c.counts)
			}
		}
	})
}

// A wish for the node that could not reach the host when it last tried is not fulfilled.
func TestWishForWhoCannotReachIt(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(2, 1, 2, 3)
		for _, c := range []struct{ tried, owner int }{{3, 1}, {2, 3}} {
			p := s.node(1)
			p.disk.mu.Lock()
			p.disk.triedBy = idOf(c.tried)
			p.disk.mu.Unlock()
			p.own.Wish(host, idOf(3), "test")
			time.Sleep(10 * time.Second)
			s.mustOwn(host, c.owner)
		}
	})
}

// The log says once a minute that links are on one disk only.
func TestComplaintsAreRare(t *testing.T) {
	onStage(t, []int{1, 2}, func(s *stage) {
		for i, k := range []struct {
			after time.Duration
			heard bool
		}{{0, true}, {time.Second, false}, {time.Minute - time.Second - 1, false}, {1, true}, {time.Second, false}} {
			time.Sleep(k.after)
			if _, heard := s.node(1).own.complaints.Heard(time.Now(), complainEvery); heard != k.heard {
				t.Errorf("complaint %d is heard: %v", i, !k.heard)
			}
		}
	})
}

// Rumours, cached records and waiting changes are bounded.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		const limit = 16
		p, own := s.node(3), s.node(3).own
		own.cfg.CachedRecords = limit
		records := newRecords(newDisk(s.names), limit)
		for _, host := range s.hostsOf(3*limit, 1, 2, 3) {
			r := rec(host, 1, 2)
			if err := own.Moved(r.wire()); err != nil {
				t.Fatal(err)
			}
			records.put(host, r)
			if err := records.flush(); err != nil {
				t.Fatal(err)
			}
			p.with(func() {
				if rumours := len(own.rumours); own.rumours[host] != r || rumours > limit || records.cache.Len() > limit {
					t.Errorf("%d rumours, %d records; the last: %+v", rumours, records.cache.Len(), own.rumours[host])
				}
			})
		}
	})
	stream, now := newStream(time.Time{}), time.Now()
	stream.cleared = true
	for k, host := range []string{"a", "b", "c"} { // the third finds no room
		stream.bytes = maxStream + k/2
		stream.take(map[string]*frontier.Change{host: {Added: []frontier.PendingURL{{Path: "/1"}}, Done: []uint64{1}}}, now)
		if full := k == 2; stream.cleared == full || stream.lost.Equal(now) != full {
			t.Errorf("%d bytes wait, and changes were lost: %v", stream.bytes, !full)
		}
	}
	if out := stream.next(); !out["a"].Lost || !out["b"].Lost || out["c"].Lost || len(stream.held) != 1 || stream.hosts["a"].held > 0 ||
		stream.bytes != (&frontier.Change{Done: []uint64{1}}).Memory() {
		t.Errorf("%+v waited", out)
	}
}
