package ownership

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// sites returns n hosts of one domain, so that they have one home.
func sites(domain string, n int) (hosts []string) {
	for i := range n {
		hosts = append(hosts, strings.Replace(domain, "http://", fmt.Sprintf("http://s%04d.", i), 1))
	}
	return hosts
}

// Claims and comparisons of many hosts go in messages of bounded size. The first and the last claim of a list say that they are.
func TestMessagesOfManyHosts(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		time.Sleep(2 * s.cfg.Collect)
		own := s.node(1).own
		s.node(1).stop() // nothing else shall be said
		<-s.node(1).over
		for _, host := range sites(s.hostOf(2, 1, 3), 1001) {
			own.records.put(host, Record{Host: host, Epoch: 1, Owner: idOf(1)})
		}
		var said []string
		late, middle := "", sites(s.hostOf(2, 1, 3), 501)[500]
		s.watch(func(l letter) {
			if req, ok := l.req.(*wire.ClaimRequest); ok && l.from == 1 && len(req.GetRecords()) > 0 {
				if k := slices.Index([]string{"first", "last"}, late); k >= 0 && req.GetFirst() == (k == 0) {
					l.res.(*wire.ClaimResponse).Later = []string{"http://later.test"}
				}
				for i, handed := range req.GetHanded() {
					if handed != (req.GetRecords()[i].GetHost() < middle) {
						t.Errorf("%v was given, %v", req.GetRecords()[i], handed)
					}
				}
				said = append(said, fmt.Sprintf("%d%s%s", len(req.GetRecords()), mark(req.GetFirst(), " first"), mark(req.GetLast(), " last")))
			}
			if req, ok := l.req.(*wire.StoreRequest); ok && l.from == 1 && req.GetItems()[0].GetDigest() != nil {
				said = append(said, fmt.Sprintf("%d compared", len(req.GetItems())))
			}
		})
		if all, err := own.claimAll(s.t.Context(), idOf(2)); err != nil || !all {
			t.Errorf("the home knows all: %v, %v", all, err)
		}
		own.mu.Lock()
		clear(own.unconfirmed)
		for _, host := range sites(s.hostOf(2, 1, 3), 1001) {
			own.unconfirmed[host] = claimed{Record{Host: host, Epoch: 1, Owner: idOf(1)}, host < middle}
		}
		own.mu.Unlock()
		if err := own.confirm(s.t.Context(), idOf(2)); err != nil {
			t.Error(err)
		}
		own.mu.Lock()
		if left := len(own.unconfirmed); left != 1 {
			t.Errorf("%d hosts are not confirmed", left)
		}
		own.mu.Unlock()
		items := make(comparison)
		for _, host := range sites(s.hostOf(1, 2, 3), 201) {
			if err := own.compareLater(s.t.Context(), items, idOf(2), Record{Host: host, Epoch: 1, Owner: idOf(1)}); err != nil {
				t.Error(err)
			}
		}
		own.compareNow(s.t.Context(), items, idOf(2))
		if want := []string{"1000 first", "1 last", "1000", "200 compared", "1 compared"}; !slices.Equal(said, want) {
			t.Errorf("%q was said, not %q", said, want)
		}
		for _, late = range []string{"first", "last"} {
			if all, err := own.claimAll(s.t.Context(), idOf(2)); err != nil || all {
				t.Errorf("the %s message is put off, and the home knows all: %v", late, err)
			}
		}
	})
}

