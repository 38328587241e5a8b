package testbed

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/node"
	"proxima/node/placement"
)

// printer writes lines for people, and one that is renewed in place on a terminal. Safe for concurrent use.
type printer struct {
	w        io.Writer
	terminal bool
	mu       *sync.Mutex
	last     *time.Time
	prefix   string // of each line
}

func newPrinter(w io.Writer) printer {
	p := printer{w: w, mu: new(sync.Mutex), last: new(time.Time)}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// say prints a line that stays.
func (p printer) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		io.WriteString(p.w, "\r\x1b[K")
	}
	fmt.Fprintf(p.w, "%s%s\n", p.prefix, fmt.Sprintf(format, args...))
}

// renew shows a line in place of the last one; where nobody watches, every ten seconds.
func (p printer) renew(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s%s", p.prefix, line)
	} else if time.Since(*p.last) >= 10*time.Second {
		*p.last = time.Now()
		fmt.Fprintln(p.w, p.prefix+line)
	}
}

func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%2d:%02d", s/60, s%60)
}

// tally is what all nodes say of themselves.
type tally struct {
	up, all int
	joined  int // the least number of members that a node sees
	pages   int64
	pending int64
	phases  map[string]int
	batches int64     // begun
	errors  []float64 // of coordinates
}

// askAtOnce is how many nodes are asked at once: those of other machines take a round trip each.
const askAtOnce = 32

// ask asks all nodes that are up, a short while each; those that do not answer count as they are.
func (r *run) ask(ctx context.Context) tally {
	said := make([]*node.Status, len(r.lives))
	var g errgroup.Group
	g.SetLimit(askAtOnce)
	for i, l := range r.lives {
		if l == nil {
			continue
		}
		g.Go(func() error {
			one, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if s, err := l.status(one); err == nil {
				said[i] = &s
			}
			return nil
		})
	}
	_ = g.Wait() // it returns nothing
	t := tally{all: len(r.lives), joined: len(r.lives), pages: r.past, phases: map[string]int{}}
	for i, l := range r.lives {
		if l == nil {
			continue
		}
		t.up++
		s := said[i]
		if s == nil {
			t.joined = 0
			t.pages += r.pages[i]
			continue
		}
		r.pages[i] = s.Crawl.Pages
		t.pages += s.Crawl.Pages
		t.pending += s.Frontier.Pending
		if o := s.Overlay; o != nil {
			t.joined = min(t.joined, o.Alive)
			t.phases[o.Batch.Phase]++
			t.batches += int64(o.Batch.Batches)
			t.errors = append(t.errors, o.Accuracy)
		}
	}
	return t
}

// quiet says that batches were made and none is under way.
func (t tally) quiet() bool { return t.batches > 0 && t.phases[placement.PhaseIdle] == t.up }

// phase is what most nodes that make a batch are at.
func (t tally) phase() string {
	most, name := 0, "crawl"
	for phase, n := range t.phases {
		if phase != placement.PhaseIdle && (n > most || n == most && phase < name) {
			most, name = n, phase
		}
	}
	if t.pages == 0 && most == 0 {
		return "waiting for the first leases"
	}
	return name
}

// line is the progress line.
func (t tally) line(phase string, left time.Duration, rate float64) string {
	parts := []string{clock(max(left, 0)) + " left at most", phase, fmt.Sprintf("%d of %d nodes up", t.up, t.all),
		fmt.Sprintf("%d pages (%.0f/s)", t.pages, rate), fmt.Sprintf("%d waiting", t.pending)}
	if len(t.errors) > 0 {
		slices.Sort(t.errors)
		parts = append(parts, fmt.Sprintf("coordinate error %.0f %%", 100*t.errors[len(t.errors)/2]))
	}
	return strings.Join(parts, " · ")
}
