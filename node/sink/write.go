package sink

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"proxima/node/runlog"
)

// maxTogether is how many records may share one write and sync.
const maxTogether = 256

// writer writes the open spool, on a goroutine of its own.
type writer struct {
	*Sink
	serial uint32
	age    <-chan time.Time // closes the open spool
	retry  <-chan time.Time // allows downloads again after a failure
	failed int              // failures in a row
}

// write writes records until ctx ends, several in one write where they arrive together, and closes spools that are full or old.
func (s *Sink) write(ctx context.Context) {
	w := &writer{Sink: s}
	for {
		select {
		case <-ctx.Done():
			if s.open != nil { // the next life packs it
				_ = s.open.file.Close() // every record is synced
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
		case <-w.age:
			w.closeSpool()
		case <-s.closings:
			w.closeSpool()
		case <-w.retry:
			w.trouble(nil) // the next download tries again
		}
		if s.open != nil && s.open.size >= s.cfg.SizeBytes {
			w.closeSpool()
		}
	}
}

// append writes records and answers the callers of Put.
func (w *writer) append(batch []*put) {
	var err error
	if w.open == nil {
		err = w.begin()
	}
	sp := w.open
	var frames, payload []byte
	var written []*put
	full := false
	for _, p := range batch {
		if err != nil {
			p.err = err
			continue
		}
		p.n = sp.records + uint32(len(written))
		payload = p.spooled.append(payload[:0], sp.mark())
		before := len(frames)
		if frames = appendFrame(frames, payload); !w.room(int64(len(frames))) {
			p.err, frames, full = ErrFull, frames[:before], true
			continue
		}
		p.ticket = &Ticket{sink: w.Sink, spool: sp, record: p.n}
		written = append(written, p)
	}
	if len(written) > 0 {
		err = sp.append(w.disk, frames)
	}
	if err != nil || len(written) > 0 {
		w.trouble(err)
	}
	w.mu.Lock()
	w.full = w.full || full // else the download would be made again at once
	if err == nil {
		w.spooled += int64(len(frames))
		if sp != nil {
			sp.records += uint32(len(written))
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

// room reports whether n more bytes of spool fit within the bound.
func (w *writer) room(n int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.usedLocked()+2*n <= w.cfg.DiskBytes
}

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
		w.age = time.After(w.cfg.Age)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = sp
	w.spooled += sp.size
	return nil
}

// closeSpool closes the open spool, if there is one. The next record opens another.
func (w *writer) closeSpool() {
	w.age = nil
	if w.open == nil {
		return
	}
	if err := w.open.file.Close(); err != nil { // every record is synced
		w.deps.Warn(fmt.Errorf("close spool: %w", err))
	}
	w.mu.Lock()
	w.open.file = nil
	w.closed = append(w.closed, w.open)
	w.open, w.stats.Open = nil, 0
	w.mu.Unlock()
	w.settled.Ring()
	w.changed.Ring()
}

// trouble records the outcome of a write. After a failure it pauses downloads, longer each time.
func (w *writer) trouble(err error) {
	why := ""
	if err != nil {
		why = "what is downloaded cannot be written: " + runlog.Innermost(err)
		if w.failed++; w.failed == 1 {
			w.deps.Log.Warn(runlog.EventSinkTrouble, runlog.KeyReason, why)
		}
		w.retry = time.After(min(time.Minute, time.Second<<min(w.failed, 6)))
	} else if w.retry = nil; w.unwritten == "" && w.failed > 0 {
		w.failed = 0
		w.deps.Log.Info(runlog.EventSinkTroubleOver, runlog.KeyReason, "what is downloaded can be written again")
	}
	w.mu.Lock()
	if w.unwritten = why; why != "" {
		w.stats.TroubleAt = time.Now()
	}
	w.mu.Unlock()
	w.review()
}

// packNext makes packages of the first closed spool, once all of its downloads have ended. A spool that fails, as on a bad sector, goes to
// the end of the queue, so that it does not block the others.
func (s *Sink) packNext(ctx context.Context) (worked bool, err error) {
	s.mu.Lock()
	var sp *spool
	if len(s.closed) > 0 && s.closed[0].out == 0 {
		sp = s.closed[0]
	}
	s.mu.Unlock()
	if sp == nil {
		return false, nil
	}
	if err := s.pack(ctx, sp); err != nil {
		s.mu.Lock()
		s.closed = append(s.closed[1:], sp)
		s.mu.Unlock()
		return true, errors.New("packages cannot be made: " + runlog.Innermost(err))
	}
	s.mu.Lock()
	s.spooled -= sp.size
	for _, p := range sp.made {
		s.packed += p.size()
	}
	s.ready = append(s.ready, sp.made...)
	s.mu.Unlock()
	s.over(&s.unpacked)
	s.review()
	s.work.Ring() // delivery may free the space that the removal of receipts waits for
	if err := s.forget(sp.receiptKey(), nil); err != nil {
		s.deps.Warn(err)
	}
	s.mu.Lock()
	s.closed = s.closed[1:]
	s.mu.Unlock()
	s.settled.Ring()
	return true, nil
}
