package home

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"proxima/frontier"
	"proxima/node/wire"
)

// Whatever stands on the shelf, decoding ends; what it accepts is written and read back the same.
func FuzzRecord(f *testing.F) {
	for _, r := range []Record{{Host: "http://a.example", Epoch: 1, Owner: strings.Repeat("a", idLength)},
		{Host: "https://b.example", Epoch: 1 << 63, Owner: strings.Repeat("0", idLength), Assigned: true}} {
		f.Add(r.Host, appendRecord(nil, r))
	}
	f.Add("http://a.example", []byte{})
	f.Add("http://a.example", append([]byte{2, 1, 0}, strings.Repeat("a", idLength)...))
	f.Add("http://a.example", append([]byte{1, 1, 2}, strings.Repeat("a", idLength)...))
	f.Fuzz(func(t *testing.T, host string, b []byte) {
		r, err := decodeRecord(host, b)
		if err != nil {
			return
		}
		if b[0] != recordVersion || len(r.Owner) != idLength || r.Host != host {
			t.Fatalf("%x is read as %+v", b, r)
		}
		if again, err := decodeRecord(host, appendRecord(nil, r)); err != nil || again != r {
			t.Fatalf("%+v is read back as %+v, %v", r, again, err)
		}
	})
}

// Whatever a peer calls a chunk, reading it ends; what is accepted is bounded, and is sent and read back the same.
func FuzzChunk(f *testing.F) {
	for _, c := range []frontier.Chunk{
		{},
		{Pending: []frontier.PendingURL{{Path: "/a?b", Depth: 255, Hops: 3}, {Path: "/s.xml", Sitemap: true}}, Done: []uint64{1, 1 << 63}},
		{State: &frontier.HostState{SinceRequest: -1, Wait: time.Second, CrawlDelay: time.Minute, Level: 7, Done: 1, Failed: 2, Dropped: 3,
			Robots: &frontier.RobotsFile{Body: []byte("User-agent: *\nDisallow:"), Valid: time.Hour}}},
	} {
		b, err := proto.Marshal(chunkToWire(c))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, w := range []*wire.Chunk{
		{Done: []byte("seven b")},
		{Pending: []*wire.Pending{{Path: "no slash"}}},
		{Pending: []*wire.Pending{{Path: "/", Depth: 1 << 30}}},
		{State: &wire.HostState{SinceRequestMs: -1 << 63, WaitMs: 1<<63 - 1, CrawlDelayMs: -5, Level: 1 << 31}},
		{State: &wire.HostState{Robots: &wire.RobotsFile{ValidMs: -1 << 63}}},
	} {
		b, err := proto.Marshal(w)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w := &wire.Chunk{}
		if proto.Unmarshal(b, w) != nil {
			return
		}
		c, err := chunkFromWire(w)
		if err != nil {
			return
		}
		if s := c.State; s != nil {
			for _, d := range []time.Duration{s.SinceRequest + 1, s.Wait, s.CrawlDelay} {
				if d < 0 || d > maxWait+1 {
					t.Fatalf("a state of %+v", s)
				}
			}
			if s.Level > 60 {
				t.Fatalf("a state of %+v", s)
			}
			if r := s.Robots; r != nil && (r.Valid < 0 || len(r.Body) > maxRobots) {
				t.Fatalf("a robots.txt of %d bytes for %v", len(r.Body), r.Valid)
			}
		}
		for _, p := range c.Pending {
			if !strings.HasPrefix(p.Path, "/") || len(p.Path) > maxPath {
				t.Fatalf("a path of %q", p.Path)
			}
		}
		again, err := chunkFromWire(chunkToWire(c))
		if diff := cmp.Diff(c, again); diff != "" || err != nil {
			t.Fatalf("sent and read back: %v\n%s", err, diff)
		}
	})
}

