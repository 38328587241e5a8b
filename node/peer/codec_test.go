package peer

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"proxima/node/wire"
)

// must ends a test whose set-up has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// allocated returns how many bytes something allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Empty links take two bytes each on the wire, and a hundred in memory.
func TestMessagesOfManyPartsTakeNoMemory(t *testing.T) {
	header, err := proto.Marshal(&wire.DeliverRequest{Header: &wire.Header{Version: Version, Run: "test", Sender: "a"}})
	must(t, err)
	empty := []byte{2<<3 | 2, 0}
	body := compressed(t, append(header, bytes.Repeat(empty, (1<<20-len(header))/2)...))
	d := newDirect(t)
	took := allocated(func() {
		w := d.call(http.MethodPost, "/proxima.v1.Overlay/Deliver", "application/proto", "zstd", body)
		if d.reached != nil || d.server.Counts().Failures[KindMalformed] != 1 {
			t.Errorf("%d %s, counted %v", w.Code, w.Body, d.server.Counts().Failures)
		}
	})
	t.Logf("a message of %d bytes took %d", len(body), took)
	if took > 16<<20 {
		t.Errorf("%d bytes took %d of memory", len(body), took)
	}
}

func TestCodecCountsWhatIsDecoded(t *testing.T) {
	links := make([]*wire.Link, maxParts)
	for i := range links {
		links[i] = &wire.Link{Url: "http://a.example/", Depth: 1}
	}
	numbers := make([]bool, maxParts+1)
	texts := make([]string, maxParts+1)
	answers := make([]*wire.Delivered, maxParts/2+1)
	for i := range answers {
		answers[i] = &wire.Delivered{Record: &wire.Record{Host: "a.example"}}
	}
	for _, c := range []struct {
		name string
		in   proto.Message
		ok   bool
	}{
		{"as many links as may be", &wire.DeliverRequest{Links: links}, true},
		{"a header more", &wire.DeliverRequest{Header: &wire.Header{Version: Version}, Links: links}, false},
		{"messages in messages", &wire.DeliverResponse{Answers: answers}, false},
		{"numbers", &wire.ClaimRequest{Handed: numbers}, true}, // of a byte each: too few bytes to matter
		{"more numbers", &wire.ClaimRequest{Handed: make([]bool, 3*maxParts)}, false},
		{"texts", &wire.ClaimResponse{Later: texts}, false},
		{"a large field", &wire.LoadRequest{Cursor: make([]byte, 1<<20)}, true},
	} {
		b, err := codec{}.Marshal(c.in)
		must(t, err)
		out := c.in.ProtoReflect().New().Interface()
		if err := (codec{}).Unmarshal(b, out); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		} else if c.ok && !proto.Equal(c.in, out) {
			t.Errorf("%s: it has changed", c.name)
		}
	}
	// What is cut is refused, not counted past its end.
	whole, err := codec{}.Marshal(&wire.DeliverRequest{Links: links})
	must(t, err)
	if err := (codec{}).Unmarshal(whole[:len(whole)-1], &wire.DeliverRequest{}); err == nil {
		t.Error("a cut message was read")
	}
}

// TestLimitsOfTheProtocol: docs/protocol.md names the limits that are in force.
func TestLimitsOfTheProtocol(t *testing.T) {
	text, err := os.ReadFile("../../docs/protocol.md")
	must(t, err)
	_, limits, _ := strings.Cut(strings.ReplaceAll(string(text), ",", ""), "\n## Limits\n")
	c := Default()
	for _, row := range []string{
		fmt.Sprintf("message decompressed | %d MiB", c.MessageBytes>>20),
		fmt.Sprintf("messages and list elements in one message | %d", maxParts),
		fmt.Sprintf("call | %v s", callTime.Seconds()),
		fmt.Sprintf("connect with TLS | %v s", dialTime.Seconds()),
		fmt.Sprintf("calls carried out at once | %d", c.Calls),
		fmt.Sprintf("of these of one peer | %d", c.CallsPerPeer),
		fmt.Sprintf("connections | %d", c.Connections),
		fmt.Sprintf("connections that have not shown their certificate yet | %d see below", unproven),
		fmt.Sprintf("links for one peer listed in memory; more are on disk only | %d", c.OutboxLinks),
		fmt.Sprintf("links KiB of a message of links | %d %d", c.OutboxMessageLinks, c.OutboxMessageBytes>>10),
	} {
		if !strings.Contains(limits, "\n| "+row+" |\n") {
			t.Errorf("it has no row %q", row)
		}
	}
}

// Counting refuses nothing that decoding would take.
func FuzzCodecCounts(f *testing.F) {
	for _, m := range []proto.Message{
		&wire.DeliverResponse{Answers: []*wire.Delivered{{Reason: "later", Record: &wire.Record{Host: "a.example"}}}},
		&wire.LoadResponse{Chunk: &wire.Chunk{State: &wire.HostState{Robots: &wire.RobotsFile{Body: []byte("x")}}, Done: make([]byte, 8)}},
		&wire.ClaimRequest{Handed: []bool{true, false}, Members: 1 << 60}, &wire.ClaimResponse{Later: []string{"busy", ""}},
	} {
		b, err := proto.Marshal(m)
		must(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []proto.Message{&wire.DeliverResponse{}, &wire.LoadResponse{}, &wire.ClaimRequest{}, &wire.ClaimResponse{}} {
			left := len(b)
			if err := count(m.ProtoReflect().Descriptor(), b, &left); err != nil && proto.Unmarshal(b, m) == nil {
				t.Errorf("%x is a %T, but %v", b, m, err)
			}
		}
	})
}

func compressed(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := newCompressor()
	w.Reset(&b)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	must(t, w.Close())
	return b.Bytes()
}

// TestWindowsAreBounded: what needs more than 1 MiB of memory to decompress is refused.
func TestWindowsAreBounded(t *testing.T) {
	for window, ok := range map[int]bool{1 << 20: true, 2 << 20: false} {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithWindowSize(window))
		must(t, err)
		if _, err := w.Write(make([]byte, 4<<20)); err != nil {
			t.Fatal(err)
		}
		must(t, w.Close())
		d := newDecompressor(8 << 20)
		err = d.Reset(&b)
		if err == nil {
			_, err = io.Copy(io.Discard, d)
		}
		if (err == nil) != ok {
			t.Errorf("a window of %d KiB: %v", window>>10, err)
		}
	}
}

// A few KiB that become many MiB cost neither memory nor time.
func TestBombIsNotUnpacked(t *testing.T) {
	bomb := compressed(t, make([]byte, 64<<20))
	t.Logf("64 MiB in %d bytes", len(bomb))
	d := newDecompressor(1 << 20)
	used := allocated(func() {
		must(t, d.Reset(bytes.NewReader(bomb)))
		if n, err := (&bytes.Buffer{}).ReadFrom(d); n != 1<<20 || err != errBomb {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
	if used > 16<<20 {
		t.Errorf("%d MiB were allocated", used>>20)
	}
}
