// Package bell wakes a goroutine that has something to do.
package bell

// Bell is read by one goroutine, which then looks for all that there is to do. However often others ring meanwhile, it looks once more.
type Bell chan struct{}

// New makes a Bell.
func New() Bell { return make(Bell, 1) }

// Ring wakes the reader now, or when it next reads. It never waits.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}
