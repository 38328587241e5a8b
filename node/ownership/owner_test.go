package ownership

import (
	"context"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// A home may assign a host that it owns without an assignment and may crawl.
func TestHostsToAssign(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		time.Sleep(2 * s.cfg.Collect)
		own := s.node(1).own
		for what, c := range map[string]struct {
			order  []int
			r      Record
			change func(host string)
			mine   bool
		}{
			"its own":          {[]int{1, 2, 3}, Record{Epoch: 1, Owner: idOf(1)}, func(string) {}, true},
			"an assigned one":  {[]int{1, 2, 3}, Record{Epoch: 1, Owner: idOf(1), Assigned: true}, func(string) {}, false},
			"another's":        {[]int{1, 2, 3}, Record{Epoch: 1, Owner: idOf(2)}, func(string) {}, false},
			"of another home":  {[]int{2, 1, 3}, Record{Epoch: 1, Owner: idOf(1)}, func(string) {}, false},
			"of which none is": {[]int{1, 2, 3}, Record{}, func(string) {}, false},
			"a suspended one":  {[]int{1, 2, 3}, Record{Epoch: 1, Owner: idOf(1)}, func(host string) { own.proposals[host] = proposal{} }, false},
		} {
			c.r.Host = s.hostOf(c.order...)
			s.node(1).put(c.r)
			own.mu.Lock()
			clear(own.unconfirmed)
			c.change(c.r.Host)
			own.mu.Unlock()
			if own.Mine(c.r.Host) != c.mine {
				t.Errorf("%s: it may assign it: %v", what, !c.mine)
			}
			own.mu.Lock()
			delete(own.proposals, c.r.Host)
			own.mu.Unlock()
		}
	})
}

// A wish counts for a host that is owned here, and for a node that is alive.
func TestWishesThatCount(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		own, host := s.node(1).own, s.hostOf(1, 2, 3)
		for what, c := range map[string]struct {
			r      Record
			to     string
			counts bool
		}{
			"an owned host": {Record{Host: host, Epoch: 1, Owner: idOf(1)}, idOf(3), true}, "another's host": {Record{Host: host, Epoch: 1, Owner: idOf(2)}, idOf(3), false},
			"an unknown host": {Record{Host: host}, idOf(3), false}, "for a node that is gone": {Record{Host: host, Epoch: 1, Owner: idOf(1)}, idOf(7), false},
		} {
			s.node(1).put(c.r)
			own.queue.mu.Lock()
			own.queue.items[host] = &item{host: host, busy: true, at: -1} // it is not handed over before the test has seen the wish
			own.queue.mu.Unlock()
			own.Wish(host, c.to, "test")
			own.mu.Lock()
			if w, counts := own.wishes[host]; counts != c.counts || counts && w != (wish{c.to, "test"}) {
				t.Errorf("%s: %+v", what, w)
			}
			delete(own.wishes, host)
			own.mu.Unlock()
			own.queue.mu.Lock()
			if own.queue.items[host].anew != c.counts {
				t.Errorf("%s: it is looked at: %v", what, !c.counts)
			}
			delete(own.queue.items, host)
			own.queue.mu.Unlock()
		}
	})
}

// A node that becomes the home of its own hosts needs nobody to confirm them.
func TestNewHomeConfirmsItself(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		mine, theirs, own := s.hostOf(1, 2, 3), s.hostOf(3, 2, 1), s.node(2).own
		own.mu.Lock()
		own.unconfirmed[mine], own.unconfirmed[theirs] = claimed{}, claimed{}
		own.mu.Unlock()
		s.forget(1)
		own.mu.Lock()
		defer own.mu.Unlock()
		if _, waits := own.unconfirmed[mine]; waits {
			t.Error("it waits for itself")
		}
		if _, waits := own.unconfirmed[theirs]; !waits {
			t.Error("it does not wait for another home")
		}
	})
}

// A life ended between a new record and the role that follows from it. The next life claims the host, and takes the step.
func TestRolesThatLagBehind(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p := s.node(2)
		own := p.own
		for what, c := range map[string]struct {
			owner  int
			role   frontier.Role
			looked bool
			claims bool
		}{
			"owned":                 {2, frontier.Owned, false, false},
			"owned, and a replica":  {2, frontier.Replica, true, true},
			"leaving":               {2, frontier.Leaving, true, false},
			"another's":             {3, frontier.Replica, false, false},
			"another's, and owned":  {3, frontier.Owned, true, false},
			"another's, on its way": {3, frontier.Leaving, true, false},
		} {
			host := s.hostOf(1, 2, 3)
			p.stop()
			<-p.over
			p.put(Record{Host: host, Epoch: 1, Owner: idOf(c.owner)})
			p.role(host, c.role)
			own.mu.Lock()
			clear(own.unconfirmed)
			own.mu.Unlock()
			own.queue.mu.Lock()
			clear(own.queue.items)
			own.queue.due, own.queue.hurry = nil, 0
			own.queue.mu.Unlock()
			if err := own.recover(context.WithoutCancel(s.t.Context())); err != nil {
				t.Error(err)
			}
			if it := own.queue.items[host]; (it != nil && it.urgent) != c.looked || (it != nil) != c.looked {
				t.Errorf("%s: it is looked at: %+v", what, it)
			}
			if u, claims := own.unconfirmed[host]; claims != c.claims || u.handed {
				t.Errorf("%s: it is claimed: %v, %+v", what, claims, u)
			}
		}
	})
}

