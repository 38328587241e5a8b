package ownership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/view"
)

// hookedShelf calls a function at the end of a read, and one at the beginning of a write.
type hookedShelf struct {
	*disk
	afterGet, beforeBatch func()
}

func (s *hookedShelf) Get(key []byte) ([]byte, error) {
	value, err := s.disk.Get(key)
	s.afterGet()
	return value, err
}

func (s *hookedShelf) Batch(fill func(put func(key, value []byte), remove func(key []byte))) error {
	s.beforeBatch()
	return s.disk.Batch(fill)
}

// A record that changes while it is written is written again. Until then it is known, also if the cache has no room for it.
func TestRecordThatChangesWhileItIsWritten(t *testing.T) {
	r, other := rec("http://a.test", 1, 1), rec("http://b.test", 1, 1)
	s := &hookedShelf{disk: newDisk(&names{})}
	records := newRecords(s, 1)
	records.put(r.Host, r)
	r.Epoch = 2
	s.beforeBatch = func() {
		if len(records.flushing) == 0 {
			t.Error("another flush may write at the same time, and newer records reach the disk first")
		}
		records.put(r.Host, r)
		records.put(other.Host, other)
		s.beforeBatch = func() {}
	}
	err := records.flush()
	if got, loaded := records.peek(r.Host); got != r || !loaded || err != nil {
		t.Errorf("known is %+v, %v, %v", got, loaded, err)
	}
	if err := records.flush(); err != nil || s.now.shelf[r.Host] != string(r.encode()) {
		t.Errorf("on disk is %q, %v", s.now.shelf[r.Host], err)
	}
}

// While a record is read from disk, it changes, is written, and leaves the cache. The old value does not come back.
func TestRecordThatChangesWhileItIsRead(t *testing.T) {
	r := rec("http://a.test", 1, 1)
	s := &hookedShelf{disk: newDisk(&names{}), afterGet: func() {}, beforeBatch: func() {}}
	records := newRecords(s, 8)
	store := func(r Record) {
		records.put(r.Host, r)
		if err := records.flush(); err != nil {
			t.Fatal(err)
		}
	}
	storeAndEvict := func() {
		store(r)
		for i := 0; records.cache.Contains(r.Host); i++ {
			store(rec(fmt.Sprintf("http://h%d.test", i), 1, 1))
		}
	}
	storeAndEvict()
	s.afterGet = func() {
		s.afterGet = func() {}
		r.Epoch = 2
		storeAndEvict()
	}
	if got, err := records.get(r.Host); got != r || err != nil {
		t.Errorf("read is %+v, %v", got, err)
	}
	storeAndEvict()
	s.afterGet = func() {
		s.afterGet = func() {}
		r.Epoch = 3
		records.put(r.Host, r) // it is written later
	}
	for range 2 {
		if got, err := records.get(r.Host); got != r || err != nil {
			t.Errorf("read is %+v, %v", got, err)
		}
		store(rec("http://other.test", 1, 1))
	}
}

// A record that changes during a count is counted once, whether the count has come to it or not.
func TestRecordsThatChangeWhileAllAreCounted(t *testing.T) {
	v := &view.View{Self: "n1", Settled: []string{"n2"}}
	a, z := Record{Host: "http://a.example", Epoch: 1, Owner: "n1"}, Record{Host: "http://z.example", Epoch: 1, Owner: "n1"}
	tallies := newTallies()
	tallies.count(v, a, true)
	tallies.cursor = a.Host
	for range 2 {
		for _, r := range []*Record{&a, &z} {
			again := *r
			again.Epoch++
			tallies.replace(r.Host, v, *r, again)
			*r = again
		}
	}
	m := Record{Host: "http://m.example", Epoch: 1, Owner: "n1"}
	tallies.take(v, []Record{a, m, z})
	if got := tallies.byHome["n2"]; got.count != 3 || got.digest != a.hash()^m.hash()^z.hash() {
		t.Errorf("%+v", got)
	}
}

