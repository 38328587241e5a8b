package frontier

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Links to a host that was given up are turned away where they arrive, also in the next life, until Politeness.EndedFor is over or the host is
// tried anew. They change nothing of the host.
func TestLinksToHostsThatWereGivenUp(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, retried := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				const host = "http://h1.test"
				cfg, polite := testConfig()
				cfg.Shared, polite.RetryName, polite.EndedFor = shared, nil, time.Hour
				var drops []string
				deps := Deps{Event: func(e Event) {
					if e.URLs > 0 {
						drops = append(drops, fmt.Sprint(e.Host, " ", e.Reason, " ", e.URLs))
					}
				}}
				dir := t.TempDir()
				l := begin(t, dir, cfg, polite, deps)
				if shared {
					go l.letAll()
				}
				must(t, l.Lost(t.Context(), l.unplaced(host), "no such name", false, true))
				turnedAway := func(what string) {
					t.Helper()
					before := l.Status().Totals
					v := l.add(page(host, 1), page(host, 2), page("http://h2.test", 1))
					if task := l.taking(time.Minute); task != nil { // hosts come in for it
						t.Errorf("%s: %s comes", what, task.URL)
					}
					if slices.Contains(v[:2], Accepted) || len(drops) != 1 || l.Status().Totals.Dropped != before.Dropped {
						t.Errorf("%s: %v; %q", what, v, drops)
					}
				}
				turnedAway("at once")
				l.stop()
				l = begin(t, dir, cfg, polite, deps)
				if shared {
					go l.letAll()
				}
				turnedAway("in the next life")
				if retried {
					must(t, l.Retry(t.Context(), host))
				} else {
					time.Sleep(time.Hour)
				}
				if v := l.add(page(host, 1)); !allAre(v, Accepted) {
					t.Errorf("afterwards: %v", v)
				}
				if l.stop(); len(l.ledger.marked) > 0 {
					t.Errorf("%d hosts are marked in memory", len(l.ledger.marked))
				}
			})
		}
	}
}
