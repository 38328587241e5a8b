package member

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"
)

// coder writes or reads a value. Each format lists its parts once, in a method code that serves both directions. Every
// value has exactly one encoding, so reading and writing it again gives the same bytes.
type coder struct {
	b       []byte // written so far, or left to read
	writing bool
	err     error // the first error; everything read after it is zero
}

// coded is a pointer to a value that has a form.
type coded[T any] interface {
	*T
	code(*coder)
}

// encode appends the form of a value.
func encode[T any, P coded[T]](b []byte, v T) []byte {
	c := coder{b: b, writing: true}
	P(&v).code(&c)
	return c.b
}

// decode reads what encode wrote, and nothing after it.
func decode[T any, P coded[T]](b []byte, what string) (v T, err error) {
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

// take reads n bytes. It returns nil if there are fewer.
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

// version writes a version, or refuses any other.
func (c *coder) version(v byte) {
	got := v
	if c.byte(&got); got != v {
		c.fail(fmt.Errorf("unknown version %d", got))
	}
}

// flags are the bits of one byte, lowest first.
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
	if n <= 0 || n > 1 && c.b[n-1] == 0 { // only the shortest encoding is valid
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

// bytes are a length and that many bytes, at most limit.
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

// part is a value that encodes itself.
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

// id is a node's id, 16 bytes. Ids to be written are valid: they were checked when they came in.
func (c *coder) id(v *string) {
	if c.writing {
		raw, _ := hex.DecodeString(*v) //nolint:errcheck // see above
		c.b = append(c.b, raw...)
	} else {
		*v = hex.EncodeToString(c.take(IDLen / 2))
	}
}

// list is one of members, sorted by their ids, without duplicates. Each has its own form.
func list[T any](c *coder, v *[]T, form func(*T), id func(T) string) {
	n := uint64(len(*v))
	if c.uvarint(&n); n > maxEntries {
		c.fail(fmt.Errorf("more than %d members", maxEntries))
	}
	for k := 0; k < int(n) && (c.writing || c.err == nil); k++ {
		if !c.writing {
			*v = append(*v, *new(T))
		}
		all := *v
		if form(&all[k]); k > 0 && id(all[k-1]) >= id(all[k]) {
			c.fail(errors.New("members are not in order"))
		}
	}
}

func (c *coder) ids(v *[]string) { list(c, v, c.id, func(id string) string { return id }) }

// maxAge bounds durations that other nodes send.
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
