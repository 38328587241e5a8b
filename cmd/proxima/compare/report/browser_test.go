package report

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var shots = flag.String("shots", "", "folder for pictures of the pages, as the browser shows them")

// pages are the reports that a browser must show well.
func pages() map[string]Data {
	one := sample(6, 24, 120)
	one.Assigners, one.CDF, one.Progress = one.Assigners[:1], one.CDF[:1], one.Progress[:1]
	one.Events, one.Affected, one.Balance, one.Testbed = nil, nil, nil, Testbed{}
	for i := range one.Assigners {
		a := &one.Assigners[i]
		a.ChoiceRatio, a.ChoiceRatioWithEstimates, a.TotalRatio, a.TotalRatioWithEstimates, a.Repeats = 0, 0, 0, 0, nil
	}
	bad := sample(6, 24, 120)
	bad.Testbed.Trusted, bad.Testbed.DelayErrorP99MS, bad.Testbed.Dropped = false, 3.4, 181
	bad.Testbed.Reasons = []string{"The error of delays reached 3.40 ms at p99; 1 ms is allowed.", "181 packets were dropped unplanned."}
	bad.Notes = []string{"The fetch log of n3 has gaps: 12 lines are missing.", "Portable emulation: no loss, no kernel TCP."}
	bad.Crawl.Lost, bad.Crawl.Coverage, bad.Crawl.Withheld = -1, Unknown(), "sequence numbers of n3 have gaps"
	bad.Events = nil
	for i := range 20 {
		bad.Events = append(bad.Events, Event{float64(i * 29), 0, "kill -9", "n3"}, Event{float64(i*29 + 9), 0, "restart", "n3"})
	}
	return map[string]Data{"usual": sample(10, 80, 240), "demo": sample(6, 24, 120), "one": one, "bad": bad,
		"many": sample(200, 300, 10_000), "hostile": hostile(), "empty": {}}
}

// faults asks the page itself what is wrong with its layout: what is wider than the window, text that leaves its picture, text
// that lies on other text.
const faults = `(() => {
	const out = [], root = document.documentElement;
	if (root.scrollWidth > root.clientWidth) { out.push("page " + root.scrollWidth + " wide in a window of " + root.clientWidth); }
	for (const e of document.body.querySelectorAll("*")) {
		const r = e.getBoundingClientRect();
		if (r.width > 0 && r.right > root.clientWidth + 1 && !e.closest(".scroll, .forms, .facets") && !e.closest("svg *")) {
			out.push(e.tagName + "." + e.className + " ends at " + r.right);
		}
	}
	for (const svg of document.querySelectorAll("svg.plot")) {
		const box = svg.getBoundingClientRect();
		if (box.width === 0) { continue; }
		const name = svg.querySelector("title").textContent, 
			texts = [...svg.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()]);
		texts.forEach(([words, r], i) => {
			if (r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1) {
				out.push(name + ": clipped: " + words);
			}
			for (const [other, o] of texts.slice(i + 1)) {
				const w = Math.min(r.right, o.right) - Math.max(r.left, o.left), h = Math.min(r.bottom, o.bottom) - Math.max(r.top, o.top);
				if (w > 1 && h > 3) { out.push(name + ": " + words + " lies on " + other); }
			}
		});
	}
	return out;
})()`

// tooltips moves a pointer over every picture and returns how many said something.
const tooltips = `(() => {
	let said = 0;
	for (const svg of document.querySelectorAll("svg.plot")) {
		const box = svg.getBoundingClientRect();
		if (box.width === 0) { continue; }
		for (const at of [svg, ...svg.querySelectorAll("[data-t]")].slice(0, 9)) {
			const r = at.getBoundingClientRect();
			const clientX = r.left + r.width / 2, clientY = r.top + r.height / 2;
			at.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX, clientY}));
			if (!document.getElementById("tip").hidden && document.getElementById("tip").textContent) { said++; }
		}
	}
	document.body.dispatchEvent(new PointerEvent("pointermove", {bubbles: true}));
	return said;
})()`

// browser is a headless browser without a network, and what went wrong in it.
type browser struct {
	ctx    context.Context
	mu     sync.Mutex
	wrongs []string
}

func (b *browser) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.wrongs
	b.wrongs = nil
	return out
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("no browser: neither chromium nor google-chrome is installed; the layout of the report is not checked")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.UserDataDir(t.TempDir()))
	for _, name := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(name, true))
	}
	// Whatever asks for a name or an address gets nowhere.
	options = append(options, chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"), chromedp.Flag("proxy-server", "127.0.0.1:9"))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{ctx: ctx}
	err := chromedp.Listen(ctx, func(ev any) {
		wrong := ""
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			wrong = "exception: " + ev.ExceptionDetails.Text
			if x := ev.ExceptionDetails.Exception; x != nil {
				wrong += " " + x.Description
			}
		case *runtime.EventConsoleAPICalled:
			wrong = "console: " + string(ev.Type)
		case *log.EventEntryAdded:
			wrong = "log: " + ev.Entry.Text
		case *network.EventRequestWillBeSent:
			if u := ev.Request.URL; !strings.HasPrefix(u, "file://") && !strings.HasPrefix(u, "data:") {
				wrong = "request: " + u
			}
		}
		if wrong != "" {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.wrongs = append(b.wrongs, wrong)
		}
	})
	if err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatalf("watch the network: %v", err)
	}
	return b
}

