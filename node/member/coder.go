package member

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"
)

// coder writes values, or reads them. What is sent and kept names its parts once, in their order, in a method code that
// serves both ways. Numbers have one form each, so that whoever reads a value and writes it has the same bytes.
type coder struct {
	b       []byte // what was written, or what is left to read
	writing bool
	err     error // why it cannot be read, the first reason; all that is read after it is zero
}

// encode appends the form of a value.
func encode(b []byte, v interface{ code(*coder) }) []byte {
	c := coder{b: b, writing: true}
	v.code(&c)
	return c.b
}

// decode reads what encode wrote, and nothing else.
func decode[T any, P interface {
	*T
	code(*coder)
}](b []byte, what string) (v T, err error) {
	c := coder{b: b}
	P(&v).code(&c)
	if len(c.b) > 0 {
		c.fail(fmt.Errorf("%d bytes too many", len(c.b)))
	}
	if c.err != nil {
		return *new(T), fmt.Errorf("decode %s: %w", what, c.err)
	}
	return v, nil
}

// fail keeps the first error.
func (c *coder) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// take reads bytes, nil if there are too few.
func (c *coder) take(n int) []byte {
	if n > len(c.b) {
		c.fail(errors.New("too short"))
	}
	if c.err != nil {
		return nil
	}
	taken := c.b[:n]
	c.b = c.b[n:]
	return taken
}

func (c *coder) byte(v *byte) {
	if c.writing {
		c.b = append(c.b, *v)
	} else if b := c.take(1); b != nil {
		*v = b[0]
	}
}

// version refuses every other one.
func (c *coder) version(v byte) {
	got := v
	if c.byte(&got); got != v {
		c.fail(fmt.Errorf("unknown version %d", got))
	}
}

// flags are the bits of a byte, the lowest first.
func (c *coder) flags(bits ...*bool) {
	var all byte
	for i, on := range bits {
		if *on {
			all |= 1 << i
		}
	}
	if c.byte(&all); all>>len(bits) != 0 {
		c.fail(fmt.Errorf("unknown flags %#x", all))
	}
	if !c.writing {
		for i, on := range bits {
			*on = all>>i&1 != 0
		}
	}
}

func (c *coder) uvarint(v *uint64) {
	if c.writing {
		c.b = binary.AppendUvarint(c.b, *v)
		return
	}
	got, n := binary.Uvarint(c.b)
	if n <= 0 || n > 1 && c.b[n-1] == 0 { // one form a number
		c.fail(errors.New("bad number"))
	}
	if c.err == nil {
		*v, c.b = got, c.b[n:]
	}
}

func (c *coder) fixed(v *uint64) {
	if c.writing {
		c.b = binary.LittleEndian.AppendUint64(c.b, *v)
	} else if b := c.take(8); b != nil {
		*v = binary.LittleEndian.Uint64(b)
	}
}

func (c *coder) float(v *float64) {
	if c.writing {
		c.b = binary.LittleEndian.AppendUint32(c.b, math.Float32bits(float32(*v)))
	} else if b := c.take(4); b != nil {
		*v = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
}

// count is the length of a list: that of the one to be written, or of the one to be read.
func (c *coder) count(have int) int {
	n := uint64(have)
	if c.uvarint(&n); n > maxEntries {
		c.fail(fmt.Errorf("more than %d members", maxEntries))
	}
	if !c.writing && c.err != nil {
		return 0
	}
	return int(n)
}

// bytes are a length and as many bytes, at most limit.
func (c *coder) bytes(v *[]byte, limit int) {
	n := uint64(len(*v))
	c.uvarint(&n)
	switch {
	case c.writing:
		c.b = append(c.b, *v...)
	case n > uint64(limit):
		c.fail(fmt.Errorf("part of %d bytes, more than %d", n, limit))
	default:
		*v = c.take(int(n))
	}
}

func (c *coder) text(v *string, limit int) {
	b := []byte(*v)
	if c.bytes(&b, limit); !c.writing {
		*v = string(b)
	}
}

// part is a value with a form of its own.
func part[T interface{ AppendBinary([]byte) []byte }](c *coder, v *T, read func([]byte) (T, error)) {
	var b []byte
	if c.writing {
		b = (*v).AppendBinary(nil)
	}
	c.bytes(&b, 64)
	if !c.writing && c.err == nil {
		*v, c.err = read(b)
	}
}

// id is that of a node, 16 bytes. Those that are written were checked when they came in.
func (c *coder) id(v *string) {
	if c.writing {
		raw, _ := hex.DecodeString(*v) //nolint:errcheck // see above
		c.b = append(c.b, raw...)
	} else {
		*v = hex.EncodeToString(c.take(IDLen / 2))
	}
}

// ids are in their order, each once.
func (c *coder) ids(v *[]string) {
	n := c.count(len(*v))
	for k := 0; k < n && (c.writing || c.err == nil); k++ {
		if !c.writing {
			*v = append(*v, "")
		}
		ids := *v
		if c.id(&ids[k]); k > 0 && ids[k-1] >= ids[k] {
			c.fail(errOrder)
		}
	}
}

var errOrder = errors.New("members are not in order")

// maxAge bounds durations that others tell.
const maxAge = 10 * 365 * 24 * time.Hour

// millis is a duration in whole milliseconds, not negative.
func (c *coder) millis(v *time.Duration) {
	ms := uint64(max(*v, 0) / time.Millisecond)
	if c.uvarint(&ms); ms > uint64(maxAge/time.Millisecond) {
		c.fail(fmt.Errorf("age of %d ms", ms))
	} else if !c.writing {
		*v = time.Duration(ms) * time.Millisecond
	}
}
