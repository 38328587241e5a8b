package placement

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"proxima/assign"
	"proxima/frontier"
	"proxima/node/wire"
)

func TestResultRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		us := func(name string, most int64) time.Duration {
			return time.Duration(rapid.Int64Range(0, most).Draw(t, name)) * time.Microsecond
		}
		r := Result{Outcome: frontier.Outcome{
			Ending:     frontier.Ending(rapid.IntRange(0, int(frontier.Again)).Draw(t, "ending")),
			Trouble:    frontier.Trouble(rapid.IntRange(0, int(frontier.Interrupted)).Draw(t, "trouble")),
			Reason:     rapid.StringN(0, 50, maxReason).Draw(t, "reason"),
			Asked:      rapid.Bool().Draw(t, "asked"),
			RetryAfter: time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "retry")) * time.Millisecond,
		}, Status: rapid.IntRange(0, 999).Draw(t, "status"), Timing: assign.Timing{Connect: us("connect", 1e6), TLS: us("tls", 1e6), FirstByte: us("first", 1e6),
			Bytes: rapid.Int64Range(0, 1<<40).Draw(t, "bytes")}}
		r.Timing.Total = r.Timing.Connect + r.Timing.TLS + r.Timing.FirstByte + us("tail", 1e8)
		r.Unmade = !r.Asked && rapid.Bool().Draw(t, "unmade")
		r.HTML = r.Asked && r.Timing.Total > 0 && rapid.Bool().Draw(t, "html")
		got, ok := decodeResponse(&wire.FetchResponse{Result: encodeResult(r)}, nil)
		if !ok || !reflect.DeepEqual(got, r) {
			t.Fatalf("%+v became %+v: %v", r, got, ok)
		}
	})
}

