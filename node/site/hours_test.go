package site

import (
	"testing"
	"time"
)

func hours(t *testing.T, zone string, texts ...string) *Hours {
	t.Helper()
	h, err := ParseHours(texts, zone)
	must(t, err)
	return h
}

// at reads a time of a zone, with its offset where the clock on the wall alone does not tell.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse("2006-01-02 15:04:05 -0700", text)
	must(t, err)
	return when
}

func TestHoursOpen(t *testing.T) {
	for _, c := range []struct {
		hours, zone, at string
		want            bool
	}{
		// 2026-11-23 is a Monday.
		{"09:00-17:00 Mon-Fri", "UTC", "2026-11-23 08:59:59 +0000", false},
		{"09:00-17:00 Mon-Fri", "UTC", "2026-11-23 09:00:00 +0000", true},
		{"09:00-17:00 Mon-Fri", "UTC", "2026-11-23 16:59:59 +0000", true},
		{"09:00-17:00 Mon-Fri", "UTC", "2026-11-23 17:00:00 +0000", false},
		{"09:00-17:00 Mon-Fri", "UTC", "2026-11-22 12:00:00 +0000", false},
		{"9:00-17:00 monday", "UTC", "2026-11-23 12:00:00 +0000", true},
		{"09:00-17:00 Mon-Fri", "Europe/Nicosia", "2026-11-23 07:30:00 +0000", true},
		{"09:00-17:00 Mon-Fri", "Europe/Nicosia", "2026-11-23 15:30:00 +0000", false},
		// Across midnight the day is that of the beginning.
		{"22:00-06:00 Fri", "UTC", "2026-11-27 21:59:59 +0000", false},
		{"22:00-06:00 Fri", "UTC", "2026-11-27 23:59:59 +0000", true},
		{"22:00-06:00 Fri", "UTC", "2026-11-28 05:59:59 +0000", true},
		{"22:00-06:00 Fri", "UTC", "2026-11-28 06:00:00 +0000", false},
		{"22:00-06:00 Fri", "UTC", "2026-11-27 03:00:00 +0000", false},
		{"22:00-06:00 Sat", "UTC", "2026-11-29 03:00:00 +0000", true}, // from Saturday into the next week
		{"22:00-06:00", "UTC", "2026-11-25 00:00:00 +0000", true},
		{"18:00-24:00", "UTC", "2026-11-25 23:59:59 +0000", true},
		{"18:00-24:00", "UTC", "2026-11-25 00:00:00 +0000", false},
		{"00:00-24:00 Fri-Mon", "UTC", "2026-11-29 12:00:00 +0000", true},
		{"00:00-24:00 Fri-Mon", "UTC", "2026-11-25 12:00:00 +0000", false},
		{"08:00-10:00 Mon Wed, 20:00-21:00 Tue", "UTC", "2026-11-25 09:00:00 +0000", true},
		{"08:00-10:00 Mon Wed, 20:00-21:00 Tue", "UTC", "2026-11-24 20:30:00 +0000", true},
		{"08:00-10:00 Mon Wed, 20:00-21:00 Tue", "UTC", "2026-11-24 09:00:00 +0000", false},
		// Summer time ends in Nicosia on 2026-10-25: 03:30 comes twice.
		{"03:15-03:45", "Europe/Nicosia", "2026-10-25 03:30:00 +0300", true},
		{"03:15-03:45", "Europe/Nicosia", "2026-10-25 03:30:00 +0200", true},
		{"03:15-03:45", "Europe/Nicosia", "2026-10-25 03:10:00 +0200", false},
	} {
		h := hours(t, c.zone, c.hours)
		if got := h.Open(at(t, c.at)); got != c.want {
			t.Errorf("%q in %s at %s: open is %v", c.hours, c.zone, c.at, got)
		}
		if got, want := h.String(), c.hours+" ("+c.zone+")"; got != want {
			t.Errorf("they read %q, want %q", got, want)
		}
	}
}

