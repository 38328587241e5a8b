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
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
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
	zoomed = `[...document.querySelectorAll("#course canvas")].slice(0, 2).map((c, i) => c.toDataURL() !== before[i]).join(" ")`
)

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
		shot, err := chromedp.Call(b.ctx, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{CaptureBeyondViewport: &beyond,
			Clip: &cdppage.Viewport{Y: y, Width: float64(width), Height: min(piece, height-y), Scale: 1}})
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
			for width, scheme := range map[int64]string{1280: "light", 360: "dark"} {
				b.window(t, width, "screen", scheme)
				if err := chromedp.Do(b.ctx, chromedp.Navigate(address)); err != nil {
					t.Fatalf("open the page: %v", err)
				}
				at := fmt.Sprintf("%s-%d-%s", name, width, scheme)
				for _, f := range evaluate[[]string](t, b, faults) {
					t.Errorf("%s: %s", at, f)
				}
				checkAppearance(t, b, at, scheme)
				for _, wrong := range b.take() {
					t.Errorf("%s: %s", at, wrong)
				}
				if *shots != "" {
					b.shoot(t, at, width)
				}
			}
			if name != "usual" {
				return
			}
			b.window(t, 1280, "screen", "light")
			if did := evaluate[string](t, b, zoom); did != "dragged" {
				t.Fatal("there are not two plots over time")
			}
			got := ""
			for deadline := time.Now().Add(time.Minute); got != "true true" && time.Now().Before(deadline); { // a busy browser draws late
				got = evaluate[string](t, b, zoomed)
			}
			if got != "true true" {
				t.Errorf("zooming into one plot over time has changed it and the next: %s", got)
			}
		})
	}
}

// checkAppearance looks whether the page follows the system, and the button turns it round.
func checkAppearance(t *testing.T, b *browser, at, scheme string) {
	t.Helper()
	const colour = "getComputedStyle(document.body).backgroundColor"
	of := map[string]string{"light": "rgb(246, 246, 243)", "dark": "rgb(18, 21, 25)"}
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
