package quota

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/node/view"
	"proxima/node/wire"
)

// lone is a node whose disk and meter are the test's, as are the answers of the others.
type lone struct {
	mu           sync.Mutex // a test needs it only while Run runs
	disk         map[string][]byte
	full         bool
	writes       int
	pages, bytes int64
	wants        bool
	may, spare   int64
	ended        string
	warned       int
	view         view.View
	answer       func(to string, req *wire.QuotaRequest) *wire.QuotaResponse
}

func (l *lone) Spent() (pages, bytes int64, wants bool) {
	l.with(func() { pages, bytes, wants = l.pages, l.bytes, l.wants })
	return pages, bytes, wants
}
func (l *lone) Allow(pages int64)   { l.with(func() { l.may = pages }) }
func (l *lone) Withdraw() (n int64) { l.with(func() { n = l.spare }); return n }
func (l *lone) End(limit string)    { l.with(func() { l.ended = limit }) }
func (l *lone) sees() (v view.View) { l.with(func() { v = l.view }); return v }

func (l *lone) with(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// open begins a life of the node. Its earlier lives left an entry, if it is not nil, and ended in order or crashed.
func (l *lone) open(t *testing.T, limits Limits, left *wire.QuotaEntry, inOrder byte) *Shares {
	t.Helper()
	l.disk = map[string][]byte{}
	if left != nil {
		b, err := proto.Marshal(left)
		if err != nil {
			t.Fatal(err)
		}
		l.disk[keyMine] = append([]byte{form, inOrder}, b...)
	}
	q, err := New(limits, Deps{Meter: l, Read: func(key string) ([]byte, error) { return l.disk[key], nil },
		Keep: func(key string, value []byte) error {
			if l.full {
				return errors.New("no room")
			}
			l.disk[key] = value
			l.writes++
			return nil
		},
		Ask: func(_ context.Context, to string, req *wire.QuotaRequest) (*wire.QuotaResponse, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.answer(to, req), nil
		},
		View: l.sees, Warn: func(error) { l.warned++ }})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// A limit is reached with its last page, byte and second. What was granted to a dead node counts as done.
func TestWhenALimitIsReached(t *testing.T) {
	limits := Limits{MaxPages: 10, MaxBytes: 20, MaxTime: time.Second}
	for _, c := range []struct {
		alive, dead *wire.QuotaEntry
		want        string
	}{
		{&wire.QuotaEntry{Done: 9, Granted: 10, Bytes: 19, ElapsedMs: 999}, nil, ""},
		{&wire.QuotaEntry{Done: 10}, nil, "max_pages"},
		{&wire.QuotaEntry{Bytes: 20}, nil, "max_bytes"},
		{&wire.QuotaEntry{ElapsedMs: 1000}, nil, "max_time"},
		{&wire.QuotaEntry{Bytes: 19, ElapsedMs: 600}, &wire.QuotaEntry{Bytes: 1, ElapsedMs: 600}, "max_bytes"},
		{&wire.QuotaEntry{ElapsedMs: 600}, &wire.QuotaEntry{ElapsedMs: 600}, ""}, // they work at the same time
		{&wire.QuotaEntry{Done: 4}, &wire.QuotaEntry{Done: 1, Granted: 8, GivenBack: 2}, "max_pages"},
		{&wire.QuotaEntry{Done: 4}, &wire.QuotaEntry{Done: 1, Granted: 8, GivenBack: 3}, ""},
		{&wire.QuotaEntry{Done: 4}, &wire.QuotaEntry{Done: 6, Granted: 6, GivenBack: 1}, "max_pages"},
	} {
		k := &keeper{entries: map[string]*wire.QuotaEntry{"a": c.alive, "b": c.dead}}
		if got := k.reached(limits, view.View{Alive: []string{"a"}}); got != c.want {
			t.Errorf("%v and the dead %v reach %q, not %q", c.alive, c.dead, got, c.want)
		}
	}
}

// A node that wants pages and is alive gets twice what it has used since its last grant and 32 more, but no more than 1000. All together get half of
// what is left.
func TestWhatIsGranted(t *testing.T) {
	for _, c := range []struct {
		what      string
		limit     int64
		had, done uint64 // of a, since its last grant
		hungry    string // of a and b
		alive     []string
		a, b      uint64
	}{
		{"the first", 1000, 0, 0, "a", []string{"a", "b"}, 32, 0},
		{"what it has used twice", 10_000, 100, 90, "a", []string{"a", "b"}, 212, 0},
		{"no more than 1000", 10_000, 900, 900, "a", []string{"a", "b"}, 1000, 0},
		{"a half for two", 100, 0, 0, "ab", []string{"a", "b"}, 25, 25},
		{"a half for one", 40, 0, 0, "a", []string{"a", "b"}, 20, 0},
		{"nothing for the dead", 40, 0, 0, "ab", []string{"a"}, 20, 0},
		{"the last page", 1, 0, 0, "ab", []string{"a", "b"}, 1, 0},
		{"nothing is left", 10, 10, 10, "ab", []string{"a", "b"}, 0, 0},
	} {
		k := &keeper{entries: map[string]*wire.QuotaEntry{}, hungry: map[string]bool{}, given: map[string]uint64{}}
		k.report("a", &wire.QuotaEntry{Granted: c.had, Done: c.done}, false)
		k.report("b", &wire.QuotaEntry{}, false)
		for _, id := range c.hungry {
			k.hungry[string(id)] = true
		}
		for range 2 { // once
			k.grant(Limits{MaxPages: c.limit}, view.View{Alive: c.alive})
			if a, b := k.entries["a"].GetGranted()-c.had, k.entries["b"].GetGranted(); a != c.a || b != c.b {
				t.Errorf("%s: granted are %d and %d, not %d and %d", c.what, a, b, c.a, c.b)
			}
		}
		if c.a > 0 && k.given["a"] != c.done {
			t.Errorf("%s: the next grant counts from %d pages", c.what, k.given["a"])
		}
	}
}

// A node that asks again because it has not heard of its last grant gets no other one, neither from this keeper nor from the next: all of them
// would be lost if it crashed.
func TestOneGrantAtATime(t *testing.T) {
	book, v := &wire.QuotaBook{}, view.View{Alive: []string{"a"}}
	for range 3 {
		k := &keeper{entries: entries(book), hungry: map[string]bool{}, given: map[string]uint64{}}
		for range 3 {
			k.report("a", &wire.QuotaEntry{Granted: 600, Done: 600}, true)
			if k.grant(Limits{MaxPages: 10_000}, v); k.entries["a"].GetGranted() != 1600 {
				t.Errorf("%d pages are granted, of which the node knows 600", k.entries["a"].GetGranted())
			}
		}
		book.Entries = []*wire.QuotaEntry{k.entries["a"]}
		if k.report("a", &wire.QuotaEntry{Granted: 1600, Done: 1590}, true); !k.hungry["a"] {
			t.Error("it has heard of its grant, and gets no other")
		}
	}
}

// A new keeper goes on with the book of the highest epoch, even if that of an earlier keeper, which not all have stored, was written more often.
func TestNewestBook(t *testing.T) {
	books := map[string]*wire.QuotaBook{"b": {Epoch: 1, Version: 9}, "c": {Epoch: 2, Version: 5, Entries: []*wire.QuotaEntry{{Owner: "b", Granted: 7}}}}
	var promised uint64 // by those that say no
	l := &lone{answer: func(to string, _ *wire.QuotaRequest) *wire.QuotaResponse {
		return &wire.QuotaResponse{Ok: promised == 0, Epoch: promised, Book: books[to]}
	}}
	q := l.open(t, Limits{MaxPages: 10}, nil, 0)
	ids := []string{"a", "b", "c"}
	v := view.View{Self: "a", Alive: ids, Settled: ids, Majority: true}
	k, err := q.takeOver(t.Context(), v)
	if err != nil || k.version != 5 || k.out() != 7 {
		t.Fatalf("%+v, %v", k, err)
	}
	promised = 50
	if _, err := q.takeOver(t.Context(), v); err == nil || q.promised != promised {
		t.Errorf("the next epoch is above %d, not above that of the others: %v", q.promised, err)
	}
	// It is woken by a node that wants pages. Before all have stored its book it tells nobody what is granted.
	q.keeper = k
	for _, wants := range []bool{false, true} {
		if wants {
			k.stored = books["c"]
		}
		res, err := q.reported("b", &wire.QuotaRequest{Report: &wire.QuotaEntry{}, Wants: wants})
		if err != nil || res.GetOk() != wants || wants && res.GetEntry().GetGranted() != 7 {
			t.Errorf("its book is stored: %v; it answers %v, %v", wants, res, err)
		}
		if woken := len(q.wake) > 0; woken != wants {
			t.Errorf("b wants pages: %v; the keeper is woken: %v", wants, woken)
		}
	}
}

// What a life does comes on top of what earlier lives did.
func TestLivesAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lone{pages: 3, bytes: 30}
		q := l.open(t, Limits{MaxPages: 100}, &wire.QuotaEntry{Granted: 50, Done: 10, Bytes: 100, ElapsedMs: 5000}, 1)
		for range 2 {
			time.Sleep(time.Second)
			q.spent()
		}
		if e := q.entry(); e.GetDone() != 13 || e.GetBytes() != 130 || e.GetElapsedMs() != 7000 {
			t.Errorf("they have done %v", e)
		}
		q = l.open(t, Limits{MaxBytes: 100}, nil, 0)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if q.Leave(ctx); time.Since(began) > 0 {
			t.Error("without a limit of pages a node that leaves waits")
		}
	})
}

