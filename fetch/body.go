package fetch

import (
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// A buffer starts with firstBuffer bytes; one larger than keptBuffer is not reused.
	firstBuffer = 32 << 10
	keptBuffer  = 1 << 20
	// maxHint limits how many bytes a Content-Length alone can make us allocate.
	maxHint = 256 << 10
	// maxDrain is how many bytes are read after the end of the decoded body, and drainTime for how long, so that the connection can be
	// reused.
	maxDrain  = 16 << 10
	drainTime = time.Second
)

// errCut ends a wire at its limit.
var errCut = errors.New("body is cut")

// errSilent ends a download whose page is whole.
var errSilent = &failure{TooSlow, errors.New("more of the body is announced, and does not come")}

// buffers is a pool of byte slices.
type buffers struct{ pool sync.Pool }

// get returns an empty buffer for about hint bytes; -1 if nobody knows.
func (b *buffers) get(hint int64) *[]byte {
	p, _ := b.pool.Get().(*[]byte)
	if p == nil {
		p = new([]byte)
	}
	if n := int(max(firstBuffer, min(hint+1, maxHint))); cap(*p) < n { // one more byte, to read the end without growing
		*p = make([]byte, 0, n)
	}
	*p = (*p)[:0]
	return p
}

// put takes a buffer back, unless it is large.
func (b *buffers) put(p *[]byte) {
	if cap(*p) <= keptBuffer {
		b.pool.Put(p)
	}
}

// wire is a body as it comes from the server. It counts the bytes, cuts them at a limit, and remembers how the body ended. It holds what the
// download takes of the budget.
type wire struct {
	body   io.Reader
	limit  int64
	watch  *exchange
	budget *largeBudget
	keep   *[]byte // gets a copy of the bytes, unless nil

	n      int64
	end    error // nil until the end: io.EOF, errCut, or an error of net/http
	large  bool  // the body counts as large, until its result is released
	window int64 // bytes of a large window, until it is decoded
	padded bool  // more has come than the coded page
}

// Read reads the body up to its limit. It returns errCut where more follows.
func (w *wire) Read(p []byte) (int, error) {
	if w.end != nil || len(p) == 0 {
		return 0, w.end
	}
	if w.keep != nil && len(*w.keep) > keptBuffer { // even if the body decodes to little
		if err := w.takeBody(); err != nil {
			return 0, err
		}
	}
	room := w.limit - w.n
	if int64(len(p)) > room {
		p = p[:room+1] // one more byte shows whether the body just fits
	}
	n, err := w.body.Read(p)
	if int64(n) > room {
		n, err = int(room), errCut
	}
	w.n += int64(n)
	w.watch.bytes.Add(int64(n))
	if w.keep != nil {
		*w.keep = append(*w.keep, p[:n]...)
	}
	if err != nil {
		w.end = err
		w.watch.done()
	}
	return n, err
}

// coded is a wire as a decoder sees it: however the body ended, it is over. The decoder tells whether its content is whole by then; what is
// missing may be only the end of the framing, such as the last chunk.
type coded struct{ *wire }

func (c coded) Read(p []byte) (int, error) {
	n, err := c.wire.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// largestWindow is the largest window of a decoder, in bytes: that of Brotli.
const largestWindow = 16 << 20

// largeBudget limits the memory of large bodies over all downloads. Windows of decoders have a semaphore of their own. A download
// takes it before that of bodies, so that no two downloads wait for each other.
type largeBudget struct {
	bodies  *semaphore.Weighted // number of bodies beyond keptBuffer
	windows *semaphore.Weighted // bytes of windows beyond keptBuffer
	waiting atomic.Int64        // number of downloads that wait for one of them
}

// giveWay is how many times MinRate a download must have that holds a part of the budget while others wait. A few servers that drip could
// otherwise hold all of it until TotalTimeout.
const giveWay = 16

func newLargeBudget(bodies int) *largeBudget {
	return &largeBudget{bodies: semaphore.NewWeighted(int64(bodies)), windows: semaphore.NewWeighted(int64(bodies) * largestWindow)}
}

// takeBody waits until this body may be large.
func (w *wire) takeBody() error {
	if w.large {
		return nil
	}
	err := w.wait(w.budget.bodies, 1)
	w.large = err == nil
	w.holds()
	return err
}

// releaseBody lets another body be large.
func (w *wire) releaseBody() {
	if w.large {
		w.large = false
		w.budget.bodies.Release(1)
		w.holds()
	}
}

// takeWindow waits for the memory of a large window, of which a download has at most one. Small windows are free.
func (w *wire) takeWindow(size int64) error {
	if size <= keptBuffer {
		return nil
	}
	w.releaseBody() // a large capture takes it again
	err := w.wait(w.budget.windows, size)
	if err == nil {
		w.window = size
	}
	w.holds()
	return err
}

// releaseWindow gives back what takeWindow took.
func (w *wire) releaseWindow() {
	w.budget.windows.Release(w.window)
	w.window = 0
	w.holds()
}

// holds tells the watch whether the download holds a part of the budget.
func (w *wire) holds() {
	if w.large || w.window > 0 {
		w.watch.holds.Store(w.budget)
	} else {
		w.watch.holds.Store(nil)
	}
}

// wait takes n from a part of the budget. Meanwhile MinRate is suspended, but the other limits of the download hold.
func (w *wire) wait(part *semaphore.Weighted, n int64) error {
	if part.TryAcquire(n) {
		return nil
	}
	w.budget.waiting.Add(1)
	defer w.budget.waiting.Add(-1)
	w.watch.pause(true)
	defer w.watch.pause(false)
	err := part.Acquire(w.watch.ctx, n)
	if err != nil {
		w.end = err
	}
	return err
}

// readAll appends r, which is the wire or what decodes it, to *buf and returns the error that ends it, io.EOF at the end. After more than limit
// bytes it keeps limit of them and returns errCut. Before a body grows large, it takes its share of the budget.
func (w *wire) readAll(buf *[]byte, r io.Reader, limit int64) error {
	for empty := 0; ; {
		b := *buf
		if len(b) == cap(b) {
			if len(b) >= keptBuffer {
				if err := w.takeBody(); err != nil {
					return err
				}
			}
			b = slices.Grow(b, len(b)) // double it
		}
		free := b[len(b):cap(b)]
		if room := limit - int64(len(b)) + 1; int64(len(free)) > room {
			free = free[:room]
		}
		n, err := r.Read(free)
		*buf = b[:len(b)+n]
		if int64(len(*buf)) > limit {
			*buf = (*buf)[:limit]
			return errCut
		}
		if err != nil {
			return err
		}
		if empty++; n > 0 {
			empty = 0
		} else if empty > 100 {
			return io.ErrNoProgress
		}
	}
}

// drain reads on after the end of the decoded body, for a bounded time and length, so that the connection can be used again.
func (w *wire) drain() {
	late := time.AfterFunc(drainTime, func() { w.watch.cancel(errSilent) })
	defer late.Stop()
	n, _ := io.CopyN(io.Discard, w, maxDrain)
	w.padded = w.padded || n > 0
}
