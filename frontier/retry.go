package frontier

import (
	"context"
	"fmt"
	"time"
)

// Retry has an owned host asked as if it had never failed: its waits are over, and its URLs have all their tries again. Of what its
// server asked for nothing is left but the spacing that politeness sets, and the host's hours hold.
func (f *Frontier) Retry(ctx context.Context, name string) error {
	err := f.ledger.change(ctx, true, func(b *batch) error {
		h, err := f.ledger.entry(b, name)
		if err != nil {
			return err
		}
		h.rec.notBefore, h.rec.level, h.rec.failures = time.Time{}, 0, 0
		h.rec.endedUntil, h.rec.endReason = time.Time{}, ""
		b.touched[name] = h
		b.changed(name, func(c *Change) { c.State = true })
		return nil
	})
	if err == nil {
		err = f.Activate(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("retry %s: %w", name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	h, now := f.bench.hosts[name], time.Now()
	if h == nil || h.place == loading {
		return nil
	}
	h.failures, h.level, h.lost = 0, 0, false
	h.notBefore, h.why = time.Time{}, ""
	for i := range h.delayed {
		h.delayed[i].retryAt, h.delayed[i].attempt = now, 0
	}
	if s := h.server; s != nil {
		s.next = earlier(s.next, now.Add(f.bench.rules.gap(h.site, s.addr, h.crawlDelay, 0, 0)))
		f.bench.settleServer(s, now)
	}
	f.bench.settle(h, now)
	f.dispatch(now)
	return nil
}
