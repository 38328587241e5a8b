package fetch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
)

// pauses is a body that gives nothing so many times before each byte.
type pauses struct {
	body    io.Reader
	each    int
	pausing int
}

func (p *pauses) Read(b []byte) (int, error) {
	if p.pausing++; p.pausing <= p.each {
		return 0, nil
	}
	p.pausing = 0
	return p.body.Read(b[:1])
}

// A body may give nothing a hundred times in a row, and again after a byte. Then there is no progress.
func TestBodyWithoutProgress(t *testing.T) {
	for each, want := range map[int]error{0: io.EOF, 60: io.EOF, 100: io.EOF, 101: io.ErrNoProgress} {
		buf := make([]byte, 0, 16)
		if err := new(wire).readAll(&buf, &pauses{body: strings.NewReader("abc"), each: each}, 10); !errors.Is(err, want) || (string(buf) == "abc") != (want == io.EOF) {
			t.Errorf("with %d pauses: %q, %v", each, buf, err)
		}
	}
}

// After the end of a decoded body 16 KiB more are read.
func TestDrain(t *testing.T) {
	for body, read := range map[int]int64{100_000: 16 << 10, 16 << 10: 16 << 10, 1000: 1000, 0: 0} {
		w := &wire{body: strings.NewReader(strings.Repeat("x", body)), limit: 1 << 20, watch: &exchange{}}
		if w.drain(); w.n != read || (w.end == io.EOF) != (body < 16<<10) || w.watch.last.IsZero() != (w.end == nil) {
			t.Errorf("%d bytes: %d are read, ended by %v; want %d", body, w.n, w.end, read)
		}
	}
}

// A buffer is made for the length that the server tells, within bounds. The system may round it up.
func TestFirstBuffers(t *testing.T) {
	for hint, least := range map[int64]int{-1: 32 << 10, 0: 32 << 10, 100_000: 100_001, 200_000: 200_001, 1 << 40: 256 << 10} {
		var b buffers
		if p := b.get(hint); len(*p) != 0 || cap(*p) < least || cap(*p) > least*5/4 {
			t.Errorf("for %d bytes: a buffer of %d", hint, cap(*p))
		}
	}
}

// Windows of up to 1 MiB are free. A larger one is taken from the budget until it is released, and never by who holds a body.
func TestWindowsOfTheBudget(t *testing.T) {
	budget := newLargeBudget(1)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	w := &wire{budget: budget, watch: &exchange{ctx: over}, limit: 1 << 20}
	for size, free := range map[int64]bool{1: true, 1 << 20: true, 1<<20 + 1: false, 16 << 20: false} {
		if err := errors.Join(w.takeBody(), w.takeWindow(size)); err != nil {
			t.Fatal(err)
		}
		if w.large != free {
			t.Errorf("a window of %d bytes besides a body: %v", size, w.large)
		}
		if all := budget.windows.TryAcquire(16 << 20); all != free {
			t.Errorf("a window of %d bytes is free: %v", size, all)
		} else if all {
			budget.windows.Release(16 << 20)
		}
		w.releaseWindow()
		w.releaseWindow() // releases nothing twice
		w.releaseBody()
		w.releaseBody()
	}
	w.body = bytes.NewReader(append(wideBrotli, 'a'))
	if _, _, err := new(decoders).open([]string{"gzip", "br"}, w); err == nil || !budget.windows.TryAcquire(16<<20) {
		t.Errorf("%v, and the window is not given back", err)
	}
	if err := w.takeWindow(16 << 20); err == nil || w.watch.paused || !errors.Is(w.end, err) {
		t.Errorf("there is none left: %v, paused %v, ended by %v", err, w.watch.paused, w.end)
	}
	other := &wire{budget: budget, watch: w.watch}
	if errs := []error{w.takeBody(), other.takeBody()}; errs[0] != nil || errs[1] == nil || other.large {
		t.Errorf("two bodies of one: %v; the second has a share: %v", errs, other.large)
	}
}

// A body beyond 1 MiB takes its share of the budget, be it decoded or captured.
func TestSharesOfTheBudget(t *testing.T) {
	for size, large := range map[int]bool{1<<20 - 1: false, 1<<20 + 1: true} {
		for _, captured := range []bool{false, true} {
			buf := make([]byte, 0, 1<<20)
			w := &wire{body: bytes.NewReader(make([]byte, size)), limit: 2 << 20, watch: &exchange{}, budget: newLargeBudget(1)}
			if captured {
				w.keep = &buf
				_, _ = io.Copy(io.Discard, w)
			} else {
				_ = w.readAll(&buf, w, w.limit)
			}
			if w.large != large || len(buf) != size {
				t.Errorf("%d bytes, captured %v: large is %v, %d bytes are there", size, captured, w.large, len(buf))
			}
		}
	}
}

// A dial needs a port. An address that the guard forbids is not dialled.
func TestDialsThatCannotBe(t *testing.T) {
	var conns open
	c := newClient(t, testConfig(), Deps{Dial: conns.count(serve(0, hang))})
	asked, again := &exchange{ctx: t.Context()}, &exchange{ctx: t.Context(), again: true}
	for name, d := range map[string]struct {
		x    *exchange
		addr netip.Addr
		to   string
	}{
		"without a port":                        {asked, testAddr, "a.example"},
		"for what two new connections have had": {again, testAddr, "a.example:80"},
		"forbidden":                             {asked, netip.MustParseAddr("10.0.0.1"), "a.example:80"},
	} {
		if cn, err := c.dial(t.Context(), d.x, d.addr, d.to); err == nil || cn != nil || conns.made.Load() > 0 {
			t.Errorf("%s: %v, %d dials", name, err, conns.made.Load())
		}
	}
	cn, err := c.dial(t.Context(), asked, testAddr, "a.example:80")
	if err != nil {
		t.Fatal(err)
	}
	if cn.Close(); cn.unwatch() {
		t.Error("the client keeps a connection that is closed")
	}
}
