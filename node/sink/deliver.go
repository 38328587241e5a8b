package sink

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"proxima/node/runlog"
)

// deliverNext delivers the first package that is ready. A package that is refused goes to the end of the queue, so that it does
// not block the others.
func (s *Sink) deliverNext(ctx context.Context) (worked bool, err error) {
	if !s.reached {
		if err := s.reach(ctx); err != nil {
			return false, fmt.Errorf("%s does not answer: %w", s.cfg.URL, err)
		}
		s.over(&s.undelivered)
	}
	s.mu.Lock()
	var p *madePackage
	if len(s.ready) > 0 {
		p = s.ready[0]
	}
	s.mu.Unlock()
	if p == nil {
		return false, nil
	}
	if err := s.deliver(ctx, p); err != nil {
		if ctx.Err() == nil {
			s.mu.Lock()
			s.stats.Failures++
			s.ready = append(s.ready[1:], p)
			s.mu.Unlock()
		}
		return true, fmt.Errorf("packages cannot be delivered to %s: %w", s.cfg.URL, err)
	}
	s.deps.Log.Info(runlog.EventPackage, runlog.KeyPackage, p.Name, runlog.KeyCount, p.Pages, runlog.KeyBytes, p.size())
	s.over(&s.undelivered)
	s.mu.Lock() // after the events: Flush returns as soon as the queue is empty
	s.ready = s.ready[1:]
	s.packed -= p.size()
	s.stats.Packages++
	s.stats.Pages += int64(p.Pages)
	s.stats.Bytes += p.size()
	s.mu.Unlock()
	s.settled.Ring()
	s.review()
	return true, nil
}

// deliver sends the files of a package, the manifest last, and removes them when all are acknowledged.
func (s *Sink) deliver(ctx context.Context, p *madePackage) error {
	files := append(p.Files[:len(p.Files):len(p.Files)], p.manifest)
	for ; p.sent < len(files); p.sent++ {
		if err := send(ctx, s.to, s.dir, files[p.sent]); err != nil {
			return err
		}
	}
	// The manifest goes first: the next start removes files without one.
	for _, f := range slices.Backward(files) {
		if err := s.disk.remove(filepath.Join(s.dir, f.Name)); err != nil {
			return fmt.Errorf("remove %s: %w", p.Name, err)
		}
	}
	return nil
}

// fail records why packages cannot be made, or delivered.
func (s *Sink) fail(err error, trouble *string) {
	why := runlog.Plain(err.Error(), maxReason) // a destination may have put words in it
	s.mu.Lock()
	first := *trouble == ""
	*trouble = why
	s.stats.TroubleAt = time.Now()
	s.mu.Unlock()
	if first {
		s.deps.Log.Warn(runlog.EventSinkTrouble, runlog.KeyReason, why)
	}
	s.review()
}

// maxReason bounds what is told of a failure, in bytes.
const maxReason = 1 << 10

// over records that packages can be made, or delivered.
func (s *Sink) over(trouble *string) {
	s.mu.Lock()
	was := *trouble
	*trouble = ""
	s.mu.Unlock()
	if was != "" {
		s.deps.Log.Info(runlog.EventSinkTroubleOver, runlog.KeyReason, was)
	}
}

// usedLocked returns the bytes of disk space that the sink needs. A spool counts twice: it and the packages made from it exist
// together for a while.
func (s *Sink) usedLocked() int64 { return 2*s.spooled + s.packed }

// review pauses or resumes downloads, depending on the space left and on whether records can be written.
func (s *Sink) review() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch used := s.usedLocked(); {
	case used >= s.cfg.DiskBytes/8*7:
		s.full = true
	case used <= s.cfg.DiskBytes/4*3:
		s.full = false
	}
	why := s.unwritten
	if why == "" && s.full {
		why = fmt.Sprintf("the sink is full: %s of %s wait to be delivered", bytesText(s.usedLocked()), bytesText(s.cfg.DiskBytes))
		if trouble := cmp.Or(s.unpacked, s.undelivered); trouble != "" {
			why += "; " + trouble
		}
	}
	if why != s.held {
		s.held = why
		s.deps.Hold(why) // under mu, so that calls are in order
	}
}

// Status is what a sink has delivered and what waits.
type Status struct {
	// To is the destination.
	To string `json:"to"`
	// Open counts the downloads in the open spool.
	Open int `json:"open"`
	// Waiting counts spools and packages that are not delivered. Used is the disk space they need, of at most Limit bytes.
	Waiting int   `json:"waiting"`
	Used    int64 `json:"used"`
	Limit   int64 `json:"limit"`
	// Packages, Pages and Bytes were delivered since the start. Each format has packages of its own, and counts their pages.
	Packages int   `json:"packages"`
	Pages    int64 `json:"pages"`
	Bytes    int64 `json:"bytes"`
	// Damaged counts downloads that are lost since the start, because their records on this node's disk were damaged.
	Damaged int `json:"damaged"`
	// Failures counts failed deliveries. Trouble is why packages cannot be written, made or delivered, "" once they can again.
	Failures  int       `json:"failures"`
	Trouble   string    `json:"trouble"`
	TroubleAt time.Time `json:"trouble_at,omitzero"`
	// Flushing means that the crawl is over and the node waits for its packages to be taken.
	Flushing bool `json:"flushing"`
}

// Status returns the present state.
func (s *Sink) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.To, st.Waiting, st.Used, st.Limit = s.cfg.URL, len(s.closed)+len(s.ready), s.usedLocked(), s.cfg.DiskBytes
	st.Trouble, st.Flushing = cmp.Or(s.unwritten, s.unpacked, s.undelivered), s.flushing
	return st
}

// bytesText formats a number of bytes for people.
func bytesText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
