package assign

import (
	"encoding/binary"
	"fmt"
	"math"
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

// encodedFactors is the form for gossip and disk, little endian.
type encodedFactors struct {
	Version    uint8
	LoadMs     float32
	LoadError  uint8 // in steps of 1/64
	BytesPerMs float32
	BytesError uint8 // in steps of 1/64
	Samples    uint16
	QueueMs    float32
}

// AppendBinary appends the form for gossip and disk, FactorsSize bytes.
func (f Factors) AppendBinary(b []byte) []byte {
	b, err := binary.Append(b, binary.LittleEndian, encodedFactors{factorsVersion, float32(f.LoadMs), errorCode(f.LoadError),
		float32(f.BytesPerMs), errorCode(f.BytesError), uint16(max(0, min(f.Samples, math.MaxUint16))), float32(f.QueueMs)})
	if err != nil {
		panic(err) // the size of the form is fixed
	}
	return b
}

// errorCode rounds up, so that a small error never becomes none.
func errorCode(e float64) byte { return byte(max(0, min(math.Ceil(e*64), 255))) }

// DecodeFactors reads what AppendBinary wrote. It fails on other versions and lengths, and on what Check refuses.
func DecodeFactors(b []byte) (Factors, error) {
	if len(b) > 0 && b[0] != factorsVersion {
		return Factors{}, fmt.Errorf("decode factors: unknown version %d", b[0])
	}
	var e encodedFactors
	if n, err := binary.Decode(b, binary.LittleEndian, &e); err != nil || n != len(b) {
		return Factors{}, fmt.Errorf("decode factors: %d bytes, not %d", len(b), FactorsSize)
	}
	f := Factors{float64(e.LoadMs), float64(e.LoadError) / 64, float64(e.BytesPerMs), float64(e.BytesError) / 64, int(e.Samples),
		float64(e.QueueMs)}
	if err := f.Check(); err != nil {
		return Factors{}, fmt.Errorf("decode factors: %w", err)
	}
	return f, nil
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