// Records that are not on disk yet are counted with the others, each once, while some of them change.
func TestCountOfRecordsThatAreNotOnDisk(t *testing.T) {
	v := &view.View{Self: idOf(1), Settled: []string{"n2"}}
	records, tallies := newRecords(newDisk(&names{}), 10), newTallies()
	var want tally
	put := func(i int, epoch uint64) {
		r := Record{Host: fmt.Sprintf("http://h%04d.example", i), Epoch: epoch, Owner: idOf(1)}
		old, _ := records.get(r.Host)
		want.digest ^= r.hash()
		if old.Owner == "" {
			want.count++
		} else {
			want.digest ^= old.hash()
		}
		records.put(r.Host, r)
		if tallies.cursor != "" {
			tallies.replace(r.Host, v, old, r)
		}
	}
	for i := range 3000 {
		put(2*i, 1)
	}
	if err := records.flush(); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 8000; i += 7 {
		put(i, 2)
	}
	epoch := uint64(2)
	err := records.pages(func(page []Record) error {
		tallies.take(v, page)
		epoch++
		for _, i := range []int{3, 3500, 7000, 7001} {
			put(i, epoch)
		}
		return nil
	})
	if got := tallies.byHome["n2"]; got != want || err != nil {
		t.Errorf("counted are %+v, not %+v; %v", got, want, err)
	}
}

// While all records are counted nobody waits for the disk: the lock that downloads need is free whenever records are read.
func TestCountHoldsNobodyUp(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, reads := s.node(1), 0
		p.halt() // nothing else takes the lock
		for _, host := range s.hostsOf(3, 1, 2, 3) {
			p.put(rec(host, 1, 2))
		}
		p.fail(&fault{before: func(call string) {
			if call != "ScanAfter" {
				return
			}
			if reads++; !p.own.mu.TryLock() {
				t.Error("the lock is held while records are read")
				return
			}
			p.own.mu.Unlock()
		}})
		v := p.own.view()
		v.Settled = v.Settled[:2]
		p.own.SetView(v)
		ctx, cancel := context.WithCancel(s.t.Context())
		over := make(chan error, 1)
		go func() { over <- p.own.runRecounts(ctx) }()
		synctest.Wait()
		if cancel(); <-over != nil || reads == 0 || p.own.tallies.counting || p.own.tallies.byOwner[idOf(2)].count != 3 {
			t.Errorf("after %d reads it has counted %+v", reads, p.own.tallies)
		}
	})
}

// addLater does not change when a host is due that is queued already. Hosts come in the order in which they are due.
func TestAddLaterKeepsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://a.example"
		q := newQueue()
		in := func(minutes int) time.Time { return time.Now().Add(time.Duration(minutes) * time.Minute) }
		q.addLater(host, in(1))
		q.addLater(host, in(60))
		time.Sleep(time.Minute - 1)
		if it := q.take(); it != nil {
			t.Errorf("%+v is due too soon", it)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		it := q.take()
		q.addLater(host, in(60))
		if q.finish(it, time.Time{}); len(q.items) > 0 {
			t.Error("a host comes again because it was to be looked at later anyway")
		}
		for i, name := range []string{"a", "b", "c", "d"} {
			q.addLater(name, in(9-i))
		}
		q.add("a", false)
		time.Sleep(time.Hour)
		for _, want := range []string{"a", "d", "c", "b"} {
			if it := q.take(); it == nil || it.host != want {
				t.Errorf("%+v comes before %s", it, want)
			}
		}
		if it := q.take(); it != nil {
			t.Errorf("%+v comes again", it)
		}
	})
}

// The crawl goes on while one host of several is urgent. A host that was added while it was looked at comes as one that has not failed.
func TestUrgentHosts(t *testing.T) {
	q := newQueue()
	q.add("http://calm.example", false)
	calm := q.take()
	for _, host := range []string{"http://a.example", "http://b.example"} {
		q.add(host, true)
	}
	q.finish(calm, time.Time{})
	for left := range 3 {
		it := q.take()
		it.tries = 7
		if left == 0 {
			q.add(it.host, false)
		}
		if q.finish(it, time.Time{}); it.tries == 0 != (left == 0) || q.anyUrgent() != (left < 2) {
			t.Errorf("after %d looks it has failed %d times, and some are urgent: %v", left+1, it.tries, q.anyUrgent())
		}
	}
}

