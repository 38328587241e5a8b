package sink

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// maxTogether is how many records share one write to the disk.
const maxTogether = 256

// writer is the goroutine that writes the open spool.
type writer struct {
	*Sink
	serial uint32
	age    *time.Timer // of the open spool
	retry  *time.Timer // after a failure
	failed int
}

// write writes records as they come, together those that come together, and closes packages that are full or old.
func (s *Sink) write(ctx context.Context) {
	w := &writer{Sink: s, age: time.NewTimer(time.Hour), retry: time.NewTimer(time.Hour)}
	w.age.Stop()
	w.retry.Stop()
	defer w.age.Stop()
	defer w.retry.Stop()
	for {
		select {
		case <-ctx.Done():
			if s.open != nil { // it is packed by the next life
				_ = s.open.file.Close() // every record in it is on the disk
			}
			return
		case p := <-s.puts:
			batch := []*put{p}
			for more := true; more && len(batch) < maxTogether; {
				select {
				case p := <-s.puts:
					batch = append(batch, p)
				default:
					more = false
				}
			}
			w.append(batch)
		case <-w.age.C:
			w.turn()
		case <-s.turns:
			w.turn()
		case <-w.retry.C:
			w.trouble(nil) // whoever downloads next tries
		}
		if s.open != nil && s.open.size >= s.cfg.SizeBytes {
			w.turn()
		}
	}
}

// append writes records and answers their callers.
func (w *writer) append(batch []*put) {
	var err error
	if w.open == nil {
		err = w.begin()
	}
	sp := w.open
	var frames, payload []byte
	var written []*put
	for _, p := range batch {
		switch before := len(frames); {
		case err != nil:
			p.err = err
		default:
			r := spooled{n: sp.records + uint32(len(written)), page: p.page, time: p.time, parts: p.parts}
			payload = r.append(payload[:0])
			if frames = appendFrame(frames, payload); !w.room(int64(len(frames))) {
				p.err, frames = ErrFull, frames[:before]
				continue
			}
			p.ticket = &Ticket{sink: w.Sink, spool: sp, record: r.n}
			written = append(written, p)
		}
	}
	if len(written) > 0 {
		err = sp.append(w.disk, frames)
		sp.records += uint32(len(written))
	}
	w.trouble(err)
	w.mu.Lock()
	if err == nil {
		w.spooled += int64(len(frames))
		if sp != nil {
			sp.out += len(written)
			w.stats.Open = int(sp.records)
		}
	}
	w.mu.Unlock()
	w.review()
	for _, p := range batch {
		if p.err == nil && err != nil {
			p.err = err
		}
		close(p.done)
	}
}

// room says whether so many bytes more fit within the bound.
func (w *writer) room(n int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.usedLocked()+2*n <= w.cfg.DiskBytes
}

// begin begins the next spool.
func (w *writer) begin() error {
	w.serial++
	now := time.Now().UTC()
	h := header{V: spoolVersion, Boot: uint32(w.deps.Boot), Serial: w.serial, Formats: w.cfg.Formats, Begun: now,
		Name: fmt.Sprintf("proxima-%s-%.8s-%d-%05d", strings.Replace(now.Format("20060102150405.000"), ".", "", 1), w.deps.Node, w.deps.Boot, w.serial)}
	sp, err := beginSpool(w.disk, w.dir, h)
	if err != nil {
		return err
	}
	if w.cfg.Age > 0 {
		w.age.Reset(w.cfg.Age)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = sp
	w.spooled += sp.size
	return nil
}

// turn closes the open spool: the next record begins another.
func (w *writer) turn() {
	w.age.Stop()
	if w.open == nil {
		return
	}
	if err := w.open.file.Close(); err != nil { // every record in it is on the disk
		w.deps.Warn(fmt.Errorf("close spool: %w", err))
	}
	w.mu.Lock()
	w.open.file = nil
	w.closed = append(w.closed, w.open)
	w.open, w.stats.Open = nil, 0
	w.settleLocked()
	w.mu.Unlock()
	signal(w.changed)
}

// trouble notes whether the last write went well. After a failure downloads are held for a while, longer each time.
func (w *writer) trouble(err error) {
	why := ""
	if err != nil {
		why = "what is downloaded cannot be written: " + plain(err)
		if w.failed++; w.failed == 1 {
			w.deps.Event(Event{Kind: Trouble, Reason: why})
		}
		w.retry.Reset(min(time.Minute, time.Second<<min(w.failed, 6)))
	} else if w.retry.Stop(); w.unwritten == "" && w.failed > 0 {
		w.failed = 0
		w.deps.Event(Event{Kind: TroubleOver, Reason: "what is downloaded can be written again"})
	}
	w.mu.Lock()
	w.unwritten = why
	w.mu.Unlock()
	w.review()
}

// plain is an error without the paths of this package's doing.
func plain(err error) string {
	for u := err; u != nil; u = errors.Unwrap(u) {
		err = u
	}
	return err.Error()
}

// packAll makes packages of the spools that are closed and whose downloads have ended, in order.
func (s *Sink) packAll(ctx context.Context) {
	for failed := 0; ; {
		s.mu.Lock()
		var sp *spool
		if len(s.closed) > 0 && s.closed[0].out == 0 {
			sp = s.closed[0]
		}
		s.mu.Unlock()
		if sp == nil {
			select {
			case <-s.changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		made, err := s.pack(ctx, sp)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			failed++
			s.fail("packages cannot be made: " + plain(err))
			if !pause(ctx, failed) {
				return
			}
			continue
		}
		failed = 0
		s.mu.Lock()
		s.spooled -= sp.size
		for _, p := range made {
			s.packed += p.size()
		}
		s.ready = append(s.ready, made...)
		s.mu.Unlock()
		s.review()
		signal(s.work)
		// The receipts say nothing any more. What is delivered meanwhile makes room, should that be what this has to wait for.
		if err := s.forget(sp.receiptKey()); err != nil {
			s.deps.Warn(err)
		}
		s.mu.Lock()
		s.closed = s.closed[1:]
		s.settleLocked()
		s.mu.Unlock()
	}
}
