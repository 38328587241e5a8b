package peer_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
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

// opened opens an outbox. Unless deps say something else, its shelf is empty, nobody knows where a link belongs, no peer is gone, and nobody
// keeps copies.
func opened(t testing.TB, cfg peer.Config, deps peer.OutboxDeps) *peer.Outbox {
	t.Helper()
	all := peer.OutboxDeps{Shelf: new(netsim.Shelf), Route: func(*wire.Link) string { return "" }, Moved: func(*wire.Record) {},
		Custodian: func(...string) string { return "" }, Gone: func(string) bool { return false },
		Refused: func(string, *wire.Link, string) {}, Aside: func(string, int, error) {}}
	given, filled := reflect.ValueOf(deps), reflect.ValueOf(&all).Elem()
	for i := range given.NumField() {
		if f := given.Field(i); !f.IsZero() {
			filled.Field(i).Set(f)
		}
	}
	o, err := peer.NewOutbox(cfg, all)
	must(t, err)
	return o
}

// running opens an outbox and runs it until stop is called, which waits for its end, or the test ends.
func running(t testing.TB, cfg peer.Config, deps peer.OutboxDeps) (o *peer.Outbox, stop func()) {
	t.Helper()
	o = opened(t, cfg, deps)
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
	must(t, o.Add(context.Background(), map[string][]*wire.Link{to: links}))
}

// is checks what became of the links of an outbox, how many are pending, and how many blocks are on its shelf.
func is(t *testing.T, o *peer.Outbox, shelf *netsim.Shelf, want peer.OutboxStats, pending, blocks int) {
	t.Helper()
	if s := o.Stats(); s != want || o.Pending() != pending || shelf.Len() != blocks {
		t.Errorf("%+v, %d pending, %d blocks; want %+v, %d, %d", s, o.Pending(), shelf.Len(), want, pending, blocks)
	}
}

// Links wait a second for others, unless they fill a message by their number or their bytes.
func TestOutboxMakesMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, shelf := &answerer{}, new(netsim.Shelf)
		o, _ := running(t, peer.Default(), peer.OutboxDeps{Shelf: shelf, Deliver: a.deliver})
		long := linksOf("long", 100)
		for _, l := range long {
			l.Url += string(make([]byte, 10_000))
		}
		for i, c := range []struct {
			links []*wire.Link
			after time.Duration
			sent  []int // links of the messages since the last step
		}{
			{linksOf("one", 30), 600 * time.Millisecond, nil},
			{linksOf("two", 40), 400*time.Millisecond - 1, nil},
			{nil, 1, []int{70}},
			{linksOf("three", 2500), 0, []int{1000, 1000}}, // the rest waits
			{nil, time.Second, []int{500}},
			{linksOf("four", 10), 100 * time.Millisecond, nil},
			{linksOf("five", 990), 0, []int{1000}},
			{long, 2 * time.Second, []int{26, 26, 26, 22}},
		} {
			before, pending := len(a.sent()), o.Pending()
			add(t, o, "b", c.links)
			sleep(c.after)
			var sent []int
			for _, m := range a.sent()[before:] {
				sent = append(sent, len(m.links))
				pending -= len(m.links)
			}
			if pending += len(c.links); !slices.Equal(sent, c.sent) || o.Pending() != pending || o.PendingOf("b") != pending || o.PendingOf("c") != 0 {
				t.Errorf("step %d: sent messages of %v links, want %v; %d pending, want %d", i, sent, c.sent, o.Pending(), pending)
			}
		}
		if is(t, o, shelf, peer.OutboxStats{Accepted: 3670}, 0, 0); o.Queues() != 0 {
			t.Errorf("%d peers", o.Queues())
		}
	})
}