func TestMalformedRemoteFetches(t *testing.T) {
	good := func() *wire.RemoteFetch { return encodeFetch(estimateOf(t, "x")) }
	if _, err := decodeFetch(good()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*wire.RemoteFetch){
		"URL":          func(e *wire.RemoteFetch) { e.Url = "ftp://example.org/" },
		"no URL":       func(e *wire.RemoteFetch) { e.Url = "" },
		"server":       func(e *wire.RemoteFetch) { e.Server = []byte{1, 2, 3} },
		"unspecified":  func(e *wire.RemoteFetch) { e.Server = make([]byte, 4) },
		"multicast":    func(e *wire.RemoteFetch) { e.Server = []byte{224, 0, 0, 1} },
		"other server": func(e *wire.RemoteFetch) { e.Url = "http://[2001:db8::1]/" },
		"batch":        func(e *wire.RemoteFetch) { e.Batch = strings.Repeat("x", maxName+1) },
		"labels":       func(e *wire.RemoteFetch) { e.Labels = make([]string, maxLabels+1) },
		"label":        func(e *wire.RemoteFetch) { e.Labels = []string{strings.Repeat("x", maxName+1)} },
		"depth":        func(e *wire.RemoteFetch) { e.Depth = 256 },
		"hops":         func(e *wire.RemoteFetch) { e.Hops = 256 },
		"attempt":      func(e *wire.RemoteFetch) { e.Attempt = 256 },
	} {
		e := good()
		change(e)
		if _, err := decodeFetch(e); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	edge := good()
	edge.Batch = strings.Repeat("x", maxName)
	edge.Labels = slices.Repeat([]string{strings.Repeat("x", maxName)}, maxLabels)
	edge.Depth, edge.Hops, edge.Attempt = 255, 255, 255
	edge.Assigned, edge.Fresh = true, false
	for _, edge.Url = range []string{"http://192.0.2.7/", "http://[::ffff:c000:207]/"} { // the same address
		if f, err := decodeFetch(edge); err != nil || !proto.Equal(encodeFetch(f), edge) {
			t.Errorf("at all its bounds: %v, %v", f, err)
		}
	}
	if _, err := decodeFetch(nil); err == nil {
		t.Error("nil: accepted")
	}
}

func TestMalformedResponses(t *testing.T) {
	link := &wire.Link{Url: "http://example.org/"}
	for name, change := range map[string]func(m *wire.FetchResponse, r *wire.FetchResult){
		"ending":         func(_ *wire.FetchResponse, r *wire.FetchResult) { r.Ending = 4 },
		"trouble":        func(_ *wire.FetchResponse, r *wire.FetchResult) { r.Trouble = 6 },
		"status":         func(_ *wire.FetchResponse, r *wire.FetchResult) { r.Status = 1000 },
		"bytes":          func(_ *wire.FetchResponse, r *wire.FetchResult) { r.Bytes = -1 },
		"retry":          func(_ *wire.FetchResponse, r *wire.FetchResult) { r.RetryAfterMs = -1 },
		"for ever":       func(_ *wire.FetchResponse, r *wire.FetchResult) { r.RetryAfterMs = maxRetryAfter.Milliseconds() + 1 },
		"negative":       func(_ *wire.FetchResponse, r *wire.FetchResult) { r.Timing.ConnectUs = -1 },
		"an hour":        func(_ *wire.FetchResponse, r *wire.FetchResult) { r.Timing.TotalUs = maxStage.Microseconds() + 1 },
		"endless":        func(_ *wire.FetchResponse, r *wire.FetchResult) { r.Timing.TotalUs = 1 << 62 },
		"longer":         func(_ *wire.FetchResponse, r *wire.FetchResult) { r.Timing.FirstByteUs = 5_000_000 },
		"no time":        func(_ *wire.FetchResponse, r *wire.FetchResult) { r.Timing = nil },
		"unmade page":    func(_ *wire.FetchResponse, r *wire.FetchResult) { r.Unmade = true },
		"not asked":      func(_ *wire.FetchResponse, r *wire.FetchResult) { r.Asked = false },
		"URL of a link":  func(m *wire.FetchResponse, _ *wire.FetchResult) { m.Links = []*wire.Link{{Url: "ftp://example.org/"}} },
		"depth":          func(m *wire.FetchResponse, _ *wire.FetchResult) { m.Links = []*wire.Link{{Url: link.Url, Depth: 256}} },
		"more, but none": func(m *wire.FetchResponse, _ *wire.FetchResult) { m.More = true },
		"too many links": func(m *wire.FetchResponse, _ *wire.FetchResult) {
			m.Links = slices.Repeat([]*wire.Link{link}, maxPageLinks)
		},
	} {
		m, before := &wire.FetchResponse{Result: encodeResult(page200(time.Second))}, make([]frontier.Link, 1)
		if _, ok := decodeResponse(m, before); !ok {
			t.Fatal("refused")
		}
		change(m, m.Result)
		if _, ok := decodeResponse(m, before); ok {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A result at its bounds arrives unchanged. Servers ask for any wait, and one that is longer than what a peer may send arrives as the longest.
func TestResultsAtTheirBounds(t *testing.T) {
	r := page200(maxStage)
	r.Timing.Connect, r.Timing.TLS, r.Timing.FirstByte = maxStage/2, maxStage/2, time.Second // stages may be longer than the whole by a second
	r.Ending, r.Trouble, r.Status = frontier.Again, frontier.Interrupted, 999
	for _, r.RetryAfter = range []time.Duration{maxRetryAfter, math.MaxInt64} {
		r.Reason = strings.Repeat("x", maxReason-1) + "é" // half of it is cut off
		got, ok := decodeResponse(&wire.FetchResponse{Result: encodeResult(r)}, nil)
		r.Reason, r.RetryAfter = strings.Repeat("x", maxReason-1)+"\ufffd", maxRetryAfter
		if !ok || !reflect.DeepEqual(got, r) {
			t.Errorf("%v, %v, want %v", ok, got, r)
		}
	}
	r.Timing.FirstByte += time.Microsecond
	if _, ok := decodeResponse(&wire.FetchResponse{Result: encodeResult(r)}, nil); ok {
		t.Error("its stages take longer than the whole")
	}
}

func FuzzDecode(f *testing.F) {
	request, err := proto.Marshal(&wire.FetchRequest{Page: encodeFetch(estimateOf(f, "x"))})
	must(f, err)
	response, err := proto.Marshal(&wire.FetchResponse{Result: encodeResult(page200(time.Second)), Coordinate: []byte{9}})
	must(f, err)
	f.Add(request)
	f.Add(response)
	f.Fuzz(func(t *testing.T, b []byte) {
		if m := new(wire.FetchRequest); proto.Unmarshal(b, m) == nil {
			if e, err := decodeFetch(m.Page); err == nil {
				if !e.Server.IsValid() || e.Server.Is4In6() || e.URL.Host == "" {
					t.Fatalf("accepted %+v", e)
				}
				again, err := decodeFetch(encodeFetch(e))
				if err != nil || !reflect.DeepEqual(again, e) {
					t.Fatalf("%+v became %+v: %v", e, again, err)
				}
			}
		}
		if m := new(wire.FetchResponse); proto.Unmarshal(b, m) == nil {
			r, ok := decodeResponse(m, nil)
			if ok && (r.Timing.Total < 0 || r.Timing.Total > maxStage || len(r.Reason) > maxReason+2 || !utf8.ValidString(r.Reason)) {
				t.Fatalf("accepted %+v", r)
			}
		}
	})
}
