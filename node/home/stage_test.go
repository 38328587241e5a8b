package home

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

// Nodes and hosts of the overlay in which messages are fuzzed.
const (
	fuzzSelf = "22222222222222222222222222222222"
	fuzzPeer = "11111111111111111111111111111111"
	fuzzNext = "33333333333333333333333333333333"
)

// stage is a Home at rest, that plays with fuzzed messages.
type stage struct {
	t     testing.TB
	home  *Home
	disk  *disk
	shelf *shelf
	hosts []string
	// answer is what every peer answers.
	answer func(res proto.Message)
}

func newStage(t testing.TB) *stage {
	s := &stage{t: t, disk: newDisk(), shelf: newShelf(), answer: func(proto.Message) {}}
	h, err := New(Default(), Deps{Frontier: s.disk, Peers: s, Outbox: &discard{}, Records: s.shelf,
		Admit: func(frontier.Link) string { return "" }, Warn: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	s.home = h
	close(h.ready)
	ids := []string{fuzzPeer, fuzzSelf, fuzzNext}
	if err := h.SetView(View{Self: fuzzSelf, Settled: ids, Alive: ids, Majority: true}); err != nil {
		t.Fatal(err)
	}
	h.horizon.born = h.horizon.born.Add(-time.Hour) // it has collected
	mine, theirs := s.hostsOf(fuzzSelf, 6), s.hostsOf(fuzzPeer, 5)
	add := func(host, owner string, hold frontier.Hold) {
		s.hosts = append(s.hosts, host)
		if owner == "" {
			return
		}
		if err := h.put(Record{Host: host, Epoch: 3, Owner: owner, Assigned: owner != fuzzSelf}); err != nil {
			t.Fatal(err)
		}
		d := s.disk.host(host)
		d.hold = hold
		for i := range 3 {
			l := link(host, i)
			d.pending[l.URL.Path] = frontier.PendingURL{Path: l.URL.Path}
		}
		d.done[hashOf(host, "/done")] = true
	}
	add(mine[0], fuzzSelf, frontier.Own)
	add(mine[1], fuzzSelf, frontier.Leaving)
	h.leaving[mine[1]] = fuzzNext
	add(mine[2], fuzzPeer, frontier.Backup)
	add(mine[3], fuzzNext, frontier.Backup)
	add(mine[4], "", 0)
	add(mine[5], fuzzPeer, frontier.Leaving)
	h.leaving[mine[5]] = fuzzPeer
	add(theirs[0], fuzzSelf, frontier.Own)
	add(theirs[1], fuzzPeer, frontier.Backup)
	add(theirs[2], "", 0)
	add(theirs[3], fuzzSelf, frontier.Leaving)
	h.leaving[theirs[3]] = fuzzPeer
	return s
}

// hostsOf finds hosts with a home.
func (s *stage) hostsOf(home string, n int) (hosts []string) {
	for i := 0; len(hosts) < n; i++ {
		if name := hostName(i); s.home.HomeOf(name) == home {
			hosts = append(hosts, name)
		}
	}
	return hosts
}

type discard struct{}

func (discard) Add(context.Context, string, []*wire.Link) error { return nil }

func (s *stage) Renew(_ context.Context, _ string, _ *wire.RenewRequest) (*wire.RenewResponse, error) {
	res := &wire.RenewResponse{}
	s.answer(res)
	return res, nil
}

func (s *stage) Claim(_ context.Context, _ string, _ *wire.ClaimRequest) (*wire.ClaimResponse, error) {
	res := &wire.ClaimResponse{}
	s.answer(res)
	return res, nil
}

func (s *stage) Transfer(_ context.Context, _ string, _ *wire.TransferRequest) (*wire.TransferResponse, error) {
	res := &wire.TransferResponse{}
	s.answer(res)
	return res, nil
}

func (s *stage) Backup(_ context.Context, _ string, _ *wire.BackupRequest) (*wire.BackupResponse, error) {
	res := &wire.BackupResponse{}
	s.answer(res)
	return res, nil
}

// known puts names of the stage for the short strings of a message: bytes at random would hit none. It returns the hosts
// that the message names.
func (s *stage) known(m proto.Message) map[string]bool {
	named := map[string]bool{}
	var walk func(m protoreflect.Message)
	walk = func(m protoreflect.Message) {
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			put := func(text string) string {
				switch name := f.Name(); {
				case text == "":
				case name == "host" || name == "later" || name == "contested":
					if len(text) < 4 {
						text = s.hosts[int(text[0])%len(s.hosts)]
					}
					named[text] = true
				case (name == "owner" || name == "to" || name == "home") && len(text) < 4:
					text = []string{fuzzSelf, fuzzPeer, fuzzNext}[int(text[0])%3]
				case name == "url" && len(text) < 4:
					text = s.hosts[int(text[0])%len(s.hosts)] + "/" + text[1:]
				}
				if name := f.Name(); name == "url" {
					if u, err := identity.Parse(text); err == nil {
						named[u.Host] = true
					}
				}
				return text
			}
			switch {
			case f.IsList() && f.Message() != nil:
				for i := range v.List().Len() {
					walk(v.List().Get(i).Message())
				}
			case f.IsList() && f.Kind() == protoreflect.StringKind:
				for i := range v.List().Len() {
					v.List().Set(i, protoreflect.ValueOfString(put(v.List().Get(i).String())))
				}
			case f.IsList() || f.IsMap():
			case f.Message() != nil:
				walk(v.Message())
			case f.Kind() == protoreflect.StringKind:
				m.Set(f, protoreflect.ValueOfString(put(v.String())))
			}
			return true
		})
	}
	walk(m.ProtoReflect())
	return named
}

