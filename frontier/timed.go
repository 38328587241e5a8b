package frontier

import (
	"errors"
	"time"

	"proxima/frontier/coder"
)

// timed is a coder of a format with points in time.
type timed struct {
	coder.Coder
	// now is when the fields are written or read. age is how long before the reading they were written.
	now time.Time
	age time.Duration
}

// stamp codes the time of writing in Unix milliseconds. It must come before the first time. If it lies in the future, one of the two clocks
// was wrong. Then the age counts as 0, so that no wait gets shorter.
func (c *timed) stamp() {
	ms := uint64(max(0, c.now.UnixMilli())) // a clock that was never set may be before 1970
	if c.Uvarint(&ms); c.Reading() {
		c.age = max(0, min(c.now.Sub(time.UnixMilli(int64(ms))), maxAge))
	}
}

// time codes a point in time as its distance from the time of writing: milliseconds, zigzag plus 1, and 0 for the zero time. A time that
// is read is at most ahead later than the writing. It has the monotonic clock of now, so it stays right when the wall clock is set.
func (c *timed) time(v *time.Time, ahead time.Duration) {
	var n uint64
	if !c.Reading() && !v.IsZero() {
		d := max(-maxAge, min(v.Sub(c.now), maxAge)).Milliseconds()
		n = uint64(d<<1^d>>63) + 1
	}
	if c.Uvarint(&n); !c.Reading() || n == 0 {
		return
	}
	n--
	ms := int64(n>>1) ^ -int64(n&1)
	if most := maxAge.Milliseconds(); ms > most || ms < -most {
		c.Fail(errors.New("a time out of range"))
		return
	}
	*v = c.now.Add(min(time.Duration(ms)*time.Millisecond, ahead) - c.age)
}
