package fetch

import (
	"fmt"
	"path"
	"runtime"
	"strings"
)

// Safely calls a function that reads what a server sent, and returns a panic as an error that names its place in the code. A flaw of a
// parser must cost the page that shows it, not the crawl: after a crash the page would be read again, here or at another node.
func Safely(read func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic at %s: %v", whereItPanicked(), p)
		}
	}()
	read()
	return nil
}

// whereItPanicked returns the file and line that a deferred function recovers from.
func whereItPanicked() string {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
	for panicked := false; ; {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if panicked && !inRuntime || !more {
			return fmt.Sprintf("%s/%s:%d", path.Base(path.Dir(f.File)), path.Base(f.File), f.Line)
		}
		panicked = panicked || f.Function == "runtime.gopanic"
	}
}