// A node uses a grant once that is on disk. After a crash it uses what is granted from then on.
func TestGrantsThatAreUsed(t *testing.T) {
	l := &lone{full: true}
	q := l.open(t, Limits{MaxPages: 1000}, nil, 0)
	for _, want := range []int64{0, 0, 10, 10} {
		l.full = want == 0
		if q.take(&wire.QuotaEntry{Granted: 10}, false); l.may != want {
			t.Errorf("its disk is full, %v: it may ask for %d pages", l.full, l.may)
		}
	}
	if q.take(&wire.QuotaEntry{Granted: 5}, false); l.writes != 1 || q.entry().GetGranted() != 10 {
		t.Errorf("%d grants were written, and it remembers %d pages", l.writes, q.entry().GetGranted())
	}
	l = &lone{}
	q = l.open(t, Limits{MaxPages: 1000}, &wire.QuotaEntry{Granted: 100, Done: 10}, 0)
	for granted, want := range []int64{0, 50, 100} {
		if q.take(&wire.QuotaEntry{Granted: 100 + 50*uint64(granted), Done: 100}, false); l.may != want {
			t.Errorf("after a crash it may ask for %d pages, not %d", l.may, want)
		}
	}
}

// The keeper knows of pages, bytes and time of earlier lives that an older disk does not. They count, and may have those of this life.
func TestWhatTheKeeperRemembers(t *testing.T) {
	old := &wire.QuotaEntry{Granted: 100, Done: 40, GivenBack: 3, Bytes: 400, ElapsedMs: 4000}
	for _, c := range []struct {
		said        *wire.QuotaEntry
		may         int64
		done, bytes uint64
		ms          int64
	}{
		{&wire.QuotaEntry{Granted: 100, Done: 40, GivenBack: 3, Bytes: 400, ElapsedMs: 4000}, 100 - 3 - 4 - 40, 40, 430, 5000},
		{&wire.QuotaEntry{Granted: 100, Done: 41, GivenBack: 3, Bytes: 500, ElapsedMs: 6000}, 0, 97, 500, 6000},
		{&wire.QuotaEntry{Granted: 100, Done: 40, GivenBack: 5, Bytes: 400, ElapsedMs: 4000}, 0, 95, 430, 5000},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &lone{spare: 4, bytes: 30}
			q := l.open(t, Limits{MaxPages: 1000}, old, 1)
			time.Sleep(time.Second)
			q.spent()
			q.take(c.said, true)
			q.spent()
			if e := q.entry(); l.may != c.may || e.GetDone() != c.done || e.GetBytes() != c.bytes || e.GetElapsedMs() != c.ms || e.GetGivenBack() != max(3, c.said.GetGivenBack())+4 {
				t.Errorf("told %v it may ask for %d pages, and knows %v", c.said, l.may, e)
			}
		})
	}
}

