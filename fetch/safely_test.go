package fetch

import (
	"bytes"
	"strings"
	"testing"
)

// A decoder that panics costs one body. It is not used again, and gives back the memory of its window.
func TestDecoderThatPanics(t *testing.T) {
	c := newClient(t, testConfig(), Deps{})
	const window = 4 << 20
	for range 100 {
		buf := c.buffers.get(0)
		body := &flawed{good: bytes.NewReader(pack(t, []byte("page"), "gzip"))}
		w := &wire{body: body, limit: 1 << 20, watch: &exchange{ctx: t.Context()}, budget: c.large}
		if err := w.takeWindow(window); err != nil {
			t.Fatal(err)
		}
		err := c.decode(buf, w, []string{"gzip"}, 1<<20)
		if err == nil || !strings.HasPrefix(err.Error(), "panic at fetch/safely_test.go:") || !strings.HasSuffix(err.Error(), ": index") {
			t.Fatal(err)
		}
		c.buffers.put(buf)
	}
	if c.decoders.gzip.Get() != nil {
		t.Error("it is used again")
	}
}

// flawed panics near its end.
type flawed struct{ good *bytes.Reader }

func (f *flawed) Read(p []byte) (int, error) {
	if f.good.Len() < 4 {
		panic("index")
	}
	return f.good.Read(p[:1])
}
