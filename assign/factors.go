package assign

import (
	"fmt"
	"math"

	"proxima/frontier/coder"
)

const (
	factorsVersion = 2
	// FactorsSize is the length of encoded factors, in bytes.
	FactorsSize = 17
	maxFactor   = 1e9
)

// Factors is what a node has learnt about itself from its own downloads, and publishes: what it adds to the time of a download,
// apart from the network. The zero value is that of a node that has learnt nothing.
type Factors struct {
	// LoadMs is what the node's load adds to a download, in ms.
	LoadMs float64
	// LoadError is the standard deviation of LoadMs in the log domain: 0.1 is 10 %.
	LoadError float64
	// BytesPerMs is the node's bandwidth, in bytes per ms (kB/s).
	BytesPerMs float64
	// BytesError is the standard deviation of BytesPerMs in the log domain.
	BytesError float64
	// Samples is the number of downloads behind the fields above, up to 65,535. If it is 0, those fields have no meaning.
	Samples int
	// QueueMs is how long a page waits for a fetcher at the node now, in ms.
	QueueMs float64
}

// AppendBinary appends the form for gossip and disk, FactorsSize bytes.
func (f Factors) AppendBinary(b []byte) []byte { return coder.Append(b, f.code) }

// DecodeFactors reads what AppendBinary wrote. It fails on other versions and lengths, and on what Check refuses.
func DecodeFactors(b []byte) (f Factors, err error) {
	if err = coder.Read(b, f.code); err == nil {
		err = f.Check()
	}
	if err != nil {
		return Factors{}, fmt.Errorf("decode factors: %w", err)
	}
	return f, nil
}

func (f *Factors) code(c *coder.Coder) {
	c.Version(factorsVersion)
	c.Float(&f.LoadMs)
	codeError(c, &f.LoadError)
	c.Float(&f.BytesPerMs)
	codeError(c, &f.BytesError)
	samples := uint16(max(0, min(f.Samples, math.MaxUint16)))
	c.Short(&samples)
	f.Samples = int(samples)
	c.Float(&f.QueueMs)
}

// codeError codes an error in steps of 1/64. It is rounded up, so that a small one never becomes none.
func codeError(c *coder.Coder, e *float64) {
	steps := uint8(max(0, min(math.Ceil(*e*64), 255)))
	if c.Byte(&steps, math.MaxUint8); c.Reading() {
		*e = float64(steps) / 64
	}
}

// Check returns an error if the factors are impossible.
func (f Factors) Check() error {
	for _, v := range [...]float64{f.LoadMs, f.LoadError, f.BytesPerMs, f.BytesError, f.QueueMs} {
		if !(v >= 0 && v <= maxFactor) {
			return fmt.Errorf("check factors: %v is not between 0 and %v", v, float64(maxFactor))
		}
	}
	if f.Samples < 0 {
		return fmt.Errorf("check factors: %d samples", f.Samples)
	}
	return nil
}