// A host whose step has failed rests, unless it becomes urgent. The end of a rest does not end the next one.
func TestUrgencyEndsARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://a.example"
		q := newQueue()
		q.add(host, false)
		it := q.take()
		it.tries = 1
		q.finish(it, time.Now().Add(time.Minute))
		for _, urgent := range []bool{false, true} {
			q.add(host, urgent)
			if it := q.take(); (it != nil) != urgent {
				t.Errorf("urgent %v: %+v", urgent, it)
			}
		}
		time.Sleep(30 * time.Second)
		q.finish(it, time.Now().Add(time.Minute))
		for _, rested := range []bool{false, true} {
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if it := q.take(); (it != nil) != rested {
				t.Errorf("rested %v: %+v", rested, it)
			}
		}
	})
}

// A node that stops looks at no further host, however many are ready.
func TestNoHostIsLookedAtAfterTheEnd(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	q := newQueue()
	q.add("http://a.example", true)
	if it := q.wait(ctx); it != nil {
		t.Errorf("%s is looked at", it.host)
	}
}

// Hosts that are added at one moment are looked at in parallel.
func TestHostsOfOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, taken := newQueue(), make(chan *item, 2)
		for range 2 {
			go func() { taken <- q.wait(t.Context()) }()
		}
		synctest.Wait()
		q.mu.Lock()
		for _, host := range []string{"http://a.example", "http://b.example"} {
			q.items[host] = &item{host: host}
			q.ready = append(q.ready, q.items[host])
		}
		q.mu.Unlock()
		q.wake.Ring() // both adds ring, and whoever waits is woken once
		if synctest.Wait(); len(taken) != 2 {
			t.Errorf("%d of 2 hosts are looked at", len(taken))
		}
	})
}

// All records are visited, in pages, each once and as it is now, and without a write. An error of the visitor or of the disk ends the visit.
func TestAllRecordsAreVisited(t *testing.T) {
	disk := newDisk(&names{})
	records := newRecords(disk, 10)
	host := func(i int) string { return fmt.Sprintf("http://h%04d.test", i) }
	set := func(from, to int, epoch uint64) {
		for i := from; i < to; i++ {
			records.put(host(i), rec(host(i), epoch, 1))
		}
	}
	set(0, 2001, 1)
	if err := records.flush(); err != nil {
		t.Fatal(err)
	}
	disk.fault = &fault{call: "Batch", n: 1} // no write is needed: the disk may be full
	set(500, 2501, 2)
	records.put(host(0), Record{})
	var pages []int
	last, seen := "", map[string]uint64{}
	if err := records.pages(func(page []Record) error {
		pages = append(pages, len(page))
		for _, r := range page {
			if r.Host <= last {
				t.Errorf("%s comes after %s", r.Host, last)
			}
			last, seen[r.Host] = r.Host, r.Epoch
		}
		return nil
	}); err != nil || !slices.Equal(pages, []int{1000, 1000, 500}) {
		t.Errorf("pages of %v records, %v", pages, err)
	}
	for i := range 2501 {
		want := uint64(1)
		if i >= 500 {
			want = 2
		} else if i == 0 {
			want = 0
		}
		if seen[host(i)] != want {
			t.Errorf("%s comes with epoch %d, not %d", host(i), seen[host(i)], want)
		}
	}
	visited := 0
	enough := errors.New("enough of it")
	for _, most := range []int{1, 1500, 2400} {
		if visited = 0; !errors.Is(records.visit(func(Record) error {
			if visited++; visited == most {
				return enough
			}
			return nil
		}), enough) || visited != most {
			t.Errorf("it ended after %d, not %d", visited, most)
		}
	}
	disk.fault = &fault{call: "ScanAfter", n: 1}
	if err := records.visit(func(Record) error { return nil }); !errors.Is(err, errFault) {
		t.Errorf("the disk fails: %v", err)
	}
	if err := records.flush(); err != nil || disk.now.shelf[host(0)] != "" {
		t.Errorf("a record that was removed is on disk: %v", err)
	}
}

// Records are read by later releases, and while nodes are replaced one by one, two releases compare digests of what they have. So the bytes
// of a record change only together with a version.
func TestRecordsStay(t *testing.T) {
	r := Record{Host: "http://a.test", Epoch: 300, Owner: idOf(7), Assigned: true}
	if got := string(r.encode()); got != "\x01\xac\x02\x01"+r.Owner { // version, epoch, flags, owner
		t.Errorf("on disk it is %q", got)
	}
	if got := r.hash(); got != 0xe5da8b2492c82cc5 {
		t.Errorf("it adds %#x to a digest", got)
	}
}
