package peer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/netsim"
	"proxima/node/peer"
	"proxima/node/wire"
)

// answerer plays the peers of an outbox.
type answerer struct {
	// answer gives a verdict for each link, under mu; err fails the message.
	answer func(to string, l *wire.Link) *wire.Delivered
	err    func(to string, links []*wire.Link) error
	trip   time.Duration

	mu       sync.Mutex
	messages []sentMessage
}

type sentMessage struct {
	to    string
	at    time.Time
	links []*wire.Link
}

func verdict(v wire.Verdict) *wire.Delivered { return &wire.Delivered{Verdict: v} }

func (a *answerer) deliver(ctx context.Context, to string, req *wire.DeliverRequest) (*wire.DeliverResponse, error) {
	a.mu.Lock()
	a.messages = append(a.messages, sentMessage{to, time.Now(), req.Links})
	a.mu.Unlock()
	if a.trip > 0 {
		select {
		case <-time.After(a.trip):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if a.err != nil {
		if err := a.err(to, req.Links); err != nil {
			return nil, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	res := accepts(req.Links)
	for i, l := range req.Links {
		if a.answer != nil {
			res.Answers[i] = a.answer(to, l)
		}
	}
	return res, nil
}

func (a *answerer) sent() []sentMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]sentMessage(nil), a.messages...)
}

func linksOf(name string, n int) []*wire.Link {
	links := make([]*wire.Link, n)
	for i := range links {
		links[i] = &wire.Link{Url: fmt.Sprintf("http://%s.example/%d", name, i), Depth: 3}
	}
	return links
}

// running opens an outbox and runs it until stop is called, which waits for its end, or the test ends.
func running(t *testing.T, cfg peer.Config, deps peer.OutboxDeps) (o *peer.Outbox, stop func()) {
	t.Helper()
	if deps.Route == nil {
		deps.Route = func(*wire.Link) string { return "" }
	}
	o, err := peer.NewOutbox(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- o.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return o, stop
}

func add(t *testing.T, o *peer.Outbox, to string, links []*wire.Link) {
	t.Helper()
	if err := o.Add(context.Background(), map[string][]*wire.Link{to: links}); err != nil {
		t.Fatal(err)
	}
}

func TestOutboxMakesMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, shelf := &answerer{}, new(netsim.Shelf)
		o, _ := running(t, peer.Default(), peer.OutboxDeps{Shelf: shelf, Deliver: a.deliver})
		begin := time.Now()
		add(t, o, "b", linksOf("one", 30))
		sleep(600 * time.Millisecond)
		add(t, o, "b", linksOf("two", 40))
		if len(a.sent()) != 0 || o.Pending() != 70 || o.PendingOf("b") != 70 || o.PendingOf("c") != 0 {
			t.Fatalf("%d sent, %d pending", len(a.sent()), o.Pending())
		}
		sleep(600 * time.Millisecond)
		sent := a.sent()
		if len(sent) != 1 || len(sent[0].links) != 70 || sent[0].at.Sub(begin) != time.Second {
			t.Fatalf("sent %d messages, want one of 70 after a second", len(sent))
		}
		// 2,500 links are more than two messages: those go at once, the rest waits.
		add(t, o, "c", linksOf("three", 2500))
		synctest.Wait()
		if sent = a.sent()[1:]; len(sent) != 2 || len(sent[0].links) != 1000 || len(sent[1].links) != 1000 {
			t.Errorf("sent %d messages", len(sent))
		}
		sleep(1100 * time.Millisecond)
		if sent = a.sent()[1:]; len(sent) != 3 || len(sent[2].links) != 500 {
			t.Errorf("sent %d messages", len(sent))
		}
		// What fills a message does not wait for company.
		add(t, o, "e", linksOf("five", 10))
		sleep(100 * time.Millisecond)
		add(t, o, "e", linksOf("six", 990))
		synctest.Wait()
		if sent = a.sent()[4:]; len(sent) != 1 || len(sent[0].links) != 1000 {
			t.Errorf("sent %d messages", len(sent))
		}
		// Long links fill a message by their bytes.
		long := linksOf("four", 100)
		for _, l := range long {
			l.Url += string(make([]byte, 10_000))
		}
		add(t, o, "d", long)
		sleep(2 * time.Second)
		sent = a.sent()[5:]
		total := 0
		for _, m := range sent {
			if total += len(m.links); len(m.links) > 26 {
				t.Errorf("a message of %d long links", len(m.links))
			}
		}
		if total != 100 || len(sent) != 4 {
			t.Errorf("%d long links in %d messages", total, len(sent))
		}
		if o.Pending() != 0 || shelf.Len() != 0 || o.Queues() != 0 {
			t.Errorf("%d pending, %d keys, %d peers", o.Pending(), shelf.Len(), o.Queues())
		}
	})
}

func TestOutboxObeysVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, shelf := &answerer{}, new(netsim.Shelf)
		rounds := map[string]int{}
		a.answer = func(to string, l *wire.Link) *wire.Delivered {
			if to == "c" {
				if l.Depth != 3 {
					t.Errorf("moved link %v", l)
				}
				return verdict(wire.Verdict_VERDICT_DUPLICATE)
			}
			rounds[l.Url]++
			switch l.Url {
			case "http://b.example/0":
				return verdict(wire.Verdict_VERDICT_ACCEPTED)
			case "http://b.example/1":
				return &wire.Delivered{Verdict: wire.Verdict_VERDICT_REFUSED, Reason: "too deep"}
			case "http://b.example/2", "http://b.example/3":
				return &wire.Delivered{Verdict: wire.Verdict_VERDICT_MOVED,
					Record: &wire.Record{Host: "b.example", Epoch: 5, Owner: "c"}}
			default:
				if rounds[l.Url] < 5 {
					return verdict(wire.Verdict_VERDICT_LATER)
				}
				return verdict(wire.Verdict_VERDICT_ACCEPTED)
			}
		}
		var refused []string
		owner := ""
		moved := 0
		o, _ := running(t, peer.Default(), peer.OutboxDeps{Shelf: shelf, Deliver: a.deliver,
			Moved:   func(r *wire.Record) { owner = r.Owner; moved++ },
			Route:   func(*wire.Link) string { return owner },
			Refused: func(to string, l *wire.Link, why string) { refused = append(refused, to+" "+l.Url+" "+why) }})
		add(t, o, "b", linksOf("b", 6))
		sleep(1100 * time.Millisecond)
		if o.PendingOf("b") != 2 || o.PendingOf("c") != 2 {
			t.Errorf("%d wait for b, %d for c", o.PendingOf("b"), o.PendingOf("c"))
		}
		// Others do not wait for those that have to.
		add(t, o, "b", []*wire.Link{{Url: "http://b.example/0"}})
		sleep(1100 * time.Millisecond)
		a.mu.Lock()
		if n := rounds["http://b.example/0"]; n != 2 {
			t.Errorf("sent %d times", n)
		}
		a.mu.Unlock()
		sleep(time.Minute)
		want, got := peer.OutboxStats{Accepted: 4, Duplicate: 2, Refused: 1}, o.Stats()
		if got != want || moved != 1 || len(refused) != 1 || refused[0] != "b http://b.example/1 too deep" {
			t.Errorf("%+v, %d records, refused %q", got, moved, refused)
		}
		if o.Pending() != 0 || shelf.Len() != 0 {
			t.Errorf("%d pending, %d keys", o.Pending(), shelf.Len())
		}
	})
}

func TestOutboxWaitsForAPeerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := true
		a := &answerer{err: func(string, []*wire.Link) error {
			if away {
				return fmt.Errorf("dial: %w", peer.ErrUnavailable)
			}
			return nil
		}}
		o, _ := running(t, peer.Default(), peer.OutboxDeps{Shelf: new(netsim.Shelf), Deliver: a.deliver})
		add(t, o, "b", linksOf("b", 10))
		sleep(10 * time.Minute)
		n := len(a.sent())
		if n < 20 || n > 50 { // half a second doubles six times; then every 15 to 30 s
			t.Errorf("tried %d times in ten minutes", n)
		}
		if times, retry := o.Failing("b"); o.Queues() != 1 || o.PendingOf("b") != 10 || times != n || retry <= 0 || retry > 30*time.Second {
			t.Errorf("%d failures, again in %v, after %d tries", times, retry, n)
		}
		away = false
		o.Review()
		synctest.Wait()
		if o.Pending() != 0 {
			t.Errorf("%d pending", o.Pending())
		}
	})
}

// The end of a crawl waits for these links.
func TestLinksOfABusyPeerDoNotWaitLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := true
		a := &answerer{answer: func(to string, _ *wire.Link) *wire.Delivered {
			switch {
			case to == "c":
				return verdict(wire.Verdict_VERDICT_ACCEPTED)
			case busy:
				return verdict(wire.Verdict_VERDICT_LATER)
			}
			return verdict(wire.Verdict_VERDICT_MOVED)
		}}
		o, _ := running(t, peer.Default(), peer.OutboxDeps{Shelf: new(netsim.Shelf), Deliver: a.deliver, Route: func(*wire.Link) string { return "c" }})
		add(t, o, "b", linksOf("b", 10))
		sleep(10 * time.Minute)
		if n := len(a.sent()); n < 120 || n > 250 { // at last every 2.5 to 5 s
			t.Errorf("sent %d times in ten minutes", n)
		}
		a.mu.Lock()
		busy = false
		a.mu.Unlock()
		sleep(11 * time.Second) // for b, which names c, and for c
		if o.Pending() != 0 {
			t.Errorf("%d pending", o.Pending())
		}
	})
}