// A copy that may not be needed any more is looked at after TakeAfter: when the host has a new owner, which is another node.
func TestWhenACopyIsLookedAt(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(1), s.hostOf(2, 1, 3)
		for what, c := range map[string]struct {
			was, is Record
			looked  bool
		}{
			"another owner":     {Record{Epoch: 1, Owner: idOf(2)}, Record{Epoch: 2, Owner: idOf(3)}, true},
			"the same owner":    {Record{Epoch: 1, Owner: idOf(2)}, Record{Epoch: 2, Owner: idOf(2)}, false},
			"this node":         {Record{Epoch: 1, Owner: idOf(2)}, Record{Epoch: 2, Owner: idOf(1)}, false},
			"after this node":   {Record{Epoch: 1, Owner: idOf(1)}, Record{Epoch: 2, Owner: idOf(2)}, true},
			"nobody":            {Record{Epoch: 1, Owner: idOf(2)}, Record{}, false},
			"the first that is": {Record{}, Record{Epoch: 2, Owner: idOf(2)}, false},
		} {
			c.was.Host, c.is.Host = host, host
			p.put(Record{Host: host})
			p.put(c.was)
			p.own.queue.mu.Lock()
			clear(p.own.queue.items)
			p.own.queue.due = nil
			p.own.queue.mu.Unlock()
			p.put(c.is)
			p.own.queue.mu.Lock()
			if it := p.own.queue.items[host]; (it != nil) != c.looked || it != nil && !it.after.Equal(time.Now().Add(s.cfg.TakeAfter)) {
				t.Errorf("%s: it is looked at: %+v", what, it)
			}
			p.own.queue.mu.Unlock()
		}
	})
}

// stern is a Frontier that gives all links one verdict.
type stern struct {
	Frontier
	verdict frontier.Verdict
}

func (f stern) Add(_ context.Context, links []frontier.Link) (all []frontier.Verdict, err error) {
	for range links {
		all = append(all, f.verdict)
	}
	return all, nil
}

// The answers to links that are delivered, by what the frontier says of them, and by the rules of this node.
func TestAnswersToLinks(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, own := s.hostOf(1, 2, 3), s.node(1).own
		s.node(1).find(link(host, 0))
		time.Sleep(2 * time.Second)
		s.node(1).stop() // the test changes what it depends on
		<-s.node(1).over
		for _, c := range []struct {
			admit   string
			verdict frontier.Verdict
			want    string
		}{
			{"", frontier.Accepted, "accepted"}, {"", frontier.Duplicate, "duplicate"}, {"", frontier.NotOwned, "later: the host is on its way"},
			{"", frontier.HostFull, "refused: " + frontier.HostFull.String()}, {"blocked", frontier.Accepted, "refused: blocked"},
		} {
			own.deps.Admit, own.deps.Frontier = func(frontier.Link) string { return c.admit }, stern{s.node(1).disk, c.verdict}
			res, err := own.Deliver(s.t.Context(), idOf(2), &wire.DeliverRequest{Links: []*wire.Link{LinkToWire(link(host, 1))}})
			if err != nil || len(res.GetAnswers()) != 1 {
				t.Fatal(res, err)
			}
			if got := (&scene{}).delivered(res.GetAnswers()[0]); got != c.want {
				t.Errorf("%v, %q: %s, want %s", c.verdict, c.admit, got, c.want)
			}
		}
		own.deps.Admit, own.deps.Frontier = func(frontier.Link) string { return "" }, s.node(1).disk
		for assigned, origin := range map[bool]frontier.Origin{false: frontier.Discovered, true: frontier.Assigned} {
			s.node(1).put(Record{Host: host, Epoch: 1, Owner: idOf(1), Assigned: assigned})
			mine, err := own.Route(s.t.Context(), links(host, 2, 3))
			delivered, _, err2 := own.judge(LinkToWire(link(host, 2)))
			if err != nil || err2 != nil || mine[0].Origin != origin || delivered.Origin != origin {
				t.Errorf("assigned, %v: links join the queue of %v and %v", assigned, mine, delivered)
			}
		}
		// A home relies on claims, and not on what others say of owners.
		if err := own.Moved(Record{Host: s.hostOf(1, 3, 2), Epoch: 1, Owner: idOf(3)}.wire()); err != nil {
			t.Error(err)
		}
		own.mu.Lock()
		if len(own.rumours) > 0 {
			t.Errorf("the home believes %v", own.rumours)
		}
		own.mu.Unlock()
		if to := own.Destination(&wire.Link{Url: "nothing"}); to != idOf(1) {
			t.Errorf("what is no link goes to %s", to)
		}
	})
}