// fuzzMessages are where fuzzing begins.
func fuzzMessages() []proto.Message {
	var all []proto.Message
	chunk := func() *wire.Chunk {
		return &wire.Chunk{Pending: []*wire.Pending{{Path: "/a"}, {Path: "/b"}}, Done: bytes.Repeat([]byte{7}, 16)}
	}
	one := frontier.Digest{}
	for i := byte('0'); i < ':'; i++ {
		host := string(i)
		for _, owner := range []string{"c", "d", "e"} { // self, peer, next
			for _, epoch := range []uint64{0, 2, 3, 4, 1 << 63} {
				r := func() *wire.Record { return &wire.Record{Host: host, Epoch: epoch, Owner: owner, Assigned: true} }
				all = append(all,
					&wire.ClaimRequest{Records: []*wire.Record{r()}},
					&wire.ClaimRequest{Records: []*wire.Record{r()}, First: true, Last: true},
					&wire.TransferRequest{Record: r(), Chunk: chunk()},
					&wire.TransferRequest{Record: r(), Chunk: chunk(), Merge: true, Commit: true},
					&wire.TransferRequest{Record: r(), Chunk: &wire.Chunk{}, Commit: true, Digest: digestToWire(one)},
					&wire.BackupRequest{Items: []*wire.BackupItem{{Record: r(), Chunk: chunk()}, {Record: r(), Number: 1, Chunk: chunk()}}},
					&wire.RenewRequest{Count: 1, Digest: epoch, Moves: []*wire.Move{{Host: host, Epoch: epoch, To: owner}}},
					&wire.RenewResponse{Moves: []*wire.Move{{Host: host, Epoch: epoch, To: owner}}},
					&wire.ClaimResponse{Newer: []*wire.Record{r()}, Later: []string{host}, Contested: []string{host}},
					&wire.TransferResponse{Step: wire.Step_STEP_REFUSED, Newer: r()},
					&wire.Delivered{Record: r()})
			}
		}
		all = append(all, &wire.DeliverRequest{Links: []*wire.Link{{Url: host + "x"}, {Url: host}, {Url: "http://new.example/" + host}}})
	}
	return append(all, &wire.DeliverRequest{Links: []*wire.Link{{}, nil}}, &wire.BackupRequest{Items: []*wire.BackupItem{nil}},
		&wire.TransferRequest{}, &wire.ClaimRequest{Records: []*wire.Record{nil}}, &wire.RenewRequest{Moves: []*wire.Move{nil}},
		&wire.TransferResponse{Step: wire.Step_STEP_COMMITTED}, &wire.TransferResponse{Step: wire.Step_STEP_AGAIN},
		&wire.BackupResponse{Answers: []*wire.BackupAnswer{{Step: wire.Step_STEP_AGAIN}}}, &wire.RenewResponse{Agreed: true})
}

// kinds are the messages that a node reads, in the order by which fuzzing names them.
func kinds() []proto.Message {
	return []proto.Message{&wire.DeliverRequest{}, &wire.RenewRequest{}, &wire.ClaimRequest{}, &wire.TransferRequest{}, &wire.BackupRequest{},
		&wire.Delivered{}, &wire.RenewResponse{}, &wire.ClaimResponse{}, &wire.TransferResponse{}, &wire.BackupResponse{}}
}

// TestMessages gives a node messages of all kinds about hosts in all states, from either peer: it never panics, no record
// goes back, none changes that the message does not name or whose change its sender may not tell of, and no URL is lost.
func TestMessages(t *testing.T) {
	for _, m := range fuzzMessages() {
		for _, from := range []string{fuzzPeer, fuzzNext} {
			newStage(t).play(proto.CloneOf(m), from)
		}
		if t.Failed() {
			t.Fatalf("by a %T: %v", m, m)
		}
	}
}

