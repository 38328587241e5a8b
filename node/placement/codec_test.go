package placement

import (
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
		r := Result{
			Ending:  frontier.Ending(rapid.IntRange(0, int(frontier.Again)).Draw(t, "ending")),
			Trouble: frontier.Trouble(rapid.IntRange(0, int(frontier.Interrupted)).Draw(t, "trouble")),
			Reason:  rapid.StringN(0, 50, maxReason).Draw(t, "reason"), Asked: rapid.Bool().Draw(t, "asked"),
			RetryAfter: time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "retry")) * time.Millisecond,
			Status:     rapid.IntRange(0, 999).Draw(t, "status"),
			Timing: assign.Timing{Connect: us("connect", 1e6), TLS: us("tls", 1e6), FirstByte: us("first", 1e6), Bytes: rapid.Int64Range(0, 1<<40).Draw(t, "bytes"),
				Fresh: rapid.Bool().Draw(t, "fresh")},
		}
		r.Timing.Total = r.Timing.Connect + r.Timing.TLS + r.Timing.FirstByte + us("tail", 1e8)
		r.Unmade = !r.Asked && rapid.Bool().Draw(t, "unmade")
		r.HTML = r.Asked && r.Timing.Total > 0 && rapid.Bool().Draw(t, "html")
		got, ok := decodeResponse(&wire.FetchResponse{Result: encodeResult(r)}, nil)
		if !ok || !reflect.DeepEqual(got, r) {
			t.Fatalf("%+v became %+v: %v", r, got, ok)
		}
	})
}

func TestRemoteFetchesThatMakeNoSense(t *testing.T) {
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
	} {
		e := good()
		change(e)
		if _, err := decodeFetch(e); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := decodeFetch(nil); err == nil {
		t.Error("nil: accepted")
	}
}

func TestResultsThatMakeNoSense(t *testing.T) {
	for name, change := range map[string]func(*wire.FetchResult){
		"ending":      func(r *wire.FetchResult) { r.Ending = 4 },
		"trouble":     func(r *wire.FetchResult) { r.Trouble = 6 },
		"status":      func(r *wire.FetchResult) { r.Status = 1000 },
		"bytes":       func(r *wire.FetchResult) { r.Bytes = -1 },
		"retry":       func(r *wire.FetchResult) { r.RetryAfterMs = -1 },
		"negative":    func(r *wire.FetchResult) { r.Timing.ConnectUs = -1 },
		"endless":     func(r *wire.FetchResult) { r.Timing.TotalUs = 1 << 62 },
		"longer":      func(r *wire.FetchResult) { r.Timing.FirstByteUs = 5_000_000 },
		"unmade page": func(r *wire.FetchResult) { r.Unmade = true },
		"not asked":   func(r *wire.FetchResult) { r.Asked = false },
		"no time":     func(r *wire.FetchResult) { r.Timing = nil },
	} {
		r := encodeResult(page200(time.Second))
		if _, ok := decodeResponse(&wire.FetchResponse{Result: r}, nil); !ok {
			t.Fatal("refused")
		}
		change(r)
		if _, ok := decodeResponse(&wire.FetchResponse{Result: r}, nil); ok {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestLinksThatMakeNoSense(t *testing.T) {
	good := &wire.Link{Url: "http://example.org/"}
	for name, m := range map[string]*wire.FetchResponse{
		"URL":      {Links: []*wire.Link{{Url: "ftp://example.org/"}}},
		"depth":    {Links: []*wire.Link{{Url: good.Url, Depth: 256}}},
		"nothing":  {More: true},
		"too many": {Links: slices.Repeat([]*wire.Link{good}, maxPageLinks)},
	} {
		m.Result = encodeResult(page200(time.Second))
		if _, ok := decodeResponse(m, make([]frontier.Link, 1)); ok {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	request, err := proto.Marshal(&wire.FetchRequest{Page: encodeFetch(estimateOf(f, "x"))})
	if err != nil {
		f.Fatal(err)
	}
	response, err := proto.Marshal(&wire.FetchResponse{Result: encodeResult(page200(time.Second)), Coordinate: []byte{9}})
	if err != nil {
		f.Fatal(err)
	}
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
