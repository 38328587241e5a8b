package compare

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"proxima/fetch"
	"proxima/node/journal"
)

// mostMs bounds a download: a line that says more was not written by a node.
const mostMs = 1e9

// download takes in a line of the fetch log.
func (c *comparer) download(r *run, n int, f *journal.Fetch) error {
	f.TotalMs = min(max(f.TotalMs, 0), mostMs)
	begin := f.Time.Add(-time.Duration(f.TotalMs * float64(time.Millisecond)))
	ok := f.Error == "" && f.Status > 0 && f.Status < 400
	cut := fetch.Class(f.Error) == fetch.Canceled
	at := r.nodes[n]
	at.busyMs += f.TotalMs
	second := r.seconds(f.Time)
	r.plots.requested(f.Server, second)
	if f.Kind != journal.KindPage {
		return nil
	}
	compared := f.Origin == journal.OriginAssigned && f.Batch != ""
	if !cut {
		r.crawl.row(f)
		if r.first.IsZero() || begin.Before(r.first) {
			r.first = begin
		}
		if f.Time.After(r.last) {
			r.last = f.Time
		}
	}
	if f.Status > 0 && !cut {
		at.pages++
		at.bytes += f.Bytes
	}
	server := c.server(f.Server)
	mask := c.labelBits(f.Label)
	if ok {
		at.recent.add(float64(f.Bytes) / f.TotalMs)
		if s := at.speed.at(second); s.n == 0 {
			s.add(at.recent.median())
		}
		if r.truth != nil {
			r.sizes.add(server, float64(f.Bytes))
		}
	}
	// In a comparison, what the owner downloads beyond it belongs to nobody.
	if ok && f.Origin != journal.OriginEstimate && (compared || !r.compared) {
		r.plots.downloaded(r, n, f.Server, mask, second)
	}
	rec := record{class: classPage, key: c.hash(f.URL), batch: c.batch(f.Batch), time: begin.UnixMilli(), ms: float32(f.TotalMs),
		bytes: uint32(min(max(f.Bytes, 0), math.MaxUint32)), server: server, run: uint16(r.index), node: uint16(n),
		labels: mask, status: uint16(f.Status)}
	set := func(on bool, flag uint8) {
		if on {
			rec.flags |= flag
		}
	}
	set(ok, flagOK)
	set(cut, flagCut)
	set(ok && f.Status == http.StatusOK && isHTML(f.Type), flagHTML)
	set(compared, flagCompared)
	set(f.Origin == journal.OriginEstimate, flagEstimate)
	set(isRound(f.Batch), flagRound)
	set(!ok && (f.Error != "" || f.Status >= 500 || f.Status == http.StatusTooManyRequests), flagAgain)
	if rec.flags&flagEstimate != 0 && !cut {
		token := rec
		token.class, token.key = classDecision, c.decisionKey(r, f.Batch, f.Server)
		if err := c.spill.add(token); err != nil {
			return err
		}
	}
	return c.spill.add(rec)
}

// isHTML says that a content type is that of a page.
func isHTML(kind string) bool {
	kind, _, _ = strings.Cut(kind, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "text/html" || kind == "application/xhtml+xml"
}

// isRound says that a batch is a round of mode persistent: the batch's name, a point, the number of the round.
func isRound(batch string) bool { return strings.Contains(batch, ".") }

// recentPages is over how many pages the download speed is a median.
const recentPages = 120

// recent holds the latest download speeds of a node, in kB/s.
type recent struct {
	speeds [recentPages]float64
	n      int
}

func (r *recent) add(v float64) {
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		r.speeds[r.n%recentPages] = v
		r.n++
	}
}

func (r *recent) median() float64 {
	v := slices.Clone(r.speeds[:min(r.n, recentPages)])
	return median(v)
}

// median of values, which it sorts; NaN without any.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// sizes are the mean sizes of the pages of servers, in bytes.
type sizes map[uint32]*cell

func (s sizes) add(server uint32, bytes float64) {
	c := s[server]
	if c == nil {
		c = &cell{}
		s[server] = c
	}
	c.add(bytes)
}

func (s sizes) mean(server uint32) (bytes int64, ok bool) {
	c := s[server]
	if c == nil {
		return 0, false
	}
	return int64(c.sum / float64(c.n)), true
}
