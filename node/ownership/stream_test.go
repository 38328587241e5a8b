package ownership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"proxima/frontier"
)

// streamed is the host of the tests of this file.
const streamed = "http://h.test"

// added and finished are changes of it: a URL was found, or a page was done.
func added(path string) map[string]*frontier.Change {
	return map[string]*frontier.Change{streamed: {Added: []frontier.PendingURL{{Path: path}}}}
}

func finished(hash uint64, path string, tracked bool) map[string]*frontier.Change {
	c := &frontier.Change{Done: []uint64{hash}, Tracked: tracked}
	if path != "" {
		c.Pages = []frontier.PageRecord{{Path: path}}
	}
	return map[string]*frontier.Change{streamed: c}
}

// Whoever waits for replicas is told at once if there is nothing to wait for any more: too many wait already, nothing is sent any more, the
// replica has been behind for long, or the caller is gone.
func TestWaitForReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience, old = 3 * time.Second, time.Minute
		here := t.Context()
		gone, cancel := context.WithCancel(here)
		cancel()
		nothing, ended := func(*stream) {}, func(s *stream) { s.ended = true }
		for _, c := range []struct {
			what    string
			ctx     context.Context
			change  func(s *stream)
			behind  time.Duration
			waits   bool
			late    int
			alone   int
			crowded bool
		}{
			{"it waits", here, nothing, 0, true, 1, 0, false},
			{"the last that has room", here, func(s *stream) { s.waiters = 63 }, 0, true, 1, 0, false},
			{"too many wait", here, func(s *stream) { s.waiters = 64 }, 0, false, 1, 0, false},
			{"nothing is sent", here, ended, 0, false, 1, 0, false},
			{"the caller is gone", gone, nothing, 0, false, 1, 0, false},
			{"it has been behind for a bit", here, ended, old, false, 1, 0, false},
			{"it has been behind for long", here, nothing, old + 1, false, 0, 1, false},
			{"it has all", here, func(s *stream) { s.next(); s.stored(streamed) }, 0, false, 0, 0, false},
			{"it lacks what came later", here, nothing, -1, false, 0, 0, false},
			{"many links wait", here, func(s *stream) { s.eager = 497 }, 0, true, 1, 0, true},
			{"fewer links wait", here, func(s *stream) { s.eager = 496 }, 0, true, 1, 0, false},
		} {
			s, begun := newStream(time.Now()), time.Now()
			s.take(added("/0"), begun.Add(-c.behind))
			c.change(s)
			waiters, eager := s.waiters, s.eager
			var late map[string]bool
			var alone int
			var waited time.Duration
			var g sync.WaitGroup
			g.Go(func() {
				late, alone = s.await(c.ctx, []string{streamed, "http://other.test"}, begun, 3, patience, old)
				waited = time.Since(begun)
			})
			synctest.Wait()
			if c.waits && s.crowded() != c.crowded {
				t.Errorf("%s: there is a crowd: %v", c.what, !c.crowded)
			}
			g.Wait()
			if waited != map[bool]time.Duration{true: patience}[c.waits] || len(late) != c.late || alone != c.alone {
				t.Errorf("%s: after %v %v are late, %d alone", c.what, waited, late, alone)
			}
			if s.waiters != waiters || s.eager != eager {
				t.Errorf("%s: %d wait for %d links afterwards", c.what, s.waiters, s.eager)
			}
		}
	})
}

