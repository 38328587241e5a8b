// Package coder describes formats of bytes, each once for both directions.
//
// A format is a function that calls methods of a Coder in the order of its fields. Each method writes the value that it is given, or
// overwrites it with what it reads:
//
//	func (p *point) code(c *coder.Coder) {
//		c.Version(1)
//		c.Uvarint(&p.x)
//		c.Text(&p.name, 100)
//	}
//
// A value has one form: reading refuses what writing would not have written.
package coder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// Coder writes or reads fields one after the other. After the first error it reads nothing more, and what it has read is of no use.
type Coder struct {
	// B is what has been written so far, or what is left to read: nothing after an error.
	B       []byte
	reading bool
	err     error
}

// Writer returns a coder that appends to b.
func Writer(b []byte) Coder { return Coder{B: b} }

// Reader returns a coder that reads b.
func Reader(b []byte) Coder { return Coder{B: b, reading: true} }

// Reading says whether the coder reads.
func (c *Coder) Reading() bool { return c.reading }

// ErrUnknown is the cause of Err if a later version of the program may have written what was read.
var ErrUnknown = errors.New("unknown")

// Causes of Err that may come often.
var (
	errShort  = errors.New("too short")
	errNumber = errors.New("bad number")
)

// Err returns the first error.
func (c *Coder) Err() error { return c.err }

// Fail makes err the error, if it is the first.
func (c *Coder) Fail(err error) {
	if c.err == nil {
		c.err = err
	}
	if c.reading {
		c.B = nil
	}
}

// End returns the first error. Bytes that are left to read are one.
func (c *Coder) End() error {
	if c.reading && len(c.B) > 0 {
		c.Fail(fmt.Errorf("%d bytes too many", len(c.B)))
	}
	return c.err
}

// Take reads n bytes and returns them; nil if there are fewer.
func (c *Coder) Take(n uint64) []byte {
	if n > uint64(len(c.B)) {
		c.Fail(errShort)
		return nil
	}
	taken := c.B[:n]
	c.B = c.B[n:]
	return taken
}

// Byte codes a byte of at most most.
func (c *Coder) Byte(v *uint8, most uint8) {
	if !c.reading {
		c.B = append(c.B, *v)
	} else if b := c.Take(1); b != nil {
		if *v = b[0]; *v > most {
			c.Fail(fmt.Errorf("%d where at most %d is known", *v, most))
		}
	}
}

// Version writes a version, or refuses any other.
func (c *Coder) Version(v uint8) {
	got := v
	if c.Byte(&got, math.MaxUint8); got != v {
		c.Fail(fmt.Errorf("%w version %d", ErrUnknown, got))
	}
}

// Flags codes up to eight of them as the bits of one byte, lowest first.
func (c *Coder) Flags(bits ...*bool) {
	var all uint8
	for i, on := range bits {
		if *on {
			all |= 1 << i
		}
	}
	if c.Byte(&all, math.MaxUint8); !c.reading {
		return
	}
	if all>>len(bits) != 0 {
		c.Fail(fmt.Errorf("%w flags %#x", ErrUnknown, all))
		return
	}
	for i, on := range bits {
		*on = all>>i&1 != 0
	}
}

// Uvarint codes a number in as few bytes as it needs.
func (c *Coder) Uvarint(v *uint64) {
	if !c.reading {
		c.B = binary.AppendUvarint(c.B, *v)
		return
	}
	got, n := binary.Uvarint(c.B)
	if n <= 0 || n > 1 && c.B[n-1] == 0 {
		c.Fail(errNumber)
		return
	}
	*v, c.B = got, c.B[n:]
}

// Varint codes a signed number between -most and most as a zigzag uvarint. A larger one is written as the bound.
func (c *Coder) Varint(v *int64, most int64) {
	bounded := max(-most, min(*v, most))
	zigzag := uint64(bounded<<1 ^ bounded>>63)
	if c.Uvarint(&zigzag); !c.reading {
		return
	}
	if *v = int64(zigzag>>1) ^ -int64(zigzag&1); *v > most || *v < -most {
		c.Fail(errNumber)
	}
}

// Small codes a number of at most most as a uvarint.
func Small[T ~int | ~uint8 | ~uint32](c *Coder, v *T, most uint64) {
	wide := uint64(*v)
	if c.Uvarint(&wide); !c.reading {
		return
	}
	if *v = T(wide); wide > most {
		c.Fail(errNumber)
	}
}

// Word codes 8 bytes, little-endian.
func (c *Coder) Word(v *uint64) {
	if !c.reading {
		c.B = binary.LittleEndian.AppendUint64(c.B, *v)
	} else if b := c.Take(8); b != nil {
		*v = binary.LittleEndian.Uint64(b)
	}
}

// Half codes 4 bytes, little-endian.
func (c *Coder) Half(v *uint32) {
	if !c.reading {
		c.B = binary.LittleEndian.AppendUint32(c.B, *v)
	} else if b := c.Take(4); b != nil {
		*v = binary.LittleEndian.Uint32(b)
	}
}

// Float codes a number in single precision, 4 bytes.
func (c *Coder) Float(v *float64) {
	bits := math.Float32bits(float32(*v))
	if c.Half(&bits); c.reading {
		*v = float64(math.Float32frombits(bits))
	}
}

// Bytes codes a length of at most most and that many bytes. What it reads is a part of B.
func (c *Coder) Bytes(v *[]byte, most uint64) {
	n := uint64(len(*v))
	switch c.Uvarint(&n); {
	case !c.reading:
		c.B = append(c.B, *v...)
	case n > most:
		c.Fail(fmt.Errorf("part of %d bytes, more than %d", n, most))
	default:
		*v = c.Take(n)
	}
}

// Text codes a length of at most most and that many bytes.
func (c *Coder) Text(v *string, most uint64) {
	b := []byte(*v)
	if c.Bytes(&b, most); c.reading {
		*v = string(b)
	}
}

// List codes a length of at most most, and each element by a function that reads at least one byte.
func List[T any](c *Coder, v *[]T, most uint64, element func(*T)) {
	n := uint64(len(*v))
	if c.Uvarint(&n); c.reading && n > most {
		c.Fail(fmt.Errorf("list of %d, more than %d", n, most))
	}
	for i := uint64(0); i < n && !(c.reading && c.err != nil); i++ {
		if c.reading {
			*v = append(*v, *new(T))
		}
		element(&(*v)[i])
	}
}

// Millis codes a duration between 0 and most in whole milliseconds. One beyond is written as the bound.
func (c *Coder) Millis(v *time.Duration, most time.Duration) {
	n := uint64(max(0, min(*v, most)) / time.Millisecond)
	if c.Uvarint(&n); !c.reading {
		return
	}
	if n > uint64(most/time.Millisecond) {
		c.Fail(fmt.Errorf("%d ms, more than %v", n, most))
		return
	}
	*v = time.Duration(n) * time.Millisecond
}
