package assign_test

import (
	"bytes"
	"math"
	"testing"

	"proxima/assign"
)

// Factors travel as they are. Numbers beyond the bounds of their form become the largest of it.
func TestFactorsRoundTrip(t *testing.T) {
	usual := assign.Factors{LoadMs: 15, LoadError: 0.25, BytesPerMs: 1250, BytesError: 0.5, Samples: 7, QueueMs: 250}
	most := assign.Factors{LoadMs: 1e9, BytesPerMs: 1e9, QueueMs: 1e9, Samples: 65_535}
	for _, c := range []struct{ f, want assign.Factors }{
		{usual, usual}, {most, most}, {assign.Factors{Samples: 65_536}, assign.Factors{Samples: 65_535}}, {assign.Factors{Samples: -1}, assign.Factors{}},
		{assign.Factors{LoadError: 100, BytesError: 0.001}, assign.Factors{LoadError: 255.0 / 64, BytesError: 1.0 / 64}},
	} {
		b := c.f.AppendBinary(nil)
		if got, err := assign.DecodeFactors(b); err != nil || got != c.want || len(b) != assign.FactorsSize {
			t.Errorf("%+v becomes %+v, %v, %d bytes", c.f, got, err, len(b))
		}
	}
	b := usual.AppendBinary(nil)
	for name, bad := range map[string][]byte{"nothing": nil, "a later version": append([]byte{b[0] + 1}, b[1:]...),
		"an earlier version": append([]byte{b[0] - 1}, b[1:]...), "a byte less": b[:len(b)-1],
		"a byte more": append(bytes.Clone(b), 0)} {
		if _, err := assign.DecodeFactors(bad); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	beyond := math.Nextafter(1e9, math.Inf(1))
	for _, bad := range []assign.Factors{{LoadMs: -1}, {LoadMs: math.NaN()}, {LoadMs: beyond}, {BytesPerMs: math.Inf(1)}, {BytesPerMs: beyond},
		{LoadError: -1}, {BytesError: beyond}, {QueueMs: -1}, {Samples: -1}} {
		if bad.Check() == nil {
			t.Errorf("%+v can be", bad)
		}
	}
	for _, bad := range []assign.Factors{{LoadMs: -1}, {LoadMs: math.NaN()}, {BytesPerMs: math.Inf(1)}} {
		if _, err := assign.DecodeFactors(bad.AppendBinary(nil)); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

func FuzzDecodeFactors(f *testing.F) {
	f.Add(assign.Factors{LoadMs: 15, LoadError: 0.3, BytesPerMs: 1250, BytesError: 0.2, Samples: 70_000, QueueMs: 3}.AppendBinary(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := assign.DecodeFactors(b)
		if err == nil && !bytes.Equal(x.AppendBinary(nil), b) {
			t.Fatalf("%x became %+v", b, x)
		}
	})
}
