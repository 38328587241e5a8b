package report

import (
	"fmt"
	"html/template"
	"strings"
)

// slots is the number of colours that a plot can tell apart; more lines than that are summed up as a band.
const slots = 6

// theme is the set of colours of one appearance. Text and lines keep a contrast of at least 4.5 to page and panel (WCAG AA), and
// the lines stay apart under the three kinds of colour blindness; both are computed in the tests.
type theme struct {
	page, panel, text, muted, grid, rule, event, edge, link string
	good, bad, badText                                      string
	series                                                  [slots]string
}

func light() theme {
	return theme{
		page: "#f6f6f3", panel: "#ffffff", text: "#1c1f24", muted: "#5c626c", grid: "#e4e5e2", rule: "#cfd1cd",
		event: "#8a6d1f", edge: "#80858d", link: "#1756b8", good: "#1c6b3f", bad: "#a01818", badText: "#ffffff",
		series: [slots]string{"#1f6fe0", "#b8560a", "#0b4d33", "#7d2a86", "#5c5213", "#73737b"},
	}
}

func dark() theme {
	return theme{
		page: "#121519", panel: "#181c21", text: "#e8e9ea", muted: "#a3a9b2", grid: "#2a3037", rule: "#3b424b",
		event: "#d8b65a", edge: "#7d848e", link: "#8ab4ff", good: "#6fd39b", bad: "#a01818", badText: "#ffffff",
		series: [slots]string{"#5b93ff", "#e8823a", "#9bedcb", "#cfa3dc", "#f0cf60", "#8f9299"},
	}
}

// variables are the theme as declarations of CSS.
func (t theme) variables() string {
	var b strings.Builder
	for _, v := range [...][2]string{
		{"page", t.page}, {"panel", t.panel}, {"text", t.text}, {"muted", t.muted}, {"grid", t.grid}, {"rule", t.rule},
		{"event", t.event}, {"edge", t.edge}, {"link", t.link}, {"good", t.good}, {"bad", t.bad}, {"bad-text", t.badText},
	} {
		fmt.Fprintf(&b, "--%s:%s;", v[0], v[1])
	}
	for i, c := range t.series {
		fmt.Fprintf(&b, "--s%d:%s;", i, c)
	}
	return b.String()
}

// themes is the CSS that chooses an appearance: that of the system unless the reader chose; always light on paper.
func themes() template.CSS {
	l, d := light().variables(), dark().variables()
	return template.CSS(":root{color-scheme:light;" + l + "}\n" +
		"@media screen and (prefers-color-scheme:dark){:root:not([data-theme=light]){color-scheme:dark;" + d + "}}\n" +
		"@media screen{:root[data-theme=dark]{color-scheme:dark;" + d + "}}\n")
}

// fixedSlot is the colour that an assigner has in every report, -1 for names that have none of their own.
func fixedSlot(name string) int {
	switch name {
	case "nearest":
		return 0
	case "vivaldi":
		return 1
	case "geographic":
		return 2
	case "random":
		return 3
	}
	return -1
}

// dashes tell lines apart where colours do not.
func dashes(slot int) string {
	return [slots]string{"", "8 4", "2 3", "10 3 2 3", "14 5", "5 2 1 2"}[slot%slots]
}

// colours remembers which name got which colour, so that all plots of a page agree.
type colours map[string]int

// newColours gives assigners theirs, then the nodes in turn.
func newColours(d Data) colours {
	c := colours{}
	next := 0
	for _, a := range d.Assigners {
		if fixedSlot(a.Name) < 0 {
			c[a.Name] = 4 + next%2
			next++
		}
	}
	for i, n := range d.Nodes {
		if _, taken := c[n.Name]; !taken {
			c[n.Name] = i % slots
		}
	}
	return c
}

// of chooses a colour for each name of one plot: its own, or where two of the plot share one the next that is free.
func (c colours) of(names []string) []int {
	out, used := make([]int, len(names)), [slots]bool{}
	for pass := range 2 { // assigners first: theirs are fixed
		for i, name := range names {
			slot := fixedSlot(name)
			if (pass == 0) != (slot >= 0) {
				continue
			}
			if slot < 0 {
				slot = c[name]
				for k := 0; k < slots && used[slot]; k++ {
					slot = (slot + 1) % slots
				}
			}
			out[i], used[slot] = slot, true
		}
	}
	return out
}
