package member

import (
	"testing"
	"time"

	"proxima/node/view"
)

// What is announced anew: a change in any of what a node says of itself, and nothing for its place alone.
func TestWhatIsAnnouncedAnew(t *testing.T) {
	was := meta{stamp: 7, way: view.Way{Reach: view.Outbound, Relays: []string{nodeID(2)}}}
	for what, c := range map[string]struct {
		change func(*meta)
		same   bool
	}{
		"elsewhere":     {func(a *meta) { a.place.rev++ }, true},
		"settled":       {func(a *meta) { a.settled = true }, false},
		"over":          {func(a *meta) { a.over = true }, false},
		"other voters":  {func(a *meta) { a.stamp = 8 }, false},
		"another reach": {func(a *meta) { a.way.Reach = view.Direct }, false},
		"other relays":  {func(a *meta) { a.way.Relays = []string{nodeID(3)} }, false},
		"no relays":     {func(a *meta) { a.way.Relays = nil }, false},
	} {
		is := was
		if c.change(&is); is.saysSame(was) != c.same {
			t.Errorf("%s: the same is %v", what, !c.same)
		}
	}
}

// A place is announced when it is worth it and the last announcement is a while ago, anything else at once.
func TestWhenANodeAnnouncesItself(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	m := lone(t, func(_ *Config, d *Deps) { d.Now = func() time.Time { return now } })
	for _, c := range []struct {
		what   string
		after  time.Duration
		change func()
		news   bool
	}{
		{"nothing", time.Hour, func() {}, false},
		{"a move", m.cfg.AnnounceEvery - 1, func() { m.locator.place.coord.Height += 100 }, false},
		{"a move, later", m.cfg.AnnounceEvery, func() { m.locator.place.coord.Height += 100 }, true},
		{"a small move", time.Hour, func() { m.locator.place.coord.Height++ }, false},
		{"that it is settled", 0, func() { m.table.self.declared = true }, true},
	} {
		for range 1 + tellAgain {
			delegate{m}.NodeMeta(0)
		}
		c.change()
		if now = now.Add(c.after); m.newsLocked() != c.news {
			t.Errorf("%s after %v: it is announced: %v", c.what, c.after, !c.news)
		}
	}
}

// What is new is announced twice more, a second apart: a broadcast may get lost on the way, or before.
func TestNewsAreAnnouncedAgain(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	m := lone(t, func(_ *Config, d *Deps) { d.Now = func() time.Time { return now } })
	for range 1 + tellAgain {
		delegate{m}.NodeMeta(0)
	}
	for range 2 {
		m.table.self.declared = !m.table.self.declared
		for again := range tellAgain {
			delegate{m}.NodeMeta(0)
			if now = now.Add(againAfter - 1); m.newsLocked() {
				t.Errorf("it is announced again, time %d, too early", again)
			}
			if now = now.Add(1); !m.newsLocked() {
				t.Errorf("it is not announced again, time %d", again)
			}
		}
		delegate{m}.NodeMeta(0)
		if now = now.Add(time.Hour); m.newsLocked() {
			t.Error("it is announced for ever")
		}
	}
}