// all are the records by what is on disk.
func (s *stage) all() map[string]Record {
	out := map[string]Record{}
	if err := s.home.records.each(func(r Record) error { out[r.Host] = r; return nil }); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// held are the URLs of hosts that this node owns or has not shipped yet, by host: nobody else has all of them.
func (s *stage) held() map[string]frontier.Digest {
	out := map[string]frontier.Digest{}
	for host, h := range s.disk.hosts {
		if h.hold == frontier.Own || h.hold == frontier.Leaving {
			out[host], _ = s.disk.DigestOf(context.Background(), host)
		}
	}
	return out
}

// check asserts what no message may change. may says whether a record may become another, by this message.
func (s *stage) check(before map[string]Record, held map[string]frontier.Digest, named map[string]bool, may func(old, now Record, had bool) bool) {
	s.t.Helper()
	after := s.all()
	for host, old := range before {
		if now, ok := after[host]; !ok {
			s.t.Errorf("the record %+v is gone", old)
		} else if old.Newer(now) {
			s.t.Errorf("%+v went back to %+v", old, now)
		}
	}
	for host, now := range after {
		old, had := before[host]
		switch {
		case now == old:
		case !named[host]:
			s.t.Errorf("%+v became %+v by a message about %v", old, now, slices.Sorted(maps.Keys(named)))
		case !may(old, now, had):
			s.t.Errorf("%+v became %+v", old, now)
		case now.Owner != fuzzSelf && s.home.leaving[host] == "" && s.disk.hosts[host] != nil && s.disk.hosts[host].hold == frontier.Own:
			s.t.Errorf("%+v became %+v, and nothing is shipped", old, now)
		}
	}
	for host, d := range held {
		if now, _ := s.disk.DigestOf(context.Background(), host); now.Accepted < d.Accepted || now.Done < d.Done {
			s.t.Errorf("%s had %+v and has %+v", host, d, now)
		}
	}
	// The tallies by which homes and owners see that they agree are those of the records.
	owned, lent := maps.Clone(s.home.fences.owned), maps.Clone(s.home.fences.lent)
	if err := s.home.recount(); err != nil {
		s.t.Fatal(err)
	}
	if !maps.Equal(owned, s.home.fences.owned) || !maps.Equal(lent, s.home.fences.lent) {
		s.t.Errorf("counted %v and %v, not %v and %v", owned, lent, s.home.fences.owned, s.home.fences.lent)
	}
	for host, users := range s.home.locks.users {
		s.t.Errorf("%s stays locked (%d)", host, users)
	}
}
