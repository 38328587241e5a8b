package sink

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// deliverAll sends packages one after the other. One that is refused goes to the end, so that it does not keep the others back.
func (s *Sink) deliverAll(ctx context.Context) {
	for failed := 0; ; {
		s.mu.Lock()
		var p *parcel
		if len(s.ready) > 0 {
			p = s.ready[0]
		}
		s.mu.Unlock()
		if p == nil {
			select {
			case <-s.work:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := s.deliver(ctx, p)
		if ctx.Err() != nil && err != nil {
			return
		}
		if err != nil {
			failed++
			s.mu.Lock()
			s.stats.Failures++
			s.ready = append(s.ready[1:], p)
			s.mu.Unlock()
			s.fail(fmt.Sprintf("%s does not take packages: %v", s.cfg.URL, err))
			if !pause(ctx, failed) {
				return
			}
			continue
		}
		failed = 0
		s.mu.Lock()
		over := s.undone
		s.undone = ""
		s.mu.Unlock()
		s.deps.Event(Event{Kind: Delivered, Name: p.Name, Pages: p.Pages, Bytes: p.size()})
		if over != "" {
			s.deps.Event(Event{Kind: TroubleOver, Reason: over})
		}
		s.mu.Lock() // last: when nothing waits any more, Flush returns
		s.ready = s.ready[1:]
		s.packed -= p.size()
		s.stats.Packages++
		s.stats.Pages += int64(p.Pages)
		s.stats.Bytes += p.size()
		s.settleLocked()
		s.mu.Unlock()
		s.review()
	}
}

// deliver sends the files of a package, the manifest last, and removes them here when all are acknowledged.
func (s *Sink) deliver(ctx context.Context, p *parcel) error {
	files := append(p.Files[:len(p.Files):len(p.Files)], p.manifest)
	for ; p.sent < len(files); p.sent++ {
		if err := s.to.put(ctx, s.dir, files[p.sent]); err != nil {
			return err
		}
	}
	// Without its manifest the rest is removed at the next start, if this is interrupted.
	for i := range files {
		if err := s.disk.remove(filepath.Join(s.dir, files[len(files)-1-i].Name)); err != nil {
			return fmt.Errorf("remove %s: %w", p.Name, err)
		}
	}
	return nil
}

// fail notes why packages cannot be made or delivered.
func (s *Sink) fail(why string) {
	s.mu.Lock()
	news := s.undone == ""
	s.undone = why
	s.stats.TroubleAt = time.Now()
	s.mu.Unlock()
	if news {
		s.deps.Event(Event{Kind: Trouble, Reason: why})
	}
	s.review()
}

// usedLocked is what the sink takes on the disk, and what it will while it makes packages: a spool and its packages are there
// together for a while. It needs mu held.
func (s *Sink) usedLocked() int64 { return 2*s.spooled + s.packed }

// review holds downloads, or lets them go on, as the room and the disk ask for.
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
		if s.undone != "" {
			why += "; " + s.undone
		}
	}
	if why != s.held {
		s.held = why
		s.deps.Hold(why) // in order, for mu is held
	}
}

// Status says what a sink has done and what waits.
type Status struct {
	// To is the destination.
	To string `json:"to"`
	// Open are the downloads in the package that is open.
	Open int `json:"open"`
	// Waiting are the packages that are not delivered, those to be made among them; Used what they take of Limit, in bytes.
	Waiting int   `json:"waiting"`
	Used    int64 `json:"used"`
	Limit   int64 `json:"limit"`
	// Packages, Pages and Bytes were delivered since the start.
	Packages int   `json:"packages"`
	Pages    int64 `json:"pages"`
	Bytes    int64 `json:"bytes"`
	// Failures counts tries to deliver that went wrong. Trouble says why the last one did, "" when a package was taken since.
	Failures  int       `json:"failures"`
	Trouble   string    `json:"trouble"`
	TroubleAt time.Time `json:"trouble_at,omitzero"`
	// Flushing says that the crawl is over and the node waits for its packages to be taken.
	Flushing bool `json:"flushing"`
}

// Status reports.
func (s *Sink) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.To, st.Waiting, st.Used, st.Limit = s.cfg.URL, len(s.closed)+len(s.ready), s.usedLocked(), s.cfg.DiskBytes
	st.Trouble, st.Flushing = s.undone, s.flushing
	if s.unwritten != "" {
		st.Trouble = s.unwritten
	}
	return st
}

// bytesText writes a number of bytes for people.
func bytesText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
