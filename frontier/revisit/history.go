package revisit

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Bounds on the times of one visit.
const (
	// longest bounds the time between two visits, and the time since a page was modified.
	longest = 20 * 365 * 24 * time.Hour
	// shortest is the shortest time with a meaning. Two visits within it count as one. A page whose Last-Modified is younger was made for
	// the request, so that date does not say when it changed.
	shortest = time.Minute
)

// window is how many visits the sums of a history hold before they are halved, so that a history follows a page whose rate of change
// changes. At most window visits count in full, older ones by a half, a quarter, and so on.
const window = 64

// History is what the visits of one page have shown. Its zero value belongs to a page that was never visited. With returns the history with
// one more visit.
//
// A history has what the likelihood of a rate of change needs. Of the times between visits without a change it keeps the sum, which is
// exact. Of the logarithms of those with a change it keeps mean and deviation. That is exact if a page changes less often than it is
// visited, and else a good approximation.
type History struct {
	visits, changes uint16  // the numbers of all visits and changes, up to the largest number that fits
	weight          uint8   // the number of visits in the sums below
	undated         uint8   // changes at an unknown time between two visits
	dated           uint8   // changes at a time that Last-Modified gave
	born            bool    // the first visit gave the age of the page
	same            float32 // seconds without a change
	gap             uint16  // mean logarithm of the seconds between the visits around undated changes, in gapUnits
	spread          uint8   // its standard deviation, in spreadUnits
}

// Visit is what one visit of a page has shown.
type Visit struct {
	// Gap is the time since the visit before, and 0 at the first visit. It may be any value if the clock has jumped.
	Gap time.Duration
	// Changed says that the text of the page differs from that at the visit before, apart from trivial changes. A page that is gone or
	// has come back has changed.
	Changed bool
	// Age is the time since the page last changed, by its Last-Modified; 0 if it has none. It is ignored if it contradicts the rest.
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
		return h // the time is too short, or the clock was set back
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

// undatedChange adds a change at an unknown time between two visits. x is the logarithm of the seconds between them.
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

// Visits returns how many visits the page had, up to 65,535.
func (h History) Visits() int { return int(h.visits) }

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

// UnmarshalBinary reads what AppendBinary has written. It refuses a history that With cannot have made.
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
