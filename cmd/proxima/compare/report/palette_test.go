package report

import (
	"fmt"
	"math"
	"testing"
)

// linear are the parts of a colour in linear light (IEC 61966-2-1).
func linear(t *testing.T, hex string) [3]float64 {
	t.Helper()
	var c [3]int
	if _, err := fmt.Sscanf(hex, "#%02x%02x%02x", &c[0], &c[1], &c[2]); err != nil {
		t.Fatalf("colour %q: %v", hex, err)
	}
	var out [3]float64
	for i, v := range c {
		x := float64(v) / 255
		if x <= 0.04045 {
			out[i] = x / 12.92
		} else {
			out[i] = math.Pow((x+0.055)/1.055, 2.4)
		}
	}
	return out
}

// contrast is the ratio of WCAG 2.
func contrast(t *testing.T, a, b string) float64 {
	light := func(hex string) float64 {
		c := linear(t, hex)
		return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2]
	}
	x, y := light(a), light(b)
	return (math.Max(x, y) + 0.05) / (math.Min(x, y) + 0.05)
}

func TestContrast(t *testing.T) {
	if c := contrast(t, "#000000", "#ffffff"); math.Abs(c-21) > 0.01 {
		t.Fatalf("black on white has %v", c)
	}
	for name, th := range map[string]theme{"light": light(), "dark": dark()} {
		for _, ground := range []string{th.page, th.panel} {
			text := map[string]string{"text": th.text, "muted": th.muted, "link": th.link, "good": th.good}
			for i, c := range th.series {
				text[fmt.Sprintf("series %d", i)] = c // names of lines are written in their colours, on panels only
			}
			for what, c := range text {
				if got := contrast(t, c, ground); got < 4.5 && (ground == th.panel || what[0] != 's') {
					t.Errorf("%s: %s has %.2f on %s, less than 4.5", name, what, got, ground)
				}
			}
			for what, c := range map[string]string{"event": th.event, "edge": th.edge} {
				if got := contrast(t, c, ground); got < 3 {
					t.Errorf("%s: %s has %.2f on %s, less than 3", name, what, got, ground)
				}
			}
		}
		if got := contrast(t, th.badText, th.bad); got < 4.5 {
			t.Errorf("%s: the badge has %.2f", name, got)
		}
		if got := contrast(t, th.page, th.text); got < 4.5 { // tooltips are turned round
			t.Errorf("%s: tooltips have %.2f", name, got)
		}
	}
}

// vision are matrices of full colour blindness in linear light (G. Machado et al., A Physiologically-based Model for Simulation of
// Color Vision Deficiency, IEEE TVCG 15(6), 2009).
func vision() map[string][3][3]float64 {
	return map[string][3][3]float64{
		"usual":        {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
		"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
		"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
		"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
	}
}

// apart is how different two colours look to somebody, as a distance in Oklab times 100.
func apart(t *testing.T, a, b string, m [3][3]float64) float64 {
	lab := func(hex string) [3]float64 {
		c := linear(t, hex)
		var s [3]float64
		for i := range s {
			for k := range c {
				s[i] += m[i][k] * c[k]
			}
			s[i] = math.Min(math.Max(s[i], 0), 1)
		}
		l := math.Cbrt(0.4122214708*s[0] + 0.5363325363*s[1] + 0.0514459929*s[2])
		n := math.Cbrt(0.2119034982*s[0] + 0.6806995451*s[1] + 0.1073969566*s[2])
		o := math.Cbrt(0.0883024619*s[0] + 0.2817188376*s[1] + 0.6299787005*s[2])
		return [3]float64{0.2104542553*l + 0.7936177850*n - 0.0040720468*o, 1.9779984951*l - 2.4285922050*n + 0.4505937099*o,
			0.0259040371*l + 0.7827717662*n - 0.8086757660*o}
	}
	x, y := lab(a), lab(b)
	return 100 * math.Sqrt((x[0]-y[0])*(x[0]-y[0])+(x[1]-y[1])*(x[1]-y[1])+(x[2]-y[2])*(x[2]-y[2]))
}

func TestColoursStayApart(t *testing.T) {
	for name, th := range map[string]theme{"light": light(), "dark": dark()} {
		for who, m := range vision() {
			for i, a := range th.series {
				for k, b := range th.series[:i] {
					least := 6.0
					if i < 4 { // the assigners that every report has
						least = 10
					}
					if d := apart(t, a, b, m); d < least {
						t.Errorf("%s, %s: colours %d and %d are %.1f apart, less than %.0f", name, who, k, i, d, least)
					}
				}
			}
		}
	}
}

func TestColoursAreTheSameInEveryPlot(t *testing.T) {
	c := newColours(sample(10, 5, 5))
	if got := c.of([]string{"random", "nearest"}); got[0] != fixedSlot("random") || got[1] != fixedSlot("nearest") {
		t.Errorf("colours of assigners change: %v", got)
	}
	got := c.of([]string{"n1", "n7", "n2", "nearest"}) // n1 and n7 have the same by their order, and nearest has it for itself
	for i := range got {
		for k := range i {
			if got[i] == got[k] {
				t.Errorf("two lines of a plot have one colour: %v", got)
			}
		}
	}
	seen := map[string]bool{}
	for slot := range slots {
		seen[dashes(slot)] = true
	}
	if len(seen) != slots {
		t.Errorf("%d kinds of dashes for %d lines", len(seen), slots)
	}
}