// A link that is accepted, known or refused goes. One that moved goes to the next owner, and others do not wait for one that has to.
func TestOutboxObeysVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, shelf := &answerer{}, new(netsim.Shelf)
		moves := &wire.Delivered{Verdict: wire.Verdict_VERDICT_MOVED, Record: &wire.Record{Host: "b.example", Epoch: 5, Owner: "c"}}
		refuses := &wire.Delivered{Verdict: wire.Verdict_VERDICT_REFUSED, Reason: "too deep"}
		answers := []*wire.Delivered{verdict(wire.Verdict_VERDICT_ACCEPTED), refuses, moves, moves} // to the first links
		links, asked := linksOf("b", 6), map[string]int{}
		a.answer = func(to string, l *wire.Link) *wire.Delivered {
			i := slices.IndexFunc(links, func(k *wire.Link) bool { return k.Url == l.Url })
			switch asked[l.Url]++; {
			case to == "c" && l.Depth != 3:
				t.Errorf("moved link %v", l)
			case to == "c":
				return verdict(wire.Verdict_VERDICT_DUPLICATE)
			case i < len(answers):
				return answers[i]
			case asked[l.Url] < 5:
				return verdict(wire.Verdict_VERDICT_LATER)
			}
			return verdict(wire.Verdict_VERDICT_ACCEPTED)
		}
		var refused []string
		owner, moved := "", 0
		o, _ := running(t, peer.Default(), peer.OutboxDeps{Shelf: shelf, Deliver: a.deliver,
			Moved:   func(r *wire.Record) { owner = r.Owner; moved++ },
			Route:   func(*wire.Link) string { return owner },
			Refused: func(to string, l *wire.Link, why string) { refused = append(refused, to+" "+l.Url+" "+why) }})
		add(t, o, "b", links)
		sleep(1100 * time.Millisecond)
		if o.PendingOf("b") != 2 || o.PendingOf("c") != 2 {
			t.Errorf("%d wait for b, %d for c", o.PendingOf("b"), o.PendingOf("c"))
		}
		add(t, o, "b", links[:1])
		sleep(1100 * time.Millisecond)
		a.mu.Lock()
		if n := asked[links[0].Url]; n != 2 {
			t.Errorf("sent %d times", n)
		}
		a.mu.Unlock()
		sleep(time.Minute)
		is(t, o, shelf, peer.OutboxStats{Accepted: 4, Duplicate: 2, Refused: 1}, 0, 0)
		if moved != 1 || !slices.Equal(refused, []string{"b http://b.example/1 too deep"}) {
			t.Errorf("%d records, refused %q", moved, refused)
		}
	})
}

// Links for a peer that takes none for ten minutes are not lost, and the peer is not run over. Soon after it has come back they are answered:
// the end of a crawl waits for that.
func TestPeerThatTakesNoLinks(t *testing.T) {
	type answer = func(links int) (*wire.DeliverResponse, error)
	away := func(int) (*wire.DeliverResponse, error) { return nil, fmt.Errorf("dial: %w", peer.ErrUnavailable) }
	all := func(v wire.Verdict) answer {
		return func(links int) (*wire.DeliverResponse, error) {
			return &wire.DeliverResponse{Answers: slices.Repeat([]*wire.Delivered{verdict(v)}, links)}, nil
		}
	}
	for name, c := range map[string]struct {
		first, then answer
		adds        int           // of 100 links
		least, most int           // messages in ten minutes
		back        time.Duration // until all are answered
		moves       bool          // then they belong to another node
	}{
		"away": {away, all(wire.Verdict_VERDICT_ACCEPTED), 1, 20, 50, 30 * time.Second, false}, // half a second doubles six times; then every 15 to 30 s
		"away for good, while its hosts get another owner": {away, away, 1, 20, 50, 30 * time.Second, true},
		"broken": {
			func(int) (*wire.DeliverResponse, error) { return nil, nil },
			all(wire.Verdict_VERDICT_ACCEPTED), 50, 20, 60, 2 * time.Minute, false},
		"busy": { // at last every 2.5 to 5 s, at this peer, and then at the next
			all(wire.Verdict_VERDICT_LATER), all(wire.Verdict_VERDICT_MOVED), 1, 120, 250, 11 * time.Second, true},
	} {
		for _, review := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				messages, shelf := 0, new(netsim.Shelf)
				var back atomic.Bool
				o, _ := running(t, peer.Default(), peer.OutboxDeps{Shelf: shelf,
					Route: func(*wire.Link) string {
						if c.moves && back.Load() {
							return "c"
						}
						return "b"
					},
					Deliver: func(_ context.Context, to string, r *wire.DeliverRequest) (*wire.DeliverResponse, error) {
						switch messages++; {
						case to == "c":
							return accepts(r.Links), nil
						case back.Load():
							return c.then(len(r.Links))
						}
						return c.first(len(r.Links))
					}})
				for range c.adds {
					add(t, o, "b", linksOf("b", 100))
				}
				sleep(10 * time.Minute)
				if messages < c.least || messages > c.most || o.PendingOf("b") != 100*c.adds {
					t.Errorf("%s: %d messages in ten minutes, want %d to %d; %d links wait", name, messages, c.least, c.most, o.PendingOf("b"))
				}
				back.Store(true)
				if review && name == "away" {
					o.Review()
					synctest.Wait() // it is tried at once
				} else {
					sleep(c.back)
				}
				is(t, o, shelf, peer.OutboxStats{Accepted: uint64(100 * c.adds)}, 0, 0)
			})
		}
	}
}

