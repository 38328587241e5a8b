package report

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"proxima/node/console/browsertest"
)

var shots = flag.String("shots", "", "folder for pictures of the pages, as the browser shows them")

// faults asks the page itself what is wrong with its layout: what is wider than the window, text that leaves its picture, text
// that lies on other text.
const faults = `(() => {
	const out = [], root = document.documentElement;
	if (root.scrollWidth > root.clientWidth) { out.push("page " + root.scrollWidth + " wide in a window of " + root.clientWidth); }
	for (const e of document.body.querySelectorAll("*")) {
		const r = e.getBoundingClientRect();
		if (r.width > 0 && r.right > root.clientWidth + 1 && !e.closest(".scroll, pre, .u-wrap, svg *")) {
			out.push(e.tagName + "." + e.className + " ends at " + r.right);
		}
	}
	for (const figure of document.querySelectorAll("figure:has(.data)")) {
		const canvas = figure.querySelector("canvas");
		if (!canvas || canvas.getBoundingClientRect().width < 200) { out.push("no plot: " + figure.textContent.slice(0, 60)); }
	}
	for (const svg of document.querySelectorAll("svg.map")) {
		const box = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()]);
		texts.forEach(([words, r], i) => {
			if (r.left < box.left - 1 || r.right > box.right + 1) { out.push("clipped: " + words); }
			for (const [other, o] of texts.slice(i + 1)) {
				const w = Math.min(r.right, o.right) - Math.max(r.left, o.left), h = Math.min(r.bottom, o.bottom) - Math.max(r.top, o.top);
				if (w > 2 && h > 4) { out.push(words + " lies on " + other); }
			}
		});
	}
	return out;
})()`

// cutOff is by how much the table of figures is wider than its card.
const cutOff = `(e => e ? e.scrollWidth - e.clientWidth : 0)(document.querySelector("#figures .scroll"))`

// zoom drags over a part of the first plot over time; zoomed says whether that plot and the next have changed.
const (
	zoom = `(() => {
	const over = [...document.querySelectorAll("#course .u-over")];
	if (over.length < 2) { return "nothing"; }
	const r = over[0].getBoundingClientRect(), at = x => ({bubbles: true, clientX: r.left + x * r.width, clientY: r.top + 20, button: 0, movementX: 9});
	window.before = [...document.querySelectorAll("#course canvas")].map(c => c.toDataURL());
	over[0].dispatchEvent(new MouseEvent("mousedown", at(.3)));
	document.dispatchEvent(new MouseEvent("mousemove", at(.6)));
	over[0].dispatchEvent(new MouseEvent("mousemove", at(.6)));
	document.dispatchEvent(new MouseEvent("mouseup", at(.6)));
	return "dragged";
})()`
	zoomed = `[...document.querySelectorAll("#course canvas")].slice(0, 2).every((c, i) => c.toDataURL() !== before[i])`
)

// shoot writes pictures of the whole page in pieces that can be looked at.
func shoot(b *browsertest.Browser, name string, width int64) {
	const piece = 1500.0
	height := browsertest.Evaluate[float64](b, "document.documentElement.scrollHeight")
	for i := 0; float64(i)*piece < height; i++ {
		y := float64(i) * piece
		b.Shoot(filepath.Join(*shots, fmt.Sprintf("%s-%02d.png", name, i)), y, float64(width), min(piece, height-y))
	}
}

func TestBrowserShowsThePage(t *testing.T) {
	if testing.Short() {
		t.Skip("short: no browser is started")
	}
	b := browsertest.New(t)
	dir := t.TempDir()
	for name, d := range pages() {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name+".html")
			if err := os.WriteFile(file, []byte(written(t, d)), 0o644); err != nil {
				t.Fatal(err)
			}
			address := (&url.URL{Scheme: "file", Path: file}).String()
			for width, scheme := range map[int64]string{1280: "light", 500: "light", 360: "dark"} {
				b.Window(width, "screen", scheme)
				b.Open(address)
				at := fmt.Sprintf("%s-%d-%s", name, width, scheme)
				for _, f := range browsertest.Evaluate[[]string](b, faults) {
					t.Errorf("%s: %s", at, f)
				}
				if out := browsertest.Evaluate[float64](b, cutOff); name == "usual" && width == 500 && out > 0 {
					t.Errorf("%s: the figures are %v too wide for their card", at, out)
				}
				checkAppearance(t, b, at, scheme)
				for _, wrong := range b.Wrongs() {
					t.Errorf("%s: %s", at, wrong)
				}
				if *shots != "" {
					shoot(b, at, width)
				}
			}
			if name != "usual" {
				return
			}
			b.Window(1280, "screen", "light")
			if did := browsertest.Evaluate[string](b, zoom); did != "dragged" {
				t.Fatal("there are not two plots over time")
			}
			b.Await("zooming into one plot over time has changed it and the next", zoomed) // a busy browser draws late
		})
	}
}

// checkAppearance looks whether the page follows the system, and the button turns it round.
func checkAppearance(t *testing.T, b *browsertest.Browser, at, scheme string) {
	t.Helper()
	const colour = "getComputedStyle(document.body).backgroundColor"
	of := map[string]string{"light": "rgb(246, 246, 243)", "dark": "rgb(18, 21, 25)"}
	other := map[string]string{"light": "dark", "dark": "light"}[scheme]
	if got := browsertest.Evaluate[string](b, colour); got != of[scheme] {
		t.Errorf("%s: page is %s, want %s", at, got, of[scheme])
	}
	if got := browsertest.Evaluate[string](b, `document.getElementById("theme").click(); `+colour); got != of[other] {
		t.Errorf("%s: after the button the page is %s, want %s", at, got, of[other])
	}
	browsertest.Evaluate[string](b, `document.getElementById("theme").click(); `+colour)
	if title := browsertest.Evaluate[string](b, "document.title"); title == "owned" {
		t.Errorf("%s: foreign script ran", at)
	}
}
