package peer

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"proxima/node/wire"
)

// replicate is a request that carries one host to its replica.
func replicate(h *wire.Header, host string, epoch uint64, path string) *wire.StoreRequest {
	return &wire.StoreRequest{Header: h, Items: []*wire.StoreItem{
		{Record: &wire.Record{Host: "http://example.org", Epoch: 1, Owner: "a"}},
		{Record: &wire.Record{Host: host, Epoch: epoch, Owner: "a"}, Chunk: &wire.Chunk{
			State: &wire.HostState{SinceRequestMs: -1}, Pending: []*wire.Pending{{Path: path}}}}}}
}

// A message without its form reaches nobody, and its sender learns which field is wrong.
func TestMalformedMessagesReachNobody(t *testing.T) {
	header := &wire.Header{Version: Version, Run: "test", Sender: "a", Boot: 1, Id: 1}
	for host, want := range map[string]string{"http://victim.example": "", "http://victim.example\x00\x00y": "items[1].record.host: "} {
		d := newDirect(t)
		body, err := proto.Marshal(replicate(header, host, 1, "/"))
		must(t, err)
		w := d.call("POST", "/proxima.v1.Overlay/Store", "application/proto", "", body)
		if good := want == ""; (d.reached != nil) != good || (w.Code == 200) != good || !strings.Contains(w.Body.String(), want) ||
			(d.server.Counts().Failures[KindMalformed] == 0) != good {
			t.Errorf("%q: reached the room: %v, %d %s; want %q", host, d.reached != nil, w.Code, w.Body, want)
		}
	}
}

