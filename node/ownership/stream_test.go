package ownership

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
)

// Whoever waits for replicas is told at once if there is nothing to wait for any more: too many wait already, nothing is sent any more, the
// replica has been behind for long, or the caller is gone.
func TestWaitForReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host, patience, old = "http://h.test", 3 * time.Second, time.Minute
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for what, c := range map[string]struct {
			ctx     context.Context
			change  func(s *stream)
			behind  time.Duration
			waits   bool
			late    int
			alone   int
			crowded bool
		}{
			"it waits":                     {t.Context(), func(*stream) {}, 0, true, 1, 0, false},
			"the last that has room":       {t.Context(), func(s *stream) { s.waiters = 63 }, 0, true, 1, 0, false},
			"too many wait":                {t.Context(), func(s *stream) { s.waiters = 64 }, 0, false, 1, 0, false},
			"nothing is sent":              {t.Context(), func(s *stream) { s.ended = true }, 0, false, 1, 0, false},
			"the caller is gone":           {over, func(*stream) {}, 0, false, 1, 0, false},
			"it has been behind for a bit": {t.Context(), func(s *stream) { s.ended = true }, old, false, 1, 0, false},
			"it has been behind for long":  {t.Context(), func(*stream) {}, old + 1, false, 0, 1, false},
			"it has all":                   {t.Context(), func(s *stream) { s.next(); s.stored(host) }, 0, false, 0, 0, false},
			"it lacks what came later":     {t.Context(), func(*stream) {}, -1, false, 0, 0, false},
			"many links wait":              {t.Context(), func(s *stream) { s.eager = 497 }, 0, true, 1, 0, true},
			"fewer links wait":             {t.Context(), func(s *stream) { s.eager = 496 }, 0, true, 1, 0, false},
		} {
			s := newStream(time.Now())
			begun := time.Now()
			s.take(map[string]*frontier.Change{host: {Added: []frontier.PendingURL{{Path: path(0)}}}}, begun.Add(-c.behind))
			c.change(s)
			waiters, eager := s.waiters, s.eager
			done := make(chan struct{})
			var late []string
			var alone int
			go func() {
				defer close(done)
				late, alone = s.await(c.ctx, []string{host, "http://other.test"}, begun, 3, patience, old)
			}()
			synctest.Wait()
			if c.waits && s.crowded() != c.crowded {
				t.Errorf("%s: there is a crowd: %v", what, !c.crowded)
			}
			<-done
			if waited := time.Since(begun); waited != map[bool]time.Duration{true: patience}[c.waits] || len(late) != c.late || alone != c.alone {
				t.Errorf("%s: after %v %v are late, %d alone", what, waited, late, alone)
			}
			if s.waiters != waiters || s.eager != eager {
				t.Errorf("%s: %d wait for %d links afterwards", what, s.waiters, s.eager)
			}
		}
	})
}

// A wait ends at once when nothing is left to wait for: the changes are stored, or the replica was mended, or nothing is sent any more.
func TestWhatEndsAWait(t *testing.T) {
	const host = "http://h.test"
	for what, end := range map[string]func(s *stream){
		"stored":  func(s *stream) { s.next(); s.stored(host) },
		"mended":  func(s *stream) { s.mend(host)(nil) },
		"the end": func(s *stream) { s.end() },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStream(time.Now())
			s.take(map[string]*frontier.Change{host: {Lost: true}}, time.Now())
			begun := time.Now()
			time.AfterFunc(time.Second, func() { end(s) })
			if s.await(t.Context(), []string{host}, begun, 1, time.Minute, time.Hour); time.Since(begun) != time.Second {
				t.Errorf("%s: it waited for %v", what, time.Since(begun))
			}
		})
	}
}

