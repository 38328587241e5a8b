package frontier

import (
	"context"
	"math"
	"slices"
	"time"

	"proxima/frontier/revisit"
)

// hints counts how often the lastmod of a host's sitemaps made a page due earlier, and how often the page had really changed. Many sites
// give every page the time at which the sitemap was made.
type hints struct{ followed, right uint8 }

const (
	// probedHints is how many hints of a host are followed before they are judged.
	probedHints = 16
	// leastRight is the share of hints that must be right for further ones to be followed.
	leastRight = 0.25
)

// note counts the visit of a page that was due because of a hint. New counts weigh more than old ones.
func (h *hints) note(right bool) {
	if h.followed == 4*probedHints {
		h.followed, h.right = h.followed/2, h.right/2
	}
	if h.followed++; right {
		h.right++
	}
}

// trust estimates the probability that a hint is right. most is how many hints may be followed whose pages
// have not been visited since.
func (h hints) trust() (share float64, most int) {
	share = (float64(h.right) + 1) / (float64(h.followed) + 2)
	switch {
	case h.followed < probedHints:
		return share, probedHints - int(h.followed)
	case share < leastRight:
		return 0, 0
	}
	return share, math.MaxInt
}

// hint makes pages of a host due earlier if its sitemap says that they were modified after their last visit. It ignores what a
// sitemap says of other hosts.
func (f *Frontier) hint(ctx context.Context, host string, links []Link) error {
	f.mu.Lock()
	plan, on := f.bench.recrawl.plan, f.bench.recrawl.continuous()
	f.mu.Unlock()
	links = slices.DeleteFunc(slices.Clone(links), func(l Link) bool { return l.URL.Host != host || l.Modified.IsZero() })
	if !on || len(links) == 0 {
		return nil
	}
	// The freeze keeps the pages out of the host's window, because the end of a visit would write them, too.
	err := f.freeze(ctx, host)
	if err == nil {
		defer f.thaw(host)
	}
	for some := range slices.Chunk(links, maxRequestURLs) {
		if err == nil {
			err = f.ledger.onHost(ctx, alone, host, func(b *batch, h *hostEntry) error {
				return f.ledger.decideHints(b, h, some, plan, time.Now())
			})
		}
	}
	return wrap(err, "follow the sitemap of %s", host)
}

// decideHints makes pages due earlier by their lastmod. Links that do not fit into the transaction are left to the next visit of the sitemap.
// Everything before it must be on disk.
func (l *ledger) decideHints(b *batch, h *hostEntry, links []Link, plan *revisit.Plan, now time.Time) error {
	if h.rec.role != Owned || h.rec.digest.Pages == 0 {
		return nil
	}
	trust, most := h.rec.hints.trust()
	site := l.site(h.host).recrawl(l.cfg.Recrawl)
	plan = plan.Within(site.Min, site.Max)
	for _, link := range links {
		if h.hinted >= most || b.size() >= maxBatchBytes {
			break
		}
		hash := link.URL.Hash()
		old, err := readPage(b.tx, h.host, hash)
		if err != nil {
			return err
		}
		if old == nil || old.Gone > 0 || old.Failures > 0 || old.Hinted || !link.Modified.After(old.Seen) {
			continue
		}
		due := plan.Next(old.History, old.Seen, now, revisit.Hints{Modified: link.Modified, Trust: trust})
		if !due.Before(plan.Next(old.History, old.Seen, now, revisit.Hints{})) {
			continue // the hint is not trusted, or not worth a visit
		}
		p := *old
		p.Due, p.Hinted = later(due, now).Truncate(time.Second), true
		if p.Due.Before(old.Due) {
			l.decidePage(b, h, visited{hash, old, &p})
			h.hinted++
		}
	}
	return nil
}
