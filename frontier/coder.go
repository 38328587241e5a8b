package frontier

import (
	"encoding/binary"
	"time"
)

// coder writes fields to b one after the other, or reads them from b. So one function describes a format for both directions: each method
// writes the value that it is given, or overwrites it with what it reads. After the first damaged field, broken is set and b is empty.
// Callers check broken, and that b is used up, at the end.
type coder struct {
	b       []byte
	reading bool
	broken  bool
	later   bool // it is broken because a later version of the program wrote it
	// now is when the fields are written or read. age is how long before the reading they were written. Both are for time.
	now time.Time
	age time.Duration
}

func reader(b []byte) coder { return coder{b: b, reading: true} }

func (c *coder) fail() { c.broken, c.b = true, nil }

// next returns the next n bytes, or nil.
func (c *coder) next(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.fail()
		return nil
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *coder) uvarint(v *uint64) {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, *v)
		return
	}
	n := 0
	if *v, n = binary.Uvarint(c.b); n <= 0 {
		c.fail()
		return
	}
	c.b = c.b[n:]
}

// small codes a uvarint of at most most.
func small[T ~int | ~uint8 | ~uint32](c *coder, v *T, most uint64) {
	wide := uint64(*v)
	if c.uvarint(&wide); !c.reading {
		return
	}
	if wide > most {
		c.fail()
	}
	*v = T(wide)
}

// varint codes a signed number between -most and most. It writes larger numbers as the bound.
func (c *coder) varint(v *int64, most int64) {
	if !c.reading {
		c.b = binary.AppendVarint(c.b, max(-most, min(*v, most)))
		return
	}
	var wide uint64
	c.uvarint(&wide)
	if *v = int64(wide>>1) ^ -int64(wide&1); *v > most || *v < -most {
		c.fail()
	}
}

// byte codes one byte of at most most.
func (c *coder) byte(v *uint8, most uint8) {
	if !c.reading {
		c.b = append(c.b, *v)
	} else if b := c.next(1); b != nil {
		if *v = b[0]; *v > most {
			c.fail()
		}
	}
}

// word codes 8 bytes, little-endian.
func (c *coder) word(v *uint64) {
	if !c.reading {
		c.b = binary.LittleEndian.AppendUint64(c.b, *v)
	} else if b := c.next(8); b != nil {
		*v = binary.LittleEndian.Uint64(b)
	}
}

// half codes 4 bytes, little-endian.
func (c *coder) half(v *uint32) {
	if !c.reading {
		c.b = binary.LittleEndian.AppendUint32(c.b, *v)
	} else if b := c.next(4); b != nil {
		*v = binary.LittleEndian.Uint32(b)
	}
}

// text codes a length and at most most bytes.
func (c *coder) text(v *string, most uint64) {
	n := len(*v)
	small(c, &n, most)
	if !c.reading {
		c.b = append(c.b, *v...)
	} else {
		*v = string(c.next(uint64(n)))
	}
}

func list[T any](c *coder, v *[]T, element func(*T)) {
	n := uint64(len(*v))
	c.uvarint(&n)
	for i := 0; uint64(i) < n && !c.broken; i++ {
		if c.reading {
			*v = append(*v, *new(T))
		}
		element(&(*v)[i])
	}
}

// millis codes a duration in milliseconds, up to most.
func (c *coder) millis(v *time.Duration, most time.Duration) {
	n := uint64(*v / time.Millisecond)
	c.uvarint(&n)
	if c.reading {
		*v = time.Duration(min(n, uint64(most/time.Millisecond))) * time.Millisecond
	}
}

// stamp codes the time of writing in Unix milliseconds. It must come before the first time. If it lies in the future, one of the two clocks
// was wrong. Then the age counts as 0, so that no wait gets shorter.
func (c *coder) stamp() {
	ms := uint64(max(0, c.now.UnixMilli())) // a clock that was never set may be before 1970
	if c.uvarint(&ms); !c.reading {
		return
	}
	c.age = max(0, min(c.now.Sub(time.UnixMilli(int64(ms))), maxAge))
}

// time codes a point in time as its distance from the time of writing: milliseconds, zigzag plus 1, and 0 for the zero time. A time that
// is read is at most ahead later than the writing. It has the monotonic clock of now, so it stays right when the wall clock is set.
func (c *coder) time(v *time.Time, ahead time.Duration) {
	var n uint64
	if !c.reading && !v.IsZero() {
		d := max(-maxAge, min(v.Sub(c.now), maxAge)).Milliseconds()
		n = uint64(d<<1^d>>63) + 1
	}
	if c.uvarint(&n); !c.reading || n == 0 {
		return
	}
	n--
	ms := int64(n>>1) ^ -int64(n&1)
	if most := maxAge.Milliseconds(); ms > most || ms < -most {
		c.fail()
		return
	}
	*v = c.now.Add(min(time.Duration(ms)*time.Millisecond, ahead) - c.age)
}
