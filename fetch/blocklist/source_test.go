package blocklist

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A file is read again if its time or its size has changed, and only then.
func TestFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	cfg := Default()
	cfg.Sources = []string{path}
	write(t, path, "")
	l := newList(t, cfg, Deps{})
	for _, step := range []struct {
		text string
		at   int64 // its time
		read bool
	}{{"a.test\n", 1, true}, {"b.test\n", 1, false}, {"b.test\n", 2, true}, {"b.test\nc.test\n", 2, true}, {"b.test\nd.test\n", 2, false}} {
		write(t, path, step.text)
		if err := os.Chtimes(path, time.Unix(step.at, 0), time.Unix(step.at, 0)); err != nil {
			t.Fatal(err)
		}
		if _, changed, err := l.poll(t.Context()); err != nil || changed != step.read {
			t.Errorf("%q of the time %d: read: %v, %v", step.text, step.at, changed, err)
		}
	}
}

// A program that writes a list in place empties it first. Half of it does not replace the list of before, nor does one that never rests.
func TestFileThatIsBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	synctest.Test(t, func(t *testing.T) {
		// No look falls on the instant of a write, which first gives the file the time of the real clock.
		const every = 700 * time.Millisecond
		put := func(text string) {
			write(t, path, text)
			if err := os.Chtimes(path, time.Now(), time.Now()); err != nil {
				t.Error(err)
			}
		}
		cfg := Default()
		cfg.Sources = []string{path}
		put("a.test\n")
		l := newList(t, cfg, Deps{})
		if err := load(t.Context(), l); err != nil { // the first time there is nothing to lose
			t.Fatal(err)
		}
		put("")
		go func() {
			for _, text := range []string{"b.test\n", "b.test\na.test\n"} {
				time.Sleep(every)
				put(text)
			}
		}()
		begin := time.Now()
		if err := load(t.Context(), l); err != nil || time.Since(begin) != 2*every+rest {
			t.Errorf("it was read after %v: %v", time.Since(begin), err)
		}
		put("c.test\n")
		for i := range 2 * cfg.Timeout / every {
			time.AfterFunc((i+1)*every, func() { put("c.test\n") })
		}
		if err := load(t.Context(), l); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a file that never rests: %v", err)
		}
		for host, want := range map[string]bool{"a.test": true, "b.test": true, "c.test": false} {
			if _, blocked := l.Host(host); blocked != want {
				t.Errorf("%s is blocked: %v", host, blocked)
			}
		}
		time.Sleep(3 * cfg.Timeout)
	})
}

// Sources that never answer are waited for together, and one list that comes is in force beside them.
func TestSilentSourcesAreAskedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: web(func(r *http.Request) *http.Response {
			if r.URL.Host == "silent.test" {
				return nil
			}
			return response(200, "bad.test\n")
		})}
		cfg := Default()
		cfg.Sources = []string{"https://silent.test/1", "https://silent.test/2", "https://silent.test/3", "https://lists.test/"}
		l := newList(t, cfg, Deps{HTTP: client})
		begin := time.Now()
		if err := load(t.Context(), l); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != cfg.Timeout {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		if _, blocked := l.Host("bad.test"); !blocked {
			t.Error("the list that came is not in force")
		}
	})
}

// load reads the sources of a list, and tells nobody.
func load(ctx context.Context, l *List) error {
	_, _, err := l.poll(ctx)
	return err
}