func TestHoursNext(t *testing.T) {
	for _, c := range []struct{ hours, zone, at, want string }{
		{"09:00-17:00 Mon-Fri", "UTC", "2026-11-23 12:00:00 +0000", "2026-11-23 12:00:00 +0000"},
		{"09:00-17:00 Mon-Fri", "UTC", "2026-11-23 17:00:00 +0000", "2026-11-24 09:00:00 +0000"},
		{"09:00-17:00 Mon-Fri", "UTC", "2026-11-27 17:00:01 +0000", "2026-11-30 09:00:00 +0000"},
		{"22:00-06:00", "UTC", "2026-11-27 06:00:00 +0000", "2026-11-27 22:00:00 +0000"},
		{"00:00-01:00", "UTC", "2026-11-27 23:59:59 +0000", "2026-11-28 00:00:00 +0000"},
		{"00:00-01:00 Sun", "UTC", "2026-11-28 23:59:59 +0000", "2026-11-29 00:00:00 +0000"},
		{"09:00-09:01 Mon", "UTC", "2026-11-23 09:01:00 +0000", "2026-11-30 09:00:00 +0000"},
		// Summer time begins in Nicosia on 2026-03-29: after 02:59:59 +0200 comes 04:00:00 +0300.
		{"03:00-05:00", "Europe/Nicosia", "2026-03-29 02:30:00 +0200", "2026-03-29 04:00:00 +0300"},
		{"03:15-03:45", "Europe/Nicosia", "2026-03-29 02:30:00 +0200", "2026-03-30 03:15:00 +0300"},
		{"04:00-05:00", "Europe/Nicosia", "2026-03-29 02:30:00 +0200", "2026-03-29 04:00:00 +0300"},
		{"09:00-17:00", "Europe/Nicosia", "2026-03-28 17:00:00 +0200", "2026-03-29 09:00:00 +0300"},
		// It ends there on 2026-10-25: after 03:59:59 +0300 comes 03:00:00 +0200.
		{"03:15-03:45", "Europe/Nicosia", "2026-10-25 03:45:00 +0300", "2026-10-25 03:15:00 +0200"},
		{"04:00-05:00", "Europe/Nicosia", "2026-10-25 03:30:00 +0300", "2026-10-25 04:00:00 +0200"},
		{"09:00-17:00", "Europe/Nicosia", "2026-10-24 17:00:00 +0300", "2026-10-25 09:00:00 +0200"},
		// Half an hour of summer time.
		{"02:10-02:20", "Australia/Lord_Howe", "2026-10-04 01:50:00 +1030", "2026-10-05 02:10:00 +1100"},
	} {
		h := hours(t, c.zone, c.hours)
		from, want := at(t, c.at), at(t, c.want)
		if got, ok := h.Next(from); !ok || !got.Equal(want) {
			t.Errorf("%q in %s from %s: next is %v, want %s", c.hours, c.zone, c.at, got, c.want)
		}
		if want.After(from) && h.Open(want.Add(-time.Second)) {
			t.Errorf("%q in %s: open before %s", c.hours, c.zone, c.want)
		}
	}
}

// TestHoursAgree steps through a year: Next must be where Open begins to hold.
func TestHoursAgree(t *testing.T) {
	for _, zone := range []string{"Europe/Nicosia", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"} {
		h := hours(t, zone, "01:30-02:10 Sun, 22:00-03:20 Sat", "12:00-13:00 Wed")
		from := at(t, "2026-01-01 00:00:00 +0000")
		next, _ := h.Next(from)
		for now := from; now.Before(from.AddDate(1, 0, 0)); now = now.Add(5 * time.Minute) {
			if now.After(next) {
				next, _ = h.Next(now)
			}
			if open := h.Open(now); open != now.Equal(next) {
				t.Fatalf("%s at %v: open is %v, and next is %v", zone, now, open, next)
			}
		}
	}
}

func TestHoursWrong(t *testing.T) {
	for _, text := range []string{"", "always", "09:00", "09:00-", "9-17", "09:00-25:00", "09:60-10:00", "24:00-01:00", "09:00-09:00",
		"09:00-17:00 Mo", "09:00-17:00 Mon-", "09:00-17:00 Mon,Tue", "09:00-17:00,", "-1:00-02:00", "09:000-10:00", "0x9:00-10:00"} {
		if h, err := ParseHours([]string{text}, "UTC"); err == nil {
			t.Errorf("%q was read as %v", text, h.open)
		}
	}
	for _, zone := range []string{"Nicosia", "../etc/passwd", "Local/x"} {
		if _, err := ParseHours([]string{"09:00-10:00"}, zone); err == nil {
			t.Errorf("zone %q was taken", zone)
		}
	}
}
