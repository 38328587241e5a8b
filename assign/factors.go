package assign

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const (
	factorsVersion = 2
	// FactorsSize is the length of encoded factors, in bytes.
	FactorsSize = 17
	maxFactor   = 1e9
)

// Factors are what a node has learnt about its own downloads from any server, and publishes: what it adds to a download
// besides the way through the network. The zero value is that of a node that has learnt nothing.
type Factors struct {
	// LoadMs is what the node's own load adds to a download, in ms.
	LoadMs float64
	// LoadError is the standard deviation of LoadMs in the log domain: 0.1 is 10 %.
	LoadError float64
	// BytesPerMs is the node's bandwidth, in bytes a millisecond (kilobytes a second).
	BytesPerMs float64
	// BytesError is the standard deviation of BytesPerMs in the log domain.
	BytesError float64
	// Samples is how many downloads this was learnt from; what is above counts for nothing if it is 0. Up to 65,535.
	Samples int
	// QueueMs is how long a page waits for a fetcher at the node now, in ms.
	QueueMs float64
}

// AppendBinary appends the form for gossip and disk, FactorsSize bytes: a version, two float32, two errors in steps of
// 1/64, a count, a float32.
func (f Factors) AppendBinary(b []byte) []byte {
	b = append(b, factorsVersion)
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(f.LoadMs)))
	b = append(b, errorCode(f.LoadError))
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(f.BytesPerMs)))
	b = append(b, errorCode(f.BytesError))
	b = binary.LittleEndian.AppendUint16(b, uint16(max(0, min(f.Samples, math.MaxUint16))))
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(f.QueueMs)))
}

// errorCode rounds up, so that an error never becomes none.
func errorCode(e float64) byte { return byte(max(0, min(math.Ceil(e*64), 255))) }

// DecodeFactors reads what AppendBinary wrote and nothing else.
func DecodeFactors(b []byte) (Factors, error) {
	if len(b) == 0 {
		return Factors{}, errors.New("decode factors: empty")
	}
	if b[0] != factorsVersion {
		return Factors{}, fmt.Errorf("decode factors: unknown version %d", b[0])
	}
	if len(b) != FactorsSize {
		return Factors{}, fmt.Errorf("decode factors: %d bytes, not %d", len(b), FactorsSize)
	}
	f := Factors{
		LoadMs:     float64(math.Float32frombits(binary.LittleEndian.Uint32(b[1:]))),
		LoadError:  float64(b[5]) / 64,
		BytesPerMs: float64(math.Float32frombits(binary.LittleEndian.Uint32(b[6:]))),
		BytesError: float64(b[10]) / 64,
		Samples:    int(binary.LittleEndian.Uint16(b[11:])),
		QueueMs:    float64(math.Float32frombits(binary.LittleEndian.Uint32(b[13:]))),
	}
	if err := f.Check(); err != nil {
		return Factors{}, fmt.Errorf("decode factors: %w", err)
	}
	return f, nil
}

// Check says why factors cannot be, nil if they can.
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
