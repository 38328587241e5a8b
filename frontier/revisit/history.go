package revisit

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Bounds on what is believed of one visit.
const (
	// longest is the longest time between two visits, or since a page was modified, that is believed.
	longest = 20 * 365 * 24 * time.Hour
	// shortest is the shortest that says anything: two visits within it are one. A page whose Last-Modified is younger
	// was made for the request, and does not say when it changed.
	shortest = time.Minute
)

// window is how many visits the sums of a history hold before they are halved, so that a page whose habits change is
// seen to: at most window count in full, older ones by a half, a quarter, and so on.
const window = 64

// History is what the visits of one page have told. Its zero value is a page that was never seen. It is a value of a
// few bytes: With returns the next one.
//
// What is kept is enough for the likelihood of a rate of change: the times between visits without a change count by
// their sum, exactly. Of the logarithms of those with a change mean and deviation are kept, which is exact where a page
// changes less often than it is visited, and close to it elsewhere.
type History struct {
	visits, changes uint16  // all, up to the largest number that fits
	weight          uint8   // visits that the sums below hold
	undated         uint8   // changes that happened at some time between two visits
	dated           uint8   // changes whose time Last-Modified told
	born            bool    // the first visit told since when the page has been as it is
	same            float32 // seconds without a change
	gap             uint16  // mean logarithm of the seconds between the visits around undated changes, in gapUnits
	spread          uint8   // its standard deviation, in spreadUnits
}

// Visit is what one look at a page has told.
type Visit struct {
	// Gap is the time since the look before. It is 0 at the first look; where the clock has jumped it may be anything.
	Gap time.Duration
	// Changed says that the page is another than at the look before: its text, not its counters. A page that is gone,
	// or back, has changed.
	Changed bool
	// Age is for how long the page has been as it is, by its Last-Modified, and 0 where it has none. It is not
	// believed where it contradicts the rest.
	Age time.Duration
}

// With returns the history with one more visit.
func (h History) With(v Visit) History {
	first := h.visits == 0
	if h.visits < math.MaxUint16 {
		h.visits++
	}
	if !first && v.Changed && h.changes < math.MaxUint16 {
		h.changes++
	}
	gap, age := min(v.Gap, longest), min(v.Age, longest)
	switch {
	case first:
		if age >= shortest {
			h.born = true
			h.same = float32(age.Seconds())
		}
		return h
	case gap < shortest && !v.Changed:
		return h // nothing could happen, or the clock was set back
	}
	gap = max(gap, shortest)
	if h.weight >= window {
		h.weight, h.undated, h.dated = (h.weight+1)/2, (h.undated+1)/2, (h.dated+1)/2
		h.same, h.born = h.same/2, false
	}
	h.weight++
	switch {
	case !v.Changed:
		h.same += float32(gap.Seconds())
	case age >= shortest && age < gap:
		h.dated++
		h.same += float32(age.Seconds())
	default:
		h = h.undatedChange(math.Log(gap.Seconds()))
	}
	return h
}

// undatedChange adds a change at some time between two visits, given the logarithm of the seconds between them.
func (h History) undatedChange(x float64) History {
	mean, deviation, n := h.gaps()
	off := x - mean
	variance := (deviation*deviation + off*off/(n+1)) * n / (n + 1)
	h.gap = uint16(math.Round(min(max((mean+off/(n+1))/gapUnit, 0), math.MaxUint16)))
	h.spread = uint8(math.Round(min(math.Sqrt(variance)/spreadUnit, math.MaxUint8)))
	h.undated++
	return h
}

// gaps returns mean and standard deviation of the logarithms of the gaps around the undated changes, and their number.
func (h History) gaps() (mean, deviation, n float64) {
	return float64(h.gap) * gapUnit, float64(h.spread) * spreadUnit, float64(h.undated)
}

// The finest differences between two logarithms of a gap, and between two deviations.
const (
	gapUnit    = 1.0 / 2048
	spreadUnit = 1.0 / 32
)

// Visits is how many visits the page had, up to 65,535.
func (h History) Visits() int { return int(h.visits) }

// Changes is how many of them found it changed, up to 65,535.
func (h History) Changes() int { return int(h.changes) }

// HistorySize is the length of a history in bytes, as AppendBinary writes it.
const HistorySize = 14

// bornBit marks a page with a known age in the byte of the dated changes, of which there are at most window.
const bornBit = 1 << 7

// AppendBinary appends the history's HistorySize bytes to b. It never fails.
func (h History) AppendBinary(b []byte) ([]byte, error) {
	dated := h.dated
	if h.born {
		dated |= bornBit
	}
	b = binary.LittleEndian.AppendUint16(b, h.visits)
	b = binary.LittleEndian.AppendUint16(b, h.changes)
	b = append(b, h.weight, h.undated, dated)
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(h.same))
	b = binary.LittleEndian.AppendUint16(b, h.gap)
	return append(b, h.spread), nil
}

// UnmarshalBinary reads what AppendBinary has written. What With cannot have made is refused.
func (h *History) UnmarshalBinary(b []byte) error {
	if len(b) != HistorySize {
		return fmt.Errorf("read the history of a page: %d bytes, want %d", len(b), HistorySize)
	}
	got := History{
		visits: binary.LittleEndian.Uint16(b), changes: binary.LittleEndian.Uint16(b[2:]),
		weight: b[4], undated: b[5], dated: b[6] &^ bornBit, born: b[6]&bornBit != 0,
		same: math.Float32frombits(binary.LittleEndian.Uint32(b[7:])), gap: binary.LittleEndian.Uint16(b[11:]), spread: b[13],
	}
	most := float32((window + 1) * longest.Seconds())
	if got.changes > got.visits || got.weight > window || got.undated > got.weight || got.dated > got.weight ||
		!(got.same >= 0 && got.same <= most) {
		return fmt.Errorf("read the history of a page: %x is none", b)
	}
	*h = got
	return nil
}