func TestFormsOfFields(t *testing.T) {
	id := strings.Repeat("0123abcd", 4)
	f := newForms()
	for _, c := range []struct {
		in   proto.Message
		want string // "" for well-formed
	}{
		{replicate(nil, "http://victim.example", maxEpoch, "/"), ""},
		{replicate(nil, "http://victim.example", maxEpoch+1, "/"), "items[1].record.epoch: 4611686018427387905 is above"},
		{replicate(nil, "http://victim.example\x00\x00y", 1, "/"), "items[1].record.host: "},
		{replicate(nil, "victim.example", 1, "/"), "items[1].record.host: "},
		{replicate(nil, "http://victim.example\x1b", 1, "/"), "items[1].record.host: "},
		{replicate(nil, "", 1, "/"), "items[1].record.host: "},
		{replicate(nil, "http://victim.example", 1, "/a\x00\x00b"), "items[1].chunk.pending[0].path: "},
		{replicate(nil, "http://victim.example", 1, "/a b"), "items[1].chunk.pending[0].path: "},
		{replicate(nil, "http://victim.example", 1, ""), "items[1].chunk.pending[0].path: "},
		{&wire.DeliverRequest{Links: []*wire.Link{{Url: "http://a/"}}}, ""},
		{&wire.ClaimRequest{Records: []*wire.Record{{Host: "http://a"}, {Host: "http://a", Epoch: math.MaxUint64}}}, "records[1].epoch"},
		{&wire.DeliverResponse{Answers: []*wire.Delivered{{}, {Record: &wire.Record{Host: "http://a", Home: id, Owner: id}}}}, ""},
		{&wire.DeliverResponse{Answers: []*wire.Delivered{{Record: &wire.Record{Host: "http://a", Home: "no id"}}}}, "answers[0].record.home"},
		{&wire.DeliverResponse{Answers: []*wire.Delivered{{Record: &wire.Record{Host: "http://a", Owner: "x\n"}}}}, "answers[0].record.owner"},
		{&wire.LeaseRequest{Items: []*wire.LeaseItem{{Server: make([]byte, 4), Successor: id}}}, ""},
		{&wire.LeaseRequest{Items: []*wire.LeaseItem{{Server: make([]byte, 5)}}}, "items[0].server: an address of 5 bytes"},
		{&wire.LeaseRequest{Items: []*wire.LeaseItem{{Server: make([]byte, 16), WaitMs: math.MaxInt64}}}, "items[0].wait_ms"},
		{&wire.LoadResponse{Chunk: &wire.Chunk{State: &wire.HostState{Level: 256}}}, "chunk.state.level"},
		{&wire.LeaseRequest{Items: []*wire.LeaseItem{{Server: make([]byte, 16), Successor: "?"}}}, "items[0].successor"},
		{&wire.LeaseResponse{Answers: []*wire.LeaseAnswer{{Holder: strings.Repeat("a", 64)}}}, "answers[0].holder"},
		{&wire.LeaseResponse{Answers: []*wire.LeaseAnswer{{ForMs: math.MinInt64}}}, "answers[0].for_ms"},
		{&wire.RenewRequest{Count: 1 << 60}, "count"},
		{&wire.ClaimRequest{Records: []*wire.Record{{Host: "http://A"}}}, "records[0].host"},
		{&wire.ClaimResponse{Later: []string{"http://a", "a"}}, "later[1]: "},
		{&wire.ClaimResponse{Contested: []string{"\x00"}}, "contested[0]: "},
		{&wire.CommitRequest{Record: &wire.Record{Host: "http://a"}}, ""},
		{&wire.LoadRequest{Host: "http://a\x00b"}, "host: "},
		{&wire.CommitRequest{Digest: &wire.Digest{Accepted: math.MaxUint64}}, "digest.accepted"},
		{&wire.LoadResponse{Chunk: &wire.Chunk{State: &wire.HostState{CrawlDelayMs: 1 << 62}}}, "chunk.state.crawl_delay_ms"},
		{&wire.LoadResponse{Chunk: &wire.Chunk{State: &wire.HostState{Failed: 1 << 62}}}, "chunk.state.failed"},
		{&wire.LoadResponse{Chunk: &wire.Chunk{State: &wire.HostState{Robots: &wire.RobotsFile{ValidMs: math.MaxInt64}}}},
			"chunk.state.robots.valid_ms"},
		{&wire.CommitResponse{Newer: &wire.Record{}}, "newer.host"},
		{&wire.StoreResponse{Answers: []*wire.StoreAnswer{{Newer: &wire.Record{Host: "x"}}}}, "answers[0].newer.host"},
		{&wire.FetchRequest{Page: &wire.RemoteFetch{Url: "http://a/", Server: []byte{}}}, "page.server"},
		{&wire.FetchResponse{Result: &wire.FetchResult{Timing: &wire.Timing{TotalUs: math.MaxInt64}}}, "result.timing.total_us"},
		{&wire.QuotaResponse{Epoch: maxEpoch + 1}, "epoch"},
		{&wire.IdleRequest{}, ""},
	} {
		err := f.check(c.in.ProtoReflect())
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.in, err, c.want)
		}
	}
}

// Whatever bytes come: they are decoded and checked, or refused, and what is taken has hosts and epochs that can be kept.
func FuzzForms(f *testing.F) {
	for _, m := range []proto.Message{
		replicate(nil, "http://victim.example", 3, "/a?b"), replicate(nil, "victim.example\x00\x00y", math.MaxUint64, "x"),
	} {
		b, err := proto.Marshal(m)
		must(f, err)
		f.Add(b)
	}
	forms := newForms()
	f.Fuzz(func(t *testing.T, b []byte) {
		var m wire.StoreRequest
		if (codec{}).Unmarshal(b, &m) != nil || forms.check(m.ProtoReflect()) != nil {
			return
		}
		for _, item := range m.Items {
			r := item.GetRecord()
			if r != nil && (!strings.HasPrefix(r.Host, "http") || strings.ContainsAny(r.Host, "\x00 \n")) || r.GetEpoch() > maxEpoch {
				t.Errorf("%q is taken", r)
			}
			for _, p := range item.GetChunk().GetPending() {
				if strings.ContainsAny(p.Path, "\x00\n") || p.Path == "" {
					t.Errorf("path %q is taken", p.Path)
				}
			}
		}
	})
}
