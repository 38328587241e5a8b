package testbed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"proxima/cmd/proxima/testbed/sites"
	"proxima/frontier"
	"proxima/ncoord/quantile"
)

// visitsFile has a line for each request that a server of the testbed received.
const visitsFile = "visits.jsonl"

type visitLine struct {
	Server      string  `json:"server"`
	AtS         float64 `json:"at_s"`
	Ms          float64 `json:"ms"`
	Robots      bool    `json:"robots,omitempty"`
	RetryAfterS float64 `json:"retry_after_s,omitempty"`
}

// pace is how politely the crawlers treated a server, according to the server's log.
type pace struct {
	requests, refused  int
	parallel           int           // began before the previous request ended
	soon               int           // began too soon after the end of the previous request
	early              int           // began before the end of a Retry-After
	least, median      time.Duration // from the end of a request to the beginning of the next
	slowLeast, slowest time.Duration // the shortest and longest of these gaps after requests of more than a second
}

// judge applies the rules to the log of a server. A server sees the end of a request before the client does, and its beginning after the
// client: so a client that keeps the rules also keeps them by this log. A Retry-After of the built-in server applies to the whole server.
func judge(all []sites.Visit, p frontier.Politeness, delay time.Duration) pace {
	all = slices.SortedFunc(slices.Values(all), func(a, b sites.Visit) int { return a.Begin.Compare(b.Begin) })
	out := pace{requests: len(all)}
	var gaps []time.Duration
	var until time.Time
	for i, v := range all {
		if v.RetryAfter > 0 {
			out.refused++
		}
		if i > 0 {
			before := all[i-1]
			gap := v.Begin.Sub(before.End)
			gaps = append(gaps, gap)
			took := before.End.Sub(before.Begin)
			due := max(p.MinGap, min(p.MaxGap, time.Duration(p.Factor*float64(took))), delay)
			switch {
			case gap < 0:
				out.parallel++
			case gap < due && !v.Robots() && !before.Robots(): // Crawl-delay is not known before robots.txt is there
				out.soon++
			}
			if v.Begin.Before(until) {
				out.early++
			}
			if took > time.Second {
				out.slowLeast = cmp.Or(min(out.slowLeast, gap), gap)
				out.slowest = max(out.slowest, gap)
			}
		}
		if end := v.End.Add(v.RetryAfter); v.RetryAfter > 0 && end.After(until) {
			until = end
		}
	}
	if slices.Sort(gaps); len(gaps) > 0 {
		out.least, out.median = gaps[0], quantile.Of(gaps, .5)
	}
	return out
}

// String describes the pace in words.
func (p pace) String() string {
	text := fmt.Sprintf("%d requests, %.1f s apart (least %.1f s)", p.requests, p.median.Seconds(), p.least.Seconds())
	if p.refused > 0 {
		text += fmt.Sprintf(", %d refused, %d before Retry-After was over", p.refused, p.early)
	}
	if p.slowest > 0 {
		text += fmt.Sprintf(", %.1f to %.1f s after a slow answer", p.slowLeast.Seconds(), p.slowest.Seconds())
	}
	if p.parallel+p.soon+p.early > 0 {
		return text + fmt.Sprintf("; RUDE: %d too soon, %d at once", p.soon, p.parallel)
	}
	return text + "; polite"
}

// pacing writes the requests that the servers received. It judges servers with at least two, unless own servers have other rules.
func (r *run) pacing(visits map[netip.Addr][]sites.Visit) error {
	rules := r.config(0).Politeness
	file, err := os.Create(filepath.Join(r.dir, visitsFile))
	if err != nil {
		return fmt.Errorf("write the servers' requests: %w", err)
	}
	lines := json.NewEncoder(file)
	for _, s := range r.plan.Servers {
		var crawled []sites.Visit // earlier requests are those of the calibration
		for _, v := range visits[s.Addr] {
			err = errors.Join(err, lines.Encode(visitLine{s.Name, v.Begin.Sub(r.world.Started).Seconds(), float64(v.End.Sub(v.Begin).Microseconds()) / 1000,
				v.Robots(), v.RetryAfter.Seconds()}))
			if !v.Begin.Before(r.world.Started) {
				crawled = append(crawled, v)
			}
		}
		if len(rules.Own) == 0 && len(crawled) > 1 {
			r.out.Say("server %s: %v", s.Name, judge(crawled, rules, seconds(s.Site.CrawlDelayS)))
		}
	}
	return errors.Join(err, file.Close())
}
