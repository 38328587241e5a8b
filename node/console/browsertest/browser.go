// Package browsertest looks at pages with a headless browser, in tests. Without one they are skipped, and say so.
package browsertest

import (
	"context"
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

// Browser is a headless browser, and what went wrong in it. It reaches this machine at most.
type Browser struct {
	t     testing.TB
	ctx   context.Context
	allow []string

	// mu guards what follows.
	mu     sync.Mutex
	wrongs []string
}

// New starts a browser. It may ask for what begins with one of the prefixes; else it is wrong.
func New(t testing.TB, allow ...string) *Browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("no browser: neither chromium nor google-chrome is installed; the page is not looked at")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.UserDataDir(t.TempDir()))
	for _, name := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(name, true))
	}
	// Whatever asks for a name or another machine gets nowhere.
	options = append(options, chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.Flag("proxy-server", "127.0.0.1:9"))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &Browser{t: t, ctx: ctx, allow: append(allow, "file://", "data:")}
	if err := chromedp.Listen(ctx, b.heard); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatalf("watch the network: %v", err)
	}
	return b
}

// heard notes exceptions, messages on the console and requests to others.
func (b *Browser) heard(ev any) {
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
		wrong = "request: " + ev.Request.URL
		for _, prefix := range b.allow {
			if strings.HasPrefix(ev.Request.URL, prefix) {
				return
			}
		}
	}
	if wrong != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wrongs = append(b.wrongs, wrong)
	}
}

// Wrongs are what went wrong since the last call.
func (b *Browser) Wrongs() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.wrongs
	b.wrongs = nil
	return out
}

// Open goes to an address.
func (b *Browser) Open(address string) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(address)); err != nil {
		b.t.Fatalf("open the page: %v", err)
	}
}

// Window sets width and appearance; media is "screen" or "print".
func (b *Browser) Window(width int64, media, scheme string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1}); err != nil {
		b.t.Fatalf("set the window: %v", err)
	}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media,
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
		b.t.Fatalf("set the appearance: %v", err)
	}
}

// Evaluate asks the page.
func Evaluate[T any](b *Browser, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.t.Fatalf("ask the page: %v", err)
	}
	return v
}

// Await waits until a script is true.
func (b *Browser) Await(what, script string) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); !Evaluate[bool](b, script); {
		if time.Now().After(deadline) {
			b.t.Fatalf("%s: not after a minute; the page says %q", what, Evaluate[string](b, "document.body.innerText"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Shoot writes a picture of a part of the page, from y on, to a file.
func (b *Browser) Shoot(file string, y, width, height float64) {
	b.t.Helper()
	beyond := true
	shot, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &beyond,
		Clip: &page.Viewport{Y: y, Width: width, Height: height, Scale: 1}})
	if err == nil {
		err = os.WriteFile(filepath.Clean(file), shot.Data, 0o644)
	}
	if err != nil {
		b.t.Fatalf("picture: %v", err)
	}
}
