package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// dash stands for a figure that was not measured.
const dash = "–"

// gap separates a figure from its unit. Lines do not break there.
const gap = "\u00a0"

// harmless replaces characters that a page must not have or that change the direction of writing: texts may come from the web.
func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), unicode.In(r, unicode.Bidi_Control, unicode.Noncharacter_Code_Point):
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// figure writes three significant digits.
func figure(v *float64) string {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return dash
	}
	if a := math.Abs(*v); a >= 99.95 {
		return humanize.Comma(int64(math.Round(*v)))
	} else if a >= 9.995 {
		return fmt.Sprintf("%.1f", *v)
	} else if a >= 1 {
		return fmt.Sprintf("%.2f", *v)
	}
	return strconv.FormatFloat(*v, 'f', 3, 64)
}

// signed writes a difference with its sign. One that is not 0 does not look like 0.
func signed(v float64) string {
	s := fmt.Sprintf("%.0f", math.Abs(v))
	if math.Abs(v) < .95 {
		s = fmt.Sprintf("%.1f", math.Abs(v))
	}
	switch {
	case s == "0.0":
		return "0" + gap
	case v < 0:
		return "−" + s + gap
	}
	return "+" + s + gap
}

// percent writes a share. It never rounds to 0 or 100 % what is not exactly that.
func percent(v *float64) string {
	if v == nil || math.IsNaN(*v) {
		return dash
	}
	p := 100 * *v
	if s := fmt.Sprintf("%.1f", p); (s != "0.0" || p == 0) && (s != "100.0" || p == 100) {
		return strings.TrimSuffix(s, ".0") + gap + "%"
	}
	return fmt.Sprintf("%.4f", p) + gap + "%"
}

func millis(v *float64) string {
	if v == nil {
		return dash
	}
	return figure(v) + gap + "ms"
}

// clock writes a length of time in whole seconds.
func clock(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// seconds writes a time, a dash for 0.
func seconds(s float64) string {
	if s == 0 {
		return dash
	}
	return figure(&s) + gap + "s"
}

// size writes a number of bytes in powers of a thousand.
func size(n int64) string {
	return strings.Replace(humanize.SIWithDigits(float64(n), 2, "B"), " ", gap, 1)
}