// Work is held back until its links are safe. Links found before changes were lost are waited for with patience.
func TestWorkThatIsHeldBack(t *testing.T) {
	const host = "http://h.test"
	now, never := time.Now(), func(time.Time) bool { return false }
	for after, cleared := range map[time.Duration]bool{time.Minute: false, time.Minute + 1: true} {
		s := newStream(now)
		if s.mature(never, now.Add(after), time.Minute, time.Hour) != cleared || s.mature(never, now.Add(after), time.Minute, time.Hour) || s.holdsBack(host) == cleared {
			t.Errorf("after %v nothing is waited for any more: %v", after, !cleared)
		}
		c := frontier.Chunk{Done: []uint64{1}, Pages: []frontier.PageRecord{{Path: "/p"}}}
		if s.withhold(host, &c); (len(c.Done) > 0) != cleared || (len(c.Pages) > 0) != cleared || s.busy(host) == cleared || s.holds() == cleared {
			t.Errorf("after %v it is told that %v is done, and it waits: %v, %v", after, c, s.busy(host), s.holds())
		}
	}
	s := newStream(now)
	s.cleared = true
	s.take(map[string]*frontier.Change{host: {Done: []uint64{1}, Pages: []frontier.PageRecord{{Path: "/p"}}, Tracked: true}}, now)
	for name, left := range map[string]int{host: 1, "http://other.test": 2} {
		c := frontier.Chunk{Done: []uint64{1, 2}, Pages: []frontier.PageRecord{{Path: "/p"}, {Path: "/q"}}}
		if s.withhold(name, &c); len(c.Done) != left || len(c.Pages) != left || c.Done[left-1] != 2 || c.Pages[left-1].Path != "/q" {
			t.Errorf("of %s there is told %v, %v", name, c.Done, c.Pages)
		}
	}
	if s.mature(never, now, 0, time.Hour); !s.holdsBack(host) {
		t.Error("it is not held back any more")
	}
	s.mature(func(until time.Time) bool { return until.Equal(now) }, now, 0, time.Hour)
	if c := s.next()[host]; c == nil || len(c.Done) != 1 || len(c.Pages) != 1 || !c.Tracked || s.bytes != 0 || len(s.hosts) > 0 || len(s.held) > 0 {
		t.Errorf("%+v is sent, and %d bytes of %d hosts wait", c, s.bytes, len(s.hosts))
	}
	if s.take(map[string]*frontier.Change{host: {Pages: []frontier.PageRecord{{Path: "/p"}}}}, now); !s.holdsBack(host) {
		t.Error("a page that is known already is not held back when it was visited again")
	}
	for i, tracked := range []bool{true, false} {
		s.take(map[string]*frontier.Change{host: {Done: []uint64{2}, Tracked: tracked}}, now.Add(time.Duration(i)))
	}
	for pages := 1; pages >= 0; pages-- { // the last work is safe later
		s.mature(func(until time.Time) bool { return pages == 0 || until.Equal(now) }, now, 0, time.Hour)
		if c := s.next()[host]; c == nil || len(c.Done) != 1 || len(c.Pages) != pages || c.Tracked || s.holdsBack(host) != (pages == 1) {
			t.Errorf("of three works, the last without a digest, there is sent %+v", c)
		}
	}
}

// The replica of a host lacks something while a change waits here. What is on its way is compared when it arrives.
func TestReplicaLacksWhatWaits(t *testing.T) {
	const host = "http://h.test"
	s := newStream(time.Now())
	s.cleared = true
	s.take(map[string]*frontier.Change{host: {Added: []frontier.PendingURL{{Path: "/p"}}}}, time.Now())
	if !s.busy(host) || s.busy("http://other.test") {
		t.Errorf("something waits of the host: %v, of another: %v", s.busy(host), s.busy("http://other.test"))
	}
	if s.next(); s.busy(host) {
		t.Error("what is on its way still waits")
	}
	s.take(map[string]*frontier.Change{host: {Added: []frontier.PendingURL{{Path: "/q"}}}}, time.Now())
	resume := s.pause(host)
	if s.mend(host)(nil); len(s.next()) > 0 {
		t.Error("what is paused twice goes on when one pause is over")
	}
	if resume(); !s.busy(host) {
		t.Error("a change that came while the replica was mended is gone")
	}
	s.next()
	if s.stored(host); len(s.hosts) > 0 || s.bytes != 0 {
		t.Errorf("of a host that is stored %d bytes wait, and %+v", s.bytes, s.hosts[host])
	}
}