// A node that leaves waits until the book has for three rounds what it gave back.
func TestLeavingWaitsForTheBook(t *testing.T) {
	l := &lone{spare: 4}
	q := l.open(t, Limits{MaxPages: 100}, nil, 0)
	q.leaving.Store(true)
	q.take(&wire.QuotaEntry{Granted: 10}, true)
	l.spare = 0
	for round, e := range []*wire.QuotaEntry{{Granted: 10}, {Granted: 10}, {Granted: 10}, {Granted: 10}, {Granted: 10, GivenBack: 4}, {Granted: 10, GivenBack: 4},
		{Granted: 10, GivenBack: 4}} {
		if q.take(e, true); len(q.left) > 0 != (round == 6) {
			t.Errorf("after round %d it has left: %v", round, round != 6)
		}
	}
}

// The others hear of the end before the keeper ends, also when no page was asked for since the last book.
func TestKeeperEndsLast(t *testing.T) {
	l, books := &lone{}, 0
	l.answer = func(_ string, req *wire.QuotaRequest) *wire.QuotaResponse {
		if books += int(min(1, req.GetBook().GetVersion())); l.ended != "" {
			t.Error("it ends before the others have heard of it")
		}
		return &wire.QuotaResponse{Ok: true}
	}
	q, ids := l.open(t, Limits{MaxBytes: 100}, nil, 0), []string{"a", "b"}
	for round, bytes := range []int64{50, 99, 100} {
		l.bytes = bytes
		q.spent()
		err := q.lead(t.Context(), view.View{Self: "a", Version: 7, Alive: ids, Settled: ids, Majority: true}, false)
		if ends := round == 2; err != nil || (l.ended == "max_bytes") != ends || books != 1+round/2 {
			t.Errorf("round %d: it has ended by %q, and sent %d books, %v", round, l.ended, books, err)
		}
	}
}

