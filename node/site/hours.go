package site

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A week in minutes of local time, from Sunday midnight.
const (
	dayMinutes  = 24 * 60
	weekMinutes = 7 * dayMinutes
)

// Hours are the times of the week at which a site may be asked, in the local time of a zone. They never change.
type Hours struct {
	text string
	zone *time.Location
	open [7 * 24]uint64 // by the hour of the week, a bit for each minute
}

// ParseHours reads ranges like "09:00-17:00 Mon-Fri". A text may have several, separated by commas. A range without days applies to every
// day. A range that ends before it begins goes past midnight. The zone is a name of the IANA database; "" is that of this machine.
func ParseHours(texts []string, zone string) (*Hours, error) {
	h := &Hours{zone: time.Local}
	if zone != "" {
		var err error
		if h.zone, err = time.LoadLocation(zone); err != nil {
			return nil, fmt.Errorf("%q is no time zone, like \"Europe/Nicosia\"", zone)
		}
	}
	h.text = strings.Join(texts, ", ")
	for text := range strings.SplitSeq(h.text, ",") {
		if strings.TrimSpace(text) == "" {
			return nil, fmt.Errorf("%q: nothing beside a comma", h.text)
		}
		if err := h.add(text); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (h *Hours) add(text string) error {
	wrong := func(what string) error {
		return fmt.Errorf("%q: %s; hours are like \"09:00-17:00 Mon-Fri\"", strings.TrimSpace(text), what)
	}
	words := strings.Fields(text)
	first, second, ok := strings.Cut(words[0], "-")
	from, fine1 := clock(first)
	to, fine2 := clock(second)
	if !ok || !fine1 || !fine2 || from == dayMinutes {
		return wrong("no range of times")
	}
	if from == to {
		return wrong("it ends when it begins")
	}
	if to < from {
		to += dayMinutes
	}
	var days [7]bool
	for _, word := range words[1:] {
		a, b, ranged := strings.Cut(word, "-")
		day, fine := weekday(a)
		last := day
		if ranged && fine {
			last, fine = weekday(b)
		}
		if !fine {
			return wrong(fmt.Sprintf("%q is no day", word))
		}
		for ; ; day = (day + 1) % 7 {
			days[day] = true
			if day == last {
				break
			}
		}
	}
	if len(words) == 1 {
		days = [7]bool{true, true, true, true, true, true, true}
	}
	for day, on := range days {
		for m := from; on && m < to; m++ {
			minute := (day*dayMinutes + m) % weekMinutes
			h.open[minute/60] |= 1 << (minute % 60)
		}
	}
	return nil
}

// clock reads a time like "09:30" and returns it in minutes. "24:00" is the end of a day.
func clock(text string) (int, bool) {
	hour, minute, ok := strings.Cut(text, ":")
	h, err1 := strconv.ParseUint(hour, 10, 8)
	m, err2 := strconv.ParseUint(minute, 10, 8)
	n := int(h)*60 + int(m)
	return n, ok && err1 == nil && err2 == nil && len(hour) <= 2 && len(minute) == 2 && m < 60 && n <= dayMinutes
}

func weekday(text string) (int, bool) {
	for d := range 7 {
		name := time.Weekday(d).String()
		if strings.EqualFold(text, name) || strings.EqualFold(text, name[:3]) {
			return d, true
		}
	}
	return 0, false
}

// String returns the text that the hours were read from, with their zone.
func (h *Hours) String() string { return h.text + " (" + h.zone.String() + ")" }

// Open reports whether a site may be asked at a time. Local time decides: when summer time begins, an hour is left out, and when it ends, one
// comes twice.
func (h *Hours) Open(t time.Time) bool {
	return h.isOpen(minuteOfWeek(t.In(h.zone)))
}

func (h *Hours) isOpen(minute int) bool { return h.open[minute/60]>>(minute%60)&1 == 1 }

func minuteOfWeek(t time.Time) int {
	hour, minute, _ := t.Clock()
	return int(t.Weekday())*dayMinutes + hour*60 + minute
}

// Next returns the first time from t on at which the site may be asked, or false if there is none.
func (h *Hours) Next(t time.Time) (time.Time, bool) {
	t = t.Round(0).In(h.zone)
	// Local time runs evenly between two changes of its offset: until then the wait is a difference.
	for range 100 {
		if h.Open(t) {
			return t, true
		}
		wait := 1
		for !h.isOpen((minuteOfWeek(t) + wait) % weekMinutes) { // a range is never empty
			wait++
		}
		next := t.Add(time.Duration(wait)*time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
		_, change := t.ZoneBounds()
		if change.IsZero() || next.Before(change) {
			return next, true
		}
		t = change
	}
	return time.Time{}, false
}
