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
		p, own, ctx := s.node(1), s.node(1).own, s.t.Context()
		p.halt() // nothing else shall be said
		owned := sites(s.hostOf(2, 1, 3), 1001)
		for _, host := range owned {
			own.records.put(host, rec(host, 1, 1))
		}
		var said []string
		var begun uint64
		late := ""
		s.watch(func(l letter) {
			switch req := l.req.(type) {
			case *wire.ClaimRequest:
				kind := mark(req.GetFirst(), "first") + mark(req.GetLast(), "last")
				if v := own.view(); req.GetFirst() { // the members change during the list
					begun, v.Settled = v.Digest(), v.Settled[:2]
					p.with(func() { own.views.Set(v, time.Now()) })
				} else if req.GetLast() && req.GetMembers() != begun {
					t.Error("the list does not name the members for which it was made")
				}
				if late != "" && late == kind {
					l.res.(*wire.ClaimResponse).Later = []string{"http://later.test"}
				}
				for i, handed := range req.GetHanded() {
					if handed != (req.GetRecords()[i].GetHost() < owned[500]) {
						t.Errorf("%v was given, %v", req.GetRecords()[i], handed)
					}
				}
				said = append(said, fmt.Sprint(len(req.GetRecords()), " ", kind))
			case *wire.StoreRequest:
				said = append(said, fmt.Sprintf("%d compared", len(req.GetItems())))
			}
		})
		if all, err := own.claimAll(ctx, idOf(2)); err != nil || !all {
			t.Errorf("the home knows all: %v, %v", all, err)
		}
		p.with(func() {
			clear(own.unconfirmed)
			for _, host := range owned {
				own.unconfirmed[host] = claimed{rec(host, 1, 1), host < owned[500]}
			}
		})
		if err := own.confirm(ctx, idOf(2)); err != nil || len(own.unconfirmed) != 1 {
			t.Errorf("%d hosts are not confirmed, %v", len(own.unconfirmed), err)
		}
		items := make(comparison)
		for _, host := range sites(s.hostOf(1, 2, 3), 201) {
			if err := own.compareLater(ctx, items, idOf(2), rec(host, 1, 1)); err != nil {
				t.Error(err)
			}
		}
		own.compareNow(ctx, items, idOf(2))
		if want := []string{"1000 first", "1 last", "1000 ", "200 compared", "1 compared"}; !slices.Equal(said, want) {
			t.Errorf("%q was said, not %q", said, want)
		}
		for _, late = range []string{"first", "last"} {
			if all, err := own.claimAll(ctx, idOf(2)); err != nil || all {
				t.Errorf("the %s message is put off, and the home knows all: %v", late, err)
			}
		}
	})
}

// Changes of many hosts go in messages of 5000 URLs or half a megabyte, each with one host at least.
func TestMessagesOfManyChanges(t *testing.T) {
	long, page := "/"+strings.Repeat("x", 200<<10), frontier.PageRecord{Path: "/p", Seen: time.Unix(1e9, 0), Due: time.Unix(1e9, 0)}
	for what, c := range map[string]struct {
		chunk frontier.Chunk
		want  []int
	}{
		"URLs":      {frontier.Chunk{Pending: slices.Repeat([]frontier.PendingURL{{Path: "/p"}}, 1000)}, []int{5, 1}},
		"done URLs": {frontier.Chunk{Done: make([]uint64, 1000)}, []int{5, 1}},
		"pages":     {frontier.Chunk{Pages: slices.Repeat([]frontier.PageRecord{page}, 1000)}, []int{5, 1}},
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
				parcel = append(parcel, sending{host, &frontier.Change{}, &wire.StoreItem{Record: rec(host, 1, 1).wire(), Chunk: chunkToWire(c.chunk)}})
			}
			s.node(1).own.send(s.t.Context(), idOf(2), parcel)
			if !slices.Equal(said, c.want) {
				t.Errorf("%s: the messages were of %v hosts, want %v", what, said, c.want)
			}
		})
	}
}

// A message about a change has all of it, and the digest that the replica must have then.
func TestMessageOfAChange(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		r, own := s.node(1).record(s.found(3, 1, 2, 3)), s.node(1).own
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
			p.put(rec(host, 1, 2))
			if i == 0 {
				time.Sleep(2 * s.cfg.ReplicateEvery)
			} else {
				p.halt()
			}
			if b, err := p.disk.Get([]byte(host)); err != nil || b == nil {
				t.Errorf("record %d is not on disk: %v", i, err)
			}
		}
	})
}
