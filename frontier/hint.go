package frontier

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"proxima/frontier/revisit"
)

// hints counts how often the lastmod of a host's sitemaps made a page due earlier, and how often the page had changed. Many sites give
// every page the time at which the sitemap was made.
type hints struct{ followed, right uint8 }

const (
	// probedHints is how many hints of a host are followed before it has shown that they are right, and at how many they are judged.
	probedHints = 16
	// leastRight is the share of hints that must be right: below, the host gets no more visits for them.
	leastRight = 0.25
)

// note counts the visit of a page that was due for a hint. Old counts give way to new ones.
func (h *hints) note(right bool) {
	if h.followed == 4*probedHints {
		h.followed, h.right = h.followed/2, h.right/2
	}
	if h.followed++; right {
		h.right++
	}
}

// trust is how likely it is that a page has changed of which a sitemap says so, and most is how many are believed at one look.
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

// hint makes pages of a host due earlier that its sitemap says were modified since they were seen. What a sitemap says of other hosts
// counts for nothing.
func (f *Frontier) hint(ctx context.Context, host string, links []Link) error {
	f.mu.Lock()
	plan, on := f.bench.recrawl.plan, f.bench.recrawl.Continuous()
	f.mu.Unlock()
	var found []hinted
	for _, l := range links {
		if on && l.URL.Host == host && !l.Modified.IsZero() {
			found = append(found, hinted{l.URL.Hash(), l.Modified})
		}
	}
	if len(found) == 0 {
		return nil
	}
	// Pages in its window would be written from two sides.
	if err := f.freeze(ctx, host); err != nil {
		return fmt.Errorf("follow the sitemap of %s: %w", host, err)
	}
	defer f.thaw(host)
	followed := 0
	for some := range slices.Chunk(found, maxRequestURLs) {
		err := f.ledger.change(ctx, true, func(b *batch) (err error) {
			followed, err = f.ledger.decideHints(b, host, some, followed, plan, time.Now())
			return err
		})
		if err != nil {
			return fmt.Errorf("follow the sitemap of %s: %w", host, err)
		}
	}
	return nil
}

// hinted is a page by its hash, and when its sitemap says that it was modified.
type hinted struct {
	hash uint64
	at   time.Time
}

// decideHints makes pages due earlier by their lastmod, and says how many of this look are so now. What does not fit into the
// transaction is found by the next look. Everything before has to be on disk.
func (l *ledger) decideHints(b *batch, host string, found []hinted, followed int, plan *revisit.Plan, now time.Time) (int, error) {
	h, err := l.entry(b, host)
	if err != nil || h.rec.role != Owned || h.rec.digest.Pages == 0 {
		return followed, err
	}
	trust, most := h.rec.hints.trust()
	for _, hint := range found {
		if followed >= most || b.size() >= maxBatchBytes {
			break
		}
		old, err := b.page(host, hint.hash)
		if err != nil {
			return followed, fmt.Errorf("read page of %s: %w", host, err)
		}
		if old == nil || old.Gone > 0 || old.Failures > 0 || old.Hinted || !hint.at.After(old.Seen) {
			continue
		}
		due := plan.Next(old.History, old.Seen, now, revisit.Hints{Modified: hint.at, Trust: trust})
		if !due.Before(plan.Next(old.History, old.Seen, now, revisit.Hints{})) {
			continue // it is not believed, or not worth a visit
		}
		p := *old
		p.Due, p.Hinted = l.site(host).nextVisit(later(due, now), old.Seen).Truncate(time.Second), true
		if !p.Due.Before(old.Due) {
			continue
		}
		if err := l.decidePage(b, h, visited{hint.hash, old, &p}); err != nil {
			return followed, err
		}
		followed++
	}
	return followed, nil
}