// A wait ends at once when nothing is left to wait for: the changes are stored, or the replica was mended, or nothing is sent any more. A
// round that stored nothing wakes nobody, as the next round would begin at once, again and again, until the replica answers.
func TestWhatEndsAWait(t *testing.T) {
	for what, end := range map[string]func(s *stream){
		"stored":  func(s *stream) { s.next(); s.stored(streamed) },
		"mended":  func(s *stream) { s.mend(streamed)(nil) },
		"the end": func(s *stream) { s.end() },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStream(time.Now())
			s.take(map[string]*frontier.Change{streamed: {Lost: true}}, time.Now())
			begun := time.Now()
			time.AfterFunc(time.Second, func() {
				<-s.wake
				s.stored()
				synctest.Wait()
				select {
				case <-s.wake:
					t.Errorf("%s: after a round that stored nothing there is another one", what)
				default:
				}
				end(s)
			})
			if s.await(t.Context(), []string{streamed}, begun, 1, time.Minute, time.Hour); time.Since(begun) != time.Second {
				t.Errorf("%s: it waited for %v", what, time.Since(begun))
			}
		})
	}
}

// Work is held back until the replicas of an earlier life are compared, but where one cannot be, not for longer than the patience.
func TestWorkBehindReplicasThatCannotBeCompared(t *testing.T) {
	now, settled := time.Now(), func(time.Time) bool { return true }
	s := newStream(now)
	s.begin(now)
	s.take(finished(1, "/p", true), now.Add(time.Second))
	for _, after := range []time.Duration{time.Minute, time.Minute + 1} {
		cleared := s.mature(settled, now.Add(after), time.Minute, time.Hour)
		if over := after > time.Minute; cleared != over || s.holdsBack(streamed) == over {
			t.Errorf("after %v nothing is waited for any more: %v, and work is held back: %v", after, cleared, s.holdsBack(streamed))
		}
	}
}

// Work is held back until its links are safe. Links found before changes were lost are waited for with patience.
func TestWorkThatIsHeldBack(t *testing.T) {
	now, never := time.Now(), func(time.Time) bool { return false }
	for after, cleared := range map[time.Duration]bool{time.Minute: false, time.Minute + 1: true} {
		s := newStream(now)
		mature := func() bool { return s.mature(never, now.Add(after), time.Minute, time.Hour) }
		if mature() != cleared || mature() || s.holdsBack(streamed) == cleared {
			t.Errorf("after %v nothing is waited for any more: %v", after, !cleared)
		}
		c := frontier.Chunk{Done: []uint64{1}, Pages: []frontier.PageRecord{{Path: "/p"}}}
		if s.withhold(streamed, &c); (len(c.Done) > 0) != cleared || (len(c.Pages) > 0) != cleared || s.busy(streamed) == cleared || s.empty() != cleared {
			t.Errorf("after %v it is told that %v is done, and it waits: %v, %v", after, c, s.busy(streamed), !s.empty())
		}
	}
	s := newStream(now)
	s.stopped(now.Add(time.Second)) // from then on others could answer
	for _, after := range []time.Duration{time.Minute + 1, time.Minute + time.Second, time.Minute + time.Second + 1} {
		if s.mature(never, now.Add(after), time.Minute, time.Hour) != (after > time.Minute+time.Second) {
			t.Errorf("this node stood still, and after %v nothing is waited for any more: %v", after, s.cleared)
		}
	}
	s = newStream(now)
	s.cleared = true
	s.take(finished(1, "/p", true), now)
	for name, left := range map[string]int{streamed: 1, "http://other.test": 2} {
		c := frontier.Chunk{Done: []uint64{1, 2}, Pages: []frontier.PageRecord{{Path: "/p"}, {Path: "/q"}}}
		if s.withhold(name, &c); len(c.Done) != left || len(c.Pages) != left || c.Done[left-1] != 2 || c.Pages[left-1].Path != "/q" {
			t.Errorf("of %s there is told %v, %v", name, c.Done, c.Pages)
		}
	}
	if s.mature(never, now, 0, time.Hour); !s.holdsBack(streamed) {
		t.Error("it is not held back any more")
	}
	s.mature(func(until time.Time) bool { return until.Equal(now) }, now, 0, time.Hour)
	if c := s.next()[streamed]; c == nil || len(c.Done) != 1 || len(c.Pages) != 1 || !c.Tracked || s.bytes != 0 || s.hosts[streamed].away != 1 || len(s.held) > 0 {
		t.Errorf("%+v is sent, and %d bytes of %d hosts wait", c, s.bytes, len(s.hosts))
	}
	s.stored(streamed)
	if s.take(map[string]*frontier.Change{streamed: {Pages: []frontier.PageRecord{{Path: "/p"}}}}, now); !s.holdsBack(streamed) {
		t.Error("a page that is known already is not held back when it was visited again")
	}
	s.take(finished(2, "", true), now)
	s.take(finished(2, "", false), now.Add(1))
	for pages := 1; pages >= 0; pages-- { // the last work is safe later
		s.mature(func(until time.Time) bool { return pages == 0 || until.Equal(now) }, now, 0, time.Hour)
		if c := s.next()[streamed]; c == nil || len(c.Done) != 1 || len(c.Pages) != pages || c.Tracked || s.holdsBack(streamed) != (pages == 1) {
			t.Errorf("of three works, the last without a digest, there is sent %+v", c)
		}
		s.stored(streamed)
	}
}

