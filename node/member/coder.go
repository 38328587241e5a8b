package member

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"proxima/frontier/coder"
)

// coded is a pointer to a value that has a form.
type coded[T any] interface {
	*T
	code(*coder.Coder)
}

// encode appends the form of a value.
func encode[T any, P coded[T]](b []byte, v T) []byte {
	c := coder.Writer(b)
	P(&v).code(&c)
	return c.B
}

// decode reads what encode wrote, and nothing after it.
func decode[T any, P coded[T]](b []byte, what string) (v T, err error) {
	c := coder.Reader(b)
	P(&v).code(&c)
	if err := c.End(); err != nil {
		return *new(T), fmt.Errorf("decode %s: %w", what, err)
	}
	return v, nil
}

// part is a value that encodes itself.
func part[T interface{ AppendBinary([]byte) []byte }](c *coder.Coder, v *T, read func([]byte) (T, error)) {
	var b []byte
	if !c.Reading() {
		b = (*v).AppendBinary(nil)
	}
	if c.Bytes(&b, 64); !c.Reading() || c.Err() != nil {
		return
	}
	var err error
	if *v, err = read(b); err != nil {
		c.Fail(err)
	}
}

// id is a node's id, 16 bytes. Ids to be written are valid: they were checked when they came in.
func id(c *coder.Coder, v *string) {
	if c.Reading() {
		*v = hex.EncodeToString(c.Take(IDLen / 2))
	} else {
		raw, _ := hex.DecodeString(*v) //nolint:errcheck // see above
		c.B = append(c.B, raw...)
	}
}

// list is one of members, sorted by their ids, without duplicates. Each has its own form.
func list[T any](c *coder.Coder, v *[]T, form func(*T), id func(T) string) {
	k := 0
	coder.List(c, v, maxEntries, func(e *T) {
		if form(e); k > 0 && id((*v)[k-1]) >= id(*e) {
			c.Fail(errors.New("members are not in order"))
		}
		k++
	})
}

func ids(c *coder.Coder, v *[]string) {
	list(c, v, func(s *string) { id(c, s) }, func(s string) string { return s })
}

// maxAge bounds durations that other nodes send.
const maxAge = 10 * 365 * 24 * time.Hour