// FuzzMessage does the same with any message.
func FuzzMessage(f *testing.F) {
	for i, m := range fuzzMessages() {
		if i%23 != 0 {
			continue // enough to begin with
		}
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		for kind, k := range kinds() {
			if k.ProtoReflect().Descriptor() == m.ProtoReflect().Descriptor() {
				f.Add(uint8(kind), i%2 == 0, b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, next bool, b []byte) {
		m := kinds()[int(kind)%len(kinds())]
		if proto.Unmarshal(b, m) != nil {
			return
		}
		newStage(t).play(m, map[bool]string{false: fuzzPeer, true: fuzzNext}[next])
	})
}

// play gives the stage a message and asserts what it may change.
func (s *stage) play(m proto.Message, from string) {
	ctx, h := context.Background(), s.home
	v := h.horizon.now
	named := s.known(m)
	before, held := s.all(), s.held()
	never := func(_, _ Record, _ bool) bool { return false }
	home := func(r Record) bool { return v.homeOf(r.Host) == fuzzSelf }
	switch m := m.(type) {
	case *wire.DeliverRequest:
		res, err := h.Deliver(ctx, from, m)
		if err != nil || len(res.GetAnswers()) != len(m.GetLinks()) {
			s.t.Fatalf("%v, %v", res, err)
		}
		for i, a := range res.GetAnswers() {
			if a.GetVerdict() == wire.Verdict_VERDICT_UNSPECIFIED {
				s.t.Errorf("link %d has no answer", i)
			}
		}
		s.check(before, held, named, func(_, now Record, had bool) bool {
			return !had && home(now) && now == Record{Host: now.Host, Epoch: 1, Owner: fuzzSelf}
		})
	case *wire.RenewRequest:
		res, err := h.Renew(ctx, from, m)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, g := range res.GetMoves() {
			if r := before[g.GetHost()]; r.Owner != from || r.Epoch != g.GetEpoch() || !home(r) {
				s.t.Errorf("%v is granted beside %+v", g, r)
			}
		}
		s.check(before, held, named, never)
	case *wire.ClaimRequest:
		if _, err := h.Claim(ctx, from, m); err != nil {
			s.t.Fatal(err)
		}
		s.check(before, held, named, func(_, now Record, _ bool) bool { return now.Owner == from && home(now) })
	case *wire.TransferRequest:
		res, err := h.Transfer(ctx, from, m)
		if err == nil && res.GetStep() == wire.Step_STEP_UNSPECIFIED {
			s.t.Error("it is answered by nothing")
		}
		s.check(before, held, named, func(_, now Record, _ bool) bool {
			return now.Owner == fuzzSelf && res.GetStep() == wire.Step_STEP_COMMITTED && !m.GetMerge()
		})
	case *wire.BackupRequest:
		res, err := h.Backup(ctx, from, m)
		if err == nil && len(res.GetAnswers()) != len(m.GetItems()) {
			s.t.Errorf("%d answers to %d items", len(res.GetAnswers()), len(m.GetItems()))
		}
		s.check(before, held, named, func(old, now Record, _ bool) bool { return now.Owner == from && old.Owner != fuzzSelf })
	case *wire.Delivered:
		if err := h.Moved(m.GetRecord()); err != nil {
			s.t.Fatal(err)
		}
		if r := m.GetRecord(); r.GetEpoch() == 0 { // who is said to own a host knows nothing of it: that may be forgotten
			if old := before[r.GetHost()]; old.Owner != fuzzSelf && !home(old) && v.copyOf(old.Host, old.Owner) != fuzzSelf {
				delete(before, r.GetHost())
			}
		}
		s.check(before, held, named, func(old, now Record, _ bool) bool { return old.Owner != fuzzSelf && now.Owner != fuzzSelf })
	default: // an answer to each message of this node
		s.answer = func(res proto.Message) {
			if res.ProtoReflect().Descriptor() == m.ProtoReflect().Descriptor() {
				proto.Merge(res, m)
			}
		}
		asked := map[string]bool{}
		for host, r := range before {
			if r.Owner == fuzzSelf && !home(r) {
				asked[host] = true // it is claimed
			}
		}
		own, moving := s.hosts[0], s.hosts[6]
		asked[own], asked[moving], asked[s.hosts[5]] = true, true, true
		_ = h.renewAt(ctx, fuzzPeer)
		_ = h.HandOff(ctx, own, fuzzNext, true, "fuzz")
		_ = h.settleDoubt(ctx, moving)
		h.sendBackups(ctx, from, []*wire.BackupItem{{Record: &wire.Record{Host: own}}, {Record: &wire.Record{Host: moving}}})
		_ = h.resync(ctx, own)
		_ = h.shipRest(ctx, s.hosts[5])
		for host := range held {
			if now := s.all()[host]; now.Owner != fuzzSelf {
				delete(held, host) // shipped, by what its new owner says
			}
		}
		after := s.all()
		for host := range after {
			if after[host] != before[host] && !asked[host] {
				s.t.Errorf("%+v became %+v by an answer that is not about it", before[host], after[host])
			}
			named[host] = true
		}
		s.check(before, held, named, func(_, _ Record, _ bool) bool { return true })
	}
}
