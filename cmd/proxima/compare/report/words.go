package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	dash = "–"      // stands where a figure was not measured
	gap  = "\u00a0" // between a figure and its unit, so that lines do not break there
)

// clean makes words from the web fit to be shown in one line.
func clean(s string) string {
	return harmless(strings.NewReplacer("\r", " ", "\n", " ", "\t", " ").Replace(s))
}

// harmless replaces what XML cannot carry and what turns the direction of writing.
func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), r == 0xFFFE || r == 0xFFFF, r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069,
			r == 0x200E || r == 0x200F || r == 0x061C:
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// escape makes text safe within elements and quoted attributes of HTML and XML.
func escape(s string) string { return template.HTMLEscapeString(clean(s)) }

// glyph is the width of a letter in parts of the font size, rather too wide than too narrow.
func glyph(r rune) float64 {
	switch {
	case unicode.Is(unicode.Mn, r):
		return 0
	case r >= 0x1100:
		return 1.05
	case strings.ContainsRune("iljtfrI.,:;'|!()[] ", r):
		return 0.36
	case strings.ContainsRune("mwMW@%—", r):
		return 0.95
	case strings.ContainsRune("<>=+~÷×−#_{}→", r):
		return 0.84
	case unicode.IsUpper(r):
		return 0.7
	case unicode.IsDigit(r):
		return 0.64
	}
	return 0.6
}

// textWidth is about how wide text gets, in the unit of size.
func textWidth(s string, size float64) float64 {
	w := 0.0
	for _, r := range s {
		w += glyph(r)
	}
	return w * size
}

// boldWidth is the same for the bold text of names.
func boldWidth(s string, size float64) float64 { return textWidth(s, size) * 1.16 }

// fit shortens text to a width.
func fit(s string, size, width float64) string {
	if textWidth(s, size) <= width {
		return s
	}
	w := size // of the ellipsis
	for i, r := range s {
		if w += glyph(r) * size; w > width {
			return strings.TrimRight(s[:i], " .-") + "…"
		}
	}
	return s
}

// whole writes an integer with commas; negative ones are unknown.
func whole(n int64) string {
	if n < 0 {
		return dash
	}
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// number writes a figure with three digits that count.
func number(v float64) string {
	switch a := math.Abs(v); {
	case !finite(v):
		return dash
	case a >= 1e15:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case a >= 99.95:
		if s := whole(int64(math.Round(a))); v < 0 {
			return "−" + s
		} else {
			return s
		}
	case a == 0:
		return "0"
	}
	digits := min(max(2-int(math.Floor(math.Log10(math.Abs(v)))), 0), 9)
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if math.Abs(v) < 0.995 {
		s = strings.TrimRight(s, "0")
	}
	return strings.Replace(s, "-", "−", 1)
}

// short writes a value of an axis: no needless digits, thousands as k.
func short(v float64) string {
	unit := ""
	switch a := math.Abs(v); {
	case a >= 1e9:
		v, unit = v/1e9, gap+"G"
	case a >= 1e6:
		v, unit = v/1e6, gap+"M"
	case a >= 1e4:
		v, unit = v/1e3, gap+"k"
	}
	return strings.Replace(strconv.FormatFloat(v+0, 'g', 6, 64), "-", "−", 1) + unit
}

// figure writes a measured figure that cannot be zero, or a dash.
func figure(v float64) string {
	if !known(v) {
		return dash
	}
	return number(v)
}

// ratio writes a multiple of the best.
func ratio(v float64) string {
	if !known(v) {
		return dash
	}
	return fmt.Sprintf("%.2f"+gap+"×", v)
}

// percent writes a share; what is not all or nothing is never rounded to it.
func percent(v float64) string {
	p := 100 * v
	switch {
	case !finite(v):
		return dash
	case p > 0 && p < 0.005:
		return "<" + gap + "0.01" + gap + "%"
	case p > 99.995 && p < 100:
		return ">" + gap + "99.99" + gap + "%"
	case p > 0 && p < 9.95 || p > 99.9 && p < 100:
		return trimmed(p, 2) + gap + "%"
	}
	return trimmed(p, 1) + gap + "%"
}

// trimmed writes at most so many decimals, and none that are zero.
func trimmed(v float64, decimals int) string {
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		s = "0"
	}
	return strings.Replace(s, "-", "−", 1)
}

// millis writes a time given in ms.
func millis(v float64) string {
	switch {
	case !finite(v):
		return dash
	case math.Abs(v) >= 999.5:
		return number(v/1000) + gap + "s"
	}
	return number(v) + gap + "ms"
}

// clock writes seconds since the start as minutes and seconds, or with hours.
func clock(s float64) string {
	if !finite(s) {
		return dash
	}
	n, sign := int64(math.Round(math.Abs(s))), ""
	if s <= -0.5 {
		sign = "−"
	}
	if n >= 3600 {
		return fmt.Sprintf("%s%d:%02d:%02d", sign, n/3600, n/60%60, n%60)
	}
	return fmt.Sprintf("%s%d:%02d", sign, n/60, n%60)
}

// bytesOf writes an amount of bytes in powers of a thousand.
func bytesOf(v float64) string {
	if !finite(v) || v < 0 {
		return dash
	}
	for _, u := range [...]struct {
		size float64
		name string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if v >= u.size*0.9995 {
			return number(v/u.size) + gap + u.name
		}
	}
	return fmt.Sprintf("%.0f"+gap+"B", v)
}

// listed joins words as a sentence does.
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// several writes a number of things, in one or many.
func several(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return whole(int64(n)) + " " + many
}