// The nodes with replicas are dead, and the outbox is given what was found. Pages that were done before are held back until it has settled that.
func TestWorkWhoseLinksAreLeftToTheOutbox(t *testing.T) {
	const other = "http://other.test"
	now := time.Now()
	left := now.Add(time.Millisecond)
	for settled, held := range map[time.Time]bool{now: true, left: false} {
		s := newStream(now)
		s.cleared = true
		s.take(finished(1, "", true), now)
		s.take(map[string]*frontier.Change{other: {Added: []frontier.PendingURL{{Path: "/1"}}}}, now)
		s.leave(other, s.next()[other], left)
		s.mature(func(until time.Time) bool { return !until.After(settled) }, left, 0, time.Hour)
		if len(s.held) > 0 != held {
			t.Errorf("what is added until %v is settled, and it is held back: %v", settled, !held)
		}
		s.take(map[string]*frontier.Change{other: {Added: []frontier.PendingURL{{Path: "/2"}}}}, left)
		if c := s.next()[other]; c == nil || len(c.Added) != 2 || len(s.ungiven(other, c)) != 1 || s.ungiven(other, c)[0].Path != "/2" {
			t.Errorf("for the next replica there is %+v", c)
		}
	}
}

// The replica of a host lacks something while a change waits here. What is on its way is compared when it arrives; what was found meanwhile,
// or was dropped, is not at the replica then.
func TestReplicaLacksWhatWaits(t *testing.T) {
	s, now := newStream(time.Now()), time.Now()
	s.cleared = true
	expect := func(what string, busy, stored bool) {
		t.Helper()
		if s.busy(streamed) != busy || s.storedLocked(time.Now(), time.Time{}) != stored || s.busy("http://other.test") {
			t.Errorf("%s: something waits: %v, all is stored: %v", what, !busy, !stored)
		}
	}
	s.take(added("/1"), now)
	expect("a change waits", true, false)
	s.next()
	expect("it is on its way", false, false)
	s.take(added("/2"), now)
	s.stored(streamed)
	expect("another was found meanwhile", true, false)
	s.mend(streamed)(nil)
	expect("it came while the replica was mended", true, false)
	s.next()
	s.stored(streamed)
	expect("all is stored", false, true)
	if len(s.hosts) > 0 || s.bytes != 0 {
		t.Errorf("of a host that is stored %d bytes wait, and %+v", s.bytes, s.hosts[streamed])
	}
	s.take(added("/3"), now)
	s.next()
	s.bytes = maxStream + 1
	if s.take(added("/4"), now.Add(time.Second)); s.storedLocked(now, time.Time{}) {
		t.Error("what was on its way when changes were dropped counts as stored")
	}
}