// A peer that breaks down over one link gets all the others, and that one when it has been mended.
func TestOutboxGoesRoundALinkThatBreaksItsPeer(t *testing.T) {
	const poison = "http://poison.example/"
	answers := func(more int) func([]*wire.Link) (*wire.DeliverResponse, error) {
		return func(links []*wire.Link) (*wire.DeliverResponse, error) {
			return accepts(make([]*wire.Link, max(0, len(links)+more))), nil
		}
	}
	for name, broken := range map[string]func([]*wire.Link) (*wire.DeliverResponse, error){
		"panic":               func([]*wire.Link) (*wire.DeliverResponse, error) { panic("index out of range") },
		"internal":            func([]*wire.Link) (*wire.DeliverResponse, error) { return nil, errors.New("read record: damaged") },
		"no answers":          answers(-1000),
		"one answer too few":  answers(-1),
		"one answer too many": answers(1),
	} {
		t.Run(name, func(t *testing.T) {
			betweenTwo(t, func(t *testing.T, w *world, a, b *testNode) {
				var sent atomic.Int64
				var mended atomic.Bool
				b.handler.OnDeliver = func(_ context.Context, _ string, r *wire.DeliverRequest) (*wire.DeliverResponse, error) {
					if mended.Load() || !slices.ContainsFunc(r.Links, func(l *wire.Link) bool { return l.Url == poison }) {
						return accepts(r.Links), nil
					}
					sent.Add(1)
					return broken(r.Links)
				}
				shelf := new(netsim.Shelf)
				o, _ := running(t, peer.Default(), peer.OutboxDeps{Shelf: shelf, Deliver: a.client.Deliver})
				add(t, o, "b", linksOf("b", 200))
				add(t, o, "b", append(linksOf("c", 299), &wire.Link{Url: poison}))
				for range 20 {
					add(t, o, "b", linksOf("d", 100))
					sleep(time.Second)
				}
				if n := o.Stats().Accepted; n < 1500 {
					t.Errorf("%d of 2,499 links were accepted after 20 s", n)
				}
				sleep(3 * time.Minute)
				is(t, o, shelf, peer.OutboxStats{Accepted: 2499}, 1, 1)
				if n := sent.Load(); n > 60 {
					t.Errorf("the peer was broken %d times", n)
				}
				mended.Store(true)
				sleep(time.Minute)
				is(t, o, shelf, peer.OutboxStats{Accepted: 2500}, 0, 0)
			})
		})
	}
}

// Many such links, those of one host perhaps, take turns with the others.
func TestLinksThatBreakTheirPeerTakeTurns(t *testing.T) {
	betweenTwo(t, func(t *testing.T, w *world, a, b *testNode) {
		b.handler.OnDeliver = func(_ context.Context, _ string, r *wire.DeliverRequest) (*wire.DeliverResponse, error) {
			if slices.ContainsFunc(r.Links, func(l *wire.Link) bool { return l.Depth == 9 }) {
				return nil, errors.New("read record: damaged")
			}
			return accepts(r.Links), nil
		}
		o, _ := running(t, peer.Default(), peer.OutboxDeps{Deliver: a.client.Deliver})
		for range 30 {
			add(t, o, "b", []*wire.Link{{Url: "http://poison.example/", Depth: 9}})
		}
		for range 300 {
			add(t, o, "b", linksOf("b", 10))
			sleep(time.Second)
		}
		sleep(10 * time.Second)
		if n := o.Stats().Accepted; n < 2900 || o.Stats().SetAside != 0 {
			t.Errorf("%d of 3,000 links were accepted, %+v", n, o.Stats())
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
			if !slices.ContainsFunc(links, func(l *wire.Link) bool { return l.Url == poison }) {
				return nil
			}
			if poisoned++; poisoned > 1 && len(links) > 300 {
				t.Errorf("it was sent with others, %d links", len(links))
			}
			return fmt.Errorf("decode: %w", peer.ErrMalformed)
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
		is(t, o, shelf, peer.OutboxStats{Accepted: 2_899, SetAside: 1}, 0, 1)
		if aside != 1 || poisoned < 3 || poisoned > 15 {
			t.Errorf("%d aside, the bad link was sent %d times", aside, poisoned)
		}
		stop()
		o, _ = running(t, peer.Default(), deps)
		is(t, o, shelf, peer.OutboxStats{SetAside: 1}, 0, 1)
	})
}

func TestLinksOfPeersThatAreGoneFindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf, gone, next := new(netsim.Shelf), false, ""
		a := &answerer{err: func(to string, _ []*wire.Link) error {
			if to == "b" {
				return peer.ErrUnavailable
			}
			return nil
		}}
		o, _ := running(t, peer.Default(), peer.OutboxDeps{Shelf: shelf, Deliver: a.deliver,
			Gone: func(id string) bool { return gone && id == "b" }, Route: func(*wire.Link) string { return next }})
		add(t, o, "b", linksOf("b", 2500))
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
		is(t, o, shelf, peer.OutboxStats{Accepted: 2500}, 0, 0)
	})
}

func TestOutboxTakesNoIDThatCannotBe(t *testing.T) {
	o := opened(t, peer.Default(), peer.OutboxDeps{})
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
