package console

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"proxima/node/runlog"
)

// tell tells a book of an event.
func tell(b *Book, level slog.Level, kind string, attrs ...any) {
	r := slog.NewRecord(time.Now(), level, kind, 0)
	r.Add(attrs...)
	b.Watch(r)
}

// However much is told, the book stays as small as it is, and what it keeps is the newest.
func TestBookIsBounded(t *testing.T) {
	var b Book
	huge := strings.Repeat("é", 100_000)
	for i := range 5000 {
		tell(&b, slog.LevelWarn, "warning", runlog.KeyReason, huge, runlog.KeyHost, huge, runlog.KeyCount, i)
		b.Watch(runlog.Assign{Host: "a.test", Reason: huge})
		b.Watch(runlog.Member{Change: "took", Host: huge})
		b.Watch(&runlog.Fetch{FirstByteMs: 2})
	}
	if n := len(b.events); n > mostEvents {
		t.Errorf("%d events", n)
	}
	if n := len(b.Decisions()); n > mostDecisions {
		t.Errorf("%d decisions", n)
	}
	for _, e := range b.Events(0, mostEvents) {
		if len(e.Reason)+len(e.Host) > 3*longest {
			t.Fatalf("an event of %d bytes", len(e.Reason)+len(e.Host))
		}
	}
	if e := b.Events(9998, 10); len(e) != 2 || e[1].Seq != 10_000 {
		t.Errorf("the events after 9998 are %d", len(e))
	}
	if s := b.Stages(); s.Downloads != 5000 || s.FirstByte != 10_000 {
		t.Errorf("%+v", s)
	}
}

// Reason and count of an event are shown in one order, whichever comes first.
func TestBookShowsReasonAndCount(t *testing.T) {
	var b Book
	tell(&b, slog.LevelInfo, runlog.EventBlocklist, runlog.KeyCount, 7, runlog.KeyReason, "loaded")
	tell(&b, slog.LevelInfo, runlog.EventHostDropped, runlog.KeyReason, "blocked", runlog.KeyCount, 7)
	tell(&b, slog.LevelInfo, runlog.EventPackage, runlog.KeyCount, 7)
	for i, want := range []string{"loaded · 7", "blocked · 7", "7"} {
		if got := b.Events(0, 3)[i].Reason; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// An hour is kept of samples and places, whatever the clock does.
func TestBookForgets(t *testing.T) {
	var b Book
	at := time.Now()
	for i := range 1000 {
		b.Sampled(Sample{T: at.Add(time.Duration(i) * 10 * time.Second).UnixMilli(), Pages: int64(i)})
		b.Placed(Places{T: at.Add(time.Duration(i) * time.Minute).UnixMilli(), Places: []Place{{Server: time.Duration(i).String()}}})
	}
	if s := b.Samples(); len(s) != 360 || s[359].Pages != 999 {
		t.Errorf("%d samples", len(s))
	}
	if p := b.PlacesAt(at.Add(990*time.Minute + time.Second).UnixMilli()); len(p.Places) != 1 || p.Places[0].Server != "990ns" {
		t.Errorf("%+v", p)
	}
	if p := b.PlacesAt(0); p.Places[0].Server != "940ns" {
		t.Errorf("before the first: %+v", p)
	}
	b.Sampled(Sample{T: at.UnixMilli()}) // the clock was set back
	if s := b.Samples(); len(s) != 1 {
		t.Errorf("%d samples after the clock was set back", len(s))
	}
	b.Sampled(Sample{T: at.Add(48 * time.Hour).UnixMilli()})
	if s := b.Samples(); len(s) != 1 {
		t.Errorf("%d samples after it was set ahead", len(s))
	}
}