// A node wants pages only after it has heard what was granted to earlier lives, ends if the others have reached the limit and it wants more, and
// writes what it has done when it stops.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []bool
		l := &lone{wants: true, view: view.View{Self: "a", Alive: []string{"a", "b"}, Settled: []string{"b"}, Majority: true}}
		l.answer = func(_ string, req *wire.QuotaRequest) *wire.QuotaResponse {
			asked = append(asked, req.GetWants())
			return &wire.QuotaResponse{Ok: true, Entry: &wire.QuotaEntry{Granted: 10}}
		}
		q := l.open(t, Limits{MaxPages: 100}, nil, 0)
		q.keeper = &keeper{} // another node is drawn now
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- q.Run(ctx) }()
		time.Sleep(2*hungryEvery + hungryEvery/2)
		l.with(func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			if len(asked) != 2 || asked[0] || !asked[1] || q.keeper != nil {
				t.Errorf("it asked for pages: %v; it keeps the book: %v", asked, q.keeper != nil)
			}
		})
		for _, over := range [][]string{nil, {"b"}} { // the last wish may be under way
			l.with(func() { l.wants, l.view.Over = false, over })
			time.Sleep(3 * reportEvery)
		}
		for _, wants := range []bool{false, true} {
			l.with(func() { l.wants = wants })
			time.Sleep(3 * reportEvery)
			l.with(func() {
				if (l.ended == "max_pages") != wants {
					t.Errorf("it wants pages: %v; it has ended by %q", wants, l.ended)
				}
			})
		}
		l.with(func() { l.pages = 7 })
		stop()
		var mine wire.QuotaEntry
		if err := errors.Join(<-over, parse(l.disk[keyMine], 2, &mine)); err != nil || l.disk[keyMine][1] != 1 || mine.GetDone() != 7 {
			t.Errorf("at the end there is written %v, %v", l.disk[keyMine], err)
		}
	})
}

// When nothing is left a node that needs no pages gives its own back. One that leaves always does.
func TestWhoGivesBack(t *testing.T) {
	for _, c := range []struct{ scarce, wants, leaving, gives bool }{
		{false, false, false, false}, {true, false, false, true}, {true, true, false, false}, {false, true, true, true}, {true, true, true, true},
	} {
		l := &lone{spare: 4, answer: func(string, *wire.QuotaRequest) *wire.QuotaResponse {
			return &wire.QuotaResponse{Ok: true, Scarce: c.scarce, Entry: &wire.QuotaEntry{Granted: 10}}
		}}
		q := l.open(t, Limits{MaxPages: 100}, nil, 0)
		q.leaving.Store(c.leaving)
		if err := q.report(t.Context(), "b", c.wants); err != nil || q.entry().GetGivenBack() > 0 != c.gives {
			t.Errorf("%+v: it gives back %d pages, %v", c, q.entry().GetGivenBack(), err)
		}
	}
}

// A hindrance is shown after ten seconds. A node that wants pages warns of it once, after thirty.
func TestWhenAHindranceIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, trouble := &lone{}, errors.New("trouble")
		q := l.open(t, Limits{MaxPages: 100}, nil, 0)
		for _, c := range []struct {
			after time.Duration
			why   error
			wants bool
			shown bool
			told  int
		}{
			{0, trouble, true, false, 0}, {10*time.Second - 1, trouble, true, false, 0}, {1, trouble, true, true, 0}, {20*time.Second - 1, trouble, true, true, 0},
			{1, trouble, false, true, 0}, {0, trouble, true, true, 1}, {time.Hour, trouble, true, true, 1},
			{time.Second, nil, true, false, 1}, {time.Hour, trouble, true, false, 1}, {time.Minute, trouble, true, true, 2},
		} {
			time.Sleep(c.after)
			q.hinder(c.why)
			if q.tell(c.wants); (q.Why() != "") != c.shown || l.warned != c.told {
				t.Errorf("%+v: it is shown %q, and was told %d times", c, q.Why(), l.warned)
			}
		}
	})
}

// A file that is damaged, or of another version, is no book.
func TestDamagedFiles(t *testing.T) {
	for key, values := range map[string][][]byte{keyMine: {{form}, {form + 1, 1}, {form, 1, 0xff}}, keyBook: {{form + 1}, {form, 0xff}}} {
		for _, value := range values {
			_, err := New(Limits{}, Deps{Read: func(k string) ([]byte, error) { return map[string][]byte{key: value}[k], nil }})
			if !errors.Is(err, ErrForm) {
				t.Errorf("%s of %v: %v", key, value, err)
			}
		}
	}
}