// After a failed mending, the replica must still be mended. Later changes go out meanwhile, and are not compared. They wait if changes were lost.
func TestMendingThatFails(t *testing.T) {
	for _, failure := range []error{nil, errors.New("no answer")} {
		s, now := newStream(time.Now()), time.Now()
		s.take(map[string]*frontier.Change{streamed: {Lost: true}}, now)
		over := s.mend(streamed)
		s.take(added("/1"), now)
		if out := s.next(); len(out) > 0 {
			t.Errorf("%v was sent while it was mended", out)
		}
		over(failure)
		if c := s.next()[streamed]; c == nil || c.Lost != (failure != nil) || len(c.Added) != 1 && !c.Lost {
			t.Errorf("after %v there waits %+v", failure, c)
		}
		if s.stored(streamed); !s.storedLocked(time.Now(), time.Time{}) {
			t.Errorf("after %v something is left", failure)
		}
		if s.mend(streamed)(failure); len(s.hosts) > 0 {
			t.Errorf("after %v a host that lacks nothing is waited for", failure)
		}
		s.take(added("/2"), now)
		s.next()
		s.mend(streamed)
		s.stored(streamed) // what was sent before is answered meanwhile
		s.take(added("/3"), now)
		s.cleared = true
		if c := s.next()[streamed]; c == nil || s.compares(streamed) || !s.compares("http://other.test") {
			t.Errorf("%+v was sent while it was mended, and is compared: %v", c, s.compares(streamed))
		}
		s.stored(streamed)
		s.take(map[string]*frontier.Change{streamed: {Lost: true}}, now)
		if out := s.next(); len(out) > 0 {
			t.Errorf("%v was sent while it was mended", out)
		}
	}
}

// Whatever is found, sent, overtaken, answered, put back and mended in which order: what counts as stored is at the replica.
func TestWhatCountsAsStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := newStream(time.Now()), time.Now()
		found, there := map[string]time.Time{}, map[string]bool{}
		var onTheWay []*frontier.Change
		var mended func(error) // while the replica is being mended
		var read []string      // what that brings
		sent := func(changes map[string]*frontier.Change) {
			switch c := changes[streamed]; {
			case c == nil:
			case c.Lost:
				s.putBack(streamed, &frontier.Change{Lost: true})
			case rapid.Bool().Draw(t, "the peer is busy"):
				s.putBack(streamed, c)
			default:
				onTheWay = append(onTheWay, c)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for path, at := range found {
					if !there[path] && s.storedLocked(at, time.Time{}) {
						t.Fatalf("%s counts as stored", path)
					}
				}
			},
			"find": func(*rapid.T) {
				now = now.Add(time.Second)
				path := fmt.Sprint("/", len(found))
				found[path] = now
				s.take(added(path), now)
			},
			"finish":    func(*rapid.T) { s.take(finished(1, "", false), now) },
			"send":      func(*rapid.T) { sent(s.next()) },
			"hand over": func(*rapid.T) { sent(s.only(streamed)) },
			"answer": func(t *rapid.T) {
				if len(onTheWay) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(onTheWay)-1).Draw(t, "which")
				c := onTheWay[i]
				onTheWay = slices.Delete(onTheWay, i, i+1)
				switch rapid.IntRange(0, 2).Draw(t, "what") {
				case 0:
					s.putBack(streamed, c)
				case 1: // the disk is full
					s.putBack(streamed, &frontier.Change{Lost: true})
				default:
					for _, p := range c.Added {
						there[p.Path] = true
					}
					s.stored(streamed)
				}
			},
			"begin to mend": func(t *rapid.T) {
				if mended != nil {
					t.Skip()
				}
				mended, read = s.mend(streamed), slices.Collect(maps.Keys(found))
			},
			"mend": func(t *rapid.T) {
				if mended == nil {
					t.Skip()
				}
				var err error
				if rapid.Bool().Draw(t, "it fails") {
					err, read = errors.New("no answer"), nil
				}
				for _, path := range read {
					there[path] = true
				}
				mended(err)
				mended = nil
			},
		})
	})
}
