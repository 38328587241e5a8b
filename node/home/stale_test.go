package home

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

// TestStaleOwner brings an owner back whose host was given to its home meanwhile. It is told, stops, and ships what the
// new owner does not have, whether it claims, hands the host on, or renews.
func TestStaleOwner(t *testing.T) {
	for _, test := range []struct {
		name string
		// stale does something with the host at the stale owner, which can be heard again.
		stale func(t *testing.T, w *town, host string)
	}{
		{"claims", func(t *testing.T, w *town, host string) {
			_, err := w.house(1).home.claimAll(context.Background(), w.ids[0])
			if r, _, _ := w.house(1).home.Record(host); err != nil || r.Owner != w.ids[0] || r.Epoch != 3 {
				t.Errorf("after its claim it has %+v, %v", r, err)
			}
		}},
		{"hands it to the owner", func(t *testing.T, w *town, host string) {
			err := w.house(1).home.HandOff(context.Background(), host, w.ids[0], true, "test")
			if !errors.Is(err, ErrRefused) {
				t.Errorf("hand-off by a stale owner: %v", err)
			}
		}},
		{"renews", func(*testing.T, *town, string) {}},
		{"dies when it has heard", func(t *testing.T, w *town, _ string) {
			l := w.house(1).life
			l.mu.Lock()
			l.step = func(op string) bool { return op == "hold leaving" }
			l.mu.Unlock()
			time.Sleep(10 * time.Second)
			if !l.crashed.Load() {
				t.Error("it did not die")
			}
			obeyed := l.had(Obeyed)
			w.house(1).end()
			w.house(1).start()
			for range obeyed {
				w.house(1).tell(Event{Kind: Obeyed})
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newTown(t, 2, nil, 1)
				host := w.hostOf(0, 1)
				links := pages(host, 0, 40)
				if err := w.house(0).offer(links...); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second) // its second copy is made
				if err := w.house(0).home.HandOff(context.Background(), host, w.ids[1], true, "test"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				w.is(host, 1, digestOf(links, nil))
				w.house(1).crawl(1) // robots.txt
				time.Sleep(crawlDelay)

				// Nobody hears the owner, which goes on until its fence falls: what it does then is in no copy.
				w.set(func() {
					w.before = func(_, _ string, req proto.Message) error {
						return errGone
					}
				})
				task := w.house(1).crawl(1)[0]
				if task.Kind != frontier.Page {
					t.Fatalf("%v is asked for", task.URL)
				}
				done := []identity.URL{task.URL}
				more := pages(host, 40, 45)
				if err := w.house(1).offer(more...); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				for w.house(0).had(Took) == 0 {
					if time.Since(began) > time.Minute {
						t.Fatal("the home takes nothing over")
					}
					if w.house(0).home.Wait(host) == "" && w.house(1).home.Wait(host) == "" {
						t.Fatal("both crawl it")
					}
					time.Sleep(100 * time.Millisecond)
				}
				if why := w.house(1).home.Wait(host); why == "" {
					t.Fatal("the former owner goes on")
				}
				w.set(func() { w.before = nil })
				test.stale(t, w, host)
				time.Sleep(time.Minute)
				w.is(host, 0, digestOf(append(links, more...), done))
				if n := w.house(1).had(Obeyed); n != 1 {
					t.Errorf("it obeyed %d times", n)
				}
			})
		})
	}
}

// TestOldRecordIsAnswered asserts that a claim with an old record, or with one of the same epoch and a higher owner, gets
// the newer record back, and that one with a newer is believed.
func TestOldRecordIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3, nil)
		host := w.hostOf(0, 1)
		if err := w.house(0).offer(pages(host, 0, 3)...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second) // its second copy is made
		if err := w.house(0).home.HandOff(context.Background(), host, w.ids[1], true, "test"); err != nil {
			t.Fatal(err)
		}
		home := w.house(0).home
		claim := func(from int, epoch uint64) *wire.ClaimResponse {
			t.Helper()
			res, err := home.Claim(context.Background(), w.ids[from], &wire.ClaimRequest{Records: []*wire.Record{
				{Host: host, Epoch: epoch, Owner: w.ids[from], Assigned: true}}})
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		for _, test := range []struct {
			from  int
			epoch uint64
			stale bool
		}{{1, 2, false}, {2, 1, true}, {2, 2, true}, {1, 1, false}, {2, 3, false}, {1, 2, true}, {1, 3, false}, {2, 3, true}} {
			before, _, _ := home.Record(host)
			res := claim(test.from, test.epoch)
			after, _, _ := home.Record(host)
			if got := len(res.GetNewer()) == 1; got != test.stale && before.Owner != w.ids[test.from] {
				t.Errorf("a claim of %d with epoch %d beside %+v is answered by %v", test.from, test.epoch, before, res)
			}
			if test.stale && after != before {
				t.Errorf("a stale claim changed %+v to %+v", before, after)
			}
			if before.Newer(after) {
				t.Errorf("the record went back from %+v to %+v", before, after)
			}
			for _, n := range res.GetNewer() {
				if r, ok := fromWire(n); !ok || r != after {
					t.Errorf("the answer is %+v, the record %+v", r, after)
				}
			}
		}
	})
}

