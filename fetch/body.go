package fetch

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

const (
	// firstBuffer is what a buffer holds at first, and keptBuffer the largest that is kept for another body, in bytes.
	firstBuffer = 32 << 10
	keptBuffer  = 1 << 20
	// maxHint bounds what a Content-Length alone can make us allocate, in bytes.
	maxHint = 256 << 10
	// maxDrain is how much is read after the end of the decoded body to keep the connection, in bytes.
	maxDrain = 16 << 10
)

// errCut ends a wire that has reached its limit.
var errCut = errors.New("body is cut")

// buffers lends byte slices.
type buffers struct{ pool sync.Pool }

func (b *buffers) get(hint int64) *[]byte {
	p, _ := b.pool.Get().(*[]byte)
	if p == nil {
		p = new([]byte)
	}
	*p = slices.Grow((*p)[:0], int(max(firstBuffer, min(hint+1, maxHint)))) // one more: the last read sees the end
	return p
}

func (b *buffers) put(p *[]byte) {
	if cap(*p) <= keptBuffer {
		b.pool.Put(p)
	}
}

// wire is a body as it comes from the server: counted, cut at a limit, and remembered how it ended.
type wire struct {
	body  io.Reader
	limit int64
	watch *exchange
	keep  *[]byte // where the bytes go too; nil for nowhere

	n   int64
	end error // nil until it ended: io.EOF, errCut, or what net/http said
}

func (w *wire) Read(p []byte) (int, error) {
	if w.end != nil || len(p) == 0 {
		return 0, w.end
	}
	room := w.limit - w.n
	if int64(len(p)) > room {
		p = p[:room+1] // one byte more tells a body that is cut from one that just fits
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

// largest is the largest window of a decoder, in bytes: that of Brotli.
const largest = 16 << 20

// pot is the memory that large bodies may take, over all downloads. Windows have a share of their own, which is taken
// first: so nobody who holds one waits for another.
type pot struct {
	bodies  *semaphore.Weighted // beyond keptBuffer
	windows *semaphore.Weighted // bytes of those beyond keptBuffer
}

func newPot(bodies int) *pot {
	return &pot{semaphore.NewWeighted(int64(bodies)), semaphore.NewWeighted(int64(bodies) * largest)}
}

// place is what one download has taken from the pot: a body until its result is released, a window until it is decoded.
type place struct {
	pot    *pot
	ctx    context.Context
	watch  *exchange
	wire   *wire
	body   bool
	window int64
}

// take waits for the right to a large body.
func (p *place) take() error {
	if p.body {
		return nil
	}
	if err := p.wait(p.pot.bodies, 1); err != nil {
		return err
	}
	p.body = true
	return nil
}

// leave gives a large body back.
func (p *place) leave() {
	if p.body {
		p.body = false
		p.pot.bodies.Release(1)
	}
}

// takeWindow waits for the memory of the one large window that a download may have. Small ones are free.
func (p *place) takeWindow(size int64) error {
	if size <= keptBuffer {
		return nil
	}
	if err := p.wait(p.pot.windows, size); err != nil {
		return err
	}
	p.window = size
	return nil
}

func (p *place) leaveWindow() {
	if p.window > 0 {
		p.pot.windows.Release(p.window)
		p.window = 0
	}
}

// wait takes n from a part of the pot. The wait is not held against the server, but ends with the download.
func (p *place) wait(part *semaphore.Weighted, n int64) error {
	if part.TryAcquire(n) {
		return nil
	}
	p.watch.pause(true)
	defer p.watch.pause(false)
	if err := part.Acquire(p.ctx, n); err != nil {
		p.wire.end = err
		return err
	}
	return nil
}

// readAll appends r to *buf until its end, which is io.EOF, or until more than limit bytes have come: then it keeps limit
// bytes and returns errCut. A large body takes its place first.
func readAll(buf *[]byte, r io.Reader, limit int64, p *place) error {
	for empty := 0; ; {
		b := *buf
		if len(b) == cap(b) {
			if len(b) >= keptBuffer {
				if err := p.take(); err != nil {
					return err
				}
			}
			b = slices.Grow(b, len(b)) // doubles
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

// drain reads what little may follow the end of the decoded body, so that the connection can be kept. It reads into the
// free part of buf.
func (w *wire) drain(buf []byte) {
	free := buf[len(buf):cap(buf)]
	if len(free) < 512 {
		free = make([]byte, 4<<10)
	}
	for left := maxDrain; w.end == nil && left > 0; {
		n, _ := w.Read(free)
		left -= max(n, 1)
	}
}
