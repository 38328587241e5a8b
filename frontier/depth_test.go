package frontier

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A page that is first found far from the seed and then nearer, while it is pending, is crawled at the smaller depth.
func TestSmallestDepthWins(t *testing.T) {
	for _, window := range []int{1, 64} { // with 1, the URL waits on disk
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := testConfig()
			cfg.TrackDepth, cfg.WindowURLs = true, window
			depths := map[string]uint8{}
			w := &web{t: t, took: time.Millisecond, address: shared}
			link := func(i int, depth uint8) Link {
				l := page("http://h1.test", i)
				l.Depth = depth
				return l
			}
			w.answer = func(task *Task) Outcome {
				out := Outcome{Ending: Done}
				if task.Kind != Page {
					return out
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				depths[task.URL.Path] = task.Depth
				var i int
				fmt.Sscanf(task.URL.Path, "/page/%d.html", &i)
				switch i {
				case 0: // 300 pages at depth 7 wait behind each other
					for k := 1; k <= 300; k++ {
						out.Links = append(out.Links, link(k, 7))
					}
				case 1:
					out.Links = []Link{link(299, 2), link(250, 9), link(0, 0)}
				}
				return out
			}
			w.crawl("", cfg, polite, 3, []Link{page("http://h1.test", 0)}, nil)
			if len(depths) != 301 {
				t.Errorf("%d pages crawled", len(depths))
			}
			for path, want := range map[string]uint8{"/page/299.html": 2, "/page/250.html": 7, "/page/0.html": 0} {
				if got := depths[path]; got != want {
					t.Errorf("%s crawled at depth %d, want %d", path, got, want)
				}
			}
			for u, n := range w.fetched {
				if n != 1 {
					t.Errorf("%s fetched %d times", u, n)
				}
			}
		})
	}
}