// TestOwnerLosesItsDisk takes the disk of an owner, at rest and while its former owner still has something for it. The
// second copy goes on at the home.
func TestOwnerLosesItsDisk(t *testing.T) {
	for _, rest := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newTown(t, 2, nil)
			host := w.hostOf(0, 1)
			links := pages(host, 0, 40)
			if err := w.house(0).offer(links...); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			if rest { // the answer to the commit is lost, and what follows does not get through
				w.set(func() {
					w.after = func(_, _ string, req, _ proto.Message) error {
						if r, ok := req.(*wire.TransferRequest); ok && r.GetCommit() {
							time.Sleep(time.Second) // the new owner claims it meanwhile
							return errGone
						}
						return nil
					}
					w.before = func(_, _ string, req proto.Message) error {
						if r, ok := req.(*wire.TransferRequest); ok && r.GetMerge() {
							return errGone
						}
						return nil
					}
				})
			}
			err := w.house(0).home.HandOff(context.Background(), host, w.ids[1], true, "test")
			if (err != nil) != rest {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			if r, _, _ := w.house(0).home.Record(host); r.Owner != w.ids[1] {
				t.Fatalf("the owner is %s", r.Owner)
			}
			w.house(1).end()
			w.house(1).start()
			w.set(func() { w.before, w.after = nil, nil })
			time.Sleep(3 * time.Minute)
			w.is(host, 0, digestOf(links, nil))
		})
	}
}

// TestListsThatLackAHost names an owner's hosts to their home in lists, of which some lack a host, as one does whose end
// comes late. Only two of them in a row say that the owner has lost it.
func TestListsThatLackAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2, nil)
		host := w.hostOf(0, 1)
		if err := w.house(0).offer(pages(host, 0, 3)...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second) // its second copy is made
		home := w.house(0).home
		if err := home.HandOff(context.Background(), host, w.ids[1], true, "test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * w.cfg.RenewEvery)
		w.mu.Lock()
		v := w.viewOf(w.ids[0])
		w.mu.Unlock()
		for i, test := range []struct {
			named bool
			taken int
		}{{false, 0}, {true, 0}, {false, 0}, {true, 0}, {false, 0}, {false, 1}} {
			req := &wire.ClaimRequest{First: true, Last: true, Members: v.digest()}
			if test.named {
				req.Records = []*wire.Record{{Host: host, Epoch: 2, Owner: w.ids[1], Assigned: true}}
			}
			if _, err := home.Claim(context.Background(), w.ids[1], req); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if n := w.house(0).had(Took); n != test.taken {
				t.Fatalf("after list %d it is taken over %d times", i, n)
			}
		}
	})
}

// TestRestOfAHostThatWentOn brings a node back that had something left for the owner of a host, when that one has handed
// the host on long ago and has forgotten it. The home knows who owns it.
func TestRestOfAHostThatWentOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3, nil, 1)
		ctx := context.Background()
		host := w.hostOf(0, 1)
		links := pages(host, 0, 20)
		if err := w.house(0).offer(links...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second) // its second copy is made
		for _, assigned := range []bool{true, false, true, false} {
			if err := w.house(0).home.HandOff(ctx, host, w.ids[0], assigned, "test"); err != nil {
				t.Fatal(err) // its epoch grows
			}
		}
		rest := pages(host, 15, 30)
		h := w.house(1).home
		h.mu.Lock()
		err := h.put(Record{Host: host, Epoch: 3, Owner: w.ids[2], Assigned: true})
		h.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.house(1).Frontier.Remove(ctx, host); err != nil {
			t.Fatal(err)
		}
		if _, err := w.house(1).Frontier.Add(ctx, rest); err != nil {
			t.Fatal(err)
		}
		if err := w.house(1).Frontier.SetHold(ctx, host, frontier.Leaving); err != nil {
			t.Fatal(err)
		}
		w.house(1).end()
		w.house(1).start()
		time.Sleep(2 * w.cfg.SweepEvery)
		w.is(host, 0, digestOf(append(links, rest[5:]...), nil))
	})
}