func TestTwoPeersWithFullOutboxesGoOn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		cfg := peer.Default()
		cfg.OutboxLinks = 2000
		w.every = 50 * time.Millisecond
		ids := []string{"a", "b"}
		boxes := map[string]*peer.Outbox{}
		for _, id := range ids {
			n := w.node(id, who{})
			o, _ := running(t, cfg, peer.OutboxDeps{Shelf: new(netsim.Shelf), Deliver: n.client.Deliver})
			boxes[id] = o
			// Accepting fills the own outbox further for a while: each link brings one back, up to a depth.
			n.handler.OnDeliver = func(ctx context.Context, from string, r *wire.DeliverRequest) (*wire.DeliverResponse, error) {
				var found []*wire.Link
				for _, l := range r.Links {
					if l.Depth < 5 {
						found = append(found, &wire.Link{Url: l.Url, Depth: l.Depth + 1})
					}
				}
				return accepts(r.Links), o.Add(ctx, map[string][]*wire.Link{from: found})
			}
		}
		add(t, boxes["a"], "b", linksOf("x", 5000))
		add(t, boxes["b"], "a", linksOf("y", 5000))
		begin := time.Now()
		for boxes["a"].Pending()+boxes["b"].Pending() > 0 && time.Since(begin) < time.Minute {
			sleep(100 * time.Millisecond)
		}
		// 5,000 links and three generations of them, each way, in messages of 1,000 that take 100 ms.
		within(t, "emptying both", time.Since(begin), time.Second, 10*time.Second)
	})
}

func TestUnreadableMessagesDoNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const poison = "http://poison.example/"
		a, shelf := &answerer{}, new(netsim.Shelf)
		poisoned := 0
		a.err = func(_ string, links []*wire.Link) error {
			for _, l := range links {
				if l.Url == poison {
					if poisoned++; poisoned > 1 && len(links) > 300 {
						t.Errorf("it was sent with others, %d links", len(links))
					}
					return fmt.Errorf("decode: %w", peer.ErrMalformed)
				}
			}
			return nil
		}
		aside := 0
		deps := peer.OutboxDeps{Shelf: shelf, Deliver: a.deliver, Aside: func(to string, n int, err error) {
			if aside += n; to != "b" || !errors.Is(err, peer.ErrMalformed) {
				t.Errorf("aside for %s: %v", to, err)
			}
		}}
		o, stop := running(t, peer.Default(), deps)
		add(t, o, "b", linksOf("b", 200))
		add(t, o, "b", append(linksOf("c", 299), &wire.Link{Url: poison}))
		add(t, o, "b", linksOf("d", 400))
		sleep(1100 * time.Millisecond)
		for range 20 {
			add(t, o, "b", linksOf("e", 100))
			sleep(100 * time.Millisecond)
		}
		if got := o.Stats().Accepted; got < 600 {
			t.Errorf("%d accepted after three seconds, want those of the other blocks", got)
		}
		sleep(time.Minute)
		s := o.Stats()
		if s.Accepted != 2_899 || s.SetAside != 1 || aside != 1 || o.Pending() != 0 || shelf.Len() != 1 {
			t.Errorf("%+v, %d aside, %d pending, %d keys", s, aside, o.Pending(), shelf.Len())
		}
		if poisoned < 3 || poisoned > 15 {
			t.Errorf("the bad link was sent %d times", poisoned)
		}
		stop()
		o, _ = running(t, peer.Default(), deps)
		if s := o.Stats(); s.SetAside != 1 || o.Pending() != 0 {
			t.Errorf("after a restart %+v, %d pending", s, o.Pending())
		}
	})
}

func TestLinksOfPeersThatAreGoneFindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, shelf := &answerer{}, new(netsim.Shelf)
		gone := false
		a.err = func(to string, _ []*wire.Link) error {
			if to == "b" {
				return peer.ErrUnavailable
			}
			return nil
		}
		next := ""
		o, _ := running(t, peer.Default(), peer.OutboxDeps{Shelf: shelf, Deliver: a.deliver,
			Gone: func(id string) bool { return gone && id == "b" }, Route: func(l *wire.Link) string { return next }})
		links := linksOf("b", 2500)
		add(t, o, "b", links)
		sleep(time.Minute)
		gone = true
		o.Review()
		sleep(time.Minute)
		if o.PendingOf("b") != 2500 {
			t.Errorf("%d left although nobody else is known", o.PendingOf("b"))
		}
		next = "c"
		o.Review()
		sleep(2 * time.Second)
		if o.PendingOf("b") != 0 {
			t.Errorf("%d left", o.PendingOf("b"))
		}
		sleep(time.Minute)
		if s := o.Stats(); s.Accepted != 2500 || o.Pending() != 0 || shelf.Len() != 0 {
			t.Errorf("%+v, %d pending, %d keys", s, o.Pending(), shelf.Len())
		}
	})
}

func TestOutboxTakesNoIDThatCannotBe(t *testing.T) {
	o, err := peer.NewOutbox(peer.Default(), peer.OutboxDeps{Shelf: new(netsim.Shelf)})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", "A", "a.b", "-a", "a/b", string(make([]byte, 64))} {
		if err := o.Add(context.Background(), map[string][]*wire.Link{id: linksOf("b", 1)}); err == nil {
			t.Errorf("links for %q", id)
		}
	}
}

// sleep passes time, and waits until everybody has done what was due by then.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