// window sets width and appearance; media is "screen" or "print".
func (b *browser) window(t *testing.T, width int64, media, scheme string) {
	t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1}); err != nil {
		t.Fatalf("set the window: %v", err)
	}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media,
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
		t.Fatalf("set the appearance: %v", err)
	}
}

func evaluate[T any](t *testing.T, b *browser, script string) T {
	t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		t.Fatalf("ask the page: %v", err)
	}
	return v
}

// shoot writes pictures of the whole page in pieces that can be looked at.
func (b *browser) shoot(t *testing.T, name string, width int64) {
	t.Helper()
	const piece = 1500.0
	height, beyond := evaluate[float64](t, b, "document.documentElement.scrollHeight"), true
	for i := 0; float64(i)*piece < height; i++ {
		y := float64(i) * piece
		shot, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &beyond,
			Clip: &page.Viewport{Y: y, Width: float64(width), Height: min(piece, height-y), Scale: 1}})
		if err != nil {
			t.Fatalf("picture of %s: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(*shots, fmt.Sprintf("%s-%02d.png", name, i)), shot.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBrowserShowsThePage(t *testing.T) {
	if testing.Short() {
		t.Skip("short: no browser is started")
	}
	b := newBrowser(t)
	dir := t.TempDir()
	for name, d := range pages() {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name+".html")
			if err := os.WriteFile(file, []byte(written(t, d)), 0o644); err != nil {
				t.Fatal(err)
			}
			address := (&url.URL{Scheme: "file", Path: file}).String()
			for _, width := range []int64{1280, 768, 360} {
				for _, scheme := range []string{"light", "dark"} {
					b.window(t, width, "screen", scheme)
					if err := chromedp.Do(b.ctx, chromedp.Navigate(address)); err != nil {
						t.Fatalf("open the page: %v", err)
					}
					at := fmt.Sprintf("%s-%d-%s", name, width, scheme)
					for _, f := range evaluate[[]string](t, b, faults) {
						t.Errorf("%s: %s", at, f)
					}
					if said := evaluate[int](t, b, tooltips); said == 0 && name != "empty" {
						t.Errorf("%s: no tooltip shows", at)
					}
					checkAppearance(t, b, at, scheme)
					for _, wrong := range b.take() {
						t.Errorf("%s: %s", at, wrong)
					}
					if *shots != "" {
						b.shoot(t, at, width)
					}
				}
			}
			const paper = 718 // A4 with margins, at 96 pixels an inch
			b.window(t, paper, "print", "dark")
			for _, f := range evaluate[[]string](t, b, faults) {
				t.Errorf("%s, printed: %s", name, f)
			}
			if got := evaluate[string](t, b, "getComputedStyle(document.body).color"); got != rgbOf(light().text) {
				t.Errorf("%s: text is printed in %s", name, got)
			}
			if *shots != "" {
				b.shoot(t, name+"-print", paper)
			}
		})
	}
}

// checkAppearance looks whether the page follows the system, and the button turns it round.
func checkAppearance(t *testing.T, b *browser, at, scheme string) {
	t.Helper()
	const colour = "getComputedStyle(document.body).backgroundColor"
	of := map[string]string{"light": rgbOf(light().page), "dark": rgbOf(dark().page)}
	other := map[string]string{"light": "dark", "dark": "light"}[scheme]
	if got := evaluate[string](t, b, colour); got != of[scheme] {
		t.Errorf("%s: page is %s, want %s", at, got, of[scheme])
	}
	if got := evaluate[string](t, b, `document.getElementById("theme").click(); `+colour); got != of[other] {
		t.Errorf("%s: after the button the page is %s, want %s", at, got, of[other])
	}
	evaluate[string](t, b, `document.getElementById("theme").click(); `+colour)
	if title := evaluate[string](t, b, "document.title"); title == "owned" {
		t.Errorf("%s: foreign script ran", at)
	}
}

// rgbOf writes a colour as browsers do.
func rgbOf(hex string) string {
	var r, g, b int
	if _, err := fmt.Sscanf(hex, "#%02x%02x%02x", &r, &g, &b); err != nil {
		panic(err)
	}
	return fmt.Sprintf("rgb(%d, %d, %d)", r, g, b)
}