// Changes of many hosts go in messages of 5000 URLs or half a megabyte, each with one host at least.
func TestMessagesOfManyChanges(t *testing.T) {
	long := "/" + strings.Repeat("x", 200<<10)
	for what, c := range map[string]struct {
		chunk frontier.Chunk
		want  []int
	}{
		"URLs":      {frontier.Chunk{Pending: slices.Repeat([]frontier.PendingURL{{Path: "/p"}}, 1000)}, []int{5, 1}},
		"done URLs": {frontier.Chunk{Done: make([]uint64, 1000)}, []int{5, 1}},
		"pages":     {frontier.Chunk{Pages: slices.Repeat([]frontier.PageRecord{{Path: "/p", Seen: time.Unix(1e9, 0), Due: time.Unix(1e9, 0)}}, 1000)}, []int{5, 1}},
		"long URLs": {frontier.Chunk{Pending: []frontier.PendingURL{{Path: long}}}, []int{3, 3}},
		"too much":  {frontier.Chunk{Pending: slices.Repeat([]frontier.PendingURL{{Path: "/p"}}, 6000)}, []int{1, 1, 1, 1, 1, 1}},
	} {
		onStage(t, []int{1, 2, 3}, func(s *stage) {
			var said []int
			s.watch(func(l letter) {
				if req, ok := l.req.(*wire.StoreRequest); ok && l.from == 1 && req.GetItems()[0].GetChunk() != nil {
					said = append(said, len(req.GetItems()))
				}
			})
			var parcel []sending
			for _, host := range sites(s.hostOf(1, 2, 3), 6) {
				item := &wire.StoreItem{Record: Record{Host: host, Epoch: 1, Owner: idOf(1)}.wire(), Chunk: chunkToWire(c.chunk)}
				parcel = append(parcel, sending{host, &frontier.Change{}, item})
			}
			s.node(1).own.send(s.t.Context(), idOf(2), parcel)
			if !slices.Equal(said, c.want) {
				t.Errorf("%s: the messages were of %v hosts, want %v", what, said, c.want)
			}
		})
	}
}

// Lists that are being sent have room for a million hosts together. One that has no room is given up.
func TestListsAreBounded(t *testing.T) {
	c := newCensus(nil)
	c.lists["a"], c.lists["b"] = make(map[uint64]struct{}, 1<<20), map[uint64]struct{}{}
	for i := range uint64(1<<20 - 1) {
		c.lists["a"][i] = struct{}{}
	}
	for i, kept := range []bool{true, false} {
		c.list("b", fmt.Sprintf("http://h%d.test", i))
		if _, is := c.lists["b"]; is != kept {
			t.Errorf("host %d: the list is kept: %v", i, is)
		}
	}
	if c.list("c", "http://h.test"); len(c.lists) != 1 || len(c.lists["a"]) != 1<<20-1 {
		t.Error("a host counts of which no list is sent, or the list of another owner is given up")
	}
}

// A message about a change has all of it, and the digest that the replica must have then.
func TestMessageOfAChange(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, own := s.found(3, 1, 2, 3), s.node(1).own
		r, _, err := own.Record(host)
		if err != nil {
			t.Fatal(err)
		}
		for i, tracked := range []bool{true, false, true, false} {
			state, accepted := i < 2, map[bool]uint64{true: 9, false: 3}[tracked]
			item, err := own.storeItem(s.t.Context(), r, &frontier.Change{Added: []frontier.PendingURL{{Path: "/1"}}, Done: []uint64{2}, State: state,
				Pages: []frontier.PageRecord{{Path: "/3"}}, Tracked: tracked, Digest: frontier.Digest{Accepted: 9, Drops: 4}})
			if c := item.GetChunk(); err != nil || len(c.GetPending()) != 1 || len(c.GetDone()) != 8 || len(c.GetPages()) != 1 || c.GetDrops() != 4 ||
				(c.GetState() != nil) != state || item.GetDigest().GetAccepted() != accepted {
				t.Errorf("tracked, %v, with a state, %v: %v, %v", tracked, state, item, err)
			}
		}
	})
}

// A record is on disk soon after it has changed, whether or not another node hears of it, and when the node stops.
func TestRecordsAreWrittenSoon(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p := s.node(3)
		for i, host := range s.hostsOf(2, 1, 2, 3) {
			p.put(Record{Host: host, Epoch: 1, Owner: idOf(2)})
			if i == 0 {
				time.Sleep(2 * s.cfg.ReplicateEvery)
			} else {
				p.stop()
				<-p.over
			}
			if b, err := p.disk.Get([]byte(host)); err != nil || b == nil {
				t.Errorf("record %d is not on disk: %v", i, err)
			}
		}
	})
}
