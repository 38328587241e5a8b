package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"time"

	"proxima/ncoord/quantile"
	"proxima/node/runlog"
	"proxima/scripts/lab"
)

// account sums up the effects of the kills on the requests.
type account struct {
	inFlight  []int           // by kill: requests that the site had not answered in full
	repeats   []int           // by kill: requests repeated because of it
	cut       int             // repeats of requests that were in flight
	unwritten []time.Duration // repeats of answered requests: the time from answer to kill
	wrong     []string        // repeats that no kill explains
}

// newAccount attributes each repeated request to the kill that ended the life of the first one.
func newAccount(requests []lab.Request, kills []killed, slack time.Duration) account {
	a := account{inFlight: make([]int, len(kills)), repeats: make([]int, len(kills))}
	last := map[string]*lab.Request{}
	for i := range requests {
		r := &requests[i]
		if r.Life >= 0 && r.Life < len(kills) && (!r.Whole() || r.End.After(kills[r.Life].at)) {
			a.inFlight[r.Life]++
		}
		before := last[r.Path]
		last[r.Path] = r
		switch {
		case before == nil:
			continue
		case before.Life == r.Life || before.Life < 0 || before.Life >= len(kills):
			a.wrong = append(a.wrong, fmt.Sprintf("%s: twice in life %d", r.Path, r.Life))
			continue
		}
		k := before.Life
		a.repeats[k]++
		if lead := kills[k].at.Sub(before.End); !before.Whole() || lead <= 0 {
			a.cut++
		} else {
			a.unwritten = append(a.unwritten, lead)
			if lead > slack {
				a.wrong = append(a.wrong, fmt.Sprintf("%s: again in life %d, though answered %v before kill %d", r.Path, r.Life, lead.Round(time.Millisecond), k))
			}
		}
	}
	return a
}

// report prints what happened and returns the verdicts.
func report(out io.Writer, s settings, took time.Duration, kills []killed, expected []string, requests []lab.Request,
	log fetchLog) []lab.Verdict {
	// The site may read a request after the death of the node that sent it.
	slices.SortStableFunc(requests, func(a, b lab.Request) int { return cmp.Or(cmp.Compare(a.Life, b.Life), a.Start.Compare(b.Start)) })
	alive := map[int]bool{}
	for _, r := range requests {
		alive[r.Life] = true
	}
	a := newAccount(requests, kills, s.slack)
	want, whole := map[string]bool{}, map[string]bool{}
	for _, path := range expected {
		want[path] = true
	}
	var missing, strange, noLine []string
	for _, r := range requests {
		whole[r.Path] = whole[r.Path] || r.Whole()
		if !want[r.Path] {
			strange = append(strange, r.Path)
		}
	}
	for _, path := range expected {
		if !whole[path] {
			missing = append(missing, path)
		} else if log.answered[path] == 0 {
			noLine = append(noLine, path)
		}
	}
	starting, silent, busiest, repeats, inFlight, excess := 0, 0, 0, 0, 0, []string{}
	for i, k := range kills {
		if k.starting {
			starting++
		}
		if !alive[i] {
			silent++
		}
		busiest = max(busiest, a.repeats[i])
		repeats += a.repeats[i]
		inFlight += a.inFlight[i]
		if a.repeats[i] > s.fetchers {
			excess = append(excess, fmt.Sprintf("kill %d: %d repeats by %d fetchers", i, a.repeats[i], s.fetchers))
		}
	}
	slices.Sort(a.unwritten)

	row := func(name, form string, args ...any) {
		fmt.Fprintf(out, "%-24s  %s\n", name, fmt.Sprintf(form, args...))
	}
	row("kills", "%d of %d in %.0f s (seed %d), %d aimed at the start, %d before any request", len(kills), s.kills, took.Seconds(), s.seed, starting, silent)
	row("URLs of the site", "%d", len(expected))
	row("requests", "%d", len(requests))
	row("in flight at kills", "%d, as the site saw it", inFlight)
	row("repeats", "%d, at most %d for one kill; bound: %d kills x %d fetchers = %d", repeats, busiest, len(kills), s.fetchers, len(kills)*s.fetchers)
	row("  in flight at the kill", "%d", a.cut)
	row("  answered, not recorded", "%d%s", len(a.unwritten), leads(a.unwritten))
	row("log lines", "%d in %d boots; %d torn", log.lines, len(log.boots), log.torn)
	fmt.Fprintln(out)

	most := len(kills) * s.fetchers
	unlogged := lab.Verdict{Name: "downloads without a line", Found: fmt.Sprint(len(noLine)), Bound: fmt.Sprintf("<= %d", most), OK: len(noLine) <= most}
	if !unlogged.OK {
		unlogged.Faults = noLine
	}
	return []lab.Verdict{
		{Name: "kills", Found: fmt.Sprint(len(kills)), Bound: fmt.Sprint(s.kills), OK: len(kills) == s.kills},
		lab.None("never downloaded", missing), lab.None("asked for, but not of the site", strange), lab.None("repeats without a reason", a.wrong),
		lab.None("kills with too many repeats", excess), lab.None("gaps in seq", log.gaps), lab.None("lines without a request", log.without(requests)), unlogged,
	}
}

// leads formats median and maximum of sorted times.
func leads(list []time.Duration) string {
	if len(list) == 0 {
		return ""
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return fmt.Sprintf("; answered before the kill: median %.1f ms, longest %.1f ms", ms(quantile.Of(list, 0.5)), ms(list[len(list)-1]))
}

// fetchLog sums up the node's fetch log over all its lives.
type fetchLog struct {
	lines, torn int
	boots       map[uint64]uint64 // last seq by boot
	gaps        []string
	answered    map[string]int // lines with a status, by path
}

// readLog reads the fetch log in a directory. A node that was killed early may have none; then the result is empty.
func readLog(dir string) (fetchLog, error) {
	l := fetchLog{boots: map[uint64]uint64{}, answered: map[string]int{}}
	var line runlog.Fetch
	torn, err := lab.Lines(dir, runlog.LogFetch, &line, func() {
		l.lines++
		if want := l.boots[line.Boot] + 1; line.Seq != want {
			l.gaps = append(l.gaps, fmt.Sprintf("boot %d: %d where %d was due", line.Boot, line.Seq, want))
		}
		l.boots[line.Boot] = line.Seq
		if u, err := url.Parse(line.URL); err == nil && line.Status > 0 {
			l.answered[u.Path]++
		}
	})
	l.torn = torn
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return l, err
}

// without lists answers in the log for which there was no request.
func (l *fetchLog) without(requests []lab.Request) []string {
	given := map[string]int{}
	for _, r := range requests {
		given[r.Path]++
	}
	var list []string
	for path, n := range l.answered {
		if n > given[path] {
			list = append(list, fmt.Sprintf("%s: %d lines, %d requests", path, n, given[path]))
		}
	}
	return list
}
